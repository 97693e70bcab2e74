"""The page of one browser tab: a light shell first, then the labs once the browser reports that it is ready.

A bare HTTP request never reports this: it costs one shell and starts no engine. The page connects the parts: the shell
(shell.py), the choice of the lab (lab_choice.py), the features (feature.py), and the browser's keys and addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import panel as pn

from app.features import features
from app.page.address import FULL, asked_level, asked_text, asked_to_run
from app.page.browser import ESCAPE, Browser
from app.page.feature import Feature
from app.page.lab_choice import LabChoice
from app.page.markup import filled
from app.page.notices import Notices
from app.page.shell import Shell
from app.page.theme import stylesheet
from app.readout.numbers import Numbers, asked_chip, kept_chip
from app.readout.readout import recorded_figures
from app.server.admission import server_full, session_limiter
from app.server.builder import builder
from app.tab.lab_tab import LabTab
from app.tab.lab_view import labs_with_tabs
from app.tab.open_lab import OpenLab
from app.tab.restore import asked_for
from app.upstream.document_changes import changed_together
from compute.export.link import DISPLAY, PACE, link_in_query, text_in_query, unpacked
from compute.export.scene import Scene, SceneError
from compute.lab.lab import Lab
from compute.measure.records import chip_names


def server_full_page() -> pn.Column:
    """Return the content of a page that is refused because the server is at its session limit."""
    title, words = server_full(session_limiter().limit, "Then reload this page.")
    words = filled("<div class='full'><h1>{title}</h1><p>{words}</p></div>", title=title, words=words)
    return pn.Column(pn.pane.HTML(words, stylesheets=[stylesheet()]), margin=0, sizing_mode="stretch_both")


class Page:
    """One browser tab: its shell, its features, and the labs opened in it. Implements FeaturePage."""

    def __init__(self) -> None:
        if pn.state.curdoc is None:
            raise RuntimeError("a page belongs to a served document; run `panel serve app`")
        self.document = pn.state.curdoc
        self.visible = True
        labs, problems = labs_with_tabs()
        try:
            self.level = asked_level(self.document)
        except ValueError as error:
            self.level = FULL
            problems = [*problems, f"All of the page is shown: {error}."]
        self.numbers = Numbers(chip_names(recorded_figures()))
        try:
            self.numbers.chip = asked_chip(self.document, self.numbers.names)
        except ValueError as error:
            problems = [*problems, f"Numbers are measured here: {error}."]
        kept = "" if self.level == FULL else self.level
        self.browser = Browser(
            self.press, self._resized, self._looked, self._travelled, self._preferred, ui=kept,
            recorded=kept_chip(self.numbers.chip),
        )  # fmt: skip
        self.numbers.param.watch(self._keep_numbers, "chip")
        self.features: list[Feature] = []
        self.features += [feature(self) for feature in features()]
        self._cards = {f"{each.name}-card": each for each in self.features if each.corner is not None}
        for name, feature in self._cards.items():
            self._watch_card(name, feature)
        self.shell = Shell(
            self.document, labs, self.level, self.browser, self.features, self._choose_soon, self._refit
        )  # fmt: skip
        self.labs = LabChoice(
            self.document, labs, problems, self.shell, self._build, self._new_tab, self._entered, self._left
        )  # fmt: skip
        self.list_keys()
        pn.state.onload(self._start)
        pn.state.on_session_destroyed(self._destroyed)
        for event, on in (("connection_lost", False), ("client_reconnected", True)):
            self.document.on_event(event, partial(self._connection_changed, on))

    def _watch_card(self, name: str, feature: Feature) -> None:
        if feature.corner is not None:
            feature.corner.css_classes = [name]
            feature.corner.param.watch(lambda event: self.focus(name, event.new), "visible")

    def servable(self) -> None:
        """Add the page to the current document."""
        self.shell.servable()

    @property
    def current(self) -> LabTab | None:
        """The shown lab, None before the first."""
        return self.labs.current

    # -- the first lab, and scenes from addresses and files

    def _start(self) -> None:
        """Open the page's first lab; called once the browser receives changes of the document."""
        for feature in self.features:
            feature.ready()
        if session_limiter().full:
            self.shell.show([server_full_page()])
        else:
            session_limiter().add(self, self.document.session_context.id)
            self.shell.begin()
            self.labs.begin(self._open)

    def _build(self, change: Callable[[], object]) -> None:
        """Queue a slow change of the page for the builder."""
        builder().change(self.document, change)

    def _new_tab(self, lab: type[Lab]) -> LabTab:
        tab = LabTab(
            lab, self.document, self.shell.window, self.level != FULL,
            write_address=partial(self._write_address, lab), followed=self._viewed, numbers=self.numbers,
        )  # fmt: skip
        tab.refreshed.subscribe(lambda _: self._ticked())
        return tab

    def _open(self) -> None:
        """Show the scene in the page's address, or the first lab; an invalid link causes a notice and the first lab."""
        try:
            scene = asked_for(self.document)
        except SceneError as error:
            self.labs.choose(0)
            if self.current is not None:
                words = f"The link cannot be shown, here is the page as it always begins: {error}."
                self._notices().tell("warning", words)
            return
        if scene is None:
            self.labs.choose(0)
        else:
            texts = [asked_text(self.document, name) for name in (PACE, DISPLAY)]
            self._restore(scene, "The link", asked_to_run(self.document), *texts)

    def _travelled(self, query: str) -> None:
        """Handle the browser's Back or Forward: show the scene in the new address."""
        text, plays = link_in_query(query)
        if self.current is None or not text:
            return
        self.current.address.left()
        self._build(partial(self._travel, text, plays, *(text_in_query(query, name) for name in (PACE, DISPLAY))))

    def _travel(self, text: str, plays: bool, pace: str, display: str) -> None:
        """Show the scene in an address; if a tab still has exactly this state, only switch to that tab."""
        shown = next((tab for tab in self.labs.open.values() if tab.address.text == text), None)
        try:
            if shown is None:
                self._restore(unpacked(text), "The address", plays, pace, display)
            elif shown is not self.current:
                self.labs.show(shown.session.lab)
        except SceneError as error:
            self._notices().tell("warning", f"The address cannot be shown: {error}.")
            if self.current is not None:
                self.current.address.enter(push=False)  # which restores the address of the current state

    def show_scene(self, scene: Scene, name: str) -> None:
        """Queue a change to a scene in its lab's tab; name: of its source, for the notice if it cannot be shown."""
        self._build(partial(self._restore, scene, name))

    def _restore(self, scene: Scene, what: str, plays: bool = False, pace: str = "", display: str = "") -> None:
        """Show `scene` in its lab's tab, and run it if `plays` is true.

        pace, display: its speed and its display settings, "" for the tab's own.
        """
        if scene.kind not in self.labs.labs:  # a plug-in without a tab, already listed among the problems
            self.labs.choose(0)
            return
        tab = self.labs.show(scene.kind)
        if tab is None:
            return
        try:
            tab.restorer.restore(scene, plays, pace, display)
        except ValueError as error:
            self._notices().tell("warning", f"{what} cannot be shown: {error}.")
            tab.expect_no_scene()

    def _notices(self) -> Notices:
        if self.current is None:
            raise RuntimeError("no lab is shown yet")
        return self.current.notices

    # -- the shown lab

    def show_soon(self, kind: type[Lab]) -> None:
        """Queue a change to the tab of a lab, which waits for its state; repeated calls have no effect."""
        self.labs.show_soon(kind)

    def _choose_soon(self) -> None:
        self.labs.choose_soon()

    def _entered(self, tab: LabTab) -> None:
        """Connect another shown lab to the page and its features."""
        self._fit(tab)
        self.list_keys()
        tab.look(self.visible)
        for feature in self.features:
            feature.shown(tab)

    def _left(self, tab: OpenLab, closed: bool) -> None:
        for feature in self.features:
            feature.left()
            if closed:
                feature.discarded(tab)

    def _ticked(self) -> None:
        for feature in self.features:
            feature.ticked()

    def _viewed(self) -> bool:
        return any(feature.viewed for feature in self.features)

    def _write_address(self, lab: type[Lab], query: str, push: bool) -> None:
        """Write the state of a lab to the browser's address, if its tab is current."""
        if self.current is not None and self.current.session.lab is lab:
            self.browser.write_address(query, push)

    def _keep_numbers(self, event: Any) -> None:
        """Write the chosen source of the timings into the address."""
        self.browser.recorded = kept_chip(event.new)
        if self.current is not None and (query := self.current.address.query):
            self.browser.write_address(query, False)

    # -- layout

    @property
    def presenting(self) -> bool:
        """Whether the page is in presenter mode."""
        return self.shell.presenting

    def present(self, on: bool) -> None:
        """Switch presenter mode on or off: larger type, and the bars at the sides closed."""
        with changed_together(self.document):
            self.shell.present(on)
            self.list_keys()

    def arrange(self) -> None:
        """Update the layout, after the room that a feature needs has changed."""
        self.shell.arrange()

    def use_column(self) -> None:
        """Open the right column for a feature that needs it, or restore it; update layout and keys."""
        self.list_keys()
        self.shell.use_column()

    def _refit(self) -> None:
        if self.current is not None:
            self.current.session.later(partial(self._fit, self.current))

    def _fit(self, tab: LabTab) -> None:
        if tab is self.current:
            layout = self.shell.layout
            tab.fit(layout.room, self.shell.dark, layout.large)

    def _resized(self, width: int, height: int) -> None:
        self.shell.resize(width, height)

    def _preferred(self, dark: bool) -> None:
        self.shell.prefer(dark)

    # -- visibility and connection

    def _looked(self, visible: bool) -> None:
        """Handle a change of the browser tab's visibility: a hidden tab gets no updates."""
        self.visible = visible
        for feature in self.features:
            feature.looked(visible)
        if self.current is not None:
            self.current.look(visible)

    def _connection_changed(self, on: bool, event: Any) -> None:
        """Handle a browser that disconnected or reconnected, after the changes that are being built."""
        self.document.add_next_tick_callback(partial(self._connected, on))

    def _connected(self, on: bool) -> None:
        session = self.document.session_context.session if self.document.session_context else None
        if not on and session is not None and session.connection_count:
            return  # reconnected by another connection
        for feature in self.features:
            feature.connected(on)
        if self.current is not None:
            self.current.show(on and not any(feature.rests for feature in self.features))

    def _destroyed(self, session_context: Any) -> None:
        session_limiter().remove(self)
        for feature in self.features:
            feature.ended()
        for tab in self.labs.open.values():
            tab.close()

    # -- keys and cards

    def focus(self, card: str, opened: bool) -> None:
        """Move the focus to the card with this CSS class as it opens, and back as it closes."""
        left = [
            name
            for name, each in self._cards.items()
            if name != card and each.corner is not None and each.corner.visible
        ]
        self.browser.card = card if opened else left[-1] if left else ""

    def list_keys(self) -> None:
        """Send the browser the list of keys that have a function now."""
        own = self.current.controls.keys if self.current is not None else ()
        self.browser.wanted = list(dict.fromkeys([*(key for each in self.features for key in each.keys), *own]))

    def press(self, key: str) -> None:
        """Run the action of a key: of a feature or, without one, of the lab."""
        if self.labs.defer(partial(self.press, key)):
            return
        actions = {name: act for feature in self.features for name, act in feature.keys.items()}
        if key == ESCAPE and self.browser.card in self._cards:
            self._cards[self.browser.card].toggle()
        elif key in actions:
            actions[key]()
        elif self.current is not None:
            self.current.press(key)
            self._ticked()
