"""A fix of a library: its purpose, the code that it replaces, and whether the installed release still has that code."""

from __future__ import annotations

import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

BOKEHJS = "bokeh/server/static/js/bokeh.js"
PANEL_ESM = "panel/dist/lib/models"
MISSING = "missing"  # used instead of a digest for code that some supported releases do not have


@dataclass(frozen=True)
class Code:
    """Code of a library, and the digests of the source texts for which a fix was written.

    place: `package.module:Class.name` for Python, `path/of/file.js:Class.name` for JavaScript, its path relative to
    site-packages.
    """

    place: str
    known: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Digest of the installed source text; LookupError or AttributeError if the library has no such code."""
        path, _, name = self.place.partition(":")
        text = _script_text(path, name) if path.endswith(".js") else _python_text(path, name)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Fix:
    """An optional change of a library's behaviour; the page also works without it.

    package: the changed distribution; versions: supported releases; kind: "fault" for a fault visible to
    users, "gain" for time or memory; purpose: the fault, or the gain with its measurement; report: text for the
    library's maintainers; replaces: the code for which the fix was written; install: function that installs the
    server's part; repaired: first release without the fault, or "".
    """

    name: str
    package: str
    versions: str
    kind: Literal["fault", "gain"]
    purpose: str
    report: str
    replaces: tuple[Code, ...]
    install: Callable[[], None] | None = None
    repaired: str = ""

    @property
    def script(self) -> Path | None:
        """The file NAME.js next to this one with the browser's part; None without one."""
        path = Path(__file__).with_name(f"{self.name}.js")
        return path if path.is_file() else None

    @property
    def version(self) -> str:
        """Version of the installed package."""
        return metadata.version("bokeh" if self.package == "bokehjs" else self.package)

    @property
    def is_needed(self) -> bool:
        """Whether the installed release is older than `repaired`, or no release has repaired the fault."""
        return not self.repaired or numbers(self.version) < numbers(self.repaired)

    def probe(self) -> str:
        """Return "" if the installed release has the code for which the fix was written, otherwise the difference."""
        for code in self.replaces:
            try:
                digest = code.digest
            except (LookupError, OSError, TypeError, ImportError, AttributeError) as error:
                if MISSING in code.known:
                    continue
                return f"{code.place} is missing ({type(error).__name__})"
            if digest not in code.known:
                return f"{code.place} has changed ({digest})"
        return ""


def numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, for comparisons."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("rc")[0])[:3])


def _python_text(module: str, name: str) -> str:
    """Return the source of a function or class, or the repr of a value."""
    found: Any = import_module(module)
    owner = found
    for part in name.split("."):
        owner, found = found, inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    if inspect.isroutine(found) or inspect.isclass(found):
        return textwrap.dedent(inspect.getsource(found))
    return repr(getattr(owner, name.rpartition(".")[2]))


@cache
def _file_text(path: str) -> str:
    package, _, rest = path.partition("/")
    folder = Path(str(import_module(package).__file__)).parent
    return (folder / rest).read_text(encoding="utf-8")


def _script_text(path: str, name: str) -> str:
    """Return the text of a function, or of a method of a class, from an indented bundle that is not minified."""
    text = _file_text(path)
    kind, _, method = name.rpartition(".")
    if kind:
        start = re.search(rf"^ *(?:export )?class {re.escape(kind)}\b", text, re.MULTILINE)
        if start is None:
            raise LookupError(name)
        text = text[start.start() :]
    head = re.search(
        rf"^( *)(?:static |async |get |export |function )*{re.escape(method)}(?:\(| =)", text, re.MULTILINE
    )
    if head is None:
        raise LookupError(name)
    last = "\n" if text[head.end() - 1] == "=" else f"\n{head[1]}}}"
    return text[head.start() : text.index(last, head.start())]
