"""Who uses the page without a mouse, without seeing it, or without its motion: axe-core, names, words, the keyboard.

No page may have a fault that axe-core calls serious or critical. One page shows all labs and cards; in the dark scheme
only its colours are looked at again.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.axe import faults
from tests.browser.lab_page import FIELD, FRAMES, OPENING, LabPage

LABS = ("Diffusion", "Mandelbrot", "L-curve", "Crossover")
CARDS = {
    "h": ".MuiDialog-paper", "Shift+N": "table.numbers", "e": ".along", "u": ".system",
    "t": ".story", "k": ".code",
}
EVERYWHERE = """(selector) => { const found = [], walk = (root) => {
  for (const node of root.querySelectorAll('*')) {
    if (node.matches(selector)) found.push(node);
    if (node.shadowRoot) walk(node.shadowRoot);
  } };
  walk(document); return found; }"""
# What can be used now: shown, not disabled, of those that have a place in the order of the keyboard.
USABLE = f"""() => {{
  const WHAT = 'button, input, a[href], [role=combobox], [role=tab], .bk-events, [tabindex]';
  window.numbered ||= 0;
  return ({EVERYWHERE})(WHAT)
    .filter((node) => node.tabIndex >= 0 && !node.disabled && node.checkVisibility())
    .filter((node) => !node.matches('.term'))
    .map((node) => (node.seen ||= ++window.numbered, [node.seen, node.outerHTML.slice(0, 160)])); }}"""
# Who has the focus, and whether that is drawn: an outline, or a thicker or shining border, of it or of what holds it.
FOCUSED = """() => { let node = document.activeElement;
  while (node.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
  const drawn = (one) => { const style = getComputedStyle(one);
    return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 1 ||
      one.matches('.Mui-focusVisible') && style.boxShadow != 'none'; };
  let shown = drawn(node) && getComputedStyle(node).opacity > 0;
  for (let one = node, level = 0; one && level < 4; one = one.parentElement, level += 1) {
    shown ||= one.matches('.Mui-focusVisible, .Mui-focused') && (drawn(one) ||
      parseFloat(getComputedStyle(one.querySelector('fieldset') ?? one).borderTopWidth) >= 2);
  }
  return [node.seen ?? 0, shown, node.outerHTML.slice(0, 160)]; }"""


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


@pytest.fixture
def light(opened: LabPage):
    """The page that all tests of this file share: its first lab, light, with no card open."""
    scheme(opened.page, dark=False)
    show(opened, LABS[0])
    return opened


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
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    scheme(page, dark=True)
    assert found + faults(page, "color-contrast") == []


def test_no_card_and_not_the_presenters_page_has_a_serious_fault(light):
    page, found = light.page, {}
    for dark in (False, True):
        scheme(page, dark)
        for key, what in CARDS.items():
            light.key(key)
            page.locator(what).first.wait_for()
            found[key, dark] = faults(page, *(("color-contrast",) if dark else ()))
            light.key("Escape" if page.get_by_role("dialog").count() else key)
            page.locator(what).first.wait_for(state="hidden")
        light.key("p")
        page.wait_for_function("document.documentElement.classList.contains('presenter')")
        found["p", dark] = faults(page, *(("color-contrast",) if dark else ()))
        light.key("p")
    assert {where: words for where, words in found.items() if words} == {}


def test_no_race_has_a_serious_fault(light):
    page = light.page
    light.key("Shift+R")
    page.locator(".race article").first.wait_for(timeout=1000 * OPENING)
    light.until(lambda: page.locator(".race .badge.shown").count() == page.locator(".race article").count())
    found = faults(page)
    light.key("Shift+R")
    page.locator(".race article").first.wait_for(state="detached")
    assert found == []


@pytest.mark.parametrize("name", LABS)
def test_every_plot_has_a_name_and_the_lab_says_in_words_what_they_show(opened, name):
    show(opened, name)
    plots = opened.page.evaluate(
        f"({EVERYWHERE})('.bk-Figure').map((one) => [one.getAttribute('role'), one.getAttribute('aria-label')])"
    )
    assert plots
    assert all(role == "figure" and len(label) > len("Plot: ") for role, label in plots)
    assert opened.page.locator(".plot-words").first.get_attribute("aria-live") == "polite"


def test_the_words_and_the_table_have_the_numbers_of_the_picture(light):
    page = light.page
    light.pause()
    light.key("r")
    light.until(lambda: light.step() == 0)
    low, high = (page.evaluate(f"{FRAMES}.data.field_{end}[0]") for end in ("low", "high"))
    levels = page.evaluate(FIELD.format(name="field"))
    middle = low + sum(levels) / len(levels) / 254 * (high - low)
    light.until(lambda: f"mean {middle:.4g}" in spoken(page))
    light.key("Shift+N")
    table = page.locator("table.numbers").first
    table.wait_for()
    corner = float(table.locator("tbody tr").last.locator("td").first.inner_text())
    assert corner == pytest.approx(low + levels[0] / 254 * (high - low), rel=1e-3)
    page.keyboard.press("Escape")
    light.key(" ")


def test_the_keyboard_reaches_every_control_and_shows_where_it_is(light):
    page = light.page
    light.group("Field", "Physics", "Compute", "Display")
    light.pause()
    usable, reached, hidden = dict(page.evaluate(USABLE)), set(), []
    page.locator("h1").first.click()
    for _ in range(4 * len(usable)):
        page.keyboard.press("Tab")
        number, shown, html = page.evaluate(FOCUSED)
        if number and number not in reached:
            reached.add(number)
            if not shown:
                hidden.append(html)
        if usable.keys() <= reached:
            break
    light.key(" ")
    assert [html for number, html in usable.items() if number not in reached] == []
    assert hidden == []


def test_less_motion_is_given_to_who_asks_for_it(light):
    page = light.page
    parts = f"({EVERYWHERE})('.MuiAccordion-root, .MuiButtonBase-root')"
    moving = f"{parts}.map((one) => getComputedStyle(one).transitionDuration)"
    page.emulate_media(reduced_motion="no-preference")
    assert any(duration != "0s" for duration in page.evaluate(moving))
    page.emulate_media(reduced_motion="reduce")
    assert set(page.evaluate(moving)) == {"0s"}
    page.emulate_media(reduced_motion="no-preference")
