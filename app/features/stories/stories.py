"""Stories next to the labs: the list, a story's steps, and the lab in the state of each step.

The link of a step sets the lab's values. The next step changes only values that the links of this story name, so that
other settings of the lecturer are kept; "back to the step" restores everything. After a deviation from a step, or when
going backwards, the next step is restored completely, so that a story cannot break. States that must be computed or
replayed first are restored by the Restorer (app/tab/restore.py).

A step may ask a question: its vote opens as the step is shown, and closes by a key or as the next step is shown. Phones
vote by way of the audience (app/features/audience); without phones the lecturer counts hands.

A step is applied after the browser has drawn the lab: see app/page/lab_choice.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import panel_material_ui as pmui
import param
from msgspec import structs
from panel.viewable import Viewable
from panel_material_ui.widgets.base import MaterialWidget

from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.layout import Layout
from app.page.widgets import Card, card_script
from app.tab.open_lab import OpenLab
from compute.devices.backends import preferred
from compute.export.scene import Scene
from compute.lab.lab import control_label, number_types
from compute.stories import AREAS, Story, StoryStep, stories, values_alone
from compute.votes import Vote

ADDRESS = "story"  # entry of the page's address: the name of a story's file
TICK = 250  # ms between two comparisons of the lab with the step
AT_WORK = ("running", "paused")  # phases of a session that accepts values
STYLE = Path(__file__).with_name("stories.css").read_text(encoding="utf-8")


def open_group(side_bar: Viewable, label: str) -> None:
    """Open the group of controls that contains `label`: a control in a closed group is invisible."""
    for groups in side_bar.select(pmui.Accordion):
        for number, group in enumerate(groups):
            holds = any(widget.label == label for widget in group.select(MaterialWidget))
            if holds and number not in groups.active:
                groups.active = [*groups.active, number]


class StoryCard(Card):
    """The list of stories or one step of a story, and the ring around the element that the step points at.

    It is at the top of the right column, or in a sheet below the picture on a phone: see app/page/layout.py.
    """

    vote = param.Dict(default={}, doc="The vote of the step; {} without a question.")
    sheet = param.Integer(default=0, doc="Height in px of the sheet below the picture; 0: it is in the right column.")

    _esm = card_script(Path(__file__).with_name("stories.js"))

    def __init__(self, received: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(received, sizing_mode="stretch_width", stylesheets=[STYLE])


class StoryTeller(Feature):
    """The stories of one page."""

    name, order, key = "stories", 30, "t"
    symbol, tip = "menu_book", "Stories: a lecture in steps (T)"
    help = (
        HelpRow(70, "**T**", "stories; then **←** **→** or a remote's keys: the steps, **B**: back to the step"),
        HelpRow(75, "**Y**", "close the vote of a story's step, or vote again"),
    )

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self.story: Story | None = None
        self.number = 0  # index of the current step
        self.open = False
        self._pending: Collection[str] | None = None  # names of the values to set, () for all; None: none is pending
        self._away = False  # whether the lab differs from the step
        self._ticking: Any = None
        self._votes: dict[int, Vote] = {}  # of the story, by the index of the step
        self._numbers = count(1)  # of votes
        self.card = StoryCard(self.receive)
        self.column = (self.card,)

    @property
    def step(self) -> StoryStep | None:
        """The current step."""
        return self.story.steps[self.number] if self.story else None

    @property
    def vote(self) -> Vote | None:
        """The vote of the current step, None if it asks nothing."""
        return self._votes.get(self.number) if self.story else None

    @property
    def keys(self) -> Mapping[str, Callable[[], None]]:
        """The key of the stories and, while one is open, those of its steps; remote controls send the page keys."""
        if self.story is None or not self.open:
            return super().keys
        on, back = lambda: self.go(self.number + 1), lambda: self.go(self.number - 1)
        steps = {"arrowright": on, "pagedown": on, "arrowleft": back, "pageup": back}
        return {**super().keys, **steps, "b": self.back, "y": self.turn_vote}

    @property
    def in_column(self) -> bool:
        """Whether the list or a story is open, which the right column shows."""
        return self.open

    def arranged(self, layout: Layout) -> None:
        """Show the story in the right column, or as a sheet below the picture."""
        self.card.sheet = layout.sheet

    @classmethod
    def install(cls) -> None:
        """Read the files of the stories, which are cached."""
        stories()

    def ready(self) -> None:
        """Open the story that the page's address names, as in `?story=4-the-chequerboard`; unknown: open the list."""
        context = self.page.document.session_context
        named = context.request.arguments.get(ADDRESS) if context and context.request else None
        if named:
            self.toggle()
            self.open_story(named[0].decode("utf-8", "replace"))

    # -- actions of the lecturer

    def toggle(self) -> None:
        """Open the list or the last story, or close it."""
        self.open = not self.open
        if self.open:
            self._ticking = self.page.document.add_periodic_callback(self._tick, TICK)
        elif self._ticking is not None:
            self.page.document.remove_periodic_callback(self._ticking)
            self._ticking = None
            self._leave()
        self.page.use_column()
        self._show()

    def open_story(self, name: str) -> None:
        """Open the story of that name."""
        story = next((each for each in stories().stories if each.name == name), None)
        if story is not None:
            self.close_vote()
            self._votes.clear()
            self.story, self.number, self._pending, self._away = story, 0, (), False
            self._ask()
            self.page.use_column()
            self._show()
            self._tick()

    def go(self, number: int) -> None:
        """Go to step `number`, if it exists."""
        if self.story is None or not 0 <= number < len(self.story.steps):
            return
        self.close_vote()
        before, self.number = self.number, number
        self._ask()
        whole = self._away or number < before or self._pending is not None
        self._pending, self._away = (() if whole else self._names_in_story()), False
        self._show()
        self._tick()

    def back(self) -> None:
        """Restore the step after any changes to the lab."""
        if self.story is not None:
            self._pending = ()
            self._tick()

    def turn_vote(self) -> None:
        """Close the step's vote, or begin it again without its earlier votes."""
        vote = self.vote
        if vote is not None and vote.open:
            self.close_vote()
        else:
            self._votes.pop(self.number, None)
            self._ask()
        self._show_vote()

    def close_vote(self) -> None:
        """Close the step's vote if it is open."""
        if self.vote is not None:
            self.vote.close()

    def _ask(self) -> None:
        """Open the vote of a step that asks a question, unless it already has votes."""
        if self.vote is not None and not any(self.vote.counts):
            self._votes.pop(self.number)
        if self.step is not None and self.step.ask is not None and self.vote is None:
            self._votes[self.number] = Vote(self.step.ask, next(self._numbers))

    def _list(self) -> None:
        """Return to the list."""
        self.close_vote()
        self._leave()
        self.story = None
        self.page.use_column()
        self._show()

    def _leave(self) -> None:
        """Start a lab that is waiting for a step, without the step."""
        self._pending = None
        if self.page.current is not None:
            self.page.current.expect_no_scene()

    def receive(self, data: dict[str, Any]) -> None:
        """Handle a message from the browser, which is untrusted."""
        match data:
            case {"open": str(name)}:
                self.open_story(name)
            case {"go": 1 | -1 as way}:
                self.go(self.number + way)
            case {"do": "back"}:
                self.back()
            case {"do": "vote"}:
                self.turn_vote()
            case {"hands": [int(choice), int(number)]} if self.vote is not None:
                with suppress(ValueError):  # the field shows the bounds, and the number that counts
                    self.vote.count_hands(choice, number)
                self._show_vote()
            case {"do": "list"}:
                self._list()
            case {"do": "close"} if self.open:
                self.toggle()

    # -- applying steps

    def _names_in_story(self) -> frozenset[str]:
        """Return the names of the values that the story's links set in the step's lab."""
        steps = self.story.steps if self.story else ()
        lab = steps[self.number].scene.lab
        return frozenset(name for step in steps if step.scene.lab == lab for name in step.scene.values)

    def _tick(self) -> None:
        """Apply the step as soon as its lab accepts values, then watch for deviations from it."""
        tab, step = self.page.current, self.step
        self._show_vote()
        if step is None or tab is None or not tab.drawn:
            return
        if tab.session.lab is not step.scene.kind:
            if self._pending is not None:
                self.page.show_soon(step.scene.kind)
            self._set_away(self._pending is None)
        elif self._pending is not None:
            if tab.session.phase in AT_WORK and not tab.restorer.busy:
                names, self._pending = self._pending, None
                self._apply(tab, step, names)
                if label := self._pointing(step)["label"]:
                    open_group(tab.controls.panel, label)
                self._set_away(False)
        elif not tab.restorer.busy:
            target = self._values_of(tab, step.scene)
            self._set_away(
                any(tab.session.values[name] != target[name] for name in self._names_in_story() & target.keys())
            )

    def _set_away(self, away: bool) -> None:
        if away != self._away:
            self._away = away
            self._show()

    def _apply(self, tab: OpenLab, step: StoryStep, names: Collection[str]) -> None:
        """Set the values `names` of the step, () for all, and reset the field unless the step continues it."""
        session, scene = tab.session, step.scene
        tab.notices.clear()  # they are about the previous step
        if scene.steps or scene.history:
            try:
                tab.restorer.restore(self._with_backend(tab, scene), step.plays)
            except ValueError as error:
                tab.notices.tell("warning", f"The step cannot be shown: {error}.")
                tab.expect_no_scene()
            return
        tab.awaits_scene = False
        every = self._values_of(tab, scene)
        target = {name: value for name, value in every.items() if not names or name in names}
        changed = {name: value for name, value in target.items() if session.values[name] != value}
        begins = (not step.goes_on or not names) and "reset" in session.lab.actions()
        if begins:
            session.play(False)  # first: a running lab would advance the new field before it is paused
        session.change(**changed)
        session.value_changes.publish(changed)
        if scene.look is not None:
            tab.controls.apply_style(scene.look, scene.part)
        if begins:
            session.act("reset")
        session.play(step.plays or (scene.kind.ENDS and tab.parts.plays))
        session.later(lambda: tab.lab_view.show_part(scene.view))

    def _with_backend(self, tab: OpenLab, scene: Scene) -> Scene:
        """Return the scene with the best available backend, unless the scene names a backend."""
        lab = tab.session.lab
        dtype = (lab.param.values() | dict(scene.values)).get(lab.NUMBER_TYPE)
        known = [one for one in lab.backends() if dtype is None or dtype in number_types(lab, one.name)]
        return structs.replace(scene, values={"backend": preferred(known).name} | dict(scene.values))

    def _values_of(self, tab: OpenLab, scene: Scene) -> dict[str, Any]:
        """Return all values of the scene's state, at its last step, with an unavailable backend replaced."""
        fitting, _ = tab.restorer.fitting(self._with_backend(tab, values_alone(scene)))
        parameters = tab.session.lab.param
        return {name: fitting.values.get(name, parameters[name].default) for name in tab.restorer.names()}

    # -- display

    def _show(self) -> None:
        """Show the list, the step, or nothing."""
        self._show_vote()
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

    def _show_vote(self) -> None:
        """Update the vote on the card: while it is open, the number of votes, but not their distribution."""
        vote = self.vote if self.open else None
        self.card.vote = {} if vote is None else {**vote.shown(), "total": sum(vote.counts), "hands": [*vote.hands]}

    def _pointing(self, step: StoryStep) -> dict[str, str]:
        """Return the target of the ring: an area of the page, or the label of a parameter's control."""
        if not step.points or step.points in AREAS:
            return {"area": step.points, "label": ""}
        return {"area": "", "label": control_label(step.scene.kind, step.points, step.scene.values)}
