"""Data that a user loaded from a file: kept once, counted, and sent to another process once.

A picture or a matrix of one's own may have megabytes. It is a LoadedFile: immutable, equal to any other with the same
fingerprint, and sent whole from the server to an engine. What the engine reports back holds `references` to it instead,
which the server resolves from the objects that it still has.

`kept_bytes` measures what a snapshot or an undo step holds, down to the last nested array or text.
"""

from __future__ import annotations

import copyreg
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

_LOADED: WeakValueDictionary[tuple[type, str], LoadedFile] = WeakValueDictionary()  # in this process
_LOCK = threading.Lock()  # around _LOADED: an engine's reader thread resolves references


class LoadedFile:
    """Base of what was read from a file; a subclass is a frozen dataclass with eq=False.

    fingerprint: sixteen hexadecimal digits of the file's bytes; it identifies the object within its class.
    """

    fingerprint: str
    references: ClassVar[dict[type, Any]] = dict(copyreg.dispatch_table)  # of a pickler that sends no loaded data

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


class Forgotten:
    """Stands for a loaded file that this process no longer has."""


def _reference(loaded: LoadedFile) -> tuple[Any, ...]:
    return find, (type(loaded), loaded.fingerprint)


def find(kind: type[LoadedFile], fingerprint: str) -> LoadedFile | Forgotten:
    """Return the loaded file of this class and fingerprint, a Forgotten if this process no longer has it."""
    with _LOCK:
        return _LOADED.get((kind, fingerprint), Forgotten())


def is_complete(value: object) -> bool:
    """Return whether `value`, or what it contains as a mapping, still has all its loaded files."""
    if isinstance(value, Mapping):
        return all(map(is_complete, value.values()))
    return not isinstance(value, Forgotten)


def loaded_bytes() -> int:
    """Return the bytes of all loaded files that exist in this process."""
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


def kept_bytes(things: Iterable[object]) -> int:
    """Return the bytes that `things` keep in memory, with everything nested in them; a shared object counts once.

    Mappings, sequences, sets, dataclasses and plain objects are followed; a view counts as the array that it views.
    """
    seen: set[int] = set()
    total, todo = 0, list(things)
    while todo:  # not recursive: what is nested may come from a file
        thing = todo.pop()
        if isinstance(thing, np.ndarray):
            while isinstance(thing.base, np.ndarray):
                thing = thing.base
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes
            continue
        total += sys.getsizeof(thing)
        if isinstance(thing, Mapping):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            todo += thing
        elif is_dataclass(thing):
            todo += [getattr(thing, field.name) for field in fields(thing)]
        elif not isinstance(thing, str | bytes | bytearray | int | float) and hasattr(thing, "__dict__"):
            todo += vars(thing).values()
    return total
