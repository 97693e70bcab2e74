"""The page on unpatched Panel and Bokeh (FIELDLAB_FIXES=none): slower, but complete."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import LabPage
from tests.browser.labs import GROUPS
from tests.browser.serving import serve


@pytest.fixture(scope="module")
def lab(tmp_path_factory, lasting):
    with serve(tmp_path_factory.mktemp("stock"), environ={"FIELDLAB_FIXES": "none"}) as server:
        yield LabPage(lasting(), server)
        lasting.close()
    lasting.complain([])


def test_a_page_without_fixes_computes_and_shows_every_lab(lab) -> None:
    """The fixture fails this test if the page logs an error."""
    lab.frames_on(5)
    lab.ratio(0.1)
    lab.until(lambda: lab.fact("r") == 0.1)
    for name, group in reversed(GROUPS.items()):
        lab.page.get_by_role("tab", name=name).click()
        lab.page.get_by_role("button", name=group).first.wait_for()
        lab.until(lambda: "Starting" not in lab.status())
    lab.frames_on(5)
    assert lab.fact("r") == 0.1
