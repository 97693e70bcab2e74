"""Properties that a browser reports, including forged values, and the ends of its connections."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest

from app.page.browser import Browser
from app.page.page import Page


@pytest.fixture
def heard():
    return []


@pytest.fixture
def browser(heard):
    browser = Browser(heard.append, lambda *told: heard.append(told), heard.append, heard.append, heard.append)
    browser.wanted = ["a"]
    return browser


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ({"width": 1280.9, "height": 720.5}, (1280, 720)),
        ({"width": nan, "height": nan}, (320, 240)),
        ({"width": inf, "height": -inf}, (8192, 240)),
        ({"width": 10**400, "height": -(10**400)}, (8192, 240)),
        ({"width": "wide", "height": 9}, None),
        ({"width": 9}, None),
        ([], None),
        ({"key": np.array(["a", "b"])}, None),
        ({"key": ["a"]}, None),
    ],
)
def test_a_window_has_a_size_within_bounds_whatever_is_said(browser, heard, said, size):
    browser._handle_msg(said)
    assert heard == ([] if size is None else [size])


@pytest.mark.parametrize(("said", "preferred"), [(True, [True]), (False, [False]), ("yes", []), (1, [])])
def test_the_preferred_colour_scheme_is_dark_or_light(browser, heard, said, preferred):
    browser._handle_msg({"dark": said})
    assert heard == preferred


def test_features_refresh_at_once_after_a_key_of_the_lab():
    seen: list[str] = []
    feature = SimpleNamespace(keys={"f": lambda: seen.append("feature")}, ticked=lambda: seen.append("refreshed"))
    page = SimpleNamespace(
        labs=SimpleNamespace(defer=lambda _: False), browser=SimpleNamespace(card=""), _cards={}, features=[feature],
        current=SimpleNamespace(press=seen.append), _ticked=feature.ticked,
    )  # fmt: skip
    page.press = partial(Page.press, page)
    page.press("f")
    page.press("s")
    assert seen == ["feature", "s", "refreshed"]


def test_an_old_connection_that_ends_late_hides_no_page():
    """The page is notified of the end of a connection while another one shows it."""
    shown, session = [], SimpleNamespace(connection_count=1)
    part = SimpleNamespace(show=shown.append, connected=shown.append, rests=False)
    document = SimpleNamespace(session_context=SimpleNamespace(session=session))
    page = SimpleNamespace(document=document, current=part, features=[part])
    Page._connected(page, False)
    assert shown == []
    session.connection_count = 0
    Page._connected(page, False)
    assert shown == [False, False]
    part.rests = True
    Page._connected(page, True)
    assert shown == [False, False, True, False]  # the lab rests while racers run
