"""Typed values, recorded numbers and votes after a broken connection, a killed engine and a reload, and by a link."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_page import OPENING, LabPage, SideBar
from tests.browser.serving import Server, serve, with_spare
from tests.browser.test_audience import HOLD, PHONE, bars, choose, follow, until
from tests.browser.test_reconnect import NOISE, SOCKETS, reconnect

pytestmark = pytest.mark.extended

# The typed values by lab, group and field: none of them is a position of its slider, or rounded.
TYPED = {
    "Diffusion": {"Physics": {"Steps per frame": "7", "r": "0.2437001", "Pause at step": "91234567"}},
    "Mandelbrot": {
        "Iteration": {"Maximum iterations, typed": "1 234"},
        "Display": {"Palette offset [turns]": "0.1234"},
    },
    "L-curve": {
        "Problem": {"Growth": "3 steps per frame", "Noise ‖e‖ / ‖b‖": "0.0123"},
        "Choice of λ": {"Target ribbon width": "0.0003", "Maximum steps": "1999"},
    },
    "Crossover": {"Workload": {"n from": "1001"}, "Measure": {"Sampling budget  [s]": "0.333"}},
    "Equations": {"Physics": {"Steps per frame": "9", "F": "0.0371234", "Pause at t": "91234567.5"}},
}  # fmt: skip
REFUSED = {
    "Diffusion": ("r", "0,2", "r must be a number from 0 to 0.25, with a point before its decimals, not '0,2'"),
    "Mandelbrot": ("Palette offset [turns]", "", "Palette offset [turns] must be a number from 0 to 1, not ''"),
    "L-curve": ("Maximum steps", "NaN", "Maximum steps must be a whole number from 1 to 100000, not 'NaN'"),
    "Crossover": ("Sampling budget  [s]", "4000", "budget must be from 0.1 to 3600 s, not 4000"),
    "Equations": ("F", "0.2", "F must be from 0 to 0.1, not 0.2"),
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server whose engine the tests may kill."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield server


def words(text: str) -> str:
    """Return a text with plain spaces."""
    return " ".join(text.split())


class Fields(SideBar):
    """The typed fields of all labs in one page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def field(self, label: str) -> Any:
        """Return the visible field with this label."""
        return self.page.get_by_role("textbox", name=words(label), exact=True).first

    def open(self, lab: str) -> None:
        """Show a lab with the groups of its typed values."""
        self.page.get_by_role("tab", name=lab).click()
        self.page.locator(f"[role=tab][aria-selected=true]:has-text('{lab}')").wait_for()
        self.group(*TYPED[lab])

    def typed(self, lab: str) -> dict[str, str]:
        """Return the texts of the lab's fields."""
        labels = [label for fields in TYPED[lab].values() for label in fields]
        return {label: words(self.field(label).input_value()) for label in labels}

    def has_typed(self, lab: str) -> None:
        """Wait until the lab's fields have the typed values."""
        expected = {label: text for fields in TYPED[lab].values() for label, text in fields.items()}
        self.until(lambda: self.typed(lab) == expected)

    def address(self) -> str:
        """Return the page's address, once it does not change any more."""
        return str(self.still(lambda: self.page.url, 1.5))


def test_typed_values_outlast_a_connection_an_engine_and_a_link(own, page, allowed_errors):
    allowed_errors += NOISE
    page.add_init_script(SOCKETS)
    fields, links = Fields(page), {}
    LabPage(page, own).pause()  # a running lab changes its address
    for lab, groups in TYPED.items():
        fields.open(lab)
        for label, text in (each for typed in groups.values() for each in typed.items()):
            fields.field(label).fill(text)
            fields.field(label).press("Enter")
        if lab == "Equations":
            fields.key(" ")
            fields.until(lambda: "run=1" not in page.url)  # a busy lab writes its address late
        fields.has_typed(lab)
        links[lab] = fields.address()
    reconnect(fields)
    fields.has_typed("Equations")
    os.kill(with_spare(own).pid, signal.SIGKILL)
    page.get_by_text("SIGKILL").wait_for()
    for lab in TYPED:
        fields.open(lab)
        fields.has_typed(lab)
        label, text, why = REFUSED[lab]
        before = fields.typed(lab)[label]
        fields.field(label).fill(text)
        fields.field(label).press("Enter")
        expect(page.get_by_text(why).first).to_be_visible()
        fields.field(label).fill(before)
        fields.field(label).press("Enter")
        page.get_by_text(why).first.wait_for(state="hidden")
    for lab, link in links.items():
        page.goto(link)
        page.locator(f"[role=tab][aria-selected=true]:has-text('{lab}')").wait_for(timeout=1000 * OPENING)
        fields.group(*TYPED[lab])
        fields.has_typed(lab)
    page.goto("about:blank")


def test_recorded_numbers_outlast_a_connection_an_engine_and_a_reload(own, page, allowed_errors):
    allowed_errors += NOISE
    page.add_init_script(SOCKETS)
    page.goto(f"{own.url}?recorded=nvidia-h200")
    lab, only = Fields(page), page.get_by_text("Recorded numbers only: NVIDIA H200").locator("visible=true")
    faults: tuple[Callable[[], object], ...] = (
        lambda: None, lambda: reconnect(lab), lambda: os.kill(with_spare(own).pid, signal.SIGKILL), page.reload,
    )  # fmt: skip
    for fault in faults:
        fault()
        lab.until(only.count, OPENING)
        assert "recorded=nvidia-h200" in page.url
        assert page.get_by_role("button", name="Measure again").locator("visible=true").count() == 0
    page.get_by_role("tab", name="Crossover").click()
    lab.until(lambda: "Recorded numbers only" in lab.status())  # before, the button is that of the first tab
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    expect(page.get_by_text("Recorded numbers only: nothing is measured").first).to_be_visible()
    page.goto("about:blank")


def test_an_open_vote_outlasts_the_lecturer_s_connection_and_engine(own, page, new_page, allowed_errors):
    allowed_errors += NOISE
    page.add_init_script(SOCKETS)
    lab = LabPage(page, own)
    lab.key("q")
    page.get_by_role("button", name="Let the room follow").click()
    code = page.locator(".audience .code").inner_text()
    lab.key("q")
    phone = new_page()
    phone.set_viewport_size(PHONE)
    phone.add_init_script(f"({HOLD})()")
    follow(phone, lab, code)
    story = lab.list_stories()
    story.get_by_role("button", name="The chequerboard").click()
    choose(phone, "It fades")
    expect(story.locator(".total")).to_have_text("1 vote")
    for fault, choice in ((lambda: reconnect(lab), "It grows"), (lambda: kill(own, page), "It stays")):
        fault()
        expect(story.locator(".total")).to_have_text("1 vote")
        choose(phone, choice)
        until(phone, lambda: "Your vote is changed" in phone.locator("#vote").inner_text())
        expect(story.locator(".total")).to_have_text("1 vote")
    lab.key("y")
    lab.until(lambda: bars(story.locator(".vote")) == ["It fades 0 · 0 %", "It stays 1 · 100 %", "It grows 0 · 0 %"])
    page.goto("about:blank")


def kill(server: Server, page: Page) -> None:
    """Kill the engine, and wait until the page says so."""
    os.kill(with_spare(server).pid, signal.SIGKILL)
    page.get_by_text("SIGKILL").wait_for()
