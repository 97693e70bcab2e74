"""Import of labs from folders outside this repository, as packages `fieldlab_labs.<folder name>`.

`import compute` installs the finder, so that every process can load a pickled object of such a lab: the first such
object that a child process receives may be the lab's class. plugins.py documents which folders are searched.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

VARIABLE = "FIELDLAB_LABS"
PACKAGE = "fieldlab_labs"


def folders_named() -> tuple[Path, ...]:
    """Return the folders listed in the environment variable FIELDLAB_LABS."""
    return tuple(Path(path).resolve() for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path)


class FolderFinder(MetaPathFinder):
    """Finds only the packages `fieldlab_labs.<name>` of the named folders."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Return the package of that name; of two folders with the same name the first."""
        if fullname == PACKAGE:
            import_module("compute.devices.numba_extensions").load()  # kernels of the labs may use them
            return ModuleSpec(PACKAGE, None, is_package=True)
        parent, _, name = fullname.rpartition(".")
        folder = next((each for each in folders_named() if each.name == name), None) if parent == PACKAGE else None
        if folder is None:
            return None
        if (folder / "__init__.py").is_file():
            return spec_from_file_location(fullname, folder / "__init__.py", submodule_search_locations=[str(folder)])
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec


def install() -> None:
    """Let this process import these packages. Further calls have no effect."""
    if not any(isinstance(finder, FolderFinder) for finder in sys.meta_path):
        sys.meta_path.append(FolderFinder())
