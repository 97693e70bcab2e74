"""A lab from a folder outside this repository has a tab like any other; a broken one is reported and has no effect."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from compute.__main__ import OK, main
from compute.lab.plugins import VARIABLE
from tests.browser.lab_page import ALL_MODELS, OPENING, LabPage
from tests.browser.serving import serve
from tests.compute.lab.test_plugins import folder

pytestmark = pytest.mark.extended

SETUP = Path(__file__).with_name("patient_setup.py")
PICTURE = f"""() => {{
  const models = {ALL_MODELS};
  const frames = models.find((one) => one.name == 'frames' && one.data.displacement?.length);
  return frames ? Array.from(frames.data.displacement[0]).reduce((sum, one) => (31 * sum + one) % 1000003, 7) : null;
}}"""
SLIDERS = ("Courant number C = c Δt / Δx", "Damping d Δt")


def test_a_lab_from_a_folder_is_shown_runs_and_can_be_controlled(page, tmp_path, wave_folder):
    (tmp_path / "broken").mkdir()
    odd = folder(tmp_path, "odd")
    (odd / "parts.py").write_text("PARTS = None", encoding="utf-8")
    assert main(["new", "heat_wave", "--to", str(tmp_path)]) == OK
    folders = os.pathsep.join(map(str, (tmp_path / "broken", odd, wave_folder, tmp_path / "heat_wave")))
    with serve(tmp_path, ("--setup", str(SETUP)), {VARIABLE: folders}) as server:
        lab = LabPage(page, server)
        page.get_by_text("The lab broken is not there: it has no lab.py").wait_for()
        page.get_by_role("tab", name="Odd").click()
        page.get_by_text("The lab odd cannot be shown: AttributeError").wait_for()
        step = lab.step()
        lab.until(lambda: lab.step() > step)
        page.get_by_role("tab", name="Heat wave").click()
        step = lab.step()
        lab.until(lambda: lab.step() > step and lab.fact("mean") > 0)
        page.get_by_role("tab", name="Wave", exact=True).click()
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
        page.close()
