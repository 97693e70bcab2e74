"""Screenshots for the README, written to assets/screenshots; collected only with UPDATE_SCREENSHOTS=1.

`UPDATE_SCREENSHOTS=1 make test ARGS=tests/browser/test_screenshots.py` updates them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.browser.conftest import PROJECTOR
from tests.browser.crossover_page import CrossoverPage
from tests.browser.curve_page import CurvePage
from tests.browser.export_page import ExportPage
from tests.browser.lab_page import LabPage, SideBar
from tests.browser.serving import ROOT
from tests.browser.set_page import SetPage

FOLDER = ROOT / "assets" / "screenshots"


def take(lab: SideBar, name: str) -> None:
    """Write NAME.png once the comparison and all transitions have ended."""
    lab.until(lambda: lab.page.get_by_text("Measuring").count() == 0)
    lab.still(lab.page.locator(".readout .headline").first.inner_text, 2.5)
    lab.transitions()
    path = FOLDER / f"{name}.png"
    lab.page.screenshot(path=path, animations="disabled")
    # a palette of 256 colours is smaller, but shows bands in smooth fields
    Image.open(path).convert("RGB").save(path, optimize=True)


def take_both(lab: SideBar, name: str, pointer: tuple[float, float] = (0, 500)) -> None:
    """Write NAME.png and, in the dark scheme, NAME-dark.png, with the pointer at that place."""
    for suffix in ("", "-dark"):
        lab.page.mouse.move(*pointer)
        take(lab, name + suffix)
        lab.toggle_theme()


@pytest.mark.parametrize("viewport", [PROJECTOR], indirect=True)
def test_diffusion(page, server):
    lab = LabPage(page, server)
    lab.until(lambda: lab.step() > 1000)
    take_both(lab, "diffusion")


@pytest.mark.parametrize("viewport", [PROJECTOR], indirect=True)
def test_mandelbrot(page, server):
    lab = SetPage(page, server)
    lab.page.get_by_label("Go to Seahorses 3e5", exact=True).click()
    lab.until(lambda: lab.complete() and "zoom 3.0e5" in lab.status())
    lab.key("o")
    lab.key("j")
    take_both(lab, "mandelbrot", lab.at(0.3, 0.45))


@pytest.mark.parametrize("viewport", [PROJECTOR], indirect=True)
def test_l_curve(page, server):
    take_both(CurvePage(page, server), "l_curve")


@pytest.mark.parametrize("viewport", [(1400, 900)], indirect=True)
def test_crossover(page, server):
    lab = CrossoverPage(page, server)
    lab.type("to", "10000000")
    lab.page.get_by_role("button", name="Run", exact=True).click()
    lab.until(lambda: "Complete" in lab.status())
    lab.page.get_by_role("button", name="Run", exact=True).wait_for()
    lab.page.mouse.move(5, 5)
    take(lab, "crossover")
    lab.toggle_theme()
    lab.turn("Programs")
    lab.shows("Programs")
    take(lab, "crossover-dark")


def test_export(page, server, tmp_path: Path):
    LabPage(page, server)
    lab = ExportPage(page, tmp_path)
    lab.show("Film")
    lab.fill("Frames", 30_000)
    page.get_by_role("button", name="Make the film").click()
    lab.until(lambda: page.locator(".job.running").count() == 1)
    take(lab, "export")
    page.get_by_role("button", name="Cancel", exact=True).click()
