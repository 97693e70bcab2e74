"""Every lab and its About dialog, in both schemes, and every other page of the app, checked with axe-core.

No page may have a fault that axe-core rates as serious or critical. One page shows all labs; in the dark scheme only
colour contrast is checked again.
"""

from __future__ import annotations

import pytest
from jinja2 import Template
from playwright.sync_api import Page

from app.server.admission import PAGE, server_full
from app.server.login import PAGE as LOGIN
from tests.browser.axe import faults
from tests.browser.conftest import LAPTOP
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.labs import TITLES
from tests.browser.layout import resize

pytestmark = pytest.mark.extended

NO_READOUT, PHONE = (1024, 768), (390, 844)
# The background behind a dialog's text: its colour and image.
GROUND = "(node) => { const style = getComputedStyle(node); return [style.backgroundColor, style.backgroundImage]; }"
INK = "(node) => getComputedStyle(node).color"


def show(lab: LabPage, name: str) -> None:
    """Select a lab's tab, and wait until it is drawn and has content."""
    page = lab.page
    page.get_by_role("tab", name=name).click()
    page.locator(f"[role=tab][aria-selected=true]:has-text('{name}')").wait_for()
    lab.until(lambda: name in spoken(page), OPENING)


def spoken(page: Page) -> str:
    """Return the text alternative of the plots of the current lab; "" before it exists."""
    words = page.locator(".plot-words")
    return " ".join(words.first.text_content().split()) if words.count() else ""


def scheme(page: Page, dark: bool) -> None:
    """Select a scheme, and wait until the page has its colours."""
    wanted = "dark" if dark else "light"
    if page.evaluate("document.documentElement.dataset.scheme") != wanted:
        page.get_by_role("button", name="Toggle theme").click()
        page.wait_for_function(f"document.documentElement.dataset.scheme == '{wanted}'")
    page.wait_for_timeout(1500)  # colours fade; the transition is slower on a busy machine


@pytest.mark.parametrize("name", TITLES)
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
    dark = ["rgb(17, 26, 34)", "none", "rgb(233, 239, 243)"]  # the paper colour for which text colours are chosen
    assert seen == dark


@pytest.mark.parametrize("name", TITLES)
def test_nor_in_a_small_window_or_in_presenter_mode(opened, name):
    """A window without the right column, a phone, and the presenter's bar; the bar also in dark colours."""
    page = opened.page
    show(opened, name)
    scheme(page, dark=False)
    found = {}
    try:
        for size in (NO_READOUT, PHONE):
            resize(page, *size)
            page.locator(".bar .headline").wait_for()
            found[size] = faults(page)
        resize(page, *LAPTOP)
        opened.key("p")
        page.locator(".bar.presenting .headline").wait_for()
        found["presenter mode"] = faults(page)
        scheme(page, dark=True)
        found["presenter mode, dark"] = faults(page, "color-contrast")
    finally:
        if page.locator(".bar.presenting").count():
            opened.key("p")
        resize(page, *LAPTOP)
    assert [(where, faulty) for where, faulty in found.items() if faulty] == []


@pytest.mark.parametrize("level", ["none", "minimal"])
def test_nor_in_a_frame_of_a_slide(opened, lasting, allowed_errors, level):
    page = lasting()
    page.set_viewport_size({"width": 640, "height": 480})
    page.goto(f"{opened.server.url}?ui={level}")
    page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
    found = faults(page)
    page.close()
    lasting.pages.remove(page)
    lasting.complain(allowed_errors)
    assert found == []


def test_nor_in_a_story_its_notes_and_the_page_of_who_follows_it(opened, lasting, allowed_errors):
    """A step next to the lab, the lecturer's second window, and a phone."""
    page, found = opened.page, {}
    show(opened, "Diffusion")
    scheme(page, dark=False)
    opened.key("t")
    page.locator(".story button", has_text="The chequerboard").click()
    page.locator(".story .text").wait_for()
    found["step"] = faults(page)
    with page.context.expect_page() as opening:
        opened.key("w")
    window = opening.value
    window.locator("#step h3").first.wait_for()
    found["second window"] = faults(window)
    window.close()
    opened.key("q")
    page.get_by_role("button", name="Let the room follow").click()
    code = page.locator(".audience .code").inner_text()
    phone = lasting()
    phone.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    phone.goto(f"{opened.server.url.rpartition('/')[0]}/follow/")
    phone.get_by_label("Code of the room").wait_for()
    found["code"] = faults(phone)
    phone.goto(f"{opened.server.url.rpartition('/')[0]}/follow/{code}")
    phone.locator("#try").wait_for()
    found["follower"] = faults(phone)
    phone.emulate_media(color_scheme="dark")
    found["follower, dark"] = faults(phone, "color-contrast")
    phone.close()
    lasting.pages.remove(phone)
    page.get_by_role("button", name="End the room").click()
    page.get_by_role("button", name="Let the room follow").wait_for()
    opened.key("q")
    opened.key("t")
    lasting.complain(allowed_errors)
    assert [(where, faulty) for where, faulty in found.items() if faulty] == []


LOGIN_FORMS = ("login", False), ("login", True), ("logout", False)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nor_where_somebody_waits_outside(page, dark):
    """The login page with and without an error, and the page shown when every seat is taken."""
    page.emulate_media(color_scheme="dark" if dark else "light")
    login = Template(LOGIN.read_text(encoding="utf-8"))
    title, words = server_full(4, "Then reload this page.")
    found = []
    forms = [login.render(form=form, endpoint=form, asked="", error=error) for form, error in LOGIN_FORMS]
    for html in (*forms, PAGE.format(title=title, words=words)):
        page.set_content(html)
        found += faults(page)
    assert found == []
