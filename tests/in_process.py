"""A pool that renders the parts of a film or a table in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compute.export.render_pool import MadePart, RenderWork


class InProcess:
    """`stop`: the part at which Ctrl-C is pressed; `made`: the numbers of the rendered parts."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.made = stop, list[int]()

    def make(self, work: RenderWork, numbers: Sequence[int]) -> Iterator[MadePart]:
        for number in numbers:
            if number == self.stop:
                raise KeyboardInterrupt
            self.made.append(number)
            yield work.task(work.plain(), number)
