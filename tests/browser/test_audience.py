"""The lecturer's page, a phone that follows it, the second window, and a broken connection."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from app.features.audience.rooms import LENGTH, LETTERS
from app.tab.stream import WIDEST
from compute.export.link import link_in_query, unpacked
from tests.browser.lab_page import HIDE, PATIENCE, LabPage, SideBar

PHONE = {"width": 390, "height": 844}
NUMBER = "() => Number(document.getElementById('picture').dataset.number ?? 0)"
PICTURE = "() => document.getElementById('picture').toDataURL()"
# Records a page's WebSockets, so that a test can break them.
HOLD = """() => { const sockets = window.held = []; window.WebSocket = class extends WebSocket {
  constructor(...all) { super(...all); sockets.push(this); } }; }"""
LOSE_AND_VOTE = "(button) => { held.at(-1).close(); button.click(); return button.parentElement.innerText; }"
SMALLEST = """() => Math.min(...Array.from(document.querySelectorAll('body *'))
  .filter((node) => node.checkVisibility() && [...node.childNodes].some((one) => one.nodeType == 3 && one.data.trim()))
  .map((node) => parseFloat(getComputedStyle(node).fontSize)))"""


def until(page, condition):
    """Wait until the condition is true and return its value; followers' pages allow no polling by their own scripts."""
    return SideBar.of(page).until(condition)


def linked(phone):
    """Return the non-default values of the state behind the link "Try it yourself"."""
    text, _ = link_in_query((phone.locator("#try").get_attribute("href") or "").partition("?")[2])
    return unpacked(text).values if text else {}


@pytest.fixture
def room(opened, lasting, allowed_errors):
    """Yield the lecturer's tab, shared by the tests of this file, and the code of its room; the card is open."""
    lab, card = opened, opened.page.locator(".audience")
    begin = lab.page.get_by_role("button", name="Let the room follow")
    lab.key("q")
    begin.click()
    code = card.locator(".code").inner_text()
    assert re.fullmatch(rf"[{LETTERS}]{{{LENGTH}}}", code)
    yield lab, code
    if not card.is_visible():
        lab.key("q")
    card.get_by_role("button", name="End the room").or_(begin).wait_for()
    if not begin.is_visible():
        card.get_by_role("button", name="End the room").click()
        begin.wait_for()
    lab.key("q")
    card.wait_for(state="hidden")
    lasting.complain(allowed_errors)


@pytest.fixture
def phone(new_page):
    """Return an empty phone-sized tab whose WebSockets are recorded."""
    phone = new_page()
    phone.set_viewport_size(PHONE)
    phone.add_init_script(f"({HOLD})()")
    return phone


def follow(phone, lab, code):
    phone.goto(f"{lab.server.url.rpartition('/')[0]}/follow/{code}")
    until(phone, lambda: phone.locator("#picture").is_visible() and phone.evaluate(NUMBER))


def test_a_follower_reconnects_and_opens_the_lab_only_if_allowed_and_moves_no_focus(room, phone):
    lab, code = room
    end = lab.page.get_by_role("button", name="End the room")
    end.focus()
    button = end.element_handle()
    follow(phone, lab, code)
    lab.page.locator(".audience .count").get_by_text("1 follower").wait_for()
    assert button.evaluate("(node) => node.isConnected && node.getRootNode().activeElement === node")

    link = phone.locator("#try")
    until(phone, link.is_visible)
    box = lab.page.get_by_role("checkbox", name="Followers can open this lab")
    box.uncheck()
    until(phone, lambda: not link.is_visible())
    box.check()
    until(phone, link.is_visible)

    until(phone, lambda: phone.evaluate("held.length") == 1)
    phone.evaluate("held[0].close()")  # unexpected for the page
    until(phone, lambda: phone.evaluate("held.length") >= 2)
    shown = phone.evaluate(NUMBER)
    lab.key("r")
    until(phone, lambda: phone.evaluate(NUMBER) > shown)
    until(phone, lambda: not phone.locator("#said").is_visible())


def test_phones_continue_to_follow_a_hidden_tab(room, phone):
    lab, code = room
    follow(phone, lab, code)
    lab.page.evaluate(HIDE, True)
    try:
        before, picture = phone.evaluate(NUMBER), phone.evaluate(PICTURE)
        until(phone, lambda: phone.evaluate(NUMBER) >= before + WIDEST + 10)  # more than the frames in flight
        assert phone.evaluate(PICTURE) != picture
    finally:
        lab.page.evaluate(HIDE, False)
    lab.steps_on()


def test_a_phone_follows_a_story_leaves_and_returns(room, phone, new_page):
    lab, code = room
    lab.key("q")
    follow(phone, lab, code)
    chip = lab.page.get_by_role("button", name=f"{code} · 1 follower")
    chip.wait_for()
    until(phone, lambda: phone.locator("#lab").inner_text() == "Diffusion")
    until(phone, lambda: "r = D" in phone.locator("#values").inner_text())

    # picture and text follow the lecturer's page
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    until(phone, lambda: "Paused" in (phone.locator("#picture").get_attribute("aria-label") or ""))
    before = lab.still(lambda: phone.evaluate(PICTURE))
    lab.key("t")
    lab.page.locator(".story button", has_text="The chequerboard").click()
    until(phone, lambda: "A bump with a chequerboard" in phone.locator("#story").inner_text())
    until(phone, lambda: phone.evaluate(PICTURE) != before)
    lab.until(lambda: "Paused" in lab.status())
    lab.key("ArrowRight")
    until(phone, lambda: "it never fades" in phone.locator("#story").inner_text())
    assert phone.evaluate(SMALLEST) >= 14
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    phone.set_viewport_size({"width": 844, "height": 390})  # a rotated phone: the picture is nearly as high
    until(phone, lambda: 0.7 * 390 < phone.locator("#picture").bounding_box()["height"] <= 390)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 844
    phone.set_viewport_size(PHONE)

    # the same lab in another tab, in the same state
    until(phone, lambda: linked(phone).get("r") == 0.25)
    own = new_page()
    own.goto(phone.evaluate("document.getElementById('try').href"))
    until(own, lambda: own.locator(".status").count() and "0.250" in own.locator(".status").first.inner_text())

    # leave, and follow again
    phone.get_by_role("button", name="Leave").click()
    lab.page.get_by_role("button", name=f"{code} · 0 follow").wait_for()
    phone.get_by_role("button", name="Follow").click()
    chip.wait_for()

    # the end of the room
    lab.page.get_by_role("button", name=f"{code} · 1 follower").click()
    lab.page.get_by_role("button", name="End the room").click()
    until(phone, lambda: "The lecturer has ended the room" in phone.locator("#said").inner_text())
    phone.goto(f"{lab.server.url.rpartition('/')[0]}/follow/{code}")
    until(phone, lambda: "There is no room with this code" in phone.locator("#said").inner_text())


def choose(phone, choice):
    """Vote on a phone, and wait for the server's answer."""
    button = phone.locator("#vote").get_by_role("button", name=choice)
    until(phone, button.is_visible)
    button.click()
    until(phone, lambda: button.get_attribute("aria-pressed") == "true")


def bars(list_):
    """Return the rows of a histogram as text."""
    return [" ".join(row.split()) for row in list_.locator("li").all_inner_texts()]


def test_two_phones_vote_and_the_lecturer_counts_hands_and_shows_the_histogram(room, new_page):
    lab, code = room
    lab.key("q")
    phones = [new_page() for _ in range(2)]
    for phone in phones:
        phone.set_viewport_size(PHONE)
        phone.add_init_script(f"({HOLD})()")
        follow(phone, lab, code)
    story = lab.list_stories()
    story.get_by_role("button", name="The chequerboard").click()
    vote, total = story.locator(".vote"), story.locator(".vote .total")
    expect(total).to_have_text("No votes yet")

    choose(phones[0], "It fades")
    expect(total).to_have_text("1 vote")
    choose(phones[0], "It grows")
    until(phones[0], lambda: "Your vote is changed" in phones[0].locator("#vote").inner_text())
    choose(phones[1], "It grows")
    expect(total).to_have_text("2 votes")
    assert not vote.locator("li b").count()  # the distribution is hidden while the vote is open
    phones[1].reload()
    pressed = phones[1].locator("#vote [aria-pressed=true]")
    until(phones[1], lambda: pressed.all_inner_texts() == ["It grows"])
    buttons = phones[1].locator("#vote").get_by_role("button")
    assert "as soon as the connection is back" in buttons.filter(has_text="It stays").evaluate(LOSE_AND_VOTE)
    until(phones[1], lambda: pressed.all_inner_texts() == ["It stays"])  # the reloaded phone has the same token
    until(phones[1], lambda: "Your vote is changed" in phones[1].locator("#vote").inner_text())
    hands = vote.get_by_role("spinbutton", name="Hands for It fades")
    hands.click()
    lab.page.keyboard.type("2")
    lab.page.keyboard.press("Tab")
    expect(total).to_have_text("4 votes")
    assert phones[0].evaluate(SMALLEST) >= 14
    assert phones[0].evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    story.locator("h2").click()  # keys outside the field
    lab.key("y")
    counted = ["It fades 2 · 50 %", "It stays 1 · 25 %", "It grows 1 · 25 %"]
    lab.until(lambda: bars(vote) == counted)
    for phone in phones:
        until(phone, lambda phone=phone: bars(phone.locator("#vote")) == counted)
        assert not phone.locator("#vote button").count()
    lab.key("ArrowRight")
    for phone in phones:
        until(phone, lambda phone=phone: not phone.locator("#vote").is_visible())
    assert not vote.is_visible()
    lab.key("t")


def test_the_second_window_shows_notes_and_changes_steps(page, server):
    lab = LabPage(page, server)
    lab.key("t")
    page.locator(".story button", has_text="The chequerboard").click()
    page.locator(".story .text").wait_for()
    with page.context.expect_page() as opening:
        lab.key("w")
    window = opening.value
    window.set_default_timeout(1000 * PATIENCE)
    until(window, lambda: "Ask before you press" in window.locator("#step").inner_text())
    assert "it never fades" in window.locator("#next").inner_text()
    until(window, lambda: window.evaluate(NUMBER) > 0)
    expect(window.locator("#clock")).to_have_text(re.compile(r"\d\d:\d\d +\d+:\d\d"))
    assert "Ask before you press" not in page.locator(".story").inner_text()  # the audience does not see the notes
    assert window.get_by_role("button", name="Freeze").is_disabled()

    window.get_by_role("button", name="Next").click()
    lab.until(lambda: "it never fades" in page.locator(".story h3").inner_text())
    until(window, lambda: "2 of 4" in window.locator("#step").inner_text())
    window.keyboard.press("PageUp")
    until(window, lambda: "1 of 4" in window.locator("#step").inner_text())

    lab.key("p")
    page.get_by_role("toolbar").wait_for()
    until(window, lambda: window.get_by_role("button", name="Freeze").is_enabled())
    window.get_by_role("button", name="Freeze").click()
    until(window, lambda: window.get_by_role("button", name="Freeze").get_attribute("aria-pressed") == "true")
    lab.until(lambda: page.locator(".ice canvas").count() > 0)
