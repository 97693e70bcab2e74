"""A recording on disk: a folder with `recording.json` and one file per frame; files are written whole or not at all.

A frame's file consists of one line of JSON, which describes its arrays, and their bytes. Reading executes no content,
so a damaged or foreign file is refused at worst.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from compute.files.documents import typed
from compute.files.files import whole, whole_file
from compute.lab.frames import Curve, Frame, Raster
from compute.measure.timing import Timing

SCHEMA = "fieldlab-recording/1"
ABOUT = "recording.json"
ENDING = ".frame"
TIMING = ("backend", "variant", "steps", "cells", "launch", "compute", "levels", "transfer", "first_call")

Count = Annotated[int, Meta(ge=0)]
Length = Annotated[int, Meta(ge=0, le=2**31)]  # of an axis or a curve: the product of two fits into 64 bits


class RecordingError(ValueError):
    """A folder or file is not a recording, or is damaged; the text names it."""


@dataclass(frozen=True)
class RecordedFrame:
    """A recorded frame.

    step: steps of the lab since the recording began; values: the lab's parameters that have changed since the previous
    frame, as JSON values.
    """

    step: int
    frame: Frame
    values: Mapping[str, Any]


class PartHead(Struct):
    """Description of a part in a frame's file: (rows, columns) of a raster, or the number of points of a curve."""

    raster: tuple[Length, Length] | None = None
    curve: Length = 0
    low: float = nan
    high: float = nan
    extent: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    label: str = ""
    unit: str = ""
    waiting: bool = False

    def read(self, data: bytes, start: int) -> tuple[Raster | Curve, int]:
        """Return the part that begins at byte `start` of `data`, and the end of its bytes; its arrays are read-only."""
        if self.raster is not None:
            levels = np.frombuffer(data, np.uint8, self.raster[0] * self.raster[1], start).reshape(self.raster)
            about = self.low, self.high, self.extent, self.label, self.unit, self.waiting
            return Raster(levels, *about), start + levels.nbytes
        both = np.frombuffer(data[start : start + 16 * self.curve], np.float64, 2 * self.curve)
        return Curve(both[: self.curve], both[self.curve :], self.label), start + both.nbytes


class FrameHead(Struct):
    """The first line of a frame's file; see RecordedFrame and Frame."""

    step: Count
    values: dict[str, Any]
    number: int
    facts: dict[str, float | bool]
    notes: dict[str, str]
    timing: Timing
    parts: dict[str, PartHead]


class RecordingStore:
    """Reads and writes the recording in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, about: Mapping[str, Any]) -> None:
        """Create the folder and its `recording.json`. RecordingError if the folder is not empty."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise RecordingError(f"a recording needs an empty folder, and {self.folder} is not empty")
        with whole(self.folder / ABOUT) as out:
            json.dump({"schema": SCHEMA, **about}, out, indent=1, ensure_ascii=False, default=_json_value)

    def about(self) -> dict[str, Any]:
        """Return the contents of `recording.json`. RecordingError if the folder is not a recording."""
        try:
            found = json.loads((self.folder / ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordingError(f"{self.folder} holds no recording: {error}") from error
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise RecordingError(f"{self.folder} holds no recording of the schema {SCHEMA!r}")
        return found

    def numbers(self) -> list[int]:
        """Return the numbers of the existing frames, ascending."""
        names = (path.stem for path in self.folder.glob(f"*{ENDING}"))
        return sorted(int(name) for name in names if name.isdigit())

    def occupied(self) -> int:
        """Return the total size of the existing frames in bytes."""
        return sum(self.path(number).stat().st_size for number in self.numbers())

    def put(self, number: int, data: bytes) -> None:
        """Write a frame encoded by encode_frame. If the disk raises OSError, the file does not exist afterwards.

        A deleted folder is not created again, because its owner would not delete it a second time.
        """
        if not self.folder.is_dir():
            raise FileNotFoundError(f"the folder {self.folder} is gone")
        with whole_file(self.path(number)) as made:
            made.write_bytes(data)

    def get(self, number: int) -> RecordedFrame:
        """Read a frame. RecordingError if it is damaged, OSError if it does not exist."""
        line, _, rest = self.path(number).read_bytes().partition(b"\n")
        head = self._head(number, line)
        parts, used = {}, 0
        try:
            for name, part in head.parts.items():
                parts[name], used = part.read(rest, used)
        except ValueError as error:
            raise RecordingError(f"{self.path(number)} is damaged: {error}") from error
        if used != len(rest):
            raise RecordingError(f"{self.path(number)} is damaged: {len(rest)} bytes where {used} belong")
        return RecordedFrame(head.step, Frame(parts, head.facts, head.timing, head.number, head.notes), head.values)

    def head(self, number: int) -> FrameHead:
        """Return the head of a frame's file: step, values, facts, notes and descriptions of its parts."""
        with self.path(number).open("rb") as file:
            return self._head(number, file.readline())

    def _head(self, number: int, line: bytes) -> FrameHead:
        try:
            return typed(json.loads(line), FrameHead, "its head", RecordingError)  # msgspec's own decoder refuses NaN
        except ValueError as error:
            raise RecordingError(f"{self.path(number)} is damaged: {error}") from error

    def cut(self, step: int) -> None:
        """Delete the frames that were recorded after `step` steps, because the lab was reset to that step."""
        for number in reversed(self.numbers()):
            if self.head(number).step <= step:
                break
            self.path(number).unlink()

    def path(self, number: int) -> Path:
        """Return the path of a frame's file."""
        return self.folder / f"{number:06d}{ENDING}"


def encode_frame(recorded: RecordedFrame) -> bytes:
    """Return the bytes of a frame's file."""
    arrays: list[NDArray[Any]] = []
    head = {
        "step": recorded.step,
        "values": dict(recorded.values),
        "number": recorded.frame.number,
        "facts": dict(recorded.frame.facts),
        "notes": dict(recorded.frame.notes),
        "timing": {name: getattr(recorded.frame.timing, name) for name in TIMING},
        "parts": {name: _part(part, arrays) for name, part in recorded.frame.parts.items()},
    }
    line = json.dumps(head, ensure_ascii=False, default=_json_value).encode() + b"\n"
    return line + b"".join(array.tobytes() for array in arrays)


def _part(part: Raster | Curve, arrays: list[NDArray[Any]]) -> dict[str, Any]:
    """Describe a part, and append its arrays to `arrays`."""
    if isinstance(part, Raster):
        arrays.append(part.levels)
        about = {"low": float(part.low), "high": float(part.high), "extent": part.extent}
        about |= {"label": part.label, "unit": part.unit} | ({"waiting": True} if part.waiting else {})
        return {"raster": part.levels.shape, **about}
    arrays += [np.asarray(part.x, np.float64), np.asarray(part.y, np.float64)]
    return {"curve": len(part.x), "label": part.label}


def _json_value(value: object) -> Any:
    """Return a JSON value for a NumPy scalar, or for an uploaded file (its checksum)."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return f"{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()}"
    return str(value)[:200]
