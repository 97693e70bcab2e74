"""A film from its plan to its file: frames are kept as they are made, so that what was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

from compute import machine
from compute.export import writers
from compute.export.film import Film
from compute.export.paint import Pixels
from compute.export.scene import SceneError
from compute.export.studio import Made, Studio
from compute.files import DiskFull, size, whole, whole_file

PLAN = "film.json"


@dataclass(frozen=True)
class Progress:
    """How far a film is: frames that are there, of so many, and seconds since the start."""

    done: int
    frames: int
    seconds: float
    doing: str = "frames"


class Shoot:
    """The making of one file. `folder` holds the frames until the film is there."""

    def __init__(self, film: Film, path: Path, command: str = "") -> None:
        film.check()
        writers.require(path, film.scene.size, film.rate)
        self.film, self.path, self.command = film, path, command
        self.folder = path.with_name(f"{path.name}.frames")

    def run(self, studio: Studio, progress: Callable[[Progress], None] = lambda _: None) -> None:
        """Make the frames that are missing, then the film and `<name>.json` beside it.

        What was made stays in `folder` if this is interrupted or fails, and is used the next time.
        """
        start = perf_counter()

        def tell(done: int, doing: str) -> None:
            progress(Progress(done, self.film.frames, perf_counter() - start, doing))

        try:
            self._claim()
            self._make(studio, tell)
            self._encode(start, tell)
        except DiskFull as error:
            raise DiskFull(f"{self.path.name} is not finished: {error}. {self._wanted()}", error.errno or 0) from error
        self._clear()

    def _make(self, studio: Studio, tell: Callable[[int, str], None]) -> None:
        missing = self.missing()
        made = self.film.frames - len(missing)
        tell(made, "frames")
        frames = studio.make(self.film, missing)
        try:
            for one in frames:
                self._keep(one)
                made += 1
                tell(made, "frames")
        finally:
            if hasattr(frames, "close"):
                frames.close()

    def _encode(self, start: float, tell: Callable[[int, str], None]) -> None:
        """The film, and what stands beside it: they change together."""
        plain = self.film.plain()
        with whole_file(self.path) as made:
            writers.write(made, self._frames(tell), self.film.rate, json.dumps(plain, ensure_ascii=False))
            describe(plain, self.path, self.command, perf_counter() - start, made)

    def _wanted(self) -> str:
        """What more room is needed for, in words."""
        kept = [self._file(number).stat().st_size for number in range(self.film.frames) if self._file(number).is_file()]
        missing = self.film.frames - len(kept)
        needed = f", about {size(missing * sum(kept) / len(kept))}," if missing and kept else ""
        what = f"{missing} more frames{needed} and the film itself" if missing else "the film itself"
        return (
            f"Room is needed for {what}; {len(kept)} of {self.film.frames} frames are kept in {self.folder.name} "
            "and will be used the next time"
        )

    def missing(self) -> list[int]:
        """Numbers of the frames that are not there yet."""
        return [number for number in range(self.film.frames) if not self._file(number).is_file()]

    def _claim(self) -> None:
        """Use the folder for this film, or say that it holds another one's frames."""
        plan, wanted = self.folder / PLAN, self.film.plain()
        if not plan.is_file():
            with whole(plan) as out:
                json.dump(wanted, out, indent=1, ensure_ascii=False)
        elif json.loads(plan.read_text(encoding="utf-8")) != json.loads(json.dumps(wanted)):
            raise SceneError(
                f"{self.folder.name} holds frames of another film; take another name, or delete that folder"
            )

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.png"

    def _keep(self, made: Made) -> None:
        number, data = made
        with whole_file(self._file(number)) as path:
            path.write_bytes(data)

    def _frames(self, tell: Callable[[int, str], None]) -> Iterator[Pixels]:
        for number in range(self.film.frames):
            tell(number, "encoding")
            with Image.open(io.BytesIO(self._file(number).read_bytes())) as picture:
                yield np.asarray(picture.convert("RGB"))

    def _clear(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()
        self.folder.rmdir()


def describe(plain: dict[str, Any], path: Path, command: str, seconds: float, made: Path | None = None) -> None:
    """Write `<name>.json` beside the file `path`, which may still lie at `made`."""
    with whole(path.with_name(f"{path.name}.json")) as out:
        json.dump(described(plain, made or path, command, seconds), out, indent=1, ensure_ascii=False)


def described(plain: dict[str, Any], path: Path, command: str, seconds: float) -> dict[str, Any]:
    """What stands beside a file: all that is needed to make it again, where it was made, and its checksum."""
    with path.open("rb") as data:
        checksum = hashlib.file_digest(data, "sha256").hexdigest()
    return {
        **plain,
        "made": {
            "file": path.name,
            "sha256": checksum,
            "seconds": round(seconds, 3),
            "command": command,
            "date": machine.now(),
            "commit": machine.commit(),
            "machine": machine.machine(),
            "versions": machine.versions(),
        },
    }
