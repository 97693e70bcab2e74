"""A choice among the n that were measured, for views that show one n at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import panel_material_ui as pmui

from app.labs.crossover.times import count


class SizeChoice:
    """The slider `panel`; it stays at the largest n until it is moved. changed() hears of moves."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._moved = False
        self.panel = pmui.DiscreteSlider(label="n", options={"–": 0}, value=0, size="small", width=320,
                                         margin=(8, 8, 8, 24))  # fmt: skip
        self._own = False
        self.panel.param.watch(lambda event: self._heard(changed), "value")

    @property
    def n(self) -> int:
        """The chosen one; 0 if there is none."""
        return int(self.panel.value or 0)

    def offer(self, sizes: Sequence[int]) -> None:
        """These can be chosen now."""
        options = {count(n): n for n in sizes} or {"–": 0}
        if options == self.panel.options:
            return
        keep = self._moved and self.n in sizes
        self._own = True
        self.panel.param.update(options=options, value=self.n if keep else max(options.values()))
        self._own = False

    def _heard(self, changed: Callable[[], object]) -> None:
        if not self._own:
            self._moved = True
            changed()
