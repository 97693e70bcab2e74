"""A browser may set only allow-listed properties of its page, and only to plain values within bounds."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui
import pytest
from bokeh.core.property.vectorization import Value
from bokeh.document import Document
from bokeh.models import Column, ColumnDataSource, CustomJS, Div, Span
from bokeh.plotting import figure

from app.server import browser_changes
from app.server.browser_changes import MOST_VALUE, kind_of
from app.upstream.document_changes import allow_listed_changes
from compute.lab.loaded import kept_bytes

NEW = {"type": "object", "name": "Div", "id": "new1", "attributes": {"text": "x" * 99}}
EVENT = {"type": "event", "name": "data_event", "values": {"model": None, "data": "x" * 99}}
REFUSED = "can't resolve reference|may not set a value that holds"


class Page:
    """A document that accepts messages like the app's: ten text fields, a plot, a script and a data source."""

    def __init__(self) -> None:
        self.document, self.source = Document(), ColumnDataSource({"x": [1, 2]})
        self.plot = figure(x_range=(0, 1), y_range=(0, 1))
        self.script = CustomJS(code="ours")
        self.plot.js_on_event("tap", self.script)
        fields = [pmui.TextInput(value=str(number)) for number in range(10)]
        pn.Column(*fields).server_doc(self.document)
        found = [one for one in self.document.models if kind_of(one) == "TextInput"]
        self.fields = sorted(found, key=lambda one: one.value)  # type: ignore[attr-defined]
        pmui.TextInput().server_doc(self.document)
        (self.other,) = {one for one in self.document.models if kind_of(one) == "TextInput"} - set(self.fields)
        self.document.add_root(Column(self.plot, Div(text="ours", name="text")))
        self.document.add_root(self.source)
        self.document.title = "Fieldlab"
        self.document.models.flush_synced()

    def receive(self, *events: dict[str, Any]) -> None:
        """Apply a message from a browser."""
        self.document.apply_json_patch({"events": list(events)})  # type: ignore[typeddict-item]

    def set(self, model: Any, name: str, new: Any) -> None:
        """Apply a message with one change."""
        self.receive(change(model, name, new))


def change(model: Any, name: Any, new: Any) -> dict[str, Any]:
    """Return the event of a change."""
    return {"kind": "ModelChanged", "model": {"id": getattr(model, "id", model)}, "attr": name, "new": new}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    allow_listed_changes()
    return Page()


def test_values_ranges_and_sizes_are_accepted(page):
    page.set(page.fields[0], "value", "typed")
    page.set(page.plot.x_range, "start", 0.5)
    page.set(page.plot, "inner_width", 300)
    assert (page.fields[0].value, page.plot.x_range.start, page.plot.inner_width) == ("typed", 0.5, 300)


@pytest.mark.parametrize("new", ["0.5", None, True, [1], {"type": "number", "value": "nan"}])
def test_locations_and_ranges_must_be_finite_numbers(page, caplog, new):
    """A text as the location of the section line used to raise."""
    line = Span(location=1.0)
    page.plot.add_layout(line)
    page.receive(
        change(line, "location", new), change(page.plot.x_range, "start", new), change(page.other, "value", "x")
    )
    assert (line.location, page.plot.x_range.start, page.other.value) == (1.0, 0, "x")
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"discarded a change that is no finite number: {name}" for name in ("Span.location", "Range1d.start")
    ]


def test_scripts_markup_and_handlers_are_discarded(page, caplog):
    text = next(one for one in page.document.models if one.name == "text")
    for model, name, new in (
        (page.script, "code", "theirs"), (text, "text", "theirs"), (page.plot, "tags", ["theirs"]),
        (page.plot, "js_event_callbacks", {"type": "map", "entries": []}), (page.fields[0], "label", "theirs"),
        (page.plot, "x_range", {"id": page.plot.y_range.id}), (page.plot, "no_such", "theirs"),
        (page.plot, 3, "theirs"), (page.plot, "__class__", "theirs"),
    ):  # fmt: skip
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            page.receive(change(model, name, new), change(page.other, "value", str(name)))
        assert f"discarded a change that is not on the allow-list: {kind_of(model)}.{name}" in caplog.text
        assert page.other.value == str(name)  # the rest of the message is applied
    assert (page.script.code, text.text, page.plot.tags, page.fields[0].label) == ("ours", "ours", [], "")
    assert page.plot.js_event_callbacks == {"tap": [page.script]}
    assert page.plot.x_range is not page.plot.y_range


def test_changes_by_themes_are_discarded_silently(page, caplog):
    page.receive(
        change(page.plot.toolbar, "stylesheets", ["theirs"]), change(page.plot, "background_fill_color", "red"),
        change(page.fields[0], "dark_theme", True),
    )  # fmt: skip
    assert not caplog.records
    assert (page.plot.toolbar.stylesheets, page.plot.background_fill_color) == ([], "#ffffff")


@pytest.mark.parametrize("name", ["button_click", "value_submit", "esm_event", "html_stream", "no_such", 3, None])
def test_events_that_no_page_sends_are_discarded(page, caplog, name):
    heard: list[object] = []
    page.document.on_event("document_ready", heard.append)
    message = {"kind": "MessageSent", "msg_type": "bokeh_event"}
    other = {"type": "event", "name": name, "values": {"type": "map", "entries": [["model", {"id": page.plot.id}]]}}
    ready = {"type": "event", "name": "document_ready", "values": {"type": "map", "entries": []}}
    page.receive(message | {"msg_data": other}, message | {"msg_data": ready})
    assert f"discarded an event that is not on the allow-list: {name}" in caplog.text
    assert len(heard) == 1
    page.receive(message | {"msg_data": "theirs"}, {"kind": "MessageSent", "msg_type": "theirs", "msg_data": ready})
    assert len(heard) == 1


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "RootAdded", "model": NEW},
        {"kind": "RootAdded", "model": "plot"},
        {"kind": "RootRemoved", "model": "source"},
        {"kind": "TitleChanged", "title": "x" * 99},
        {"kind": "ColumnDataChanged", "model": "source", "attr": "data", "data": {"x": [3]}, "cols": ["x"]},
        {"kind": "ColumnsStreamed", "model": "source", "attr": "data", "data": {"x": [3]}, "rollover": None},
        {"kind": "ColumnsPatched", "model": "source", "attr": "data", "patches": {"x": [[0, "x" * 99]]}},
        {"kind": "NoSuchKind" * 99},
    ],
    ids=lambda event: event["kind"][:20],
)
def test_a_browser_adds_neither_roots_nor_rows(page, event):
    """Forty such messages occupied 226 MB on the server permanently."""
    roots, models = list(page.document.roots), set(page.document.models)
    if isinstance(name := event.get("model"), str):
        event = event | {"model": {"id": getattr(page, name).id}}
    with pytest.raises(ValueError, match="a browser may not send a") as refused:
        page.receive(event)
    assert len(str(refused.value)) < 80
    assert (page.document.roots, set(page.document.models), page.document.title) == (roots, models, "Fieldlab")
    assert page.source.data == {"x": [1, 2]}


def test_a_reconnecting_browser_may_repeat_its_roots_and_its_title(page):
    """BokehJS sends each root in full, including models that it has created itself."""
    own = {"type": "object", "name": "Div", "id": "own1"}
    root, models = page.document.roots[-2], set(page.document.models)
    whole = {"type": "object", "name": "Column", "id": root.id, "attributes": {"children": [own], "tags": [own]}}
    page.receive(
        {"kind": "RootAdded", "model": {"id": root.id}}, {"kind": "RootAdded", "model": whole},
        {"kind": "TitleChanged", "title": "Fieldlab"},
    )  # fmt: skip
    assert set(page.document.models) == models
    assert len(root.children) == 2


@pytest.mark.parametrize(
    "new",
    [
        NEW,
        [NEW],
        {"type": "map", "entries": [["within", NEW]]},
        [{"type": "value", "value": NEW}],
        [{"type": "set", "entries": [NEW]}],
        [{"type": "slice", "start": NEW, "stop": None, "step": None}],
        {"id": "other"},
        [{"id": "other"}],
        {"type": "map", "entries": [[{"id": "other"}, 1]]},
        [{"type": "slice", "start": {"id": "other"}, "stop": None, "step": None}],
        [EVENT],
        {"type": "map", "entries": [[EVENT, 1]]},
    ],
    ids=range(12),
)
def test_a_value_may_not_contain_a_model_or_an_event(page, new):
    new = json.loads(json.dumps(new).replace('"other"', json.dumps(page.plot.id)))
    models, before = set(page.document.models), page.fields[1].value
    with pytest.raises(ValueError, match=REFUSED):
        page.receive(change(page.fields[0], "value", "theirs"), change(page.fields[1], "value", new))
    assert (page.fields[1].value, set(page.document.models)) == (before, models)
    assert page.fields[0].value == "0"  # no part of a refused message is applied
    with pytest.raises(ValueError, match="can't resolve reference 'new1'"):
        page.receive(change("new1", "value", "x") | {"model": NEW})


def test_a_value_has_a_bound(page):
    with pytest.raises(ValueError, match=f"the value of a TextInput must take at most {MOST_VALUE:,} bytes of memory"):
        page.set(page.fields[0], "value", "x" * MOST_VALUE)
    assert len(page.fields[0].value) == 1
    page.set(page.fields[0], "value", "x" * (MOST_VALUE // 2))


def test_all_values_of_a_page_have_a_common_bound(page, monkeypatch):
    """Each message is bounded, but a page has hundreds of models."""
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 4 * MOST_VALUE)
    large, fields = "x" * (MOST_VALUE - 200), page.fields
    for field in fields[:3]:
        page.set(field, "value", large)
    for _ in range(9):
        page.set(fields[0], "value", large)  # replaces the previous value
    page.set(fields[3], "value_input", large)
    with pytest.raises(ValueError, match=f"at most {4 * MOST_VALUE:,} bytes of memory"):
        page.set(fields[4], "value", large)
    assert len(fields[4].value) == 1
    page.set(fields[0], "value", "")
    page.set(fields[5], "value", large)
    page.document.remove_root(page.document.roots[0])  # with the fields
    page.set(page.other, "value", large)


def test_the_events_of_one_message_count_together(page, monkeypatch):
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 9 * MOST_VALUE)
    with pytest.raises(ValueError, match="at most"):
        page.receive(*(change(field, "value", "x" * (MOST_VALUE - 200)) for field in page.fields))
    assert all(len(field.value) == 1 for field in page.fields)


def test_small_values_do_not_count(page, monkeypatch):
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 1000)
    for field in page.fields:
        page.set(field, "value", "y" * 99)
        page.set(field, "value_input", "y" * 99)
    with pytest.raises(ValueError, match="at most 1,000 bytes"):
        page.set(page.other, "value", "y" * 1000)


@pytest.mark.parametrize(
    "value",
    [
        "\N{GRINNING FACE}" * 250_000, memoryview(b"x" * 10**6), np.zeros(125_000), [["x" * 10**5] for _ in range(10)],
        {"one": {"two": "x" * 10**6}}, {"x" * 10**6: None}, {("x" * 10**6,)}, slice(0, "x" * 10**6),
        Value("x" * 10**6), list(range(10**5)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_the_memory_of_a_value_counts_all_of_its_parts(value):
    assert 10**6 <= kept_bytes([value]) < 6 * 10**6
