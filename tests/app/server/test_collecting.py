"""Full garbage collections, which block the loop of all tabs: rare, and triggered by closed tabs."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace

import panel.io.document
import pytest
from bokeh.application import Application
from bokeh.application.handlers.document_lifecycle import DocumentLifecycleHandler
from bokeh.document import Document

from app.server.free_loop import Collector


@pytest.fixture
def collections():
    """Yield the list of full collections, extended as they start."""
    begun = []

    def note(phase, info):
        if phase == "start" and info["generation"] == 2:
            begun.append(info)

    gc.callbacks.append(note)
    gc.disable()  # no automatic collection interferes
    yield begun
    gc.enable()
    gc.callbacks.remove(note)


@pytest.fixture
def installed(monkeypatch):
    """Yield (collector, handler) of an application in which sessions end; four pages are open."""
    monkeypatch.setattr(panel.io.document, "_garbage_collect", panel.io.document._garbage_collect)
    before = gc.get_threshold()
    collector, handler = Collector(lambda: 4), DocumentLifecycleHandler()
    collector.install(Application(handler))
    yield collector, handler
    gc.set_threshold(*before)


def end_of_session(handler, *callbacks):
    document = Document()
    for callback in callbacks:
        document.on_session_destroyed(callback)
    context = SimpleNamespace(_document=document)
    asyncio.run(handler.on_session_destroyed(context))
    return context


def test_the_end_of_a_session_calls_its_callbacks_without_a_collection(installed, collections, caplog):
    called = []

    def first(session_context):
        called.append(session_context)

    def bad(session_context):
        raise RuntimeError("on purpose")

    context = end_of_session(installed[1], first, bad)
    assert called == [context]
    assert "on purpose" in caplog.text
    assert not context._document.session_destroyed_callbacks
    assert not collections


def test_closed_pages_are_collected_once_they_are_a_quarter_of_the_open_ones(monkeypatch, collections):
    pages = 8
    collector = Collector(lambda: pages)
    panel_looks = collector.look
    panel_looks()
    assert not collections  # no session has ended
    collector.ended = 1
    panel_looks()
    assert not collections
    collector.ended = 2
    panel_looks()
    assert len(collections) == 1
    panel_looks()
    assert len(collections) == 1
    collector.ended, pages = 1, 0
    panel_looks()
    assert len(collections) == 2


def test_panels_own_collection_is_replaced(installed, collections):
    _, handler = installed
    panel.io.document._garbage_collect()
    assert not collections
    end_of_session(handler, lambda session_context: None)
    panel.io.document._garbage_collect()
    assert len(collections) == 1
    assert gc.get_threshold()[2] > 100
