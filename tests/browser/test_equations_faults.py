"""The equations lab after a broken connection, and after its engine was killed: no control and no state is lost."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from compute.labs.equations.presets import presets
from tests.browser.lab_page import SETTINGS
from tests.browser.serving import serve, with_spare
from tests.browser.test_equations import CURVE, EquationsPage
from tests.browser.test_equations_features import squares
from tests.browser.test_reconnect import NOISE, SOCKETS, reconnect

pytestmark = pytest.mark.extended

TEXT = presets()["gray_scott"].text.replace("dt = 1\n", "dt = 0.5\n") + "wall = 0.5 - image\nwall: zero-flux\n"


def seen(lab: EquationsPage) -> dict[str, Any]:
    """Return what the page shows of the lab, without the numbers of its steps."""
    page = lab.page
    shown = page.get_by_text("Shown: all of its 64 × 64 pixels")
    headings, curve = page.locator("h2:visible").all_inner_texts(), page.evaluate(CURVE)
    return {"text": lab.text.input_value(), "image": shown.count(), "headings": headings, "curve": curve and curve[0]}


def settings(lab: EquationsPage) -> dict[str, Any]:
    """Return the values of all controls by label; other labs' controls exist until a reconnection."""
    return {label: value for _, label, value in lab.page.evaluate(SETTINGS)}


def test_controls_and_state_outlast_a_connection_and_an_engine(tmp_path, page, allowed_errors):
    allowed_errors += NOISE
    page.add_init_script(SOCKETS)
    with serve(tmp_path) as server:
        lab = EquationsPage(page, server)
        lab.text.fill(TEXT)
        lab.text.press("Control+Enter")
        lab.choose_file(page.get_by_text(re.compile(r"Image \[")), "squares.png", squares())
        page.get_by_text("Shown: all of its 64 × 64 pixels").wait_for()
        lab.group("Field", "Physics", "Compute", "Display")
        lab.choose("Second panel", "Profile")
        lab.choose("Section", "Column, along y")
        lab.choose("Plotted quantity", "v")
        lab.type("Pause at t", "1e7")
        box = page.get_by_role("figure", name="Picture: u").first.bounding_box()
        page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
        undo = page.get_by_role("button", name="Undo").first
        lab.until(undo.is_enabled)
        before, controls = lab.still(lambda: seen(lab), 3), settings(lab)

        def continues(step: int) -> bool:
            return lab.step() > step and seen(lab) == before and settings(lab).items() <= controls.items()

        step = lab.step()
        reconnect(lab)
        lab.until(lambda: continues(step))
        assert undo.is_enabled()
        step = lab.step()
        os.kill(with_spare(server).pid, signal.SIGKILL)
        page.get_by_text("SIGKILL").wait_for()
        lab.until(lambda: continues(step))
        lab.until(lambda: "earlier fields are lost with the engine" in undo.get_attribute("aria-label"))
        page.goto("about:blank")
