"""The fixes of Bokeh's and Panel's server that need no served page: each replaced function does what its fix says."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
from types import SimpleNamespace
from typing import Any

import bokeh.io.doc
import bokeh.server.contexts
import bokeh.server.session
import bokeh.server.tornado
import numpy as np
import panel as pn
import pytest
from bokeh import protocol
from bokeh.application.handlers import code
from bokeh.document import Document
from bokeh.document.callbacks import invoke_with_curdoc
from bokeh.events import Tap
from bokeh.models import Column, ColumnDataSource, Div
from bokeh.plotting import figure
from bokeh.protocol.messages.patch_doc import patch_doc
from bokeh.server.session import ServerSession
from bokeh.util.token import generate_session_id
from panel.io import handlers
from panel.reactive import Syncable
from tornado.ioloop import IOLoop

from app.server import browser_changes
from app.upstream import current_documents, event_pause, one_loop, whole_documents
from app.upstream.document_changes import allow_listed_changes
from app.upstream.plot_pane import PlotPane


@pytest.fixture
def current_document_per_thread(monkeypatch):
    for module in (bokeh.io.doc, code, handlers):
        monkeypatch.setattr(module, "patch_curdoc", module.patch_curdoc)  # restored afterwards
    monkeypatch.setattr(bokeh.io.doc, "_PATCHED_CURDOCS", [])
    current_documents.install()


@pytest.mark.usefixtures("current_document_per_thread")
def test_a_failing_callback_does_not_leave_its_document_current():
    mine, other = Document(), Document()

    def failing():
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        invoke_with_curdoc(other, failing)
    assert bokeh.io.curdoc() is not other
    assert invoke_with_curdoc(mine, bokeh.io.curdoc) is mine


@pytest.mark.usefixtures("current_document_per_thread")
def test_each_thread_has_its_own_current_document():
    mine, other, inside, leave = Document(), Document(), threading.Event(), threading.Event()

    def elsewhere():
        inside.set()
        leave.wait(30)

    def here():
        inside.wait(30)
        seen = bokeh.io.curdoc()
        leave.set()
        thread.join(30)
        return seen, bokeh.io.curdoc()

    thread = threading.Thread(target=invoke_with_curdoc, args=[other, elsewhere])
    thread.start()
    assert invoke_with_curdoc(mine, here) == (mine, mine)


def test_a_locked_callback_runs_in_the_thread_of_the_loop(monkeypatch):
    """With Bokeh 3.9 and 3.10, which has a pool of threads."""
    for module, name in (
        (bokeh.server.tornado, "_ServerExecutor"),
        (bokeh.server.session, "_run_in_executor"),
        (bokeh.server.contexts, "_run_in_executor"),
    ):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, getattr(module, name))
    one_loop.install()
    threads = []

    async def run():
        session = ServerSession(generate_session_id(), Document(), io_loop=IOLoop.current())
        await session.with_document_locked(lambda: threads.append(threading.current_thread()))
        return await one_loop.LoopExecutor().run(lambda number: (number, threading.current_thread()), 7)

    assert asyncio.run(run()) == (7, threading.current_thread())
    assert threads == [threading.current_thread()]


def test_a_press_is_handled_immediately_and_a_drag_twenty_times_a_second(monkeypatch):
    """Milliseconds that Panel waits after a message of a browser: each component has its own delays."""
    monkeypatch.setattr(Syncable, "_debounce", Syncable._debounce)
    now = [100.0]
    monkeypatch.setattr(event_pause, "time", SimpleNamespace(monotonic=lambda: now[0]))
    event_pause.install()
    slider, other = pn.widgets.FloatSlider(), pn.widgets.FloatSlider()

    def waits(seconds, component=slider):
        """Return the delay of a message that arrives `seconds` later."""
        now[0] += seconds
        return component._debounce

    assert waits(0) == 5
    assert [waits(0.016), waits(0.050), waits(0.049)] == [39, 39, 40]  # each is due 50 ms after the previous one
    assert waits(0.001, other) == 5
    assert waits(0.2) == 5


@pytest.mark.parametrize("times", [0, 3])
def test_a_plot_handles_events_after_its_pane_was_removed_and_added_again(times):
    plot, heard, document = figure(x_range=(0, 1)), [], Document()
    plot.on_event(Tap, lambda event: heard.append(event.x))
    plot.on_change("tags", lambda attr, old, new: heard.append(new))
    pane = PlotPane(plot)
    column = pn.Column(pane, pn.pane.Str("other"))
    column.server_doc(document)
    for _ in range(times):
        column.objects = [pn.pane.Str("another")]
        assert plot.document is None
        column.objects = [pane]
    document.callbacks.trigger_event(Tap(plot, x=0.25))
    plot.tags = ["changed"]
    assert heard == [0.25, ["changed"]]


def test_a_reply_with_a_document_contains_its_arrays(monkeypatch):
    """BokehJS drops separate buffers after a reconnect."""
    monkeypatch.setitem(protocol.SPEC, "PULL-DOC-REPLY", protocol.SPEC["PULL-DOC-REPLY"])
    whole_documents.install()
    document, x = Document(), np.arange(3.0)
    document.add_root(ColumnDataSource({"x": x}))
    reply = protocol.Protocol().create("PULL-DOC-REPLY", "7", document)
    assert (reply.header["msgtype"], reply.header["reqid"]) == ("PULL-DOC-REPLY", "7")
    assert not reply.buffers
    (root,) = json.loads(reply.content_json)["doc"]["roots"]
    ((_, column),) = root["attributes"]["data"]["entries"]
    assert gzip.decompress(base64.b64decode(column["array"]["data"])) == x.tobytes()


def test_pending_changes_are_sent_completely_although_the_browser_sends_one_meanwhile(monkeypatch):
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    monkeypatch.setattr(browser_changes, "ALLOWED", {"Div": {"text"}})
    allow_listed_changes()
    document, column, other = Document(), Column(), Div()
    document.add_root(column)
    document.add_root(other)
    document.models.flush_synced()  # as if the browser had received them
    sent: list[Any] = []
    document.on_change(lambda event: sent.extend(json.loads(patch_doc.create([event]).content_json)["events"]))
    document.hold("combine")
    first = Div(text="new")
    column.children = [first]
    document.apply_json_patch(
        {"events": [{"kind": "ModelChanged", "model": {"id": other.id}, "attr": "text", "new": "said"}]}
    )
    assert other.text == "said"
    column.children = [first, other]
    document.unhold()
    (event,) = [one for one in sent if one["attr"] == "children"]
    assert [child.get("type") for child in event["new"]] == ["object", None]
    sent.clear()
    column.children = [first]
    assert sent[0]["new"] == [{"id": first.id}]  # a known model is sent as a reference
