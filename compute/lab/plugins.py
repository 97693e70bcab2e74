"""Labs from outside this repository: installed ones, and folders named on the user's command line.

An installed package names its lab in the entry-point group `fieldlab.labs`: `wave = "my_package.wave.lab:Wave"`. A
folder is named by `--lab FOLDER` of a command, or by the environment variable FIELDLAB_LABS (paths, separated as in
PATH), which also passes it to the command's engines and jobs, since these are separate processes. There is no third
source: a link or a file can only refer to known labs.

A folder is the package `fieldlab_labs.<its name>`: its files import each other by that name, or relatively. It contains
lab.py (one subclass of Lab), cpu_numpy.py (the reference) and README.md (the text of "About"); more backends, a
benchmark.py and a custom view (parts.py) are optional. An unusable lab is reported as a PluginProblem.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from keyword import iskeyword
from pathlib import Path
from typing import Any

from compute.lab.lab import Lab
from compute.lab.lab_folders import PACKAGE, VARIABLE, folders_named

GROUP = "fieldlab.labs"
# Methods of Lab in versions before 0.2, which nothing calls now, and their replacements.
REPLACED = {
    "benchmark": "BENCHMARK in benchmark.py", "extremes": "Raster.low and Raster.high", "headway": "status",
    "healthy": "status", "pictured": "PICTURE_SIZE", "resting": "status", "sizes": "SIZES",
}  # fmt: skip
NEEDED = {"lab.py": "a subclass of Lab", "cpu_numpy.py": "the reference", "README.md": "what About shows"}


class PluginError(ValueError):
    """An unusable lab from outside; the text names it and the error."""


@dataclass(frozen=True)
class PluginProblem:
    """An unusable lab. name: of its folder or entry point; where: the path, or the value of the entry point."""

    name: str
    where: str
    why: str

    def __str__(self) -> str:
        return f"lab {self.name} ({self.where}): {self.why}"


@dataclass(frozen=True)
class FoundLabs:
    """The labs from outside, and the reasons for missing ones."""

    labs: tuple[type[Lab], ...]
    problems: tuple[PluginProblem, ...]


def name_folders(folders: Iterable[Path]) -> None:
    """Make the labs in `folders` known to this process and its child processes, after folders named earlier."""
    named = [str(folder.resolve()) for folder in folders]
    for path in named:
        if os.pathsep in path:
            raise PluginError(f"the path of the lab folder {path} must not contain {os.pathsep!r}")
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*map(str, folders_named()), *named]))


def found(taken: Sequence[str]) -> FoundLabs:
    """Return the labs from outside; `taken` are names that they must not have."""
    return _found(tuple(taken), folders_named())


@cache
def _found(taken: tuple[str, ...], folders: tuple[Path, ...]) -> FoundLabs:
    labs: dict[str, type[Lab]] = {}
    problems: list[PluginProblem] = []
    sources = (*folders, *entry_points(group=GROUP))
    if sources:
        import_module("compute.devices.numba_extensions").load()  # their kernels may use them
    for source in sources:
        try:
            lab = _from_folder(source) if isinstance(source, Path) else _installed(source)
            if lab.LAB in (*taken, *labs):
                raise PluginError(f"there is another lab called {lab.LAB!r}")  # noqa: TRY301 - below it gets its place
            labs[lab.LAB] = lab
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever its files do, the other labs are there
            why = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
            where = str(source) if isinstance(source, Path) else source.value
            problems.append(PluginProblem(source.name, where, why))
    return FoundLabs(tuple(labs.values()), tuple(problems))


def _from_folder(folder: Path) -> type[Lab]:
    """Return the lab in `folder`; PluginError lists the missing parts."""
    if not folder.is_dir():
        raise PluginError("it is not there" if not folder.exists() else "it is no folder")
    if not folder.name.isidentifier() or iskeyword(folder.name):
        raise PluginError("its name must be a Python name: letters, digits and _")
    _require_files(folder)
    module = import_module(f"{PACKAGE}.{folder.name}.lab")
    if Path(str(module.__file__)).parent != folder:
        raise PluginError(f"there is another folder called {folder.name!r}")
    own = [each for each in vars(module).values() if _is_lab(each) and each.__module__ == module.__name__]
    if len(own) != 1:
        names = ", ".join(each.__name__ for each in own) or "none"
        raise PluginError(f"lab.py must define one subclass of Lab, not {names}")
    return _complete(own[0])


def _installed(entry: EntryPoint) -> type[Lab]:
    """Return the lab of an installed package; PluginError lists the missing parts."""
    lab = entry.load()
    if not _is_lab(lab):
        raise PluginError("it is no subclass of Lab")
    _require_files(Path(import_module(lab.PACKAGE).__path__[0]))
    return _complete(lab)


def _require_files(folder: Path) -> None:
    missing = [f"{name} ({what})" for name, what in NEEDED.items() if not (folder / name).is_file()]
    if missing:
        raise PluginError(f"it has no {', no '.join(missing)}")


def _is_lab(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Lab) and value is not Lab


def _complete(lab: type[Lab]) -> type[Lab]:
    """Return `lab` after a check for completeness; replace a missing default backend by its first one."""
    if inspect.isabstract(lab):
        raise PluginError(f"{lab.__name__} has no {', no '.join(sorted(lab.__abstractmethods__))}")
    for name in sorted(REPLACED.keys() & vars(lab).keys()):
        raise PluginError(f"{lab.__name__}.{name} has no effect: Lab uses {REPLACED[name]} instead")
    if not lab.LAB.isidentifier():
        raise PluginError(f"LAB must be letters, digits and _, not {lab.LAB!r}")
    known = [each.name for each in lab.backends()]
    if lab.param["backend"].default not in known:
        setattr(lab, "backend", known[0])  # noqa: B010 - of a class: param makes it the default of this one alone
    return lab
