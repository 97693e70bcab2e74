"""The cache of compiled kernels: its folder, whether it is current, and build times.

Numba caches a kernel in __pycache__ next to its source, or in NUMBA_CACHE_DIR, or in the user's cache folder. It
recompiles a kernel when the source file, Numba or the processor changes, but not when another file changes that the
kernel has inlined. The record of kernels compiled ahead therefore lists every source; `forget_stale` deletes kernels
whose sources have changed. The record and the build times are stored in the cache folder.

The engines, spares and jobs of a server share one cache; `take_turns` serialises their writes. If no folder is
writable, `allow_uncached` lets Numba compile without a cache, and `problem` returns the reason.
"""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha1, sha256
from itertools import count
from pathlib import Path
from typing import Any

from compute.devices.devices import cpu_name, installed_version
from compute.files.files import whole

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(__file__).absolute().parent.parent  # not resolved: Numba derives folder names from it
BYTECODE = "__pycache__"
SOURCES = ("*.py", "display/**/*.py", "labs/**/*.py", "measure/**/*.py")  # possible sources of kernels
COMPILERS = "numba", "llvmlite", "numpy", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda", "wgpu"  # some are optional
LOCK = "fieldlab-kernels.lock"  # locked by the process that writes into the folder
RECORD, TIMES = "fieldlab-kernels.json", "fieldlab-build-times.json"
NO_FOLDER = "no locator available"  # in Numba's error if no folder is writable
NOTICEABLE = 0.1  # seconds from which the time of a build is recorded
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KernelRecord:
    """The kernels compiled ahead.

    sources: digest and modification time of each file, by its path in the package; made_by: versions and processor;
    index: Numba's index files.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    made_by: Mapping[str, str] = field(default_factory=dict)
    index: tuple[str, ...] = ()


def folder() -> Path:
    """Return the folder in which Numba stores the kernels of this package; Fieldlab's own files are in it as well.

    If no folder is writable, it is the last one that Numba would try; see `problem`.
    """
    found = PACKAGE
    for found in _folders():
        if _takes_files(found):
            break
    return found


def _folders() -> Iterator[Path]:
    """Yield the folders that Numba tries, in its order."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named)
    yield PACKAGE / BYTECODE
    from numba.misc.appdirs import AppDirs  # as Numba determines it

    yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def _takes_files(place: Path) -> bool:
    """Return whether files can be created in `place`, which may not exist yet."""
    existing = next((each for each in (place, *place.parents) if each.exists()), place)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def problem() -> str:
    """Return why compiled kernels are not cached, as text; "" if they are."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT is set, so Numba compiles nothing"
    if any(map(_takes_files, _folders())):
        return ""
    return f"none of {', '.join(map(str, _folders()))} can be written; NUMBA_CACHE_DIR may name a folder that can"


def allow_uncached() -> None:
    """Make Numba compile without a cache if no folder is writable, instead of failing at import.

    Call it before kernels with cache=True are loaded. A second call changes nothing.
    """
    from numba.core import dispatcher

    kept = dispatcher.Dispatcher.enable_caching
    if getattr(kept, "fieldlab", False):
        return

    def enable_caching(self: Any) -> None:
        """Numba's Dispatcher.enable_caching, which raises RuntimeError if it finds no folder."""
        try:
            kept(self)
        except RuntimeError as error:
            if NO_FOLDER not in str(error):
                raise
            _warn_uncached()

    enable_caching.fieldlab = True  # type: ignore[attr-defined]
    dispatcher.Dispatcher.enable_caching = enable_caching  # type: ignore[method-assign]


@cache
def _warn_uncached() -> None:
    """Log a warning once per process."""
    log.warning("compiled kernels are not cached; each process compiles them again: %s", problem() or NO_FOLDER)


def is_current() -> bool:
    """Return whether the kernels compiled ahead exist and match the sources, the compilers and the processor."""
    known, now = _recorded(), _now()
    return bool(known.index) and known == now


def note_current() -> None:
    """Record that the kernels compiled ahead match the current sources. OSError if the file cannot be written."""
    _write(RECORD, asdict(_now()))


def forget_stale() -> None:
    """Delete the compiled kernels that may contain code from sources changed since the record.

    If only files of one lab have changed, delete its kernels, else all; without a record, all.
    """
    known, now = _recorded(), _now()
    paths = {path for path, _ in known.sources.items() ^ now.sources.items()}
    folders = {PACKAGE.joinpath(*Path(path).parts[:2]) if path.startswith("labs/") else PACKAGE for path in paths}
    for index, home in _index_files().items():
        if any(home.is_relative_to(changed) for changed in folders):
            for data in index.parent.glob(f"{index.stem}.*.nbc"):
                data.unlink(missing_ok=True)
            index.unlink(missing_ok=True)


def take_turns() -> None:
    """Serialise the writes of the processes that share a cache. A second call changes nothing.

    Numba reads a function's index, selects its first free name, writes the index and then the kernel. If two processes
    did so at the same time with different argument types, the index of one could name the kernel of the other, which
    Numba would run from then on. The kernel is also written before the index: otherwise a reader of a changed source
    could find the old kernel through the new index.
    """
    from numba.core import caching

    allow_uncached()

    def save(its: Any, key: Any, data: Any) -> None:
        """Numba's IndexDataCacheFile.save: store the kernel `data` for the types `key`."""
        with _alone(Path(its._cache_path)):  # noqa: SLF001 Numba has no place for this
            names = its._load_index()  # noqa: SLF001
            taken = set(names.values())
            free = (name for number in count(1) if (name := its._data_name(number)) not in taken)  # noqa: SLF001
            name = names.get(key) or next(free)
            its._save_data(name, data)  # noqa: SLF001
            its._save_index({**names, key: name})  # noqa: SLF001

    caching.IndexDataCacheFile.save = save


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Lock a folder for the block, on systems that have such locks (not Windows, some networks)."""
    if fcntl is None:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):  # the lock may belong to another user
            lock = stack.enter_context((place / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _index_files() -> dict[Path, Path]:
    """Return Numba's index files of this package, each with the folder of its source."""
    base = folder()
    found: dict[Path, Path] = {}
    for home in sorted({path.parent for pattern in SOURCES for path in PACKAGE.glob(pattern)}):
        # under another folder, Numba gives a source's folder this name
        name = f"{home.name}_{sha1(str(home).encode()).hexdigest()}"  # noqa: S324 - a name, no secret
        place = home / BYTECODE if base == PACKAGE / BYTECODE else base / name
        found |= dict.fromkeys(place.glob("*.nbi"), home)
    return found


def _recorded() -> KernelRecord:
    found = _read(RECORD)
    try:
        return KernelRecord(dict(found["sources"]), dict(found["made_by"]), tuple(found["index"]))
    except (KeyError, TypeError, ValueError):
        return KernelRecord()


def _now() -> KernelRecord:
    sources = {path for pattern in SOURCES for path in PACKAGE.glob(pattern)}
    digests = {path.relative_to(PACKAGE).as_posix(): _state(path) for path in sources}
    made_by = {name: installed_version(name) for name in COMPILERS}
    made_by |= {"python": platform.python_version(), "cpu": cpu_name()}
    index = sorted(str(path) for path in _index_files())
    return KernelRecord(dict(sorted(digests.items())), made_by, tuple(index))


def _state(source: Path) -> str:
    """Return the state by which Numba decides whether a cached kernel is valid: a copied tree has other times."""
    return f"{sha256(source.read_bytes()).hexdigest()[:16]} {source.stat().st_mtime_ns}"


# -- times


def remember(kernel: str, seconds: float) -> None:
    """Store the compile time of `kernel`, "module.function"; do nothing if the file cannot be written."""
    if kernel and seconds >= NOTICEABLE:  # a build without a name is ambiguous
        known = _read(TIMES)
        times = known.get("seconds") if known.get("cpu") == _processor() else None
        times = times if isinstance(times, dict) else {}
        with suppress(OSError):
            _write(TIMES, {"cpu": _processor(), "seconds": {**times, kernel: round(seconds, 2)}})


def usual_seconds(kernel: str) -> float | None:
    """Return how long `kernel` took when it was last compiled on this machine; None if unknown."""
    known = _read(TIMES)
    times = known.get("seconds")
    seconds = times.get(kernel) if kernel and isinstance(times, dict) and known.get("cpu") == _processor() else None
    return float(seconds) if isinstance(seconds, int | float) else None


@cache
def _processor() -> str:
    return cpu_name()


def _read(name: str) -> dict[str, Any]:
    try:
        found = json.loads((folder() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(name: str, content: Mapping[str, Any]) -> None:
    with whole(folder() / name) as out:
        json.dump(content, out, indent=1)
