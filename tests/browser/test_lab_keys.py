"""Each lab's keys and pointer work after another lab was shown and after a reload: both replace its plots' models."""

from __future__ import annotations

import pytest

from tests.browser.crossover_page import CrossoverPage
from tests.browser.curve_page import FAST, CurvePage
from tests.browser.lab_page import ALL_MODELS, LabPage
from tests.browser.labs import TITLES
from tests.browser.set_page import SetPage
from tests.browser.test_diffusion import RANGES, WHOLE, zoom_by_wheel

pytestmark = pytest.mark.extended

# Whether the L-curve lab draws a solution that was kept.
KEPT = f"""() => {ALL_MODELS}
  .some((model) => model.type == 'GlyphRenderer' && model.data_source.name == 'l-curve kept line' && model.visible)"""


def step_and_reset(page):
    """Pause the lab, go one step on and back to the start by keys; return the page."""
    lab = LabPage.of(page)
    lab.until(lambda: lab.status().startswith(("Running", "Paused")))
    lab.pause_at_start()
    lab.key("s")
    lab.until(lambda: lab.step() == 1)
    lab.key("r")
    lab.until(lambda: lab.step() == 0)
    return lab


def use_diffusion(page):
    lab = step_and_reset(page)
    lab.key("Control+z")
    lab.until(lambda: lab.step() == 1)
    zoom_by_wheel(lab, -200, 3)
    lab.until(lambda: page.evaluate(RANGES) != WHOLE)
    lab.key("0")
    lab.until(lambda: page.evaluate(RANGES) == WHOLE)


def use_mandelbrot(page):
    lab = SetPage.of(page)
    lab.until(lab.complete)
    lab.key("0")
    lab.until(lambda: lab.complete() and lab.at_home())
    page.mouse.move(*lab.at(0.4, 0.6))
    page.mouse.wheel(0, -300)
    lab.until(lambda: lab.complete() and not lab.at_home())
    lab.key("Control+z")
    lab.until(lab.at_home)
    lab.key("+")
    lab.until(lambda: not lab.at_home())
    lab.group("Place")
    page.get_by_role("button", name="Zoom to a box", exact=True).click()
    lab.until(lambda: page.evaluate(f"{ALL_MODELS}.some((model) => model.attributes.boxing)"))
    zoom = lab.zoom()
    lab.drag(lab.at(0.3, 0.3), lab.at(0.6, 0.6))
    lab.until(lambda: lab.zoom() > 2 * zoom)
    page.get_by_role("button", name="Move", exact=True).click()


def use_l_curve(page):
    lab = CurvePage.of(page)
    lab.grow(FAST)
    lab.until(lab.done)
    page.mouse.click(*lab.at(0.2))
    lab.until(lambda: "manual" in lab.lam())
    lab.key("c")
    lab.until(lambda: "rule" in lab.lam())
    for kept in (True, False):
        lab.key("n")
        lab.until(lambda kept=kept: page.evaluate(KEPT) is kept)
    lab.group("Problem")
    before = lab.problem()
    lab.choose("Problem", "Gravity survey")
    lab.solved()
    lab.key("Control+z")
    lab.until(lambda: lab.problem() == before)


def use_crossover(page):
    lab = CrossoverPage.of(page)
    lab.key("1")
    lab.shows("Crossover")
    lab.tap(lab.until(lab.dots)[0]["key"])
    lab.shows("Programs")
    lab.key("4")
    lab.shows("Traps")


USES = {
    "Diffusion": use_diffusion, "Mandelbrot": use_mandelbrot, "L-curve": use_l_curve, "Crossover": use_crossover,
    "Equations": step_and_reset,
}  # fmt: skip


@pytest.mark.parametrize("name", TITLES)
def test_keys_and_pointer_work_after_a_change_of_tab_and_a_reload(page, server, name):
    lab = LabPage(page, server)
    for shown in (name, "Mandelbrot" if name == "Diffusion" else "Diffusion", name):
        lab.show_lab(shown)
    USES[name](page)
    page.reload()
    lab.drawn()
    page.locator(f"[role=tab][aria-selected=true]:has-text('{name}')").wait_for()
    if name in ("Diffusion", "Equations"):  # the link's state may arrive after the first actions, and replace theirs
        page.get_by_text("Restored").first.wait_for()
    USES[name](page)
