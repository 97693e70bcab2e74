"""Tells stories beside the labs: the list, a story's steps, and the lab in the state that each of them names.

What a step's link says becomes the lab's values. Going on changes only what the links of this story name, so what a
lecturer has set otherwise stays; "back to the step" brings everything back. Who has left a step by playing, or goes
backwards, gets the next one whole, so that a story cannot break. A state that must be computed first, or replayed, is
the Restorer's (app/export/restore.py).

What is to be shown waits until the browser has drawn the lab: see app/page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Protocol

import panel_material_ui as pmui
import param
from bokeh.document import Document
from msgspec import structs
from panel.viewable import Viewable
from panel_material_ui.widgets.base import MaterialWidget

from app.theme import ASSETS
from app.widgets import Card, card_script, icon
from compute.backends import preferred
from compute.export.scene import Scene
from compute.lab import Lab
from compute.stories import AREAS, Story, StoryStep, stories

if TYPE_CHECKING:
    from app.lab_tab import LabTab

TICK = 250  # ms between two looks at whether the step is still shown
AT_WORK = ("running", "paused")  # phases of a session that takes values
WORDS = "Stories: a lecture in steps (T)"
STYLE = (ASSETS / "stories.css").read_text(encoding="utf-8")


def open_group(side_bar: Viewable, label: str) -> None:
    """Open the group of controls that holds the one with that label: a closed one has nothing to point at."""
    for groups in side_bar.select(pmui.Accordion):
        for number, group in enumerate(groups):
            holds = any(widget.label == label for widget in group.select(MaterialWidget))
            if holds and number not in groups.active:
                groups.active = [*groups.active, number]


class StoryPage(Protocol):
    """What a story needs of the page."""

    document: Document
    current: LabTab | None

    def show_soon(self, kind: type[Lab]) -> None:
        """Show the tab of that lab, which waits for its state; harmless if asked for again before it is there."""

    def make_room(self) -> None:
        """A story is told, or no longer: give it its place, and its keys."""


class StoryCard(Card):
    """The list of stories, or one step of a story, and the ring round what it means.

    It stands at the top of the right column, or alone in a sheet below the picture of a phone: see app/page.py.
    """

    sheet = param.Integer(default=0, doc="Height in px of the sheet below the picture; 0: it is in the right column.")

    _esm = card_script("stories.js")

    def __init__(self, told: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(told, sizing_mode="stretch_width", stylesheets=[STYLE])


class StoryTeller:
    """The stories of one page. `button` belongs into its header, `card` to the top of its right column."""

    def __init__(self, page: StoryPage) -> None:
        self._page = page
        self.story: Story | None = None
        self.number = 0  # of the step that is told, from 0
        self.open = False
        self._coming: Collection[str] | None = None  # names of values that the step is to set, () for all; None: it has
        self._away = False  # whether the lab is no longer as the step says
        self._ticking: Any = None
        self.card = StoryCard(self._told)
        self.button = icon("menu_book", WORDS, self.toggle, color="default", align="center")

    @property
    def step(self) -> StoryStep | None:
        """The step that is told."""
        return self.story.steps[self.number] if self.story else None

    @property
    def keys(self) -> dict[str, Callable[[], None]]:
        """What keys do while a story is told; a remote has the page keys."""
        if self.story is None or not self.open:
            return {}
        on, back = lambda: self.go(self.number + 1), lambda: self.go(self.number - 1)
        return {"arrowright": on, "pagedown": on, "arrowleft": back, "pageup": back, "b": self.back}

    # -- what the lecturer does

    def toggle(self) -> None:
        """Show the list, or the story that was told last; or close it."""
        self.open = not self.open
        if self.open:
            self._ticking = self._page.document.add_periodic_callback(self._tick, TICK)
        elif self._ticking is not None:
            self._page.document.remove_periodic_callback(self._ticking)
            self._ticking = None
            self._leave()
        self._page.make_room()
        self._show()

    def tell(self, name: str) -> None:
        """Begin the story of that name."""
        story = next((each for each in stories().stories if each.name == name), None)
        if story is not None:
            self.story, self.number, self._coming, self._away = story, 0, (), False
            self._page.make_room()
            self._show()
            self._tick()

    def go(self, number: int) -> None:
        """Go to a step, if there is one of that number."""
        if self.story is None or not 0 <= number < len(self.story.steps):
            return
        before, self.number = self.number, number
        whole = self._away or number < before or self._coming is not None
        self._coming, self._away = (() if whole else self._named()), False
        self._show()
        self._tick()

    def back(self) -> None:
        """Bring the lab back to the step, whatever was done to it."""
        if self.story is not None:
            self._coming = ()
            self._tick()

    def _list(self) -> None:
        """Back to the list."""
        self._leave()
        self.story = None
        self._page.make_room()
        self._show()

    def _leave(self) -> None:
        """Whatever waits for a step begins without it."""
        self._coming = None
        if self._page.current is not None:
            self._page.current.wait_no_longer()

    def _told(self, data: dict[str, Any]) -> None:
        """A message of the browser, which may be anybody's."""
        match data:
            case {"open": str(name)}:
                self.tell(name)
            case {"go": 1 | -1 as way}:
                self.go(self.number + way)
            case {"do": "back"}:
                self.back()
            case {"do": "list"}:
                self._list()
            case {"do": "close"} if self.open:
                self.toggle()

    # -- the lab in the step's state

    def _named(self) -> frozenset[str]:
        """The values that the story's links set in the step's lab."""
        steps = self.story.steps if self.story else ()
        lab = steps[self.number].scene.lab
        return frozenset(name for step in steps if step.scene.lab == lab for name in step.scene.values)

    def _tick(self) -> None:
        """Bring the step's state as soon as its lab can take it; then watch whether it is left."""
        tab, step = self._page.current, self.step
        if step is None or tab is None or not tab.drawn:
            return
        if tab.session.lab is not step.scene.kind:
            if self._coming is not None:
                self._page.show_soon(step.scene.kind)
            self._say_away(self._coming is None)
        elif self._coming is not None:
            if tab.session.phase in AT_WORK and not tab.restorer.busy:
                names, self._coming = self._coming, None
                self._bring(tab, step, names)
                if label := self._pointing(step)["label"]:
                    open_group(tab.controls.panel, label)
                self._say_away(False)
        elif not tab.restorer.busy:
            wanted = self._wanted(tab, step.scene)
            self._say_away(any(tab.session.values[name] != wanted[name] for name in self._named() & wanted.keys()))

    def _say_away(self, away: bool) -> None:
        if away != self._away:
            self._away = away
            self._show()

    def _bring(self, tab: LabTab, step: StoryStep, names: Collection[str]) -> None:
        """Set the values `names` of the step, () for all, and begin its field unless that goes on."""
        session, scene = tab.session, step.scene
        tab.notices.clear()  # they are about the step before
        if scene.steps or scene.history:
            try:
                tab.restorer.restore(self._with_backend(tab, scene), step.plays)
            except ValueError as error:
                tab.notices.tell("warning", f"The step cannot be shown: {error}.")
                tab.wait_no_longer()
            return
        tab.awaits_scene = False
        every = self._wanted(tab, scene)
        wanted = {name: value for name, value in every.items() if not names or name in names}
        changed = {name: value for name, value in wanted.items() if session.values[name] != value}
        begins = (not step.goes_on or not names) and "reset" in session.lab.actions()
        if begins:
            session.play(False)  # first: what runs would go on from the new beginning before it is paused
        session.change(**changed)
        session.on_values(changed)
        if scene.look is not None:
            tab.controls.apply_style(scene.look, scene.part)
        if begins:
            session.act("reset")
        session.play(step.plays or (scene.kind.ENDS and tab.parts.plays))
        session.later(lambda: tab.lab_view.show_part(scene.view))

    def _with_backend(self, tab: LabTab, scene: Scene) -> Scene:
        """The scene on the best backend that is ready here, unless it names one."""
        best = {"backend": preferred(tab.session.lab.backends()).name}
        return structs.replace(scene, values=best | dict(scene.values))

    def _wanted(self, tab: LabTab, scene: Scene) -> dict[str, Any]:
        """All values that belong to the state of the scene; a backend that is not here is replaced."""
        fitting, _ = tab.restorer.fitting(self._with_backend(tab, scene))
        parameters = tab.session.lab.param
        return {name: fitting.values.get(name, parameters[name].default) for name in tab.restorer.names()}

    # -- what is shown

    def _show(self) -> None:
        """Draw the list, or the step, or nothing."""
        if not self.open:
            self.card.content = {}
        elif self.story is None:
            found = stories()
            listed = [
                {"name": story.name, "title": story.title, "minutes": story.minutes, "lab": story.lab.TITLE}
                for story in found.stories
            ]
            self.card.content = {"stories": listed, "problems": list(found.problems)}
        else:
            step = self.story.steps[self.number]
            self.card.content = {
                "title": self.story.title, "number": self.number + 1, "of": len(self.story.steps), "html": step.html,
                "away": self._away, **self._pointing(step),
            }  # fmt: skip

    def _pointing(self, step: StoryStep) -> dict[str, str]:
        """What the ring goes round: a part of the page, or the control with a parameter's label."""
        if not step.points or step.points in AREAS:
            return {"area": step.points, "label": ""}
        return {"area": "", "label": str(step.scene.kind.param[step.points].label)}
