"""Every act of every lab, in several situations, changes the page's state and its pixels.

By default two situations are tested, each with half of a lab's acts; the acts of the page and its controls are divided
among the labs and situations. FIELDLAB_ALL_ACTS=1 tests all acts in all situations. Each test prints its row of the
table, labs x acts x situations.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Error

from compute.labs import LABS
from tests.browser import test_reconnect
from tests.browser.acts import BAR, HEADER, MAIN, PAGE, PRESENTER, READOUT, SIDE_BAR, Act, by_control, dials, perform
from tests.browser.lab_acts import ACTS
from tests.browser.lab_page import ALL_MODELS, SideBar
from tests.browser.serving import Server, serve, with_spare
from tests.browser.test_reconnect import NOISE, SOCKETS

pytestmark = pytest.mark.extended

# The keys that the page reports to its server.
REPORTED = f"""() => {ALL_MODELS}
  .map((model) => model.data?.attributes?.wanted).find((keys) => keys)"""


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server whose engine may be killed."""
    with serve(tmp_path_factory.mktemp("acts")) as server:
        yield server


class Tab(SideBar):
    """A page that shows one lab."""

    def __init__(self, new_page: Callable[[], Any], server: Server, title: str) -> None:
        self.new_page, self.server, self.title = new_page, server, title
        self.page = self.opened()

    def opened(self) -> Any:
        """Return another page that shows the lab."""
        self.page = self.new_page()
        self.page.add_init_script(SOCKETS)
        self.page.goto(self.server.url)
        self.page.locator("[role=tab]").first.wait_for()
        self.show()
        return self.page

    def show(self, title: str = "") -> None:
        """Show a lab, and wait until it is drawn and the page handles keys."""
        self.show_lab(title or self.title)
        self.drawn()


def first_visit(tab: Tab) -> None:
    """Leave the page as it was opened."""


def change_of_tab(tab: Tab) -> None:
    """Show another lab, then return to this one."""
    tab.show("Diffusion" if tab.title != "Diffusion" else "Mandelbrot")
    tab.show()


def reload(tab: Tab) -> None:
    """Reload the page, whose address holds its state."""
    tab.page.reload()
    tab.page.locator("[role=tab]").first.wait_for()
    tab.show()


def reconnect(tab: Tab) -> None:
    """Break the connection, and wait for the next."""
    test_reconnect.reconnect(tab)


def restart_of_the_engine(tab: Tab) -> None:
    """Kill the engine; the next one continues."""
    worker = with_spare(tab.server)
    worker.send_signal(signal.SIGKILL)
    tab.until(lambda: with_spare(tab.server).pid != worker.pid)


def presenter_mode(tab: Tab) -> None:
    """Enter presenter mode, which hides the side bars."""
    tab.key("p")
    tab.page.get_by_role("toolbar").wait_for()
    tab.page.locator(".contextbar").wait_for(state="hidden")


def open_card(tab: Tab) -> None:
    """Open the system card and leave it open."""
    tab.key("u")
    tab.page.locator(".system-card").filter(visible=True).first.wait_for()


def second_page(tab: Tab) -> None:
    """Use another page of the same browser."""
    tab.opened()


FAST = (change_of_tab, reload)
ALL = (first_visit, change_of_tab, reload, reconnect, restart_of_the_engine, presenter_mode, open_card, second_page)
SITUATIONS = ALL if os.environ.get("FIELDLAB_ALL_ACTS") == "1" else FAST
PLACES = {presenter_mode: (MAIN, HEADER, BAR), open_card: (MAIN, HEADER, SIDE_BAR)}  # a card lies over the readout
EVERYWHERE = (MAIN, HEADER, SIDE_BAR, READOUT)


def acts_of(stage: SideBar, lab: str, situation: Callable[[Tab], None]) -> tuple[list[Act], list[Act], list[str]]:
    """Return the lab's acts, the acts of its page and of the controls found there, and the keys without an act."""
    presenting, places = situation is presenter_mode, PLACES.get(situation, EVERYWHERE)
    keys = {act.key for act in ACTS[lab].acts if act.key}
    page = [act for act in PAGE if act.key not in keys]
    known = [*ACTS[lab].acts, *page, *(PRESENTER if presenting else ())]
    acts = [act for act in known if not act.place or act.place in places]
    controls = [act for place in places for act in by_control(stage, place, known)]
    reported = stage.still(lambda: set(stage.page.evaluate(REPORTED)))
    missing = [f"the key {key!r} has no act" for key in sorted(reported - {act.key for act in known})]
    mine, others = ([act for act in acts if (act in ACTS[lab].acts) is own] for own in (True, False))
    return mine, others + controls + (dials(stage) if presenting else []), missing


@pytest.mark.timeout(1800)  # s: all acts of a lab take two minutes, and each failure two more
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("lab", ACTS)
def test_every_act_has_its_effect(lab, situation, new_page, own_server, allowed_errors):
    allowed_errors += NOISE
    known = ACTS[lab]
    tab = Tab(new_page, own_server, known.title)
    situation(tab)
    stage = known.stage(tab.page, own_server)
    stage.ready()
    mine, others, failed = acts_of(stage, lab, situation)
    if SITUATIONS is FAST:
        turn = FAST.index(situation)
        mine = mine[turn :: len(FAST)]
        others = others[list(ACTS).index(lab) * len(FAST) + turn :: len(ACTS) * len(FAST)]
    began, done = time.monotonic(), []
    for act in mine + others:
        try:
            stage.ready()
            perform(stage, act)
            done.append(act.name)
        except (AssertionError, Error) as error:
            failed.append(f"{act.name}: {str(error)[:200]}")
    print(f"{lab}, {situation.__name__}: {len(done)} acts, {time.monotonic() - began:.0f} s: {', '.join(done)}")
    assert not failed, f"{lab}, after {situation.__name__}:\n" + "\n".join(failed)


def test_every_lab_has_its_acts():
    assert set(ACTS) == {lab.LAB for lab in LABS}
