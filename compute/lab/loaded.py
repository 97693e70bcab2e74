"""Data from a user's file: stored once per process, counted, and sent to an engine once.

A picture or a matrix may have megabytes. It is a LoadedFile: immutable, and equal to any other with the same
fingerprint. The server sends its data to an engine; the engine's reports contain `references` to it, which the server
resolves from its own objects.

`kept_bytes` measures snapshots, undo steps and values from browsers, including every nested array and text.
"""

from __future__ import annotations

import copyreg
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

_LOADED: WeakValueDictionary[tuple[type, str], LoadedFile] = WeakValueDictionary()  # in this process
LEAVES = frozenset({type(None), bool, int, float, str, bytes})  # types without parts
_LOCK = threading.Lock()  # around _LOADED: an engine's reader thread resolves references


class LoadedFile:
    """Base class for the contents of a user's file. A subclass is a frozen dataclass with eq=False.

    fingerprint: sixteen hexadecimal digits of the file's bytes, which identify the object within its class.
    references: dispatch table for a pickler that writes references instead of data.
    """

    fingerprint: str
    references: ClassVar[dict[type, Any]] = dict(copyreg.dispatch_table)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        LoadedFile.references[cls] = _reference

    def __post_init__(self) -> None:
        with _LOCK:
            _LOADED[type(self), self.fingerprint] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


class ReleasedFile:
    """Placeholder for a loaded file that this process has released."""


def _reference(loaded: LoadedFile) -> tuple[Any, ...]:
    return find, (type(loaded), loaded.fingerprint)


def find(kind: type[LoadedFile], fingerprint: str) -> LoadedFile | ReleasedFile:
    """Return the loaded file with this class and fingerprint, or a ReleasedFile if this process has released it."""
    with _LOCK:
        return _LOADED.get((kind, fingerprint), ReleasedFile())


def is_complete(value: object) -> bool:
    """Return False if `value`, or a value of it if it is a mapping, is a ReleasedFile."""
    if isinstance(value, Mapping):
        return all(map(is_complete, value.values()))
    return not isinstance(value, ReleasedFile)


def loaded_bytes() -> int:
    """Return the bytes of all loaded files in this process."""
    with _LOCK:
        alive = list(_LOADED.values())
    return kept_bytes(alive)


def fingerprint(*files: bytes) -> str:
    """Return sixteen hexadecimal digits that identify these files."""
    digest = blake2b(digest_size=8)
    for data in files:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def kept_bytes(things: Iterable[object], examine: Callable[[object], None] | None = None) -> int:
    """Return the bytes of `things` in memory, including all nested objects; a shared object counts once.

    Mappings, sequences, sets, slices, dataclasses and plain objects are followed; a view counts as its base array.
    examine: called with every object but those of LEAVES in a list, tuple or set; it may raise.
    """
    seen: set[int] = set()
    total, todo = 0, list(things)
    while todo:  # not recursive: a file may nest as deep as it likes
        thing = todo.pop()
        while isinstance(thing, np.ndarray) and isinstance(thing.base, np.ndarray):
            thing = thing.base
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if examine is not None:
            examine(thing)
        total += thing.nbytes if isinstance(thing, np.ndarray | memoryview) else sys.getsizeof(thing)
        if isinstance(thing, list | tuple | set | frozenset) and LEAVES.issuperset(map(type, thing)):
            leaves = {id(leaf): leaf for leaf in thing if id(leaf) not in seen}
            seen.update(leaves)
            total += sum(map(sys.getsizeof, leaves.values()))
        else:
            todo += _parts(thing)
    return total


def _parts(thing: object) -> Iterable[object]:
    """Return the objects that `thing` refers to directly."""
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    if isinstance(thing, slice):
        return thing.start, thing.stop, thing.step
    if is_dataclass(thing):
        return [getattr(thing, field.name) for field in fields(thing)]
    if isinstance(thing, str | bytes | bytearray | int | float | np.ndarray) or not hasattr(thing, "__dict__"):
        return ()
    return vars(thing).values()
