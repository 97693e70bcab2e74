"""Generated programs as files, named by the hash of their text, and the modules loaded from them.

Numba caches machine code next to a file, so that later processes start without compiling. The MOST_FILES programs used
last are kept on disk, and the MOST_MODULES modules used last in a process.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections import OrderedDict
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import RLock
from types import ModuleType

from compute.devices import kernel_cache
from compute.files.files import whole

FOLDER = "fieldlab-equations"  # in the folder of compiled kernels; a folder for each program
MOST_FILES, MOST_MODULES = 200, 64
log = logging.getLogger(__name__)


def digest(text: str) -> str:
    """Return the name of a program: a hash of its text."""
    return sha256(text.encode()).hexdigest()[:20]


def stored(text: str, suffix: str = ".py") -> Path:
    """Return the path of a program's file. Write the file if it is missing or differs; log an error, without a file.

    suffix: of the language; only Python programs are loaded from their files.
    """
    name = digest(text)
    place = kernel_cache.folder() / FOLDER / name
    path = place / f"equations_{name}{suffix}"
    try:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            with whole(path) as out:
                out.write(text)
    except OSError as error:
        log.warning("a generated kernel cannot be cached: %s", error)
    with suppress(OSError):  # another process may delete programs at the same time
        place.touch()  # records the time of the last use
        _forget_oldest(place.parent)
    return path


def _forget_oldest(folder: Path) -> None:
    """Delete all but the MOST_FILES programs used last, with Numba's files of them."""
    found = sorted(folder.iterdir(), key=lambda place: place.stat().st_mtime, reverse=True)
    for place in found[MOST_FILES:]:
        shutil.rmtree(place, ignore_errors=True)
        for compiled in folder.parent.glob(f"{place.name}_*"):  # where NUMBA_CACHE_DIR is set
            shutil.rmtree(compiled, ignore_errors=True)


_modules: OrderedDict[str, ModuleType] = OrderedDict()  # by digest, the last used one at the end
_lock = RLock()


def module_of(text: str) -> ModuleType:
    """Return the module of a generated Python program. The text is executed, never the content of the file.

    The module is in sys.modules, where Numba looks up the functions of its cache.
    """
    name = digest(text)
    with _lock:
        if name not in _modules:
            path = stored(text)
            module = ModuleType(path.stem)
            module.__file__ = str(path)
            sys.modules[module.__name__] = module
            exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - printed from the tree, not typed
            _modules[name] = module
            while len(_modules) > MOST_MODULES:
                sys.modules.pop(_modules.popitem(last=False)[1].__name__)
        _modules.move_to_end(name)
        return _modules[name]
