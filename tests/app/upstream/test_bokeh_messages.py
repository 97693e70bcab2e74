"""Changes from a browser do not alter pending changes to that browser."""

from __future__ import annotations

import json
from typing import Any

from bokeh.document import Document
from bokeh.models import Column, Div
from bokeh.protocol.messages.patch_doc import patch_doc

from app.server import browser_changes
from app.upstream.document_changes import allow_listed_changes


def test_pending_changes_are_sent_completely_although_the_browser_sends_one_meanwhile(monkeypatch) -> None:
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    monkeypatch.setattr(browser_changes, "ALLOWED", {"Div": {"text"}})
    allow_listed_changes()
    document, column, other = Document(), Column(), Div()
    document.add_root(column)
    document.add_root(other)
    document.models.flush_synced()  # as if the browser had received them
    sent: list[Any] = []
    document.on_change(lambda event: sent.append(patch_doc.create([event])))
    document.hold("combine")
    first = Div(text="new")
    column.children = [first]
    heard = {"kind": "ModelChanged", "model": {"id": other.id}, "attr": "text", "new": "said"}
    document.apply_json_patch({"events": [heard]})  # type: ignore[typeddict-item]
    assert other.text == "said"
    column.children = [first, other]
    document.unhold()
    events = [one for message in sent for one in json.loads(message.content_json)["events"]]
    (event,) = [one for one in events if one["attr"] == "children"]
    assert [child.get("type") for child in event["new"]] == ["object", None]
    sent.clear()
    column.children = [first]
    (event,) = json.loads(sent[0].content_json)["events"]
    assert event["new"] == [{"id": first.id}]  # a known model is sent as a reference
