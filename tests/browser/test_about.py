"""The About dialog on a phone: its equations fit, are legible, and are MathML for screen readers."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import LabPage
from tests.browser.labs import TITLES

pytestmark = pytest.mark.extended

PHONE, SMALLEST = (390, 844), 14  # px
# For each equation: [width, available width, font size of its smallest sign] in px.
SET = """(equations) => equations.map((math) => {
  const signs = Array.from(math.querySelectorAll('*')).filter((one) => !one.children.length && one.textContent.trim());
  return [math.getBoundingClientRect().width, math.parentElement.clientWidth,
    Math.min(...signs.map((one) => parseFloat(getComputedStyle(one).fontSize)))];
})"""


@pytest.fixture
def phone(opened: LabPage, lasting, allowed_errors):
    with opened.sized(PHONE):
        yield opened
    lasting.complain(allowed_errors)


@pytest.mark.parametrize("name", TITLES)
def test_equations_fit_and_can_be_read(phone, name):
    page = phone.page
    phone.show_lab(name)
    page.get_by_role("button", name="About this lab").click()
    paper = page.get_by_role("dialog").filter(has_text=f"About {name}")
    paper.get_by_text("In a nutshell").wait_for()
    equations = paper.get_by_role("math")
    found = equations.evaluate_all(SET)
    assert len(found) >= 4
    assert [width for width, room, _ in found if width > room] == []
    assert min(size for *_, size in found) >= SMALLEST
    assert paper.locator("pre", has_text="\\").count() == 0  # LaTeX that was not converted
    page.keyboard.press("Escape")
    paper.wait_for(state="detached")
