"""Presenter mode, and the bar at the bottom: the headline with its sentence, a lab's main controls, and tools.

The bar is shown in presenter mode, in which the side bar and the readout are closed, and in a window too small for
them. It contains the readout's headline and first sentence, the lab's buttons and one selectable slider; in presenter
mode also the tools over the pictures: freeze, spotlight, pen. A window with room for the side bar but not for the
readout shows only the headline and the sentence, above the status bar. presenter.js draws the bar. A button has the
same effect as its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.page.address import FULL, Level
from app.page.explain import explained
from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.layout import SIDE_ROOM, Layout
from app.page.widgets import card_script
from app.tab.controls import Dial
from app.tab.lab_tab import ACROSS
from app.tab.lab_view import SaysHeadline
from app.tab.open_lab import OpenLab

HERE = Path(__file__).parent
PRESENTING, NARROW = "presenting", "narrow"
MINIMAL = "minimal"  # like a narrow window, without the sentence: in a frame of a slide
STATEMENT = "statement-alone"  # only the headline and the sentence, above the status bar


class PresenterBar(JSComponent):
    """One bar for all labs of a page.

    pressed(key) is called at a click on a button; grown() when the height of the bar, `height_px`, has changed.
    `tool_keys` maps the keys of presenter mode to their actions.
    """

    mode: Any = param.Selector(
        default="", objects=["", NARROW, MINIMAL, STATEMENT, PRESENTING], doc="Reason for showing it; empty: hidden."
    )
    acts = param.List(default=[], doc="[key, label, tooltip] of each button of the lab.")
    dials = param.List(default=[], item_type=dict, doc="label, low, high and step of each slider.")
    dial = param.Integer(default=0, doc="Index of the shown slider.")
    place = param.List(default=[0.0, ""], doc="Value of the slider, as a number and as text.")
    headline = param.String(default="", doc="The readout's large number, as trusted HTML.")
    sentence = param.String(default="", doc="The readout's first sentence, as trusted HTML.")
    hidden = param.Boolean(default=False, doc="Whether the bar is hidden temporarily.")
    frozen = param.Boolean(default=False, doc="Whether the pictures on the screen are frozen.")
    spotlight = param.Boolean(default=False, doc="Whether only the surroundings of the pointer are bright.")
    pen = param.Boolean(default=False, doc="Whether the pointer draws.")
    room = param.String(default="", doc="The room's code and number of followers; empty without a room.")
    wiped = param.Integer(default=0, doc="Number of times that the pen's strokes were removed.")

    _esm = card_script(HERE / "presenter.js")
    _stylesheets: ClassVar[list[str]] = [(HERE / "presenter.css").read_text(encoding="utf-8")]

    def __init__(self, pressed: Callable[[str], None], grown: Callable[[], None]) -> None:
        super().__init__(margin=0, styles=ACROSS, sizing_mode=None)
        self._pressed, self._grown = pressed, grown
        self._tab: OpenLab | None = None
        self.height_px = 0
        self.tool_keys: dict[str, Callable[[], None]] = {
            "z": self.freeze,
            "v": lambda: self._flip("spotlight"),
            "d": lambda: self._flip("pen"),
            ".": lambda: self._flip("hidden"),
            "x": self._wipe,
        }

    @property
    def presenting(self) -> bool:
        """Whether the page is in presenter mode."""
        return bool(self.mode == PRESENTING)

    def freeze(self) -> None:
        """Freeze or unfreeze the pictures on the screen, in presenter mode only."""
        if self.presenting:
            self._flip("frozen")

    def _flip(self, name: str) -> None:
        self.param.update({name: not self.param.values()[name]})

    def _wipe(self) -> None:
        self.wiped += 1

    def show(self, mode: str) -> None:
        """Show the bar in `mode`, "" to hide it; switch off the tools over the pictures."""
        if mode != self.mode:
            self.param.update(mode=mode, hidden=False, frozen=False, spotlight=False, pen=False)
            self.refresh()

    def follow(self, tab: OpenLab) -> None:
        """Connect the bar to another lab's tab."""
        self._tab = tab
        self.param.update(dial=0, frozen=False)
        self.refresh()

    def refresh(self) -> None:
        """Update the bar; called a few times a second and after each message of the browser."""
        tab = self._tab
        if tab is None or not self.mode:
            return
        dials = [
            {"label": one.label, "low": one.low, "high": one.high, "step": one.step} for one in tab.controls.dials()
        ]
        new: dict[str, Any] = {"acts": [list(act) for act in tab.controls.acts()], "dials": dials}
        if dial := self._dial(self.dial):
            new["place"] = [dial.place(), dial.words()]
        readout = tab.readout
        if isinstance(readout, SaysHeadline):
            seen: set[str] = set()
            new["headline"] = explained(readout.headline, seen)
            new["sentence"] = explained(readout.sentence, seen)
        now = self.param.values()
        changed = {name: value for name, value in new.items() if now[name] != value}
        if changed:
            self.param.update(changed)

    def _dial(self, index: Any) -> Dial | None:
        dials = self._tab.controls.dials() if self._tab else ()
        return dials[index] if isinstance(index, int) and 0 <= index < len(dials) else None

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        if isinstance(data.get("key"), str):
            self._pressed(data["key"])
        if self._dial(data.get("choose")):
            self.dial = data["choose"]
        dial, place = self._dial(data.get("dial")), data.get("place")
        if dial and isinstance(place, (int, float)) and dial.low <= place <= dial.high:
            dial.turn(place)
        self.refresh()
        height = data.get("height")
        if isinstance(height, int) and 0 <= height <= 4096:
            self.height_px = height
            self._grown()


class Presenter(Feature):
    """Presenter mode of one page, and its bar."""

    name, order, key = "presenter", 70, "p"
    symbol, tip = "co_present", "Presenter mode (P)"
    help = (
        HelpRow(10, "**P**", "presenter mode: full screen, larger type, the main controls in a bar at the bottom"),
        HelpRow(
            20,
            "**Z**, **V**, **D**, **X**, **.**",
            "in presenter mode: freeze, spotlight, pen, wipe the drawing, hide the bar",
        ),
    )

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self.bar = PresenterBar(page.press, page.arrange)
        self.parts = (self.bar,)

    def toggle(self) -> None:
        """Switch presenter mode on or off."""
        self.page.present(not self.page.presenting)

    @property
    def keys(self) -> Mapping[str, Callable[[], None]]:
        """The key of presenter mode and, in presenter mode, those of its tools."""
        return {**super().keys, **(self.bar.tool_keys if self.page.presenting else {})}

    @property
    def below(self) -> int:
        """Height in px of the bar."""
        return self.bar.height_px if self.bar.mode else 0

    @property
    def covers_status(self) -> bool:
        """Whether the bar takes the place of the status bar."""
        return self.bar.mode not in {"", STATEMENT}

    def shown(self, tab: OpenLab) -> None:
        """Connect the bar to another lab."""
        self.bar.follow(tab)

    def ticked(self) -> None:
        """Update the bar."""
        self.bar.refresh()

    def arranged(self, layout: Layout) -> None:
        """Show the bar in the mode of this layout."""
        self.bar.show(PRESENTING if layout.presenting else bar_mode(layout.window[0], layout.level, layout.column))

    # -- for other features

    @property
    def frozen(self) -> bool:
        """Whether the pictures on the screen are frozen."""
        return bool(self.bar.frozen)

    def freeze(self) -> None:
        """Freeze or unfreeze the pictures on the screen, in presenter mode only."""
        self.bar.freeze()

    def watch_frozen(self, changed: Callable[[bool], object]) -> None:
        """Call changed(frozen) whenever the pictures are frozen or released."""
        self.bar.param.watch(lambda event: changed(bool(event.new)), "frozen")

    def show_room(self, words: str) -> None:
        """Show a room's code and its number of followers in the bar; "" for none."""
        if words != self.bar.room:
            self.bar.room = words


def bar_mode(width: int, level: Level, readout_open: bool) -> str:
    """Return the mode of the bar at the bottom in a window of `width` px outside of presenter mode; "" hides it.

    While the readout is closed, the bar shows its number and its sentence, the most important result for an audience.
    level: see app.page.address.
    """
    if level != FULL:
        return MINIMAL if level == "minimal" else ""
    if width < SIDE_ROOM:
        return NARROW
    return "" if readout_open else STATEMENT
