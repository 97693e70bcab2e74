"""The status bar has a word for every state."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.lab_tab import StatusBar
from app.session import Broken, Closed, Live, Moving, Opening, Restarting, Session
from compute.labs.diffusion import Diffusion


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Opening(), "Starting"),
        (Live(), "Paused"),
        (Moving("cuda:0", {}), "Moving"),
        (Restarting("killed"), "Engine restarting"),
        (Broken("killed <b>often</b>"), "Engine stopped"),
        (Closed(), "Closed"),
    ],
)
def test_every_state_has_its_word(state, words):
    session = Session(Diffusion, SimpleNamespace(add_next_tick_callback=lambda callback: None))
    bar = StatusBar(session, lambda frame: [])
    session.state = state
    assert f">{words}<" in bar.panel.object
    assert "<b>often" not in bar.panel.object
