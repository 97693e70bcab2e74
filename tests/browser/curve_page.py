"""A tab with the L-curve lab in it, as a test uses it: the curve in numbers, and the hand on it."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Error, Page

from app.labs.l_curve.controls import TEMPI
from app.labs.l_curve.problem_controls import noises
from tests.browser.lab_page import OPENING, SideBar
from tests.browser.serving import Server

FAST = list(TEMPI)[-1]  # as fast as it goes
MODEL = "const model = (name) => Bokeh.documents[0]?.get_model_by_name(name);"
STATE = f"""() => {{ {MODEL}
  const line = model('l-curve').data, ring = model('picked').data;
  const at = (name) => Array.from(Object.values(model(name)?.data ?? {{}})[1] ?? []);
  const picture = model('l-curve solution');
  return {{x: Array.from(line.x), y: Array.from(line.y), ring: [ring.x[0], ring.y[0]],
           solution: at('l-curve solution line'), truth: at('l-curve truth line'),
           picture: picture ? Array.from(picture.data.solution[0]).length : 0}};
}}"""
# The place on the page of a part of the curve.
PLACE = f"""(part) => {{ {MODEL}
  const view = Bokeh.index.find_one(model('l-curve plot')), {{x_scale, y_scale}} = view.frame;
  const line = model('l-curve').data;
  const box = view.el.getBoundingClientRect(), i = Math.round(part * (line.x.length - 1));
  return [box.x + x_scale.compute(line.x[i]), box.y + y_scale.compute(line.y[i])];
}}"""
# How long from the last press of the pointer, or of a key, until another solution was painted; how many there were.
WATCH = f"""() => {{ {MODEL}
  window.began = performance.now(); window.painted = []; window.steps = [];
  if (window.watching) return;
  window.watching = true;
  const press = () => {{ window.began = performance.now(); window.painted = []; }};
  document.addEventListener('pointerdown', press, true);
  model('l-curve solution line').properties.data.change.connect(() => requestAnimationFrame(() => {{
    const {{port1, port2}} = new MessageChannel();
    port1.onmessage = () => window.painted.push(performance.now() - window.began);
    port2.postMessage(0);
  }}));
  model('l-curve').properties.data.change.connect(() => window.steps.push(Array.from(model('l-curve').data.y)));
}}"""


class CurvePage(SideBar):
    """Opens the app in `page`, shows the lab, and waits until its curve is done."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.open()

    def open(self) -> None:
        """Load the page."""
        self.page.goto(self.server.url)
        self.page.get_by_role("tab", name="L-curve").click()
        self.page.locator(".chosen").wait_for(timeout=1000 * OPENING)
        self.grow(FAST)
        self.until(self.done, OPENING)
        self.watch()

    def fresh(self) -> None:
        """The first problem as it was at first, without loading the page; it is loaded if that fails."""
        try:
            self.page.keyboard.press("Escape")
            self.tidy()
        except (AssertionError, Error):  # of a test that failed
            self.open()

    def tidy(self) -> None:
        """The first problem and noise, and the first rule's λ."""
        self.grow(FAST)
        if "Paused" in self.status():
            self.key(" ")
        if not self.page.get_by_label("λ chosen by").count():
            self.page.get_by_role("button", name="Choice of λ").click()
        if self.problem() != "Inverse heat equation":
            self.choose("Problem", "Inverse heat equation")
        self.noise("0.01")
        self.solved()
        self.page.get_by_role("button", name="Curvature").first.click()
        self.until(lambda: "rule 1" in self.lam())
        self.watch()

    def grow(self, tempo: str) -> None:
        """Have curves grow at that pace: one step a frame, as at first, takes ten seconds of a processor a curve."""
        slider = self.page.get_by_label("Growth").first
        slider.focus()
        goal, moved = list(TEMPI).index(tempo), False
        while (place := int(float(slider.input_value()))) != goal:
            self.page.keyboard.press("ArrowRight" if place < goal else "ArrowLeft")
            self.page.wait_for_timeout(30)
            moved = True
        if moved:
            self.page.wait_for_timeout(300)  # Panel collects a slider's values for 50

    def problem(self) -> str:
        """What is chosen."""
        return self.page.get_by_label("Problem", exact=True).inner_text().strip()

    def watch(self) -> None:
        """Note from now on what is painted."""
        self.page.evaluate(WATCH)

    def fact(self, name: str) -> str:
        """What the status bar says of `name`, thousands without their spaces; "" if nothing."""
        found = re.search(rf"{re.escape(name)} (\S+(?: \d{{3}}\b)*)", self.status())
        return found[1].replace(" ", "") if found else ""

    def done(self) -> bool:
        """Whether the curve that is shown is as exact as was asked for, and its rules are worked out."""
        return "Complete" in self.status()

    def solved(self) -> None:
        """Wait until the curve of what was chosen last is done: the status bar is written a moment later."""
        self.until(lambda: self.still(lambda: (self.done(), self.state()["x"]), 0.6)[0])

    def state(self) -> dict[str, Any]:
        """x and y of the curve, the ring's place, the solution and the truth, the pixels of its picture."""
        return self.page.evaluate(STATE)

    def lam(self) -> str:
        """λ as the line above the curve says it, and whose it is."""
        return " ".join(self.page.locator(".chosen").inner_text().split())

    def at(self, part: float) -> tuple[float, float]:
        """The place on the page of a part of the curve: 0 its lowest λ, 1 its highest."""
        x, y = self.page.evaluate(PLACE, part)
        return x, y

    def painted(self) -> list[float]:
        """ms after the last press of every solution since."""
        return self.page.evaluate("window.painted")

    def field(self, label: str) -> Any:
        """A text field."""
        return self.page.get_by_label(label, exact=True).first

    def type(self, label: str, text: str) -> None:
        """Type into a field."""
        self.field(label).fill(text)
        self.field(label).press("Enter")

    def noise(self, level: str) -> None:
        """Move the noise slider to the level with these words, one after the other."""
        slider = self.page.get_by_label(re.compile("^Noise")).first
        slider.focus()
        goal = list(noises()).index(level)
        while (place := int(float(slider.input_value()))) != goal:
            self.page.keyboard.press("ArrowRight" if place < goal else "ArrowLeft")
            self.page.wait_for_timeout(30)

    def give(self, label: re.Pattern[str], name: str, data: bytes) -> None:
        """Choose a file."""
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_text(label).first.click()
        chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})
