"""A film from its plan to its file: frames are kept as they are made, so that what was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from compute import machine
from compute.export import writers
from compute.export.film import Film
from compute.export.kept import Kept
from compute.export.render import Pixels, read_png
from compute.export.render_pool import RenderPool
from compute.files import whole, whole_file


@dataclass(frozen=True)
class FilmProgress:
    """How far a film is: frames that are there, of so many, and seconds since the start."""

    done: int
    frames: int
    seconds: float
    doing: str = "frames"


class Shoot:
    """The making of one film. Its frames are kept until it is there."""

    def __init__(self, film: Film, path: Path, command: str = "") -> None:
        film.check()
        writers.require(path, film.scene.size, film.rate)
        self.film, self.path, self.command = film, path, command
        self.kept = Kept(path, film, "frames", ".png")

    def run(self, pool: RenderPool, progress: Callable[[FilmProgress], None] = lambda _: None) -> None:
        """Make the frames that are missing, then the film and `<name>.json` beside it.

        What was made stays in a folder if this is interrupted or fails, and is used the next time.
        """
        start = perf_counter()

        def tell(done: int, doing: str = "frames") -> None:
            progress(FilmProgress(done, self.film.frames, perf_counter() - start, doing))

        with self.kept.room():
            self.kept.make(pool, tell)
            self._encode(start, tell)
        self.kept.clear()

    def missing(self) -> list[int]:
        """Numbers of the frames that are not there yet."""
        return self.kept.missing()

    def _encode(self, start: float, tell: Callable[[int, str], None]) -> None:
        """The film, and what stands beside it: they change together."""
        plain = self.film.plain()
        with whole_file(self.path) as made:
            writers.write(made, self._frames(tell), self.film.rate, json.dumps(plain, ensure_ascii=False))
            describe(plain, self.path, self.command, perf_counter() - start, made)

    def _frames(self, tell: Callable[[int, str], None]) -> Iterator[Pixels]:
        for number in range(self.film.frames):
            tell(number, "encoding")
            yield read_png(self.kept.read(number))


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
