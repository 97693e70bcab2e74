"""The side bar of a lab: widgets in groups by what they change. A lab's own controls derive from `Controls`.

`Transport` has the buttons that run a lab, `ComputeControls` says where it computes: backend, kernel, device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any, TypeAlias

import panel as pn
import panel_material_ui as pmui

from app.session import Session
from app.stream import ignore
from app.theme import html_pane
from app.widgets import FULL, ValueWidgets, Widget, icon
from compute.backends import Backend, preferred
from compute.export.scene import Style
from compute.gpu_devices import cuda_count


@dataclass(frozen=True)
class Dial:
    """A slider that the bar at the bottom of the page can show: places from `low` to `high` in steps of `step`.

    place(): where it stands; turn(place): what a move of it does; words(): its value, as it is read.
    """

    label: str
    low: float
    high: float
    step: float
    place: Callable[[], float]
    turn: Callable[[float], object]
    words: Callable[[], str]


def slider_dial(widget: Widget, words: Callable[[Any], str] = "{:g}".format) -> Dial:
    """Return what works the slider `widget` of a side bar, and shows what it shows. words: write its value."""

    def turn(place: float) -> None:
        """Move the slider."""
        widget.value = round(place) if isinstance(widget, pmui.IntSlider) else place

    return Dial(
        widget.label, widget.start, widget.end, widget.step, lambda: widget.value, turn, lambda: words(widget.value)
    )


def list_dial(widget: Widget) -> Dial:
    """Return what works a slider over a list of values."""
    words = list(widget.options)
    values = list(widget.options.values())

    def turn(place: float) -> None:
        """Move the slider to that entry of the list."""
        widget.value = values[round(place)]

    def place() -> int:
        """Which entry it is."""
        return values.index(widget.value)

    return Dial(widget.label, 0, len(values) - 1, 1, place, turn, lambda: words[place()])


BarButton: TypeAlias = tuple[str, str, str]  # a button of the bar at the bottom: its key, its word, what it does


class Controls(ValueWidgets):
    """Controls bound to one session. A subclass sets `panel`, `keys`: what each key does, and `dialogs`: what lies over
    the page, also where the side bar is closed.
    """

    panel: Any

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.keys: dict[str, Callable[[], object]] = {}
        self.dialogs: list[Any] = []

    def acts(self) -> list[BarButton]:
        """The buttons that stay when the side bar is closed, those whose keys the lab has."""
        known = [(" ", "Pause" if self.session.playing else "Run", "Run or pause"), *ACTS]
        return [act for act in known if act[0] in self.keys]

    def dials(self) -> Sequence[Dial]:
        """The sliders of which one stays when the side bar is closed; the first is the lab's main one."""
        return [slider_dial(widget) for widget in self.sliders]

    def style(self, part: str) -> Style:
        """How the picture `part` is coloured; the plain palette in a lab that has no choice."""
        return Style()

    def apply_style(self, style: Style, part: str) -> None:
        """Colour the picture `part` like that, where there is a choice."""

    def landmark(self) -> object:
        """What the lab is about, in one object: another one is worth an entry in the browser's history."""
        return tuple(self.session.values[name] for name in self.session.lab.INITIAL)

    def tick(self) -> None:
        """A few times a second: show what frames say."""

    def close(self) -> None:
        """End what runs for a control, with the page."""

    def on_event(self, event: Any) -> bool:
        """An engine event; True if a control says what it means, so that no note is needed."""
        return False


def column(*items: Any) -> pn.Column:
    """The body of a group."""
    return pn.Column(*items, margin=0, sizing_mode="stretch_width")


def accordion(groups: Mapping[str, Any], opened: Sequence[int]) -> pmui.Accordion:
    """The groups by title, below each other, some of them open."""
    return pmui.Accordion(
        *groups.items(),
        active=list(opened),
        dynamic=True,
        title_variant="h6",
        disable_gutters=True,
        margin=0,
        sizing_mode="stretch_width",
    )


ACTS: tuple[BarButton, ...] = (("s", "Step", "One step"), ("r", "Reset", "Back to the beginning"))
UNDO, REDO = "ctrl+z", "ctrl+shift+z"  # as app.browser writes them
NOTHING_LOST = "Undo (Ctrl+Z): nothing is lost"
NOTHING_UNDONE = "Redo (Ctrl+Shift+Z): nothing was undone"
FASTEST = "as fast as it goes"
SPEEDS: dict[str, int | None] = {str(n): n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)} | {FASTEST: None}


RUN_WIDTH = 84  # px: with six symbols beside it, it leaves the side bar (280) the room of a scroll bar


def run_button(session: Session, toggle: Callable[[], object]) -> pmui.Button:
    """The large button that says what a press would do: run, or pause."""

    def says() -> dict[str, str]:
        """What a press would do now."""
        return {"label": "Pause", "icon": "pause"} if session.playing else {"label": "Run", "icon": "play_arrow"}

    def show(*events: object) -> None:
        """Say it on the button."""
        button.param.update(**says())

    button = pmui.Button(**says(), size="medium", margin=(2, 0, 2, 8), width=RUN_WIDTH, sx={"padding": "6px 8px"})
    button.on_click(lambda event: toggle())
    session.param.watch(show, "playing")
    return button


class Undo:
    """The button that brings back what was lost last; `act` does it. It is grey while there is nothing.

    redo: the button for what was undone.
    """

    def __init__(self, redo: bool = False, **style: Any) -> None:
        self.act: Callable[[], object] = ignore
        self._nothing = NOTHING_UNDONE if redo else NOTHING_LOST
        self._words = "Redo: forward to {} (Ctrl+Shift+Z)" if redo else "Undo: back to {} (Ctrl+Z)"
        name = "redo" if redo else "undo"
        self.button = icon(name, self._nothing, self.press, disabled=True, **{"align": "center", **style})

    def offer(self, what: str, gone: str = "") -> None:
        """What would come back, in words; "" for nothing. gone: why nothing older would, if something was given up."""
        words = self._words.format(what) if what else self._nothing
        words += f"; {gone}" if gone else ""
        if words != self.button.description:
            self.button.param.update(description=words, disabled=not what)

    def press(self) -> None:
        """Bring it back, if there is something."""
        if not self.button.disabled:
            self.act()


class Transport:
    """The buttons of one session; `keys` do the same."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run = run_button(session, self.toggle)
        close: dict[str, Any] = {"align": "center", "margin": 0, "sx": {"padding": "4px"}}  # they fill the side bar
        buttons = [icon("skip_next", "One step (S)", self.step, **close)]
        known = session.lab.actions()
        if "reset" in known:
            buttons.append(icon("replay", "Reset to the initial field (R)", self.reset, **close))
        if "checkpoint" in known and "rollback" in known:
            buttons.append(icon("bookmark_add", "Checkpoint: remember this state", self.checkpoint, **close))
            buttons.append(icon("settings_backup_restore", "Back to the checkpoint", self.back, **close))
        self.keys: dict[str, Callable[[], object]] = {" ": self.toggle, "s": self.step, "r": self.reset}
        self.undo, self.redo = Undo(**close), Undo(redo=True, **close)
        self.undo.act, self.redo.act = lambda: session.act("undo"), lambda: session.act("redo")
        if "undo" in known and "redo" in known:
            buttons += [self.undo.button, self.redo.button]
            # Not the buttons' own: these say a moment later what there is, and a quick hand would press in vain. The
            # lab refuses in words what cannot be.
            self.keys |= {UNDO: self.undo.act, REDO: self.redo.act}
        self.speed = pmui.DiscreteSlider(
            label="Steps a frame", options=SPEEDS, value=session.steps_per_frame, size="small", **FULL
        )
        self.speed.param.watch(lambda event: session.pace(event.new), "value")
        self.panel = pn.Column(
            pn.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width"), self.speed, margin=(8, 0, 0, 0)
        )

    def toggle(self) -> None:
        """Run, or pause."""
        self.session.play(not self.session.playing)

    def step(self) -> None:
        """Advance one step and stay paused."""
        self.session.step()

    def reset(self) -> None:
        """Back to the initial field; what runs goes on running."""
        self.session.act("reset")

    def checkpoint(self) -> None:
        """Remember the state."""
        self.session.act("checkpoint")

    def back(self) -> None:
        """Return to the remembered state."""
        self.session.act("rollback")


class ComputeControls(ValueWidgets):
    """The widgets `items` of one session. A lab without kernels to choose from shows none.

    words: names a kernel; reasons: what to say of some of them while they are chosen, by their names.
    """

    def __init__(
        self, session: Session, words: Callable[[str], str] = str, reasons: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(session)
        self._words, self._reasons = words, reasons
        known = session.lab.backends()
        absent = [b for b in known if b.missing is not None]
        self.backend = pmui.Select(
            label=self.parameter("backend").label,
            value=session.values["backend"],
            options={b.label: b.name for b in known},
            disabled_options=[b.name for b in absent],
            helper_text=f"Fastest backend on this computer: {preferred(known).label} (default)",
            size="small",
            **FULL,
        )
        self.backend.param.watch(lambda event: self._use(event.new), "value")
        self.kernel = self.choice("variant", self._kernels()) if "variant" in session.values else None
        if self.kernel is not None:
            self.kernel.param.watch(lambda event: self._say_why(event.new), "value")
        devices = {f"GPU {index}": index for index in range(max(1, cuda_count()))}
        device = self.choice("device_index", devices, visible=len(devices) > 1)
        notes = [absentees(absent)] if absent else []
        self.items: list[Any] = [self.backend, *notes, *([self.kernel] if self.kernel else []), device]

    def _kernels(self) -> dict[str, str]:
        """The present backend's kernels in words; the first is the default and has no name of its own."""
        names = self.session.lab.variants(self.session.values["backend"])
        return {self._words(name): "" if name == names[0] else name for name in names}

    def _use(self, backend: str) -> None:
        """Another backend, with its default kernel; the list of kernels follows."""
        if backend != self.session.values["backend"]:
            default = {} if self.kernel is None else {"variant": ""}
            self.session.change(backend=backend, **default)
            self._list_kernels()

    def _list_kernels(self) -> None:
        if self.kernel is not None:
            self.kernel.param.update(options=self._kernels(), value=self.session.values["variant"])
            self._say_why(self.session.values["variant"])

    def _say_why(self, variant: str) -> None:
        """Below the list: why the chosen kernel is slow, where it is so on purpose."""
        if self.kernel is not None:
            self.kernel.helper_text = self._reasons.get(variant, "")

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        super().show_values({name: value for name, value in values.items() if name != "variant"})
        if "backend" in values or "variant" in values:
            self.backend.value = self.session.values["backend"]
            self._list_kernels()


def absentees(backends: Sequence[Backend]) -> pn.pane.HTML:
    """Backends this machine lacks, greyed, each with its reason, and the lines that install them."""
    reasons = "".join(f"<p><b>{escape(b.label)}</b> is off: {escape(b.missing or '')}</p>" for b in backends)
    lines = dict.fromkeys(b.install for b in backends if b.install)
    installs = "".join(f"<code>{escape(line)}</code>" for line in lines)
    html = f"<div class='absent'>{reasons}{installs}</div>"
    return html_pane(html, margin=(2, 8))
