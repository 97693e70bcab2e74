"""Parts of one file, kept beside it as they are made, so that what was stopped goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from compute.export.render_pool import Made, RenderPool, Work
from compute.export.scene import SceneError
from compute.files import DiskFull, size, whole, whole_file

PLAN = "plan.json"


class Kept:
    """The `count` parts of the file `path`. what: their name; ending: of their files. They lie in `folder`."""

    def __init__(self, path: Path, work: Work, what: str, ending: str) -> None:
        self.path, self.count, self._work, self._what, self._ending = path, work.count, work, what, ending
        self.folder = path.with_name(f"{path.name}.{what}")

    def missing(self) -> list[int]:
        """Numbers of the parts that are not there yet."""
        return [number for number in range(self.count) if not self._file(number).is_file()]

    def make(self, pool: RenderPool, tell: Callable[[int], None]) -> None:
        """Make those that are missing; `tell` hears how many are there. SceneError if the folder holds others'."""
        self._claim(self._work.plain())
        missing = self.missing()
        done = self.count - len(missing)
        tell(done)
        with closing(pool.make(self._work, missing)) as coming:
            for one in coming:
                self._keep(one)
                done += 1
                tell(done)

    def read(self, number: int) -> bytes:
        """Part `number`."""
        return self._file(number).read_bytes()

    def clear(self) -> None:
        """Delete all parts: the plan last, so that none is ever without it."""
        for file in self.folder.iterdir():
            if file.is_dir():
                shutil.rmtree(file)
            elif file.name != PLAN:
                file.unlink()
        (self.folder / PLAN).unlink()
        self.folder.rmdir()

    @contextmanager
    def room(self) -> Iterator[None]:
        """Say of a full disk in the block what more is needed."""
        try:
            yield
        except DiskFull as error:
            raise DiskFull(f"{self.path.name} is not finished: {error}. {self._wanted()}", error.errno or 0) from error

    @property
    def words(self) -> str:
        """What is kept, in a sentence."""
        there = self.count - len(self.missing())
        return f"{there} of {self.count} {self._what} are kept: the same command goes on from there"

    def _wanted(self) -> str:
        sizes = [self._file(number).stat().st_size for number in range(self.count) if self._file(number).is_file()]
        missing = self.count - len(sizes)
        needed = f", about {size(missing * sum(sizes) / len(sizes))}," if missing and sizes else ""
        what = f"{missing} more {self._what}{needed} and the file itself" if missing else "the file itself"
        return f"Room is needed for {what}; {self.words}"

    def _claim(self, wanted: Mapping[str, Any]) -> None:
        """Use the folder for this work, or say that it holds another one's parts."""
        plan = self.folder / PLAN
        if not plan.is_file():
            with whole(plan) as out:
                json.dump(wanted, out, indent=1, ensure_ascii=False)
        elif json.loads(plan.read_text(encoding="utf-8")) != json.loads(json.dumps(wanted)):
            raise SceneError(
                f"{self.folder.name} holds {self._what} of another plan; take another name, or delete that folder"
            )

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}{self._ending}"

    def _keep(self, made: Made) -> None:
        number, data = made
        with whole_file(self._file(number)) as path:
            path.write_bytes(data)
