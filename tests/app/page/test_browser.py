"""Properties that a browser reports, including forged values."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from app.page.browser import Browser


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ({"width": 1280, "height": 720}, (1280, 720)),
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
def test_a_window_has_a_size_within_bounds_whatever_is_said(said, size):
    heard = []
    browser = Browser(heard.append, lambda *told: heard.append(told), heard.append, heard.append, heard.append)
    browser.wanted = ["a"]
    browser._handle_msg(said)
    assert heard == ([] if size is None else [size])


@pytest.mark.parametrize(("said", "preferred"), [(True, [True]), (False, [False]), ("yes", []), (1, [])])
def test_the_systems_scheme_is_dark_or_not_whatever_is_said(said, preferred):
    heard = []
    browser = Browser(print, print, print, print, heard.append)
    browser._handle_msg({"dark": said})
    assert heard == preferred
