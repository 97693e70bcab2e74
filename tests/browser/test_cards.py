"""Keyboard use and axe-core faults of cards, race, story and dialogs; Tab reaches each control of each lab.

An opened card takes the focus, Tab moves through it and out of it, Escape closes it and restores the focus.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from app.page.explain import LABELS, WORDS
from tests.browser.axe import faults
from tests.browser.lab_page import DEEP, OPENING
from tests.browser.labs import TITLES

pytestmark = pytest.mark.extended

# All nodes of the page, including shadow trees, and the focused one.
DEEP = f"""{DEEP}
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
"""
WITHIN = f"""(selector) => {{ {DEEP}
  const up = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  for (let node = focused; node; node = up(node)) if (node.matches?.(selector)) return true;
  return false;
}}"""
FOCUSED = f"""() => {{ {DEEP}
  if (!focused || focused === document.body) return null;
  const {{x, y, width, height}} = focused.getBoundingClientRect();
  const name = focused.getAttribute('aria-label') || focused.textContent.trim() || focused.id || focused.tagName;
  const marked = (node) => {{ const style = getComputedStyle(node);
    return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow != 'none' ||
      /focus-?visible|Mui-focused/i.test(node.className); }};
  const around = [focused, focused.parentElement, focused.parentElement?.parentElement,
                  focused.parentElement?.parentElement?.parentElement].filter(Boolean);
  return {{name: name.slice(0, 60), tag: focused.tagName, number: all.indexOf(focused), x, y, width, height,
           seen: focused.checkVisibility(), marked: around.some(marked)}};
}}"""
REACHABLE = f"""() => {{ {DEEP}
  const usual = 'button, input, select, textarea, a[href], [tabindex="0"]';
  return all.filter((node) => node.matches(usual) && node.tabIndex >= 0 && !node.disabled && node.checkVisibility() &&
    !node.closest('[inert], [aria-hidden=true]') && node.getBoundingClientRect().width > 0 &&
    !node.matches('[data-focus-trap], .MuiTrapFocus')).map((node) => [all.indexOf(node),
      (node.getAttribute('aria-label') || node.textContent.trim() || node.id || node.tagName).slice(0, 60),
      node.type == 'radio' ? node.name : '']);
}}"""
DIALOG = ".MuiDialog-root"
FOCUS = f"(number) => {{ {DEEP} all[number].focus(); }}"
HEADER = 57  # px
MOST = 160  # Tab presses per page
WALKS = 3  # attempts per page


@dataclass(frozen=True)
class Over:
    """An overlay. key: opens it; seen: selector of its content; around: selector of the element around the focus."""

    key: str
    seen: str
    around: str


OVER = {
    "export": Over("e", ".along", ".export-card"),
    "system": Over("u", ".system", ".system-card"),
    "code": Over("k", ".code article", ".code-card"),
    "race": Over("Shift+R", ".race article", ".race"),
    "stories": Over("t", ".story li", ".story"),
    "audience": Over("q", ".audience", ".audience"),
    "keys": Over("h", "[role=dialog]", DIALOG),
    "numbers": Over("Shift+N", "[role=dialog] table", DIALOG),
}


@pytest.mark.parametrize("name", OVER)
def test_an_overlay_takes_the_focus_closes_on_escape_and_has_no_serious_fault(resting, name):
    page, over = resting.page, OVER[name]
    opener = page.get_by_role("button", name="About this lab")
    opener.focus()
    page.keyboard.press(over.key)
    page.locator(over.seen).first.wait_for(timeout=1000 * OPENING)
    resting.until(lambda: page.evaluate(WITHIN, over.around))
    page.keyboard.press("Tab")
    resting.until(lambda: (page.evaluate(FOCUSED) or {"seen": False})["seen"])
    found = faults(page)
    if over.around != DIALOG:  # a modal dialog blocks the page's buttons
        for _scheme in ("dark", "light"):
            resting.toggle_theme()
            found += faults(page, "color-contrast")
        page.locator(over.around).first.focus()
    page.keyboard.press("Escape")
    page.locator(over.seen).first.wait_for(state="hidden")
    resting.until(lambda: (page.evaluate(FOCUSED) or {"name": ""})["name"] == "About this lab")
    assert found == []


@pytest.mark.parametrize("name", TITLES)
def test_tab_reaches_every_control_in_order_and_leaves_the_page(opened, name):
    page = opened.page
    opened.show_lab(name)
    if "Running" in opened.status():
        opened.key(" ")
        opened.until(lambda: "Running" not in opened.status())
    for _ in range(WALKS):  # readouts replace their text, even under the focus
        met, missed = walk(page)
        if not missed:
            break
    assert missed == []
    assert [one["name"] for one in met if not one["marked"]] == []
    header = [one["y"] < HEADER for one in met]
    assert sum(a and not b for a, b in zip(header, [*header[1:], header[0]], strict=True)) == 1  # contiguous


def walk(page):
    """Press Tab through the page; return the focused elements and the names of controls that Tab skipped.

    Only controls that exist before and after the walk count: a missing name belongs to a number that has changed.
    """
    reachable = page.evaluate(REACHABLE)
    page.evaluate(FOCUS, reachable[0][0])  # the first of the page, since a click has moved the starting point of Tab
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")  # makes the browser draw focus rings, as for keyboard users
    met = []
    for _ in range(MOST):
        if (now := page.evaluate(FOCUSED)) is None:  # the end of the page
            break
        met.append(now)
        page.keyboard.press("Tab")
    else:
        pytest.fail(f"Tab leads nowhere else than {[one['name'] for one in met[-5:]]}")
    numbers, names = {one["number"] for one in met}, {one["name"] for one in met}
    groups = {group for number, _, group in reachable if group and number in numbers}  # one button per group has focus
    left = {label for _, label, _ in page.evaluate(REACHABLE)}
    return met, [label for number, label, group in reachable
                 if label in left and number not in numbers and label not in names and group not in groups]  # fmt: skip


def tip_is(resting, about):
    """Wait until the page's only tooltip shows `about`; with None, until it is hidden."""
    tip = resting.page.locator(".tip")
    if about is None:
        resting.until(lambda: not tip.is_visible())
    else:
        resting.until(lambda: tip.is_visible() and tip.text_content() == about)


def test_a_word_is_explained_under_the_pointer_and_with_the_focus(resting):
    page = resting.page
    page.get_by_role("tab", name="Diffusion").click()
    resting.until(lambda: resting.fact("heat") > 0)
    resting.unfold()
    resting.key("s")  # a timed frame: an earlier test may have left none
    page.mouse.move(0, 0)
    tip_is(resting, None)
    for word, about in {"heat": WORDS["heat"], "r": LABELS["r"], "compute": WORDS["compute"]}.items():
        term = page.locator(f"[data-term={word}]").first
        page.get_by_role("note", name=about, exact=True).first.wait_for()  # the text for screen readers
        term.hover()
        tip_is(resting, about)
        page.mouse.move(0, 0)
        tip_is(resting, None)
    term, following = page.locator("[data-term=step]").first, LABELS["r"]
    page.evaluate("document.activeElement?.blur?.()")  # focus events within a shadow tree are seen for Tab only
    term.focus()
    tip_is(resting, LABELS["step"])
    page.keyboard.press("Escape")
    tip_is(resting, None)
    expect(term).to_be_focused()
    page.keyboard.press("Tab")
    tip_is(resting, following)
    page.keyboard.press("Shift+Tab")
    tip_is(resting, LABELS["step"])
    page.get_by_role("button", name="About this lab").focus()
    tip_is(resting, None)


HOLD_PAINTING = """() => {
  window.held = [];
  window.painting = window.requestAnimationFrame;
  window.requestAnimationFrame = (callback) => held.push(callback);
}"""
PAINT = "() => { window.requestAnimationFrame = painting; for (const callback of held) callback(performance.now()); }"


def test_the_enter_key_goes_through_a_story(resting):
    page = resting.page
    page.evaluate(HOLD_PAINTING)
    page.keyboard.press("t")
    page.locator(".story li button").first.focus()  # the card takes the focus when painted, but not from its parts
    page.evaluate(PAINT)
    page.keyboard.press("Enter")
    step = page.locator(".story .progress")
    resting.until(lambda: (step.get_attribute("aria-label") or "").startswith("Step 1 of"))
    page.get_by_role("button", name="Next step").focus()
    for number in (2, 3):
        page.keyboard.press("Enter")
        resting.until(lambda number=number: (step.get_attribute("aria-label") or "").startswith(f"Step {number} of"))
    page.keyboard.press("Escape")
    step.wait_for(state="hidden")


MOVING = f"""() => {{ {DEEP}
  return all.filter((node) => node.checkVisibility()).flatMap((node) => {{
    const {{transitionDuration, animationDuration, animationName}} = getComputedStyle(node);
    const long = (durations) => Math.max(...durations.split(',').map(parseFloat)) > 0.01;
    return long(transitionDuration) || animationName != 'none' && long(animationDuration)
      ? [`${{node.tagName}}.${{String(node.className.baseVal ?? node.className).slice(0, 50)}}`] : [];
  }});
}}"""


def test_reduced_motion_stops_everything_but_the_simulation(resting):
    lab, page = resting, resting.page
    page.get_by_role("tab", name="Diffusion").click()
    lab.until(lambda: lab.fact("heat") > 0)
    lab.key(" ")
    page.emulate_media(reduced_motion="reduce")
    try:
        lab.until(lambda: page.evaluate(MOVING) == [])
        page.keyboard.press("h")
        page.get_by_role("dialog").wait_for()
        assert page.evaluate(MOVING) == []
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        before = lab.step()
        lab.until(lambda: lab.step() > before)  # the simulation continues
    finally:
        page.emulate_media(reduced_motion="no-preference")
