"""The side bar of a lab: widgets, grouped by the things that they change. A lab's controls derive from `Controls`.

`Transport` has the buttons that run a lab, `ComputeControls` selects backend, kernel and device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from math import inf
from types import MappingProxyType
from typing import Any, TypeAlias

import panel as pn
import panel_material_ui as pmui

from app.page.theme import html_pane
from app.page.typed_slider import TypedList
from app.page.widgets import FULL, ValueWidgets, Widget, icon, set_options
from app.tab.session import Session
from compute.cli import settings
from compute.devices.backends import Backend, backend, preferred
from compute.engine.api import MAX_STEPS
from compute.export.link import MOST_DISPLAY
from compute.export.scene import Style
from compute.lab.lab import values_on, variants


@dataclass(frozen=True)
class Dial:
    """A slider that the bar at the bottom of the page can show: positions from `low` to `high` in steps of `step`.

    place(): return its position; turn(place): apply a new position; words(): return its value as text.
    """

    label: str
    low: float
    high: float
    step: float
    place: Callable[[], float]
    turn: Callable[[float], object]
    words: Callable[[], str]


def slider_dial(widget: Widget, words: Callable[[Any], str] = "{:g}".format) -> Dial:
    """Return the Dial that mirrors the slider `widget` of a side bar. words: format its value."""

    def turn(place: float) -> None:
        """Set the slider."""
        widget.value = round(place) if isinstance(widget, pmui.IntSlider) else place

    return Dial(
        widget.label, widget.start, widget.end, widget.step, lambda: widget.value, turn, lambda: words(widget.value)
    )


def list_dial(widget: Widget) -> Dial:
    """Return the Dial that mirrors a slider over a list of values."""
    words = list(widget.options)
    values = list(widget.options.values())

    def turn(place: float) -> None:
        """Set the slider to this entry of the list."""
        widget.value = values[round(place)]

    def place() -> int:
        """Return the index of the current entry."""
        return values.index(widget.value)

    return Dial(widget.label, 0, len(values) - 1, 1, place, turn, lambda: words[place()])


MOST_TOLD = 40  # characters of an invalid value that a message quotes


def _refusal(widget: Widget, usual: Any, value: Any) -> str:
    """Return which values `widget`, with the value `usual` at first, accepts; "" if `value` is one of them."""
    if isinstance(usual, bool):
        return "" if isinstance(value, bool) else "true or false"
    if hasattr(widget, "options"):
        options = list(widget.options.values() if isinstance(widget.options, dict) else widget.options)
        known = type(value) is type(usual) and value in options
        return "" if known else f"one of {', '.join(map(str, options))}"
    number = isinstance(value, int | float) and not isinstance(value, bool) and widget.start <= value <= widget.end
    return "" if number else f"from {widget.start:g} to {widget.end:g}"


BarButton: TypeAlias = tuple[str, str, str]  # a button of the bar at the bottom: its key, its label, its description


class Controls(ValueWidgets):
    """Base class of the controls of one session.

    A subclass sets `panel`; `keys`: the action of each key; `dialogs`: components over the page that also exist
    while the side bar is closed; and, with `use_speed`, the slider of its speed.

    only_recorded: whether the page shows recorded numbers only, so that nothing is measured.
    """

    panel: Any

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.keys: dict[str, Callable[[], object]] = {}
        self.dialogs: list[Any] = []
        self.only_recorded = False
        self._speed: TypedList | None = None
        self._usual_speed = ""
        self._shown_by: dict[str, tuple[Widget, Any]] = {}  # (widget, usual value) by the name in an address

    def use_speed(self, speed: TypedList) -> None:
        """Keep the slider of the lab's speed in the page's address, unless it has its present value."""
        self._speed, self._usual_speed = speed, speed.words

    @property
    def pace(self) -> str:
        """The lab's speed as text; "" for its initial one, and in a lab without a speed."""
        return "" if self._speed is None or self._speed.words == self._usual_speed else self._speed.words

    def apply_pace(self, pace: str) -> None:
        """Set the lab's speed from a text of an address. Raise ValueError for one that is none."""
        if self._speed is not None:
            self._speed.enter(pace)

    def keep_display(self, **widgets: Widget) -> None:
        """Keep widgets in the page's address, by these names, unless they have their present values.

        They are switches, choices and sliders that affect only what the page shows.
        """
        self._shown_by = {name: (widget, widget.value) for name, widget in widgets.items()}

    @property
    def display_text(self) -> str:
        """The changed display settings as JSON; "" if none is changed."""
        changed = {name: widget.value for name, (widget, usual) in self._shown_by.items() if widget.value != usual}
        return json.dumps(changed, ensure_ascii=False, separators=(",", ":")) if changed else ""

    def apply_display(self, text: str) -> None:
        """Set display settings from the JSON of an address. Raise ValueError, and set none, if one is invalid."""
        try:
            found = json.loads(text) if len(text) <= MOST_DISPLAY else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"they must be a JSON object of at most {MOST_DISPLAY} characters")  # noqa: TRY004 - of a text
        for name, value in found.items():
            if name not in self._shown_by:
                raise ValueError(f"{name[:MOST_TOLD]!r} is none of {', '.join(self._shown_by) or 'this lab'}")
            widget, usual = self._shown_by[name]
            if why := _refusal(widget, usual, value):
                raise ValueError(f"{name} must be {why}, not {str(value)[:MOST_TOLD]!r}")
        for name, value in found.items():
            self._shown_by[name][0].value = value

    def acts(self) -> list[BarButton]:
        """Return the buttons that remain while the side bar is closed, for those keys that the lab has."""
        known = [(" ", "Pause" if self.session.playing else "Run", "Run or pause"), *ACTS]
        return [act for act in known if act[0] in self.keys]

    def dials(self) -> Sequence[Dial]:
        """Return the sliders of which one remains while the side bar is closed; the first is the lab's main one."""
        return [slider_dial(widget) for widget in self.sliders]

    def style(self, part: str) -> Style:
        """Return the style of the picture `part`; the plain palette in a lab without a choice."""
        return Style()

    def apply_style(self, style: Style, part: str) -> None:
        """Apply `style` to the picture `part`; no effect in a lab without a choice."""

    def landmark(self) -> object:
        """Return the main settings of the lab: a new value adds an entry to the browser's history."""
        return tuple(self.session.values[name] for name in self.session.lab.INITIAL)

    def tick(self) -> None:
        """Update the controls from the latest frames; called a few times a second."""

    def show_only_recorded(self, only: bool) -> None:
        """Set `only_recorded`; a lab that measures on request also disables what starts a measurement."""
        self.only_recorded = only

    def close(self) -> None:
        """Stop the tasks of the controls, when the page closes."""

    def on_event(self, event: Any) -> bool:
        """Handle an engine event; return True if a control shows its message, so that no notice is needed."""
        return False


def column(*items: Any) -> pn.Column:
    """Return the body of a group."""
    return pn.Column(*items, margin=0, sizing_mode="stretch_width")


def accordion(groups: Mapping[str, Any], opened: Sequence[int]) -> pmui.Accordion:
    """Return the groups by title, below each other; `opened` lists the indices of the open ones."""
    return pmui.Accordion(
        *groups.items(),
        active=list(opened),
        dynamic=True,
        title_variant="h6",
        disable_gutters=True,
        margin=0,
        sizing_mode="stretch_width",
    )


ACTS: tuple[BarButton, ...] = (("s", "Step", "One step"), ("r", "Reset", "Reset to the initial state"))
UNDO, REDO = "ctrl+z", "ctrl+shift+z"  # as app.page.browser writes them
NOTHING_LOST = "Undo (Ctrl+Z): nothing to undo"
NOTHING_UNDONE = "Redo (Ctrl+Shift+Z): nothing to redo"
FASTEST = "maximum"
# Steps per frame by label; 0: as many as possible (a widget replaces the value None by its first option).
SPEEDS: dict[str, int] = {str(n): n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)} | {FASTEST: 0}


RUN_WIDTH = 84  # px: with six icons next to it, this leaves room for a scroll bar in the side bar (280 px)


def run_button(session: Session, toggle: Callable[[], object]) -> pmui.Button:
    """Return the large button that runs or pauses the session."""

    def says() -> dict[str, str]:
        """Return label and icon of the action that a press would start."""
        return {"label": "Pause", "icon": "pause"} if session.playing else {"label": "Run", "icon": "play_arrow"}

    def show(*events: object) -> None:
        """Update the button."""
        button.param.update(**says())

    button = pmui.Button(**says(), size="medium", margin=(2, 0, 2, 8), width=RUN_WIDTH, sx={"padding": "6px 8px"})
    button.on_click(lambda event: toggle())
    session.param.watch(show, "playing")
    return button


class Undo:
    """The undo button, which calls `act`. It is disabled while no change can be undone.

    redo: make the redo button instead.
    """

    def __init__(self, act: Callable[[], object], redo: bool = False, **style: Any) -> None:
        self._act = act
        self._nothing = NOTHING_UNDONE if redo else NOTHING_LOST
        self._words = "Redo: forward to {} (Ctrl+Shift+Z)" if redo else "Undo: back to {} (Ctrl+Z)"
        name = "redo" if redo else "undo"
        self.button = icon(name, self._nothing, self.press, disabled=True, **{"align": "center", **style})

    def offer(self, what: str, gone: str = "") -> None:
        """Set the description of the state that a press restores, "" for none. gone: why older states were dropped."""
        words = self._words.format(what) if what else self._nothing
        words += f"; {gone}" if gone else ""
        if words != self.button.description:
            self.button.param.update(description=words, disabled=not what)

    def press(self) -> None:
        """Call `act` unless the button is disabled."""
        if not self.button.disabled:
            self._act()


class Transport:
    """The buttons that run one session; `keys` has the same actions."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.run = run_button(session, self.toggle)
        close: dict[str, Any] = {"align": "center", "margin": 0, "sx": {"padding": "4px"}}  # they fill the side bar
        buttons = [icon("skip_next", "One step (S)", self.step, **close)]
        known = session.lab.actions()
        if "reset" in known:
            buttons.append(icon("replay", "Reset to the initial field (R)", self.reset, **close))
        if "checkpoint" in known and "rollback" in known:
            buttons.append(icon("bookmark_add", "Save checkpoint", self.checkpoint, **close))
            buttons.append(icon("settings_backup_restore", "Restore checkpoint", self.back, **close))
        self.keys: dict[str, Callable[[], object]] = {" ": self.toggle, "s": self.step, "r": self.reset}
        undo, redo = partial(session.act, "undo"), partial(session.act, "redo")
        self.undo, self.redo = Undo(undo, **close), Undo(redo, redo=True, **close)
        self._offered, self._lost = False, ""
        if "undo" in known and "redo" in known:
            buttons += [self.undo.button, self.redo.button]
            # The keys call the actions, not the buttons: a button learns of a new state a moment later, and a quick
            # press would be lost. The lab refuses impossible actions with a message.
            self.keys |= {UNDO: undo, REDO: redo}
        self.speed = pmui.DiscreteSlider(
            label="Steps per frame", options=SPEEDS, value=session.steps_per_frame or 0, size="small", **FULL
        )
        self.speed.param.watch(lambda event: session.pace(event.new or None), "value")
        self.typed_speed = TypedList(self.speed, lambda steps: steps or inf, self._read_speed, str)
        buttons_row = pn.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(buttons_row, self.typed_speed.panel, margin=(8, 0, 0, 0))

    @staticmethod
    def _read_speed(text: str) -> int:
        """Return typed steps per frame. Raise ValueError unless they are a whole number within the bounds."""
        steps = int(text) if text.isdecimal() and len(text) <= len(str(MAX_STEPS)) else 0
        if not 1 <= steps <= MAX_STEPS:
            raise ValueError(
                f"Steps per frame must be {FASTEST!r} or a whole number from 1 to {MAX_STEPS}, not {text[:40]!r}"
            )
        return steps

    def follow_undo(self, notes: Mapping[str, str]) -> None:
        """Offer the undo and the redo of a frame, from its notes undo, redo and gone.

        If both vanish without a reason, the lab is open in another process: its earlier fields are lost.
        """
        offered = bool(notes["undo"] or notes["redo"])
        if offered or notes["gone"]:
            self._lost = ""
        elif self._offered:
            self._lost = "the earlier fields are lost with the engine"
        self._offered = offered
        self.undo.offer(notes["undo"], notes["gone"] or self._lost)
        self.redo.offer(notes["redo"])

    def toggle(self) -> None:
        """Run or pause."""
        self.session.play(not self.session.playing)

    def step(self) -> None:
        """Advance one step and stay paused."""
        self.session.step()

    def reset(self) -> None:
        """Reset to the initial field; a running lab continues to run."""
        self.session.act("reset")

    def checkpoint(self) -> None:
        """Save the state as the checkpoint."""
        self.session.act("checkpoint")

    def back(self) -> None:
        """Return to the checkpoint."""
        self.session.act("rollback")


class ComputeControls(ValueWidgets):
    """The compute widgets `items` of one session. A lab without kernels to choose from has no kernel list.

    words: return the label of a kernel; reasons: helper texts, by kernel name, shown while that kernel is selected.
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
        devices = {f"GPU {index}": index for index in range(max(one.device_class.count() for one in known))}
        device = self.choice("device_index", devices, visible=len(devices) > 1)
        notes = [absentees(absent)] if absent else []
        self.items: list[Any] = [self.backend, *notes, *([self.kernel] if self.kernel else []), device]
        self.dtype = self.choice("dtype") if session.lab.NUMBER_TYPE == "dtype" and "dtype" in session.values else None
        self._offer_dtypes()

    def _kernels(self) -> dict[str, str]:
        """Return the kernels of the current backend by label; the first is the default, with "" as its value."""
        names = variants(self.session.lab, self.session.values["backend"])
        return {self._words(name): "" if name == names[0] else name for name in names}

    def _use(self, name: str) -> None:
        """Switch to another backend with its default kernel, and update the lists of kernels and number types."""
        if name != self.session.values["backend"]:
            default = {} if self.kernel is None else {"variant": ""}
            changed = default | values_on(self.session.lab, name, self.session.values)
            self.session.change(**changed)
            self.show_values(changed)
            if elsewhere := {name: value for name, value in changed.items() if name not in ("backend", "variant")}:
                self.session.value_changes.publish(elsewhere)  # a number type may have a widget in another group

    def _offer_dtypes(self) -> None:
        """Disable the number types that the current backend does not have, and name it as the reason."""
        if self.dtype is not None:
            chosen = backend(self.session.values["backend"])
            absent = [name for name in self.parameter("dtype").objects if name not in chosen.dtypes]
            self.dtype.disabled_options = [name for name in absent if name != self.dtype.value]
            self.dtype.helper_text = f"{chosen.label} has no {' and no '.join(absent)}" if absent else ""

    def _list_kernels(self) -> None:
        if self.kernel is not None:
            set_options(self.kernel, self._kernels(), self.session.values["variant"])
            self._say_why(self.session.values["variant"])

    def _say_why(self, variant: str) -> None:
        """Show below the list why the chosen kernel is deliberately slow, if so."""
        if self.kernel is not None:
            self.kernel.helper_text = self._reasons.get(variant, "")

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values` that were changed without these widgets."""
        if self.dtype is not None:
            self.dtype.disabled_options = []  # a disabled option cannot be shown as the value
        super().show_values({name: value for name, value in values.items() if name != "variant"})
        if "backend" in values or "variant" in values:
            self.backend.value = self.session.values["backend"]
            self._list_kernels()
        self._offer_dtypes()


class GridSize:
    """A list of square grids with these sides in cells, `panel`; those that the server refuses are disabled.

    resized(): called after a change.
    """

    def __init__(self, session: Session, sides: Sequence[int], resized: Callable[[], object]) -> None:
        self._session, self._resized = session, resized
        most = settings.bound("grid")
        refused = [n for n in sides if most is not None and n * n > most]
        self.panel = pmui.Select(
            label="Grid [cells]", options={f"{n} × {n}": n for n in sides}, value=session.values["nx"],
            disabled_options=refused, helper_text=settings.bound_words("grid") if refused else "", size="small", **FULL,
        )  # fmt: skip
        self.panel.param.watch(lambda event: self._resize(event.new), "value")

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show a grid among `values` that was changed without this list."""
        if "ny" in values or "nx" in values:
            self.panel.value = self._session.values["nx"]
            self._session.later(self._resized)

    def _resize(self, cells: int) -> None:
        if self._session.values["nx"] != cells:
            self._session.change(ny=cells, nx=cells)
            self._session.later(self._resized)


def absentees(backends: Sequence[Backend]) -> pn.pane.HTML:
    """Return a greyed list of the backends that this machine lacks, with reasons and install commands."""
    reasons = "".join(f"<p><b>{escape(b.label)}</b> is unavailable: {escape(b.missing or '')}</p>" for b in backends)
    lines = dict.fromkeys(b.install for b in backends if b.install)
    installs = "".join(f"<code>{escape(line)}</code>" for line in lines)
    html = f"<div class='absent'>{reasons}{installs}</div>"
    return html_pane(html, margin=(2, 8))
