"""The state that an export is made of: the lab of one tab at one moment, in its style on the screen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import param
from msgspec import structs

from app.tab.open_lab import OpenLab
from app.tab.restore import scene_of_lab
from compute.engine import messages
from compute.export.render import LiveState
from compute.export.scene import LONGEST_WORDS, Scene, SceneError
from compute.lab.frames import Frame
from compute.lab.lab import Lab
from compute.lab.panels import Panel

SLIDE = 16 / 9  # aspect ratio (width / height) of a drawing
PATIENCE = 60.0  # s to wait for the engine's snapshot: the engine may be compiling
GONE = "the lab was closed before it said how it stands"


@dataclass(frozen=True)
class PendingSnapshot:
    """A pending request for the engine's snapshot. until: deadline in s of the monotonic clock."""

    take: Callable[[Mapping[str, Any]], object]
    failed: Callable[[str], object]
    until: float


@dataclass(frozen=True)
class Moment:
    """A lab's state at the time of a request: `current`, and `scene`, from which it can be computed again."""

    scene: Scene
    current: LiveState


class ExportSource:
    """Interface of the exports to the lab of one tab."""

    def __init__(self, tab: OpenLab) -> None:
        self._tab = tab
        self.session = tab.session
        self._waiting: list[PendingSnapshot] = []
        self._closed = False
        self._drawn_of: Frame | None = None
        self._panels: Mapping[str, Panel] = {}

    @property
    def lab(self) -> type[Lab]:
        """The lab's class."""
        return self.session.lab

    @property
    def frame(self) -> Frame | None:
        """The latest frame, None before the first."""
        return self.session.latest

    def pictures(self) -> dict[str, str]:
        """Return the names of the current frame's pictures by label."""
        frame = self.frame
        return {raster.label or name: name for name, raster in frame.rasters.items()} if frame else {}

    def drawings(self) -> dict[str, str]:
        """Return the names of the current frame's drawings with axes, including pictures, by title."""
        return {panel.title or name: name for name, panel in self.panels().items()}

    def panels(self) -> Mapping[str, Panel]:
        """Return the panels of the current frame by name, cached per frame as the card polls them."""
        if self.frame is not self._drawn_of:
            self._drawn_of, self._panels = self.frame, self.lab.panels(self.frame) if self.frame else {}
        return self._panels

    def series(self) -> tuple[str, str]:
        """Return the name and the samples (CSV) of the time series recorded by the view; ("", "") without one."""
        return self._tab.lab_view.samples()

    def size(self, height: int) -> tuple[int, int]:
        """Return (height, width) in pixels, both even, of a picture of that height with its aspect ratio on the screen.

        Without a picture, return the size of a slide.
        """
        raster = next(iter(self.frame.rasters.values()), None) if self.frame else None
        if raster is None:
            return slide(height)
        x0, y0, x1, y1 = raster.extent
        return _even(height, (x1 - x0) / (y1 - y0))

    def ask(self, part: str, then: Callable[[Moment], object], failed: Callable[[str], object]) -> None:
        """Request the lab's state from the engine; call then(moment) when it arrives, or failed(why).

        part: name of the picture. Exactly one of the two is called, `failed` after PATIENCE seconds at the latest,
        provided that `tick` is called.
        """
        values, view = dict(self.session.values), self.session.view
        style = self._tab.controls.style(part)

        def take(snapshot: Mapping[str, Any]) -> None:
            """Build the scene from the engine's snapshot; without the history if that exceeds the limits of a scene."""
            try:
                try:
                    scene = scene_of_lab(self.lab, values, snapshot, part, style, view)
                except SceneError as error:  # values and snapshot can still be saved
                    scene = scene_of_lab(self.lab, values, {}, part, style, view)
                    scene = structs.replace(scene, missing=str(error)[:LONGEST_WORDS])
                scene = structs.replace(scene, size=self.size(1080))
            except SceneError as error:  # such as an invalid view set by the browser
                failed(str(error))
                return
            then(Moment(scene, LiveState(values, snapshot)))

        if self._closed:
            failed(GONE)
            return
        self._waiting.append(PendingSnapshot(take, failed, time.monotonic() + PATIENCE))
        if len(self._waiting) == 1:
            self.session.request_snapshot()

    def on_event(self, event: Any) -> None:
        """Pass the engine's answer to all pending requests."""
        match event:
            case messages.SnapshotTaken(snapshot=snapshot):
                self._answer(lambda pending: pending.take(snapshot))
            case messages.Refused(text=text, request=messages.TakeSnapshot):
                self._answer(lambda pending: pending.failed(f"the engine did not say how the lab stands: {text}"))

    def tick(self) -> None:
        """Fail pending requests after PATIENCE; called regularly."""
        if self._waiting and time.monotonic() > self._waiting[0].until:
            words = f"the engine has not said for {PATIENCE:.0f} s how the lab stands; try it once more"
            self._answer(lambda pending: pending.failed(words))

    def close(self) -> None:
        """Fail all pending requests; called when the lab is closed."""
        self._closed = True
        self._answer(lambda pending: pending.failed(GONE))

    def _answer(self, give: Callable[[PendingSnapshot], object]) -> None:
        waiting, self._waiting = self._waiting, []
        with ExitStack() as all_of_them:  # all callbacks run, even if one raises
            for pending in reversed(waiting):
                all_of_them.callback(give, pending)


def parameters_of(source: ExportSource, *kinds: type[param.Parameter[Any]]) -> dict[str, str]:
    """Return the names of the lab's parameters of these classes of param, by label.

    A number that other parameters name (Lab.named_numbers) has that name; such parameters without one are omitted.
    """
    lab, values = source.lab, source.session.values
    named = {each.slot: each.name for each in lab.named_numbers(values)}
    known: Mapping[str, Any] = lab.param.objects("existing")
    found = [(name, one) for name, one in known.items() if isinstance(one, kinds) and name != "device_index"]
    unused = {name for name, one in found if name not in named and _has_no_range(one) and values[name] is None}
    return {named.get(name, one.label or name): name for name, one in found if name not in unused}


def bounds_of(source: ExportSource, name: str) -> tuple[float | None, float | None]:
    """Return the bounds of a number at the present values, None for none."""
    for each in source.lab.named_numbers(source.session.values):
        if each.slot == name:
            return each.low, each.high
    low, high = source.lab.param[name].bounds or (None, None)
    return low, high


def _has_no_range(parameter: Any) -> bool:
    return bool(parameter.allow_None) and getattr(parameter, "bounds", ()) is None


def slide(height: int) -> tuple[int, int]:
    """Return (height, width) in pixels, both even, of a drawing in the shape of a slide."""
    return _even(height, SLIDE)


def _even(height: int, ratio: float) -> tuple[int, int]:
    return height + height % 2, max(2, 2 * round(height * ratio / 2))
