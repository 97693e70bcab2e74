"""Who runs through the tabs while labs compute gets the last one, and no error on the way."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import LabPage

GROUPS = {"Diffusion": "Physics", "Mandelbrot": "Place", "L-curve": "Problem", "Crossover": "Workload"}


@pytest.fixture
def lab(page, server) -> LabPage:
    return LabPage(page, server)


def test_running_through_the_tabs_shows_the_last_one(lab) -> None:
    """An error on the page, such as a reference that is not known, fails this test by the fixture of pages."""
    lab.until(lambda: lab.step() > 20)
    names = list(GROUPS)
    for turn in range(12):
        lab.page.get_by_role("tab", name=names[(3 * turn + 1) % 4]).click()
        lab.page.wait_for_timeout((0, 40, 250, 900)[turn % 4])
    for name in ("Mandelbrot", "Diffusion"):
        lab.page.get_by_role("tab", name=name).click()
        lab.page.get_by_role("button", name=GROUPS[name]).first.wait_for()
    before = lab.step()
    lab.until(lambda: lab.step() > before + 20)
    assert "Running" in lab.status()
