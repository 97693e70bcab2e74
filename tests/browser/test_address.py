"""The address bar contains the state: reload, Back and Forward restore it."""

from __future__ import annotations

import pytest

from compute.export.link import DISPLAY, link_in_query, text_in_query, unpacked
from tests.browser.lab_page import OPENING, LabPage

PRESET = "Initial field"


def query(lab):
    return lab.page.evaluate("location.search")


def preset(lab):
    return lab.page.get_by_role("combobox", name=PRESET, exact=True).inner_text()


def address_of(lab, step):
    """Return the address once it encodes the paused field at this step."""

    def current():
        text, runs = link_in_query(query(lab))
        return not runs and unpacked(text).steps == step and query(lab)

    return lab.until(current)


def test_reload_back_and_forward_restore_the_state(page, server):
    lab = LabPage(page, server)
    lab.until(lambda: "run=1" in query(lab))
    lab.pause()
    spots = lab.step()
    address_of(lab, spots)
    entries = page.evaluate("history.length")
    lab.choose(PRESET, "ring")
    lab.until(lambda: page.evaluate("history.length") == entries + 1)
    lab.page.get_by_role("slider", name="r = D Δt / Δx²").first.focus()
    page.keyboard.press("ArrowLeft")
    lab.key("s")
    lab.until(lambda: (lab.step(), lab.fact("r")) == (1, 0.195))
    ring, field = address_of(lab, 1), lab.field()
    assert page.evaluate("history.length") == entries + 1  # a slider and a step add no entry

    page.reload()
    lab.until(lambda: preset(lab) == "ring" and lab.step() == 1 and lab.fact("r") == 0.195, OPENING)
    lab.until(lambda: {**lab.field(), "number": 0} == {**field, "number": 0})
    assert "Paused" in lab.status()
    assert address_of(lab, 1) == ring

    page.go_back()
    lab.until(lambda: preset(lab) == "hot spots" and lab.step() == spots, OPENING)
    page.go_forward()
    lab.until(lambda: preset(lab) == "ring" and lab.step() == 1, OPENING)

    page.get_by_role("tab", name="L-curve").click()
    lab.until(lambda: "ribbon" in lab.status(), OPENING)
    lab.until(lambda: query(lab) != ring)
    page.go_back()
    lab.until(lambda: "heat" in lab.status())
    lab.until(lambda: query(lab) == ring)
    assert lab.step() == 1

    page.evaluate("history.pushState(null, '', '?scene=1.zzz<b>'); history.pushState(null, '', '?x'); history.back()")
    page.get_by_text("The address cannot be shown: this link is damaged.").wait_for()
    lab.until(lambda: query(lab) == ring)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("title", "group", "label", "key", "text"),
    [
        ("Mandelbrot", "Explain", "Orbit of the point under the pointer (O)", "o", '{"orbit":true}'),
        ("L-curve", "Choice of λ", "Show α = λ²", "a", '{"alpha":true}'),
        ("Equations", "Display", "Show the editor (F)", "f", '{"editor":false}'),
    ],
)
def test_display_settings_outlast_a_reload(page, server, title, group, label, key, text):
    lab = LabPage(page, server)
    lab.show_lab(title)
    lab.key(key)
    lab.until(lambda: text_in_query(query(lab), DISPLAY) == text)
    page.reload()
    lab.drawn()
    lab.group(group)
    switch = page.get_by_label(label).first
    lab.until(lambda: switch.is_checked() == ("true" in text), OPENING)  # the lab's own values are shown at first
    lab.key(key)
    lab.until(lambda: DISPLAY not in query(lab))


def test_invalid_display_settings_of_an_address_are_told_as_text(page, server):
    lab = LabPage(page, server)
    lab.show_lab("L-curve")
    lab.until(lambda: "scene=" in query(lab))
    page.goto(f"{page.url.partition('&')[0]}&display=%7B%22alpha%22:%22%3Cb%3Eyes%22%7D")
    lab.drawn()
    page.get_by_text("The display settings are left as before: alpha must be true or false, not '<b>yes'.").wait_for()
