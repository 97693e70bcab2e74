"""A lab from a folder outside this repository has a tab like any other; a broken one is reported and has no effect."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from compute.lab.plugins import VARIABLE
from tests.browser.conftest import LAPTOP
from tests.browser.lab_page import ALL_MODELS, OPENING, LabPage
from tests.browser.layout import comes, resize
from tests.browser.serving import serve
from tests.compute.lab.test_plugins import folder

pytestmark = pytest.mark.extended

SETUP = Path(__file__).with_name("patient_setup.py")
PICTURE = f"""() => {{
  const models = {ALL_MODELS};
  const frames = models.find((one) => one.name == 'frames' && one.data.displacement?.length);
  return frames ? Array.from(frames.data.displacement[0]).reduce((sum, one) => (31 * sum + one) % 1000003, 7) : null;
}}"""
FINE = """
import numpy as np, param
from compute.lab.lab import Lab
class Fine(Lab):
    TITLE = "Fine"
    feed = param.Number(default=0.037, bounds=(0.01, 0.1), step=0.0005, label="Feed rate F")
    tiny = param.Number(default=2e-7, bounds=(0, 1e-6), label="Tiny")
    def begin(self): return {"u": np.eye(96, 128), "v": np.ones((96, 128))}
    def advance(self, steps=1):
        with self.stepping(steps) as done: self.kernels.step(self.arrays["u"], steps)
        return done.timing
    def frame(self, view=None, pixels=(512, 512)):
        return self.framed({name: self.raster(name, view, pixels) for name in ("u", "v")}, {})
"""
FIGURES = """() => { const found = [], walk = (root) => root.querySelectorAll('*').forEach((one) => {
  if (one.shadowRoot) walk(one.shadowRoot);
  const {left, top, right, bottom} = one.getBoundingClientRect();
  if (one.classList.contains('bk-Figure') && right > left) found.push([left, top, right, bottom]); });
  walk(document); return found; }"""
SIZES = ((1440, 900), (1280, 720), (800, 600), (390, 844), (844, 390))  # px of windows
SLIDERS = ("Courant number C = c Δt / Δx", "Damping d Δt")


def test_a_lab_from_a_folder_is_shown_runs_and_can_be_controlled(page, tmp_path, wave_folder):
    (tmp_path / "broken").mkdir()
    odd = folder(tmp_path, "odd")
    (odd / "parts.py").write_text("PARTS = None", encoding="utf-8")
    fine = folder(tmp_path, "fine", FINE)
    folders = os.pathsep.join(map(str, (tmp_path / "broken", odd, fine, wave_folder)))
    with serve(tmp_path, ("--setup", str(SETUP)), {VARIABLE: folders}) as server:
        lab = LabPage(page, server)
        page.get_by_text("The lab broken is not there: it has no lab.py").wait_for()
        page.get_by_role("tab", name="Odd").click()
        page.get_by_text("The lab odd cannot be shown: AttributeError").wait_for()
        step = lab.step()
        lab.until(lambda: lab.step() > step)
        page.get_by_role("tab", name="Wave").click()
        for label in SLIDERS:
            page.get_by_label(label).first.wait_for()
        lab.until(lambda: lab.fact("energy") > 0)
        first = lab.until(lambda: page.evaluate(PICTURE))
        lab.until(lambda: page.evaluate(PICTURE) != first)
        compared = re.compile(r"(\d.*×|fast).*Numba (over|than|and) NumPy")  # either may be faster
        page.locator(".headline").filter(has_text=compared).first.wait_for()
        lab.key("Shift+R")  # the race's subprocess loads the plugin lab for the race only
        page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
        assert page.locator(".race h3").all_inner_texts()[:2] == ["NumPy", "Numba"]
        lab.until(lambda: page.locator(".race .badge.shown").count() == 2)
        assert "agrees" in page.locator(".race").inner_text()
        page.keyboard.press("Shift+R")
        page.locator(".race article").first.wait_for(state="detached")
        page.get_by_label(SLIDERS[1]).first.focus()
        page.keyboard.press("End")
        lab.until(lambda: 0 <= lab.fact("energy") < 1e-9)
        lab.key("r")
        lab.key(" ")
        lab.until(lambda: "Paused" in lab.status())
        two_pictures_and_small_steps(lab)
        page.close()


def two_pictures_and_small_steps(lab):
    """Check that two pictures fit into each window, and that a slider's digits follow its step."""
    page = lab.page
    page.get_by_role("tab", name="Fine").click()
    feed = page.get_by_role("slider", name="Feed rate F").first
    feed.wait_for()
    assert feed.get_attribute("aria-valuetext") == "0.0370"
    for _ in range(3):
        feed.press("ArrowRight")
    lab.until(lambda: feed.get_attribute("aria-valuetext") == "0.0385")
    tiny = page.get_by_role("slider", name="Tiny").first
    assert tiny.get_attribute("aria-valuetext") == "2.000e-7"
    lab.until(lambda: len(page.evaluate(FIGURES)) == 2)
    try:
        for size in SIZES:
            resize(page, *size)
            assert comes(page, lambda size=size: fit(page.evaluate(FIGURES), *size)), (size, page.evaluate(FIGURES))
    finally:
        resize(page, *LAPTOP)


def fit(figures, width, height):
    """Return whether there are two figures, both inside the window and without overlap."""
    if len(figures) != 2:
        return False
    (_, _, right, bottom), (left, top, _, _) = figures
    inside = all(a >= 0 and b >= 0 and c <= width and d <= height for a, b, c, d in figures)
    return inside and (right <= left or bottom <= top)
