"""The acts of each lab: its keys, the pointer on its plots, files, and buttons that have no key."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import numpy as np
from msgspec import structs
from PIL import Image

from app.labs.l_curve.controls import TEMPI
from compute.export.link import link_in_query, unpacked
from compute.labs.l_curve.problems import make
from tests.browser.acts import READOUT, SIDE_BAR, Act, both, by_key, escape, first_word, link, press, shown
from tests.browser.crossover_page import ROOFLINE, SIGNS, CrossoverPage
from tests.browser.curve_page import CurvePage
from tests.browser.export_page import DROP
from tests.browser.lab_page import ALL_MODELS, PAINTED, LabPage, SideBar
from tests.browser.set_page import SetPage
from tests.browser.test_diffusion import DRAGGED, RANGES, drag_down, middle, on_the_section, zoom_by_wheel
from tests.browser.test_mandelbrot_stage import INSET, ORBIT
from tests.browser.test_pinch import Fingers


@dataclass(frozen=True)
class LabActs:
    """The acts of one lab. stage: its page, from a page and its server; title: of its tab."""

    title: str
    stage: Callable[[Any, Any], Any]
    acts: Sequence[Act]


# -- files


def drops(**values: Any) -> Callable[[SideBar], None]:
    """Return what drops a file on the page: the scene of its link, with other values."""

    def drop(stage: SideBar) -> None:
        scene = unpacked(link_in_query(stage.page.evaluate("location.search"))[0])
        text = json.dumps(structs.replace(scene, values={**scene.values, **values}).plain())
        stage.page.evaluate(DROP, ["scene.json", "application/json", b64encode(text.encode()).decode()])

    return drop


def choose_file(stage: SideBar, name: str, data: bytes) -> None:
    """Choose a file in the first file field that the side bar shows."""
    field = stage.page.locator("nav label").filter(has=stage.page.locator("input[type=file]")).filter(visible=True)
    stage.choose_file(field, name, data)


def ramp() -> bytes:
    """Return a picture as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.add.outer(np.arange(90), np.arange(120)))).save(file, "PNG")
    return file.getvalue()


# -- clicks

HOLDS = """() => {
  window.held ??= [0, 0];
  document.addEventListener('pointerdown', () => { window.held = [performance.now(), Infinity]; }, true);
  document.addEventListener('pointerup', () => { window.held[1] = performance.now(); }, true);
}"""
LONG = 300  # ms: Bokeh takes a pointer that is down for longer for a long press


def click(stage: SideBar, x: float, y: float) -> None:
    """Click on a plot; again where the page was so busy meanwhile that it was a long press."""
    stage.page.evaluate(HOLDS)
    while True:
        stage.page.mouse.click(x, y)
        down, up = stage.page.evaluate("window.held")
        if up - down < LONG:
            return
        stage.page.wait_for_timeout(2 * LONG)  # no double click


# -- the readout of those labs that compare backends

# Counts how often the readout has said that it measures.
COUNT_MEASURING = """(readout) => {
  const root = readout.getRootNode(), says = () => /measuring/i.test(root.querySelector('.readout')?.textContent);
  let before = says();
  window.measured ??= 0;
  window.watching?.disconnect();
  window.watching = new MutationObserver(() => {
    const now = says();
    window.measured += now && !before;
    before = now;
  });
  window.watching.observe(root, {childList: true, subtree: true, characterData: true});
}"""


def measured(stage: SideBar) -> None:
    """Wait for the first timings, and count from now on how often they are discarded."""
    readout = stage.page.locator(".contextbar .readout").first
    stage.until(lambda: "measuring" not in readout.inner_text().lower())
    readout.evaluate(COUNT_MEASURING)


MEASURE_AGAIN = Act(
    "measure again", lambda stage: stage.page.locator(".contextbar button", has_text="Measure again").click(),
    lambda stage: stage.page.evaluate("window.measured"), before=measured, place=READOUT, paints=False,
    presses=("Measure again: discard the timings of these settings and take new ones",),
)  # fmt: skip


# -- diffusion

PROBE = "() => { const {x, y} = Bokeh.documents[0].get_model_by_name('probe point').data; return [x[0], y[0]]; }"
SECTION = "() => Bokeh.documents[0].get_model_by_name('section field').location"
WHOLE = [0, 512, 0, 512]


class DiffusionStage(LabPage):
    """The diffusion lab on a page that is open, paused at its start."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Pause at the start, show the whole field, and move by dragging."""
        self.until(lambda: self.status().startswith(("Running", "Paused")) and self.step() >= 0)
        self.pause_at_start()
        self.key("0")
        self.until(lambda: self.page.evaluate(RANGES) == WHOLE)


def steps_on(stage: DiffusionStage) -> None:
    """Make some steps."""
    for _ in range(3):
        at = stage.step()
        stage.key("s")
        stage.until(lambda at=at: stage.step() == at + 1)


def lost_steps(stage: DiffusionStage) -> None:
    """Make some steps, and lose them."""
    steps_on(stage)
    stage.key("r")
    stage.until(lambda: stage.step() == 0)


def found_steps(stage: DiffusionStage) -> None:
    """Make some steps, lose them, and get them back."""
    lost_steps(stage)
    stage.key("Control+z")
    stage.until(lambda: stage.step() > 0)


def zoomed(stage: DiffusionStage) -> None:
    """Zoom in."""
    if stage.page.evaluate(RANGES) == WHOLE:
        zoom_by_wheel(stage, -200, 3)
    stage.until(lambda: stage.page.evaluate(RANGES) != WHOLE)


def draws(mode: str, dx: int) -> Callable[[DiffusionStage], None]:
    """Return a stroke in that mode of the pointer, which then moves the picture again."""

    def draw(stage: DiffusionStage) -> None:
        stage.page.get_by_role("button", name=mode, exact=True).click()
        stage.until(lambda: stage.page.evaluate(DRAGGED) is None)
        x, y = middle(stage)
        stage.page.mouse.move(x + dx, y)
        stage.page.mouse.down()
        stage.page.mouse.move(x + dx + 30, y + 20, steps=5)
        stage.page.mouse.up()
        stage.page.get_by_role("button", name="Move", exact=True).click()
        stage.until(lambda: stage.page.evaluate(DRAGGED) is not None)

    return draw


def painted(stage: DiffusionStage) -> None:
    """Paint, so that there is something to erase."""
    stage.group("Field")
    before = stage.field()["number"]
    draws("Paint", 60)(stage)
    stage.until(lambda: stage.field()["number"] != before)


def drags(dx: int, dy: int) -> Callable[[Any], None]:
    """Return a drag from the middle of the picture."""

    def drag(stage: Any) -> None:
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
    """Click away from the probe."""
    x, y = middle(stage)
    click(stage, x + 50, y + 50)


def pinch(stage: Any) -> None:
    """Move two fingers apart on the picture."""
    Fingers(stage.page).pinch(*middle(stage), 20, 50)


def blow_up(stage: DiffusionStage) -> None:
    """Switch the blow-up on, and have it grow for some steps; or switch it off."""
    stage.page.get_by_text("See it blow up (r").click()


def blown_up(stage: DiffusionStage) -> object:
    """Return r, and how many pixels of the field are shown: 32 cells a side beyond the limit."""
    return stage.fact("r"), stage.field()["pixels"]


def checkpointed(stage: DiffusionStage) -> None:
    """Remember a state, and make some steps."""
    at_checkpoint(stage)
    steps_on(stage)


def at_checkpoint(stage: DiffusionStage) -> None:
    """Make some steps, and remember the state."""
    steps_on(stage)
    stage.page.get_by_label("Save checkpoint").click()


def returned(stage: DiffusionStage) -> None:
    """Return to the remembered state."""
    stage.page.get_by_label("Restore checkpoint").click()


DIFFUSION = (
    Act("click places the probe", place_probe, lambda stage: stage.page.evaluate(PROBE)),
    Act("drag moves the section", lambda stage: drag_down(stage, *on_the_section(stage)),
        lambda stage: stage.page.evaluate(SECTION)),
    Act("drag pans", drags(-40, 30), ranges_read, before=zoomed),
    Act("double click shows all", lambda stage: stage.page.mouse.dblclick(*middle(stage)), ranges_read, before=zoomed),
    Act("wheel zooms", lambda stage: zoom_by_wheel(stage, -200, 2), ranges_read),
    Act("pinch zooms", pinch, ranges_read),
    Act("paint", draws("Paint", -60), field_read, before=lambda stage: stage.group("Field"), place=SIDE_BAR,
        presses=("Paint", "Move")),
    Act("erase", draws("Erase", 60), field_read, before=painted, place=SIDE_BAR, presses=("Erase",)),
    Act("blow-up", blow_up, blown_up, before=lambda stage: stage.group("Physics"), back=blow_up, place=SIDE_BAR,
        presses=("See it blow up (r > ¼)",)),
    Act("checkpoint", both(at_checkpoint, steps_on, returned), DiffusionStage.step, place=SIDE_BAR,
        presses=("Save checkpoint",)),
    Act("back to the checkpoint", returned, DiffusionStage.step, before=checkpointed, place=SIDE_BAR,
        presses=("Restore checkpoint",)),
    Act("choose a picture", lambda stage: choose_file(stage, "ramp.png", ramp()), field_read,
        before=lambda stage: stage.group("Field"), back=press("Control+z"), place=SIDE_BAR),
    Act("drop a scene", drops(r=0.1), lambda stage: stage.fact("r"), back=drops(r=0.2), paints=False),
    by_key("key 0", "0", ranges_read, before=zoomed),
    by_key("key Home", "home", ranges_read, before=zoomed),
    by_key("key S", "s", DiffusionStage.step),
    by_key("key R", "r", DiffusionStage.step, before=steps_on),
    by_key("key L", "l", link, before=steps_on, paints=False),
    by_key("key Ctrl+Z", "ctrl+z", DiffusionStage.step, before=lost_steps),
    by_key("key Ctrl+Shift+Z", "ctrl+shift+z", DiffusionStage.step, before=found_steps),
    by_key("key Space", " ", first_word, toggles=True),
    MEASURE_AGAIN,
)  # fmt: skip


# -- Mandelbrot

# A property of the model that has it: whether a drag draws a box, how fast the palette turns.
STATE_OF = f"""(name) => {ALL_MODELS}
  .map((model) => model.attributes[name]).find((value) => value !== undefined)"""
# How many bookmarks there are.
BOOKMARKS = f"""() => {ALL_MODELS}
  .map((model) => model.data?.attributes?.items).find((items) => items?.[0]?.picture).length"""


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

    def bookmarks(self) -> object:
        """Return how many bookmarks there are."""
        return self.page.evaluate(BOOKMARKS)


def wheel(stage: MandelbrotStage) -> None:
    """Zoom in about a point."""
    stage.page.mouse.move(*stage.at(0.4, 0.6))
    stage.page.mouse.wheel(0, -300)


def moved(stage: MandelbrotStage) -> None:
    """Zoom in about a point, and wait for the picture."""
    at = stage.seen()
    wheel(stage)
    stage.until(lambda: stage.seen() != at and stage.complete())


def moved_back(stage: MandelbrotStage) -> None:
    """Zoom in, and go back."""
    moved(stage)
    stage.key("Backspace")
    stage.until(lambda: stage.complete() and stage.at_home())


def box(stage: MandelbrotStage) -> None:
    """Drag from corner to corner of a box."""
    stage.drag(stage.at(0.3, 0.3), stage.at(0.6, 0.6))


def shift_drag(stage: MandelbrotStage) -> None:
    """Draw a box with Shift."""
    stage.page.keyboard.down("Shift")
    box(stage)
    stage.page.keyboard.up("Shift")


def boxed(stage: MandelbrotStage) -> None:
    """Zoom to a box, then have the pointer move the picture again."""
    stage.page.get_by_role("button", name="Zoom to a box", exact=True).click()
    stage.until(lambda: stage.page.evaluate(STATE_OF, "boxing"))
    box(stage)
    stage.page.get_by_role("button", name="Move", exact=True).click()
    stage.until(lambda: not stage.page.evaluate(STATE_OF, "boxing"))


def tile(stage: MandelbrotStage) -> None:
    """Choose a place."""
    stage.page.get_by_label("Go to Elephant valley", exact=True).click()


def orbit(stage: MandelbrotStage) -> object:
    """Return whether an orbit is drawn."""
    return bool(stage.page.evaluate(ORBIT))


def limits(stage: MandelbrotStage) -> object:
    """Return the limits of the colours in the lab's link; None for automatic ones."""
    return unpacked(link_in_query(stage.page.evaluate("location.search"))[0]).values.get("limits")


def automatic_limits(stage: MandelbrotStage) -> None:
    """Drop limits that an earlier act has set."""
    if stage.still(lambda: limits(stage), 0.4) is not None:
        drops(limits=None)(stage)
        stage.until(lambda: limits(stage) is None and stage.complete())


def forgotten(stage: MandelbrotStage) -> None:
    """Remove a mark."""
    stage.group("Place")
    stage.page.get_by_label("Remove Mark").first.click()


MANDELBROT = (
    Act("wheel zooms", wheel, MandelbrotStage.seen),
    Act("drag pans", lambda stage: stage.drag(stage.at(0.5, 0.5), stage.at(0.35, 0.6)), MandelbrotStage.seen),
    Act("Shift and drag zooms to a box", shift_drag, MandelbrotStage.seen),
    Act("double click zooms", lambda stage: stage.page.mouse.dblclick(*stage.at(0.4, 0.6)), MandelbrotStage.seen),
    Act("pinch zooms", pinch, MandelbrotStage.seen),
    Act("a tile leads there", tile, MandelbrotStage.seen, before=lambda stage: stage.group("Place"), place=SIDE_BAR),
    Act("drag zooms to a box", boxed, lambda stage: round(stage.zoom(), 6), before=lambda stage: stage.group("Place"),
        place=SIDE_BAR, presses=("Zoom to a box", "Move")),
    # presenter mode has no room for it in this window
    Act("copy", lambda stage: stage.page.get_by_role("button", name="Copy", exact=True).click(),
        lambda stage: stage.page.evaluate("window.copied"), presses=("Copy",), place=SIDE_BAR, paints=False,
        before=lambda stage: stage.page.evaluate(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }")),
    Act("drop a scene", drops(zoom="20"), MandelbrotStage.seen),
    by_key("key Backspace", "backspace", MandelbrotStage.seen, before=moved),
    by_key("key Ctrl+Z", "ctrl+z", MandelbrotStage.seen, before=moved),
    by_key("key Shift+Backspace", "shift+backspace", MandelbrotStage.seen, before=moved_back),
    by_key("key Ctrl+Shift+Z", "ctrl+shift+z", MandelbrotStage.seen, before=moved_back),
    by_key("key 0", "0", MandelbrotStage.seen, before=moved),
    *(by_key(f"key {key}", key, MandelbrotStage.seen) for key in ("arrowleft", "arrowright", "arrowup", "arrowdown")),
    *(by_key(f"key {key}", key, MandelbrotStage.seen) for key in ("+", "=", "-")),
    by_key("key Space", " ", first_word, toggles=True, paints=False),
    by_key("key O", "o", orbit, toggles=True, paints=False),
    by_key("key J", "j", lambda stage: stage.page.evaluate(INSET), toggles=True, paints=False),
    by_key("key A", "a", lambda stage: "area of the set" in stage.status(), toggles=True, paints=False),
    by_key("key C", "c", lambda stage: stage.page.evaluate(STATE_OF, "speed"), toggles=True),
    by_key("key L", "l", limits, before=both(automatic_limits, moved), back=drops(limits=None), paints=False),
    by_key("key G", "g", shown("[role=dialog]", has_text="Go to coordinates"), back=escape, paints=False,
           presses=("Go to …",)),
    by_key("key M", "m", MandelbrotStage.bookmarks, presses=("Mark",), paints=False),
    MEASURE_AGAIN,
)  # fmt: skip


# -- L-curve

PACE = "20 steps per frame"  # the curve is drawn some times on its way, within a second
# Whether a solution is drawn that was kept.
KEPT = f"""() => {ALL_MODELS}
  .some((model) => model.type == 'GlyphRenderer' && model.data_source.name == 'l-curve kept line' && model.visible)"""


class CurveStage(CurvePage):
    """The L-curve lab on a page that is open, its curve complete."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Wait for the curve, and pick the λ of the middle."""
        self.page.locator(".chosen").wait_for()
        if "Paused" in self.status():
            self.key(" ")
        if not self.done():
            self.set_pace()
        self.until(self.done)
        click(self, *self.at(0.5))
        self.until(lambda: "chosen by hand" in self.lam())

    def set_pace(self) -> None:
        """Have the curve grow at PACE, by the slider of the side bar or of presenter mode's bar."""
        dial = self.page.locator(".bar .dial")
        if not dial.is_visible():
            self.grow(PACE)
            return
        dial.locator("select").select_option(label="Growth")
        dial.locator("input").fill(str(list(TEMPI).index(PACE)))
        self.until(lambda: dial.locator("output").inner_text() == PACE)

    def floor(self) -> float:
        """Return the decades of the least residual, which the noise bounds."""
        return round(log10(min(self.state()["x"])), 1)

    def goal(self) -> str:
        """Return the width of the ribbons to reach, as the status bar says it."""
        return self.status().partition(" of ")[2].split()[0]

    def steps(self) -> int:
        """Return the steps done."""
        found = re.search(r"step ([\d ]+)", self.status())
        return int(found[1].replace(" ", "")) if found else -1


def along(stage: CurveStage) -> None:
    """Drag along the curve."""
    stage.page.mouse.move(*stage.at(0.3))
    stage.page.mouse.down()
    for part in (0.32, 0.36, 0.4):
        stage.page.mouse.move(*stage.at(part))
        stage.page.evaluate(PAINTED)
    stage.page.mouse.up()


def paused_early(stage: CurveStage) -> None:
    """Begin the curve again, and pause on its way."""
    stage.key("r")
    stage.key(" ")
    stage.until(lambda: "Paused" in stage.status())


def other_problem(stage: CurveStage) -> None:
    """Choose another problem, whose undo brings the first back."""
    stage.group("Problem")
    stage.choose("Problem", "Gravity survey")
    stage.solved()


def own_problem(stage: CurveStage) -> None:
    """Choose one's own A and b, whose files are still to come."""
    stage.group("Problem")
    stage.choose("Problem", "Own A and b")


def own_files(stage: CurveStage) -> None:
    """Choose a file that holds both."""
    matrix, rhs, _ = make("shaw", n=20)
    file = io.BytesIO()
    np.savez_compressed(file, A=matrix, b=rhs)
    choose_file(stage, "shaw.npz", file.getvalue())


L_CURVE = (
    Act("click on the curve picks λ", lambda stage: click(stage, *stage.at(0.2)), CurveStage.lam),
    Act("drag along the curve", along, CurveStage.lam),
    Act("choose a file", own_files, lambda stage: len(stage.state()["solution"]), before=own_problem,
        back=press("Control+z"), place=SIDE_BAR),
    Act("drop a scene", drops(noise=0.1), CurveStage.floor, back=drops(noise=0.01)),
    by_key("key C", "c", CurveStage.lam),
    by_key("key Space", " ", first_word, toggles=True, paints=False),
    by_key("key S", "s", CurveStage.steps, before=paused_early),
    by_key("key R", "r", CurveStage.steps),
    by_key("key F", "f", CurveStage.goal, paints=False),
    by_key("key A", "a", lambda stage: stage.lam()[0], toggles=True),
    by_key("key N", "n", lambda stage: stage.page.evaluate(KEPT), toggles=True, paints=False),
    by_key("key Ctrl+Z", "ctrl+z", CurveStage.problem, before=other_problem, place=SIDE_BAR),
    by_key("key Ctrl+Shift+Z", "ctrl+shift+z", CurveStage.problem, place=SIDE_BAR,
           before=both(other_problem, press("Control+z"), CurveStage.solved), back=press("Control+z")),
    MEASURE_AGAIN,
)  # fmt: skip


# -- crossover

VIEWS = ("Crossover", "Programs", "Roofline", "Traps", "Claims checked")


class CrossoverStage(CrossoverPage):
    """The crossover lab on a page that is open."""

    def __init__(self, page: Any, server: Any) -> None:
        self.page, self.server = page, server

    def ready(self) -> None:
        """Show the curves, and measure nothing."""
        if self.running():
            self.key(" ")
        self.until(lambda: not self.running())
        self.key("1")
        self.until(self.dots)
        self.shows("Crossover")

    def view(self) -> object:
        """Return which view is shown."""
        return [view for view, sign in SIGNS.items() if shown(sign)(self)], self.page.evaluate(ROOFLINE)

    def running(self) -> bool:
        """Return whether something is being measured."""
        return "Running" in self.status()


def dismissed(stage: SideBar) -> None:
    """Close the notes."""
    notes = stage.page.locator("[role=alert]").filter(visible=True)
    while notes.count():
        notes.first.get_by_role("button").click()
        stage.transitions()


def tap(stage: CrossoverStage) -> None:
    """Tap a line."""
    stage.tap(stage.dots()[0]["key"])


CROSSOVER = (
    Act("tap on a line shows its program", tap, CrossoverStage.view, paints=False),
    Act("drop a scene", drops(workload="quadratic"), lambda stage: "quadratic" in stage.status(),
        back=drops(workload="add_one")),
    by_key("key Space", " ", CrossoverStage.running, toggles=True, paints=False),
    by_key("key R", "r", CrossoverStage.running, back=press(" "), paints=False),
    by_key("key Shift+R", "shift+r", shown("[role=alert]", has_text="No race here"), before=dismissed, paints=False),
    by_key("key 1", "1", CrossoverStage.view, before=press("2"), presses=("Crossover",), paints=False),
    *(by_key(f"key {number}", str(number), CrossoverStage.view, presses=(view,), paints=False)
      for number, view in enumerate(VIEWS[1:], 2)),
)  # fmt: skip


ACTS = {
    "diffusion": LabActs("Diffusion", DiffusionStage, DIFFUSION),
    "mandelbrot": LabActs("Mandelbrot", MandelbrotStage, MANDELBROT),
    "l_curve": LabActs("L-curve", CurveStage, L_CURVE),
    "crossover": LabActs("Crossover", CrossoverStage, CROSSOVER),
}
