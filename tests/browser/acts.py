"""The acts of every lab: what a hand does with the pointer or a key, and the state that it changes.

An act is seen done when the state that `read` returns has changed, and, if it `paints`, the pixels of the main area as
well. `before` brings the page into the state from which the act starts. `key` names the key of an act that is one: the
test requires an act for each key of each lab, so that a new key, or a new lab, cannot be forgotten.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from tests.browser.crossover_page import CrossoverPage
from tests.browser.curve_page import CurvePage
from tests.browser.lab_page import LabPage, SideBar
from tests.browser.set_page import SetPage
from tests.browser.test_diffusion import RANGES, drag_down, middle, on_the_section, zoom_by_wheel

FEWEST = 40  # pixels of the main area that an act changes
MOVED = 12  # levels by which a pixel changes
PROBE = "() => { const {x, y} = Bokeh.documents[0].get_model_by_name('probe point').data; return [x[0], y[0]]; }"
SECTION = "() => Bokeh.documents[0].get_model_by_name('section field').location"


def nothing(_: Any) -> None:
    """Need no preparation."""


@dataclass(frozen=True)
class Act:
    """One act. stage: the page of its lab; sidebar: whether it needs the side bar, which presenter mode hides."""

    name: str
    do: Callable[[Any], object]
    read: Callable[[Any], object]
    before: Callable[[Any], object] = nothing
    key: str = ""
    sidebar: bool = False
    paints: bool = True


def pixels(stage: SideBar) -> np.ndarray:
    """Return the main area as the screen shows it, without the pointer's tips."""
    stage.page.mouse.move(2, 2)
    stage.page.wait_for_timeout(150)
    boxes = [one.bounding_box() for one in stage.page.locator(".bk-Figure").all() if one.is_visible()]
    box = max(filter(None, boxes), key=lambda one: one["width"] * one["height"])
    return np.asarray(Image.open(io.BytesIO(stage.page.screenshot(clip=box))).convert("RGB"), int)


def changed(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether two pictures of the main area differ."""
    return before.shape != after.shape or bool((np.abs(before - after).max(axis=2) > MOVED).sum() >= FEWEST)


def perform(stage: SideBar, act: Act) -> None:
    """Do an act; fail unless the page's state, and its pixels, follow."""
    act.before(stage)
    before = stage.still(lambda: act.read(stage), 0.4)
    picture = pixels(stage) if act.paints else None
    act.do(stage)
    stage.until(lambda: act.read(stage) != before)
    if picture is not None:
        stage.until(lambda: changed(picture, pixels(stage)))


def press(key: str) -> Callable[[SideBar], None]:
    """Return what presses that key, as Playwright calls it."""
    return lambda stage: stage.key(key)


def by_key(name: str, key: str, read: Callable[[Any], object], **more: Any) -> Act:
    """Return the act of a key; `key` as app/browser.py writes it."""
    names = {"backspace": "Backspace", "shift+backspace": "Shift+Backspace", "ctrl+z": "Control+z", "home": "Home",
             "ctrl+shift+z": "Control+Shift+z", "arrowleft": "ArrowLeft", "arrowright": "ArrowRight",
             "arrowup": "ArrowUp", "arrowdown": "ArrowDown"}  # fmt: skip
    return Act(name, press(names.get(key, key)), read, key=key, **more)


# -- diffusion


class DiffusionStage(LabPage):
    """The diffusion lab on a page that is open, paused at its start."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Pause at the start, show the whole field, and move by dragging."""
        self.until(lambda: self.step() >= 0)
        while "Running" in self.status():  # a page that is still being drawn does not hear the first press
            self.key(" ")
            self.page.wait_for_timeout(1500)
        self.until(lambda: "Paused" in self.status())
        self.key("r")
        self.until(lambda: self.step() == 0)
        self.key("0")
        self.until(lambda: self.page.evaluate(RANGES) == [0, 512, 0, 512])


def steps_on(stage: DiffusionStage) -> None:
    """Make some steps."""
    for _ in range(3):
        at = stage.step()
        stage.key("s")
        stage.until(lambda at=at: stage.step() == at + 1)


def zoomed(stage: DiffusionStage) -> None:
    """Zoom in."""
    if stage.page.evaluate(RANGES) == [0, 512, 0, 512]:
        zoom_by_wheel(stage, -200, 3)
    stage.until(lambda: stage.page.evaluate(RANGES) != [0, 512, 0, 512])


def draws(mode: str, dx: int) -> Callable[[DiffusionStage], None]:
    """Return a stroke in that mode of the pointer, which then moves the picture again."""

    def draw(stage: DiffusionStage) -> None:
        """Draw a short line."""
        stage.page.get_by_role("button", name=mode, exact=True).click()
        stage.page.wait_for_timeout(400)
        x, y = middle(stage)
        stage.page.mouse.move(x + dx, y)
        stage.page.mouse.down()
        stage.page.mouse.move(x + dx + 30, y + 20, steps=5)
        stage.page.mouse.up()
        stage.page.wait_for_timeout(300)
        stage.page.get_by_role("button", name="Move", exact=True).click()

    return draw


def painted(stage: DiffusionStage) -> None:
    """Open the group of the brush, and paint, so that there is something to erase or to undo."""
    stage.group("Field")
    before = stage.field()["number"]
    draws("Paint", 60)(stage)
    stage.until(lambda: stage.field()["number"] != before)


def drags(dx: int, dy: int) -> Callable[[Any], None]:
    """Return a drag from the middle of the picture."""

    def drag(stage: Any) -> None:
        """Drag."""
        x, y = middle(stage)
        stage.page.mouse.move(x, y + 60)
        stage.page.mouse.down()
        stage.page.mouse.move(x + dx, y + 60 + dy, steps=6)
        stage.page.mouse.up()

    return drag


def field_read(stage: DiffusionStage) -> object:
    """Return the mean and the roughness of the field on the screen."""
    found = stage.field()
    return round(found["mean"], 6), round(found["rough"], 6)


def ranges_read(stage: DiffusionStage) -> object:
    """Return what the axes show."""
    return stage.page.evaluate(RANGES)


def place_probe(stage: DiffusionStage) -> None:
    """Click away from the probe, and wait longer than a double click takes."""
    x, y = middle(stage)
    stage.page.mouse.click(x + 50, y + 50)
    stage.page.wait_for_timeout(500)


DIFFUSION = (
    Act("click places the probe", place_probe, lambda stage: stage.page.evaluate(PROBE)),
    Act("drag moves the section", lambda stage: drag_down(stage, *on_the_section(stage), 60),
        lambda stage: stage.page.evaluate(SECTION)),
    Act("drag pans", drags(-40, 30), ranges_read, before=zoomed),
    Act("double click shows all", lambda stage: stage.page.mouse.dblclick(*middle(stage)), ranges_read, before=zoomed),
    Act("wheel zooms", lambda stage: zoom_by_wheel(stage, -200, 2), ranges_read),
    Act("paint", draws("Paint", -60), field_read, before=lambda stage: stage.group("Field"), sidebar=True),
    Act("erase", draws("Erase", 60), field_read, before=painted, sidebar=True),
    by_key("key 0", "0", ranges_read, before=zoomed),
    by_key("key Home", "home", ranges_read, before=zoomed),
    by_key("key S", "s", DiffusionStage.step),
    by_key("key R", "r", DiffusionStage.step, before=steps_on),
    by_key("key L", "l", lambda stage: stage.page.evaluate("location.search"), before=steps_on, paints=False),
    by_key("key Ctrl+Z", "ctrl+z", DiffusionStage.step, before=lambda stage: (steps_on(stage), stage.key("r"))),
    by_key("key Ctrl+Shift+Z", "ctrl+shift+z", DiffusionStage.step, before=lambda stage: (
        steps_on(stage), stage.key("r"), stage.until(lambda: stage.step() == 0),
        stage.key("Control+z"), stage.until(lambda: stage.step() > 0))),
    by_key("key Space", " ", lambda stage: stage.status().split()[0]),
)  # fmt: skip


# -- Mandelbrot


class MandelbrotStage(SetPage):
    """The Mandelbrot lab on a page that is open."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Show the whole set."""
        self.until(lambda: self.page.locator(".numbers").count() and self.status())
        if "Paused" in self.status():
            self.key(" ")
        self.key("0")
        self.until(lambda: self.complete() and self.at_home())

    def seen(self) -> object:
        """Return the zoom and the centre of the axes."""
        return round(self.zoom(), 6), *(round(part, 9) for part in self.point(0.5, 0.5))


def moved(stage: MandelbrotStage) -> None:
    """Zoom in about a point, as far as two presses do."""
    at = stage.seen()
    stage.page.mouse.move(*stage.at(0.4, 0.6))
    stage.page.mouse.wheel(0, -300)
    stage.until(lambda: stage.seen() != at and stage.complete())


def shift_drag(stage: MandelbrotStage) -> None:
    """Draw a box with Shift."""
    stage.page.keyboard.down("Shift")
    stage.drag(stage.at(0.3, 0.3), stage.at(0.6, 0.6))
    stage.page.keyboard.up("Shift")


def tile(stage: MandelbrotStage) -> None:
    """Choose a place."""
    stage.page.get_by_label("Go to Elephant valley", exact=True).click()


def switch(label: str) -> Callable[[Any], object]:
    """Return what reads a value of the lab's link: the state that a key changed, whatever shows it."""
    return lambda stage: (label, stage.page.evaluate("location.search"))


def dialogs(stage: SideBar) -> object:
    """Return whether a dialog is open, and close it afterwards by Escape if it is."""
    return stage.page.locator("[role=dialog]").filter(visible=True).count()


MANDELBROT = (
    Act("wheel zooms", lambda stage: (stage.page.mouse.move(*stage.at(0.4, 0.6)), stage.page.mouse.wheel(0, -300)),
        MandelbrotStage.seen),
    Act("drag pans", lambda stage: stage.drag(stage.at(0.5, 0.5), stage.at(0.35, 0.6)), MandelbrotStage.seen),
    Act("Shift and drag zooms to a box", shift_drag, MandelbrotStage.seen),
    Act("double click zooms", lambda stage: stage.page.mouse.dblclick(*stage.at(0.4, 0.6)), MandelbrotStage.seen),
    Act("a tile leads there", tile, MandelbrotStage.seen, before=lambda stage: stage.group("Place"), sidebar=True),
    by_key("key Backspace", "backspace", MandelbrotStage.seen, before=moved),
    by_key("key Ctrl+Z", "ctrl+z", MandelbrotStage.seen, before=moved),
    by_key("key Shift+Backspace", "shift+backspace", MandelbrotStage.seen, before=lambda stage: (
        moved(stage), stage.key("Backspace"), stage.until(lambda: stage.complete() and stage.at_home()))),
    by_key("key Ctrl+Shift+Z", "ctrl+shift+z", MandelbrotStage.seen, before=lambda stage: (
        moved(stage), stage.key("Backspace"), stage.until(lambda: stage.complete() and stage.at_home()))),
    by_key("key 0", "0", MandelbrotStage.seen, before=moved),
    *(by_key(f"key {key}", key, MandelbrotStage.seen) for key in ("arrowleft", "arrowright", "arrowup", "arrowdown")),
    *(by_key(f"key {key}", key, MandelbrotStage.seen) for key in ("+", "=", "-")),
)  # fmt: skip
MANDELBROT_ELSEWHERE = frozenset({" ", "o", "j", "a", "c", "l", "g", "m"})  # tests/browser/test_mandelbrot*.py


# -- L-curve


class CurveStage(CurvePage):
    """The L-curve lab on a page that is open, its curve complete."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Wait for the curve, and pick the λ of the middle."""
        self.page.locator(".chosen").wait_for()
        if "Paused" in self.status():
            self.key(" ")
        self.until(self.done)
        self.page.mouse.click(*self.at(0.5))
        self.page.wait_for_timeout(500)


def along(stage: CurveStage) -> None:
    """Drag along the curve."""
    stage.page.mouse.move(*stage.at(0.3))
    stage.page.mouse.down()
    for part in (0.32, 0.36, 0.4):
        stage.page.mouse.move(*stage.at(part))
        stage.page.wait_for_timeout(60)
    stage.page.mouse.up()


L_CURVE = (
    Act("click on the curve picks λ", lambda stage: stage.page.mouse.click(*stage.at(0.2)), CurveStage.lam),
    Act("drag along the curve", along, CurveStage.lam),
    Act("a rule gives its λ", lambda stage: stage.page.get_by_role("button", name="Discrepancy").click(),
        CurveStage.lam, sidebar=True),
    by_key("key C", "c", CurveStage.lam),
)  # fmt: skip
L_CURVE_ELSEWHERE = frozenset({" ", "s", "r", "f", "a", "n", "ctrl+z", "ctrl+shift+z"})  # tests/browser/test_l_curve.py


# -- crossover


class CrossoverStage(CrossoverPage):
    """The crossover lab on a page that is open."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Show the curves."""
        self.page.locator(".sentence").wait_for()
        self.key("1")
        self.until(self.dots)
        self.shows("Crossover")

    def program(self) -> bool:
        """Return whether the text of a program is shown."""
        return self.page.locator(".program pre").filter(visible=True).count() > 0


CROSSOVER = (
    Act("tap on a line shows its program", lambda stage: stage.tap(stage.dots()[0]["key"]), CrossoverStage.program,
        paints=False),
    by_key("key 2", "2", CrossoverStage.program, paints=False),
)  # fmt: skip
CROSSOVER_ELSEWHERE = frozenset({" ", "r", "1", "3", "4", "5"})  # tests/browser/test_crossover.py


@dataclass(frozen=True)
class LabActs:
    """The acts of one lab. stage: its page; elsewhere: keys that tests of its own try."""

    title: str
    stage: Callable[[Any, Any], Any]
    acts: Sequence[Act]
    elsewhere: frozenset[str] = frozenset()


ACTS = {
    "diffusion": LabActs("Diffusion", DiffusionStage, DIFFUSION),
    "mandelbrot": LabActs("Mandelbrot", MandelbrotStage, MANDELBROT, MANDELBROT_ELSEWHERE),
    "l_curve": LabActs("L-curve", CurveStage, L_CURVE, L_CURVE_ELSEWHERE),
    "crossover": LabActs("Crossover", CrossoverStage, CROSSOVER, CROSSOVER_ELSEWHERE),
}
