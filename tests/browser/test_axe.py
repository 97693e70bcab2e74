"""Every lab and its About dialog, in both schemes, and every other page of the app, checked with axe-core.

No page may have a fault that axe-core rates as serious or critical. One page shows all labs; in the dark scheme only
colour contrast is checked again.
"""

from __future__ import annotations

import pytest
from jinja2 import Template

from app.server.admission import PAGE, server_full
from app.server.login import PAGE as LOGIN
from tests.browser.axe import faults
from tests.browser.conftest import LAPTOP
from tests.browser.lab_page import OPENING, LabPage
from tests.browser.labs import TITLES
from tests.browser.layout import resize

pytestmark = pytest.mark.extended

NO_READOUT, PHONE = (1024, 768), (390, 844)


def scheme(lab: LabPage, dark: bool) -> None:
    """Select a scheme, and wait until the page has its colours."""
    if (lab.page.evaluate("document.documentElement.dataset.scheme") == "dark") is not dark:
        lab.toggle_theme()


@pytest.mark.parametrize("name", TITLES)
def test_no_lab_has_a_serious_fault_in_either_scheme(opened, name):
    page = opened.page
    opened.show_lab(name)
    scheme(opened, dark=False)
    groups = [button.inner_text().strip() for button in page.locator("nav button[aria-expanded]").all()]
    opened.group(*groups)
    found = faults(page)
    page.get_by_role("button", name="About this lab").click()
    page.get_by_role("dialog").wait_for()
    found += faults(page)
    assert page.get_by_role("dialog").locator(".equation math").count() >= 4
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    scheme(opened, dark=True)
    found += faults(page, "color-contrast")
    assert found == []


@pytest.mark.parametrize("name", TITLES)
def test_small_windows_and_presenter_mode_have_no_serious_fault(opened, name):
    """A window without the right column, a phone, and the presenter's bar; the bar also in dark colours."""
    page = opened.page
    opened.show_lab(name)
    scheme(opened, dark=False)
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
        scheme(opened, dark=True)
        found["presenter mode, dark"] = faults(page, "color-contrast")
    finally:
        if page.locator(".bar.presenting").count():
            opened.key("p")
        resize(page, *LAPTOP)
    assert [(where, faulty) for where, faulty in found.items() if faulty] == []


@pytest.mark.parametrize("level", ["none", "minimal"])
def test_a_frame_of_a_slide_has_no_serious_fault(server, page, level):
    page.set_viewport_size({"width": 640, "height": 480})
    page.goto(f"{server.url}?ui={level}")
    page.locator(".plot-words").first.wait_for(state="attached", timeout=1000 * OPENING)
    found = faults(page)
    assert found == []


def test_stories_notes_and_followers_pages_have_no_serious_fault(opened, new_page, lasting, allowed_errors):
    """A step next to the lab, the lecturer's second window, and a phone."""
    page, found = opened.page, {}
    opened.show_lab("Diffusion")
    scheme(opened, dark=False)
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
    phone = new_page()
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
    page.get_by_role("button", name="End the room").click()
    page.get_by_role("button", name="Let the room follow").wait_for()
    opened.key("q")
    opened.key("t")
    lasting.complain(allowed_errors)
    assert [(where, faulty) for where, faulty in found.items() if faulty] == []


LOGIN_FORMS = ("login", False), ("login", True), ("logout", False)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_login_and_full_server_pages_have_no_serious_fault(page, dark):
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
