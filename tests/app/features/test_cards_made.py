"""Cards that the builder's thread makes: shown when they are ready, unless they were closed before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from bokeh.document import Document

from app.features.code.code_panel import CodePanel
from app.features.export.card import ExportCard
from app.server.builder import Builder
from app.tab.lab_tab import LabTab
from compute.labs import LABS


@pytest.fixture
def turns(monkeypatch):
    """Return the list of changes requested from the builder, none of which is started."""
    asked = []
    monkeypatch.setattr(Builder, "queue_or_call", lambda self, document, change: asked.append(change))
    return asked


@pytest.fixture(params=[CodePanel, ExportCard], ids=["code", "export"])
def card(request):
    document = Document()
    card = request.param(SimpleNamespace(document=document))
    tab = LabTab(LABS[0], document, (1280, 720))
    card.shown(tab)
    yield card
    if card.open:
        card.toggle()
    tab.close()


def test_a_card_that_was_closed_before_it_was_made_stays_closed(card, turns):
    card.toggle()
    card.toggle()
    turns.pop()()
    assert not card.card.visible


def test_a_card_that_was_opened_twice_before_it_was_made_is_made_once(card, turns):
    for _ in range(3):
        card.toggle()
    first, second = turns
    first()
    made = list(card.card.objects)
    second()
    assert card.card.visible
    assert card.card.objects == made


def test_a_card_is_shown_when_it_is_made_and_at_once_from_then_on(card, turns):
    card.toggle()
    assert not card.card.visible
    turns.pop()()
    assert card.card.visible
    assert card.card.objects
    card.toggle()
    assert not card.card.visible
    card.toggle()
    assert card.card.visible
    assert not turns
