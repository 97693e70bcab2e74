"""The choice of the shown lab: one tab per lab, built when it is chosen for the first time.

A lab makes the browser create some hundred models, and Bokeh cannot change a plot before it is drawn. A chosen lab is
therefore shown only after the current one is drawn; if several are chosen in the meantime, only the last one is built.
Building takes seconds, in the builder's thread. A lab that cannot be built is reported, and the page stays usable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app.page.markup import plain
from app.page.theme import GRID
from app.tab.lab_tab import LabTab
from compute.lab.lab import Lab

log = logging.getLogger(__name__)

DRAWN = 5000  # ms to wait for a lab to be drawn before another lab replaces it


def cannot_show(problems: Sequence[str]) -> pn.Column:
    """Return the content of a page on which no lab can be shown; the problems are displayed as plain text."""
    alerts = [
        pmui.Alert(title=plain(problem), severity="error", margin=(GRID, 2 * GRID), sizing_mode="stretch_width")
        for problem in problems
    ]
    return pn.Column(*alerts, margin=0, sizing_mode="stretch_both")


class LabPlace(Protocol):
    """The place of the labs in a page; see app.page.shell.Shell."""

    tabs: Any  # the labs' titles; `active`: index of the chosen one

    def show(self, main: Sequence[Any]) -> None:
        """Show the components of a lab, with both bars hidden until `fill`."""

    def fill(self, bar: int, components: Sequence[Any]) -> None:
        """Show components in the side bar (0), or in the right column (1)."""

    def veil(self, title: str) -> None:
        """Hide the current lab while the chosen one of this title is built."""

    def unveil(self) -> None:
        """Show the current lab again after `veil`."""


class LabChoice:
    """The tabs of one page.

    problems: reports about labs; build(change): queues a slow change of the page; make(lab): returns a new tab.
    entered(tab): called as another lab is shown; left(tab, closed): before the shown lab is hidden, or closed for good.
    """

    def __init__(
        self,
        document: Document,
        labs: Sequence[type[Lab]],
        problems: list[str],
        place: LabPlace,
        build: Callable[[Callable[[], object]], None],
        make: Callable[[type[Lab]], LabTab],
        entered: Callable[[LabTab], None],
        left: Callable[[LabTab, bool], None],
    ) -> None:
        self._document, self.labs, self.problems, self._place = document, labs, problems, place
        self._build, self._make, self._entered, self._left = build, make, entered, left
        self.current: LabTab | None = None
        self.open: dict[str, LabTab] = {}  # tabs by the name of the lab
        self._failed: set[str] = set()  # names of labs whose tabs could not be built
        self._begun = False  # whether a lab is shown and the initial problems have been reported
        self._undrawn = False  # whether a change of lab waits until the browser has drawn the current one
        self._choosing = False  # whether the chosen lab is still to be built
        self._deferred: list[Callable[[], object]] = []  # calls for the chosen lab
        self._requested: type[Lab] | None = None  # the lab of the pending `show_soon`

    def begin(self, first: Callable[[], object]) -> None:
        """Queue the construction of the page's first lab by `first`, and report the initial problems."""
        self._choosing = True
        self._build(partial(self._begin, first))

    def _begin(self, first: Callable[[], object]) -> None:
        self._end_choice()
        first()
        self.choose_soon()  # a tab may have been chosen before the first lab existed
        if self.current is not None:
            for problem in self.problems:
                self.current.notices.tell("warning", problem)
            self._begun = True

    def defer(self, call: Callable[[], object]) -> bool:
        """Return True if a chosen lab is still to be built, and call `call` when it is shown."""
        if self._choosing:
            self._deferred.append(call)
        return self._choosing

    # -- tabs chosen by the user

    def choose_soon(self) -> None:
        """Show the chosen tab's lab once the browser has drawn the current lab."""
        tab, chosen = self.current, self._chosen()
        if tab is None or chosen is None or tab is self.open.get(self.labs[chosen].LAB):
            return  # shown already, or the page has no lab yet
        if tab.drawn:
            self._show_chosen_soon()
        elif not self._undrawn:
            self._undrawn = True
            self._document.add_timeout_callback(partial(self._stop_waiting, tab), DRAWN)

    def _stop_waiting(self, tab: LabTab, _: None = None) -> None:
        """Show the chosen lab when `tab` is drawn, or has not been drawn for DRAWN ms, for example in a hidden tab."""
        if tab is self.current and self._undrawn:  # otherwise another lab is shown, and `_put` has ended the wait
            self._undrawn = False
            self._show_chosen_soon()

    def _show_chosen_soon(self) -> None:
        chosen = self._index()
        if chosen is not None and self.labs[chosen].LAB not in self.open:
            self._place.veil(self.labs[chosen].TITLE)
        if not self._choosing:
            self._choosing = True
            self._build(self._show_chosen)

    def _show_chosen(self) -> None:
        """Show the lab of the tab chosen by now, unless it is already shown."""
        self._end_choice()
        chosen = self._chosen()
        if chosen is not None and self.current is not self.open.get(self.labs[chosen].LAB):
            self.choose(chosen)
        else:
            self._place.unveil()

    def _end_choice(self) -> None:
        """End the wait for the chosen lab, and queue the deferred calls until it is shown."""
        self._choosing, calls, self._deferred = False, self._deferred, []
        for call in calls:
            self._document.add_next_tick_callback(call)

    def _chosen(self) -> int | None:
        """Return the index of the chosen tab; log an invalid value, which a browser may send, and return None."""
        chosen = self._index()
        if chosen is None:
            log.warning("tab must be from 0 to %d, not %.99r", len(self.labs) - 1, self._place.tabs.active)
        return chosen

    def _index(self) -> int | None:
        chosen = self._place.tabs.active
        return chosen if type(chosen) is int and 0 <= chosen < len(self.labs) else None

    # -- labs shown by links and stories

    def show_soon(self, kind: type[Lab]) -> None:
        """Queue a change to the tab of this lab; repeated calls before it is shown have no effect."""
        if kind is not self._requested:
            self._requested = kind
            self._build(self._show_requested)

    def _show_requested(self) -> None:
        kind, self._requested = self._requested, None
        if kind is not None:
            self.show(kind)

    def show(self, kind: type[Lab]) -> LabTab | None:
        """Show the tab of this lab, which waits for a scene, and return it; None if it cannot be built."""
        if self.current is None or kind is not self.current.session.lab:
            index = self.labs.index(kind)
            self.choose(index, awaits_scene=True)
            if self.current is None or self.current.session.lab is not kind:
                return None
            self._place.tabs.active = index
        return self.current

    # -- changing the lab

    def choose(self, index: int, awaits_scene: bool = False) -> None:
        """Show the lab of this tab, building it at first use, and suspend the previous one.

        awaits_scene: a scene from an address will be restored; this adds no entry to the browser's history.
        """
        lab = self.labs[index]
        tab = self.open.get(lab.LAB) or self._made(lab)
        if tab is None:
            self._keep_current()
            return
        chosen = self.current not in {None, tab} and not awaits_scene
        if tab is not self.current:
            if self.current is not None:
                self._leave(self.current)
            self._put(tab)
        if tab.started:
            tab.show(True)
        else:
            tab.start(awaits_scene=awaits_scene)
        tab.address.enter(push=chosen)

    def _put(self, tab: LabTab) -> None:
        """Show the view of `tab` now and queue its bars, so that the browser draws the view first."""
        self.current, self._undrawn = tab, False
        self.open[tab.session.lab.LAB] = tab
        for number, components in enumerate(([tab.controls.panel], [*tab.readout.panel, *tab.questions])):
            self._build(partial(self._fill, tab, number, components))
        self._entered(tab)  # before it is shown: plots in a document cannot be changed until they are drawn
        self._place.show(tab.main)

    def _fill(self, tab: LabTab, bar: int, components: Sequence[Any]) -> None:
        """Show components in a bar next to the view, unless another tab is current by now."""
        if tab is self.current:
            self._place.fill(bar, components)

    def _made(self, lab: type[Lab]) -> LabTab | None:
        """Return the lab's new tab; if building it raises, report the error and return None."""
        try:
            tab = self._make(lab)
        except Exception as error:
            self._failed.add(lab.LAB)
            problem = f"The lab {lab.LAB} cannot be shown: {type(error).__name__}: {error}"
            if problem not in self.problems:
                log.exception("the tab of the lab %s", lab.LAB)
                self.problems.append(problem)
            if self._begun and self.current is not None:  # otherwise `_begin` reports it once a lab is shown
                self.current.notices.tell("error", problem)
            return None
        tab.first_drawn.subscribe(partial(self._stop_waiting, tab))
        return tab

    def _keep_current(self) -> None:
        """Handle a lab that cannot be shown: keep the current one, or show the first that works, or the problems."""
        while self.current is None:
            index = next((i for i, lab in enumerate(self.labs) if lab.LAB not in self._failed), None)
            if index is None:
                self._place.show([cannot_show(self.problems)])
                return
            self.choose(index)
        self._place.unveil()
        self._place.tabs.active = self.labs.index(self.current.session.lab)

    def _leave(self, tab: LabTab) -> None:
        """Suspend `tab` as another lab is shown; close it if it was never drawn, since it cannot be resumed then."""
        self._left(tab, not tab.drawn)
        if tab.drawn:
            tab.show(False)
        else:
            tab.close()
            del self.open[tab.session.lab.LAB]
