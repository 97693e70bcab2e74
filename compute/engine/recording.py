"""A recording as the server remembers it, so that it survives the engine's process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compute.engine.reel import LOST


@dataclass
class Recording:
    """A recording that was asked for, as LabHandle.record has it. begun: it is on disk; stopping: it is to end."""

    folder: str
    every: int
    pixels: tuple[int, int]
    most: int
    done: int | None
    begun: bool = False
    stopping: bool = False

    def order(self, done: int | None) -> dict[str, Any]:
        """Arguments of the order, with `done` steps at the state that the lab is in then."""
        arguments = {"folder": self.folder, "every": self.every, "pixels": self.pixels, "most": self.most}
        return arguments | {"done": done}

    def opening(self, mark: tuple[str, int] | None) -> dict[str, Any]:
        """Arguments of the order for a lab that goes on from a deposit with this mark."""
        if not self.begun and not self._on_disk():
            return self.order(self.done)
        return self.order(mark[1] if mark and mark[0] == self.folder else LOST)

    def _on_disk(self) -> bool:
        """Whether it had begun when its engine died, which may not have come to say so.

        One that has come from another engine has frames already, and goes on with them.
        """
        folder = Path(self.folder)
        return self.done is None and folder.is_dir() and any(folder.iterdir())
