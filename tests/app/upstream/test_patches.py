"""The changes of one callback are one message, equal to Bokeh's own, written immediately."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent
from bokeh.document.models import DocumentModelManager
from bokeh.models import Column, ColumnDataSource, Div
from bokeh.protocol.message import Message
from bokeh.protocol.messages.patch_doc import patch_doc

from app.upstream.patches import LeanPatch
from tests.app.served_page import CLIENT, run_script

CHANGES = (
    CLIENT
    + """
import socket
import panel as pn
from bokeh.models import Div
from bokeh.server.views.ws import WSHandler
from app.upstream import patches

patches.install()
handlers = []
opened_before = WSHandler.open

def noted(handler):
    handlers.append(handler)
    return opened_before(handler)

WSHandler.open = noted

def page():
    first, second = Div(name="first"), Div(name="second")
    def change():
        first.text += "a"
        second.text += "b"
        first.text += "c"
    def heard(attr, old, new):
        second.text = str(new)
    first.on_change("height", heard)
    for div in (first, second):
        pn.state.curdoc.add_root(div)
    pn.state.curdoc.add_periodic_callback(change, 300)

async def main():
    send, message, ask = await opened(page)
    await message()
    _, reply = await ask("1", "PULL-DOC-REQ", {})
    names = {root["id"]: root["attributes"].get("name") for root in reply["doc"]["roots"]}
    (first,) = [model for model, name in names.items() if name == "first"]
    messages = [await message()]
    await send("2", "PATCH-DOC", changed({"id": first}, "height", 7))
    while messages[-1][0].get("reqid") != "2":
        messages.append(await message())
    patches = [[(names[event["model"]["id"]], event["attr"], event["new"]) for event in content["events"]]
               for header, content in messages if header["msgtype"] == "PATCH-DOC"]
    sockets = [handler.ws_connection.stream.socket for handler in handlers]
    delays = [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for each in sockets]
    print(json.dumps([patches, delays]))

asyncio.run(main())
"""
)


def test_the_changes_of_a_callback_are_one_message_sent_immediately() -> None:
    """Only the last value of a property that changed twice, and no change back to its sender."""
    done = run_script(CHANGES)
    patches, no_delay = json.loads(done.stdout)
    assert no_delay == [1]
    (first, text, new), (second, other, _) = patches[0]
    assert (first, text, second, other) == ("first", "text", "second", "text")
    assert new.endswith("ac")
    assert ["second", "text", "7"] in patches[-1]
    assert not [change for patch in patches for change in patch if change[1] == "height"]


def plain(message: Message[Any]) -> Any:
    """Return the content of a message, with the ids of models and buffers numbered in order of appearance."""
    numbers: dict[str, int] = {}
    found = re.compile(r'"id":\s*"([^"]+)"')
    return found.sub(lambda text: f"model {numbers.setdefault(text[1], len(numbers))}", message.content_json)


def test_a_patch_equals_bokehs_own_message(monkeypatch) -> None:
    """Known models are references; new ones are sent in full once, then as references, as with Bokeh's table."""

    def changed(build: Callable[[list[DocumentPatchedEvent]], Message[Any]]) -> list[Any]:
        """Return two messages: known and new models, arrays, a model new in the first and known in the second."""
        document = Document()
        source = ColumnDataSource({"x": np.arange(3.0)})
        column, first = Column(), Div()
        for root in (source, column):
            document.add_root(root)
        document.models.flush_synced()
        events: list[DocumentPatchedEvent] = []
        document.on_change(events.append)
        column.children = [first, Div(tags=[first])]
        first.text = "new"
        source.data = {"x": np.arange(4.0)}
        messages = [plain(build(events))]
        events.clear()
        first.text = "old"
        column.children = [first]
        return [*messages, plain(build(events))]

    expected = changed(patch_doc.create)
    monkeypatch.setattr(DocumentModelManager, "synced_references", property(lambda models: pytest.fail("all of them")))
    assert changed(LeanPatch.create) == expected
