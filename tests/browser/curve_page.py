"""Page object of the L-curve lab: reads the curve as numbers, picks points on it and sets the controls."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Error, Locator, Page

from app.labs.l_curve.controls import TEMPI
from app.labs.l_curve.problem_controls import noises
from tests.browser.lab_page import OPENING, SideBar
from tests.browser.serving import Server

FAST = list(TEMPI)[-1]  # the highest rate
MODEL = "const model = (name) => Bokeh.documents[0]?.get_model_by_name(name);"
STATE = f"""() => {{ {MODEL}
  const line = model('l-curve').data, ring = model('picked').data;
  const at = (name) => Array.from(Object.values(model(name)?.data ?? {{}})[1] ?? []);
  const picture = model('l-curve solution');
  return {{x: Array.from(line.x), y: Array.from(line.y), ring: [ring.x[0], ring.y[0]],
           solution: at('l-curve solution line'), truth: at('l-curve truth line'),
           picture: picture ? Array.from(picture.data.solution[0]).length : 0}};
}}"""
# The page coordinates of the point at a fraction of the curve.
PLACE = f"""(part) => {{ {MODEL}
  const view = Bokeh.index.find_one(model('l-curve plot')), {{x_scale, y_scale}} = view.frame;
  const line = model('l-curve').data;
  const box = view.el.getBoundingClientRect(), i = Math.round(part * (line.x.length - 1));
  return [box.x + x_scale.compute(line.x[i]), box.y + y_scale.compute(line.y[i])];
}}"""


class CurvePage(SideBar):
    """Opens the app in `page`, shows the lab, and waits until its curve is complete."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.open()

    def open(self) -> None:
        """Load the page and wait until the curve is complete."""
        self.page.goto(self.server.url)
        self.page.get_by_role("tab", name="L-curve").click()
        self.page.locator(".chosen").wait_for(timeout=1000 * OPENING)
        self.grow(FAST)
        self.until(self.done, OPENING)

    def fresh(self) -> None:
        """Restore the initial problem and settings without loading the page; load it if that fails."""
        try:
            self.page.keyboard.press("Escape")
            self.tidy()
        except (AssertionError, Error):  # the state that a failed test left
            self.open()

    def tidy(self) -> None:
        """Select the first problem, noise 0.01 and the first rule."""
        self.grow(FAST)
        if "Paused" in self.status():
            self.key(" ")
        if not self.page.get_by_label("λ selection").count():
            self.page.get_by_role("button", name="Choice of λ").click()
        if self.problem() != "Inverse heat equation":
            self.choose("Problem", "Inverse heat equation")
        self.noise("0.01")
        self.solved()
        self.page.get_by_role("button", name="Curvature").first.click()
        self.until(lambda: "rule 1" in self.lam())

    def slide(self, slider: Locator, goal: int) -> None:
        """Move a slider of whole numbers to `goal` with the keyboard."""
        slider.focus()
        while (place := int(float(slider.input_value()))) != goal:
            self.page.keyboard.press("ArrowRight" if place < goal else "ArrowLeft")
            self.until(lambda place=place: int(float(slider.input_value())) != place)

    def grow(self, tempo: str) -> None:
        """Set the growth rate of curves; the initial one, one step per frame, costs ten CPU seconds per curve."""
        slider = self.page.get_by_label("Growth").first
        self.slide(slider, list(TEMPI).index(tempo))
        self.still(slider.input_value, 0.3)  # s: longer than the 50 ms of Panel's slider throttle

    def problem(self) -> str:
        """Return the name of the selected problem."""
        return self.page.get_by_label("Problem", exact=True).inner_text().strip()

    def fact(self, name: str) -> str:
        """Return the value of `name` in the status bar, without thousands separators; "" if it is absent."""
        found = re.search(rf"{re.escape(name)} (\S+(?: \d{{3}}\b)*)", self.status())
        return found[1].replace(" ", "") if found else ""

    def done(self) -> bool:
        """Return whether the shown curve has the requested accuracy and its rules are evaluated."""
        return "Complete" in self.status()

    def solved(self) -> None:
        """Wait until the curve of the latest settings is complete: the status bar is updated a moment later."""
        self.until(lambda: self.still(lambda: (self.done(), self.state()["x"]), 0.6)[0])

    def state(self) -> dict[str, Any]:
        """Return x and y of the curve, the ring's position, solution, truth, and the picture's pixel count."""
        return self.page.evaluate(STATE)

    def lam(self) -> str:
        """Return the text above the curve: λ and the rule that chose it, or "manual"."""
        return " ".join(self.page.locator(".chosen").inner_text().split())

    def at(self, part: float) -> tuple[float, float]:
        """Return the page coordinates of a point of the curve; part: 0 for its lowest λ, 1 for its highest."""
        x, y = self.page.evaluate(PLACE, part)
        return x, y

    def noise(self, level: str) -> None:
        """Move the noise slider to `level`."""
        self.slide(self.page.get_by_label(re.compile("^Noise")).first, list(noises()).index(level))

    def give(self, label: re.Pattern[str], name: str, data: bytes) -> None:
        """Choose a file with the file chooser of this label."""
        self.choose_file(self.page.get_by_text(label), name, data)
