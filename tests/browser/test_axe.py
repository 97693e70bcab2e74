"""Every lab and its About, light and dark, as axe-core sees it.

No page may have a fault that axe-core calls serious or critical. One page shows all labs; in the dark scheme only its
colours are looked at again.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.axe import faults
from tests.browser.lab_page import OPENING, LabPage

LABS = ("Diffusion", "Mandelbrot", "L-curve", "Crossover")
# What a dialog's text stands on: a colour, and what lies over it.
GROUND = "(node) => { const style = getComputedStyle(node); return [style.backgroundColor, style.backgroundImage]; }"
INK = "(node) => getComputedStyle(node).color"


def show(lab: LabPage, name: str) -> None:
    """Show that lab's tab, and wait until it is drawn and has something to show."""
    page = lab.page
    page.get_by_role("tab", name=name).click()
    page.locator(f"[role=tab][aria-selected=true]:has-text('{name}')").wait_for()
    lab.until(lambda: name in spoken(page), OPENING)


def spoken(page: Page) -> str:
    """The words for the plots of the lab that is shown; "" before there are some."""
    words = page.locator(".plot-words")
    return " ".join(words.first.text_content().split()) if words.count() else ""


def scheme(page: Page, dark: bool) -> None:
    """Choose the scheme, and wait until the page has its colours."""
    wanted = "dark" if dark else "light"
    if page.evaluate("document.documentElement.dataset.theme") != wanted:
        page.get_by_role("button", name="Toggle theme").click()
        page.wait_for_function(f"document.documentElement.dataset.theme == '{wanted}'")
    page.wait_for_timeout(600)  # colours fade into each other


@pytest.mark.parametrize("name", LABS)
def test_no_lab_has_a_serious_fault_in_either_scheme(opened, name):
    page = opened.page
    show(opened, name)
    scheme(page, dark=False)
    groups = [button.inner_text().strip() for button in page.locator("nav button[aria-expanded]").all()]
    opened.group(*groups)
    found = faults(page)
    page.get_by_role("button", name="About this lab").click()
    page.get_by_role("dialog").wait_for()
    found += faults(page)
    assert page.get_by_role("dialog").locator(".equation math").count() >= 4
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    scheme(page, dark=True)
    found += faults(page, "color-contrast")
    page.get_by_role("button", name="About this lab").click()
    paper = page.get_by_role("dialog")
    paper.wait_for()
    seen = [*paper.evaluate(GROUND), paper.get_by_role("button", name="close").evaluate(INK)]
    page.keyboard.press("Escape")
    paper.wait_for(state="detached")
    assert found == []
    dark = ["rgb(17, 26, 34)", "none", "rgb(233, 239, 243)"]  # the paper that the colours of text are chosen for
    assert seen == dark
