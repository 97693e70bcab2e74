"""A browser changes values of its page, within bounds, and none of the models that the page consists of."""

from __future__ import annotations

import gc
import json
from typing import Any

import numpy as np
import panel_material_ui as pmui
import pytest
from bokeh.core.property.vectorization import Value
from bokeh.core.property.visual import Image
from bokeh.document import Document
from bokeh.models import BoxAnnotation, Column, ColumnDataSource, Div, PanTool, Plot, Range1d, Toolbar
from bokeh.plotting import figure
from panel_material_ui.template import base

from app import browser_changes
from app.bokeh_messages import remember_what_is_unsent
from app.browser_changes import MOST_KEPT, MOST_VALUE, _kept, memory_of, read_no_files
from app.theme import ASSETS

REFUSED = "a browser may not replace the|can't resolve reference"


def test_a_browser_replaces_no_model_of_the_page(monkeypatch) -> None:
    """Found by a fuzz of messages: a component whose data were another model failed at the server's next write."""
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    remember_what_is_unsent()
    document, plot, other = Document(), figure(), Range1d(name="other")
    document.add_root(plot)
    document.add_root(other)
    before, title = plot.x_range, {"kind": "ModelChanged", "model": {"id": other.id}, "attr": "name", "new": "changed"}
    for new in ({"id": other.id}, {"type": "object", "name": "Range1d", "id": "new1"}, None, 3):
        planted = {"kind": "ModelChanged", "model": {"id": plot.id}, "attr": "x_range", "new": new}
        with pytest.raises(ValueError, match=REFUSED):
            document.apply_json_patch({"events": [title, planted]})  # type: ignore[typeddict-item]
        assert plot.x_range is before
        assert other.name == "other"  # nothing of a message that is refused
    disguised = {"kind": "ColumnDataChanged", "model": {"id": plot.id}, "attr": "x_range", "data": {"id": other.id}}
    empty = {"kind": "ModelChanged", "model": {"id": plot.toolbar.id}, "attr": "active_drag"}
    for planted in (
        disguised,
        empty | {"new": {"type": "object", "name": "PanTool", "id": "new2"}},
        empty | {"new": {"id": plot.toolbar.tools[0].id}},  # which would live for as long as what holds it
    ):
        with pytest.raises(ValueError, match=REFUSED):
            document.apply_json_patch({"events": [title, planted]})  # type: ignore[typeddict-item]
    assert plot.x_range is before
    inner = {"kind": "ModelChanged", "model": {"id": plot.id}, "attr": "inner_width", "new": 300}  # which is unset
    document.apply_json_patch({"events": [inner]})  # type: ignore[typeddict-item]
    assert plot.inner_width == 300
    box = BoxAnnotation()  # as of a tool that zooms: its edges are nodes until somebody draws it
    plot.add_layout(box)
    edge = {"kind": "ModelChanged", "model": {"id": box.id}, "attr": "right"}
    for refused in (None, {"id": other.id}, {"type": "object", "name": "Node", "id": "new3"}):
        with pytest.raises(ValueError, match=REFUSED):
            document.apply_json_patch({"events": [edge | {"new": refused}]})  # type: ignore[typeddict-item]
    document.apply_json_patch({"events": [edge | {"new": 0.055}]})  # type: ignore[typeddict-item]
    assert box.right == 0.055
    same = {"kind": "ModelChanged", "model": {"id": plot.id}, "attr": "x_range", "new": {"id": before.id}}
    document.apply_json_patch({"events": [same, title]})  # type: ignore[typeddict-item]
    assert other.name == "changed"


NEW = {"type": "object", "name": "Div", "id": "new1", "attributes": {"text": "x" * 99}}
EVENT = {"type": "event", "name": "value_submit", "values": {"model": None, "value": "x" * 99}}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("RootAdded", {"model": NEW}),
        ("RootAdded", {"model": "within"}),
        ("RootRemoved", {"model": "root"}),
        ("TitleChanged", {"title": "x" * 99}),
        ("ColumnsStreamed", {"model": "source", "attr": "data", "data": {"x": [3]}, "rollover": None}),
        ("ColumnsStreamed", {"model": "source", "attr": "data", "data": {"x": [3]}, "rollover": 2}),
        ("ColumnsPatched", {"model": "source", "attr": "data", "patches": {"x": [[0, "x" * 99]]}}),
    ],
)
def test_a_browser_lets_no_page_grow(monkeypatch, kind, said) -> None:
    """Forty messages took 226 MB, all of which the server kept: roots, and rows of a source."""
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    remember_what_is_unsent()
    document, source, within = Document(), ColumnDataSource({"x": [1, 2]}, name="source"), Div(name="within")
    document.add_root(Column(within, name="root"))
    document.add_root(source)
    document.title = "Fieldlab"
    document.models.flush_synced()
    roots, models = list(document.roots), set(document.models)
    named = {model.name: {"id": model.id} for model in models if model.name}
    model = said.get("model")
    event = {"kind": kind, **said} | ({"model": named[model]} if isinstance(model, str) else {})
    with pytest.raises(ValueError, match=f"a browser may send .*{kind}"):
        document.apply_json_patch({"events": [event]})  # type: ignore[typeddict-item]
    assert (document.roots, set(document.models), document.title) == (roots, models, "Fieldlab")
    assert source.data == {"x": [1, 2]}


def test_a_browser_that_comes_back_may_say_which_roots_it_has(monkeypatch) -> None:
    """BokehJS sends each of them, whole, when it was given the document anew; and its title, if that is another."""
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    remember_what_is_unsent()
    document, root = Document(), Div(text="ours")
    document.add_root(root)
    document.title = "Fieldlab"
    document.models.flush_synced()
    own = {"type": "object", "name": "Div", "id": "own1"}  # as BokehJS makes some of its own
    whole = {"type": "object", "name": "Div", "id": root.id, "attributes": {"text": "theirs", "tags": [own]}}
    for event in (
        {"kind": "RootAdded", "model": {"id": root.id}},
        {"kind": "RootAdded", "model": whole},
        {"kind": "TitleChanged", "title": "Fieldlab"},
    ):
        document.apply_json_patch({"events": [event]})  # type: ignore[typeddict-item]
    assert (document.roots, list(document.models), root.text) == ([root], [root], "ours")


@pytest.fixture
def document(monkeypatch) -> Document:
    """A page of ten texts in a column, that takes a browser's messages as ours do."""
    monkeypatch.setattr(Document, "apply_json_patch", Document.apply_json_patch)
    remember_what_is_unsent()
    document = Document()
    document.add_root(Column(*(Div(text=f"{number}") for number in range(10))))
    document.models.flush_synced()
    return document


def said(document: Document, model: Any, name: str, new: Any) -> None:
    """Apply a browser's message that sets a property."""
    event = {"kind": "ModelChanged", "model": {"id": model.id}, "attr": name, "new": new}
    document.apply_json_patch({"events": [event]})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    "change",
    [
        lambda ids: [],
        lambda ids: ids[:-1],
        lambda ids: ids[::-1],
        lambda ids: [*ids, ids[0]],
        lambda ids: [NEW, *ids[1:]],
        lambda ids: [*ids, NEW],
        lambda ids: "none",
        lambda ids: {"type": "set", "entries": ids},
    ],
)
def test_nor_one_in_a_list(document, change) -> None:
    """A message of `children` emptied a page for good, or put a text of the sender's on it."""
    (column,) = document.roots
    before, models = list(column.children), set(document.models)
    ids = [{"id": child.id} for child in before]
    with pytest.raises(ValueError, match=REFUSED):
        said(document, column, "children", change(ids))
    said(document, column, "children", ids)  # as they are
    assert (column.children, set(document.models)) == (before, models)


@pytest.mark.parametrize(
    "new",
    [
        [NEW],
        {"within": [{"within": NEW}]},
        {"type": "map", "entries": [["within", NEW]]},
        [{"type": "value", "value": NEW}],
        [{"type": "set", "entries": [NEW]}],
        [{"type": "slice", "start": NEW, "stop": None, "step": None}],
        [{"type": "set", "entries": ["other"]}],
        [{"type": "slice", "start": "other", "stop": None, "step": None}],
        {"type": "map", "entries": [["other", 1]]},
        [EVENT],
        {"type": "map", "entries": [[EVENT, 1]]},
    ],
)
def test_nor_does_it_bring_one_within_a_value(document, new) -> None:
    models, (text, other) = set(document.models), document.roots[0].children[:2]
    new = json.loads(json.dumps(new).replace('"other"', json.dumps({"id": other.id})))
    with pytest.raises(ValueError, match=f"{REFUSED}|no property may hold an event"):
        said(document, text, "tags", new)
    assert (text.tags, set(document.models)) == ([], models)


def test_what_it_sets_has_a_bound_for_the_whole_page(document, monkeypatch) -> None:
    """Each message is bounded; a page has hundreds of models, each with properties that hold anything."""
    texts = document.roots[0].children
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 4 * MOST_VALUE)
    large = "x" * (MOST_VALUE - 200)
    for text in texts[:3]:
        said(document, text, "tags", [large])
    for _ in range(9):  # in each other's place
        said(document, texts[0], "tags", [large])
    said(document, texts[3], "name", large)
    with pytest.raises(ValueError, match=f"at most {4 * MOST_VALUE:,} bytes of memory in all"):
        said(document, texts[4], "tags", [large])
    assert texts[4].tags == []
    said(document, texts[0], "tags", [])
    said(document, texts[5], "tags", [large])
    with pytest.raises(ValueError, match="at most"):
        said(document, texts[4], "tags", [large])
    document.roots[0].children = texts[1:]  # all but one, which had not much
    with pytest.raises(ValueError, match="at most"):
        said(document, texts[4], "tags", [large])
    document.roots[0].children = texts[2:]
    said(document, texts[4], "tags", [large])


def test_a_value_has_one_too(document) -> None:
    text = document.roots[0].children[0]
    with pytest.raises(ValueError, match=f"the tags of a Div must take at most {MOST_VALUE:,} bytes of memory"):
        said(document, text, "tags", ["x" * MOST_VALUE])
    assert text.tags == []
    said(document, text, "tags", ["x" * (MOST_VALUE // 2)])


def test_the_bound_is_within_what_all_values_may_take() -> None:
    assert 8 * MOST_VALUE < MOST_KEPT


@pytest.mark.parametrize("name", ["no_such", "no_such" * 99, "__class__", "document"])
def test_what_is_no_property_is_not_kept_and_takes_no_memory(document, name) -> None:
    text = document.roots[0].children[0]
    said(document, text, name, "x" * 10**6)
    assert not _kept[document]
    assert text.properties_with_values(include_defaults=False) == {"text": "0"}


def test_nor_is_a_model_that_the_browser_has_made(document) -> None:
    event = {"kind": "ModelChanged", "model": NEW, "attr": "text", "new": "x"}
    with pytest.raises(ValueError, match="can't resolve reference 'new1'"):
        document.apply_json_patch({"events": [event]})
    assert not _kept.get(document)


def test_a_message_of_many_changes_of_a_long_value_takes_no_long(document) -> None:
    """Each of them looked through what the property held: 20 took six seconds of the loop."""
    text = document.roots[0].children[0]
    text.tags = list(np.arange(190_000.0))  # as the server may have it
    looked: list[object] = []
    given = browser_changes.models_in
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(browser_changes, "models_in", lambda value: looked.append(value) or given(value))
        event = {"kind": "ModelChanged", "model": {"id": text.id}, "attr": "tags", "new": [0]}
        document.apply_json_patch({"events": [event] * 200})
    assert sum(value != [0] for value in looked) == 1
    assert text.tags == [0]


def test_a_picture_s_name_reads_no_file_of_the_server(document, monkeypatch, tmp_path) -> None:
    """Bokeh's Image reads the file of that name, and the next browser that asks for the page is sent what it holds."""
    monkeypatch.setattr(Image, "transform", Image.transform)
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg>a secret</svg>")
    tool = PanTool()
    assert "secret" in PanTool(icon=str(secret)).icon.removeprefix("data:image/svg+xml")
    read_no_files()
    document.add_root(Plot(toolbar=Toolbar(tools=[tool])))
    document.models.flush_synced()
    said(document, tool, "icon", str(secret))
    assert tool.icon == str(secret)
    assert "a%20secret" not in json.dumps(document.to_json(deferred=False))


def test_nor_does_a_page_s_logo(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(Image, "transform", Image.transform)
    monkeypatch.setattr(base, "_read_icon", base._read_icon)
    read_no_files()
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg>a secret</svg>")
    page = pmui.Page(logo=str(ASSETS / "logo.svg"))
    assert page._process_param_change({"logo": page.logo})["logo"].startswith("data:image/svg+xml;base64,")
    for logo in (str(secret), str(tmp_path / "no such"), "/etc/hostname", f"{ASSETS}/../pyproject.toml"):
        assert page._process_param_change({"logo": logo})["logo"] == logo
    assert page._process_param_change({"logo": {"sm": str(secret)}})["logo"] == {"sm": str(secret)}


def test_many_events_of_one_message_count_together(document, monkeypatch) -> None:
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 9 * MOST_VALUE)
    large = {"kind": "ModelChanged", "attr": "tags", "new": ["x" * (MOST_VALUE - 200)]}
    events = [large | {"model": {"id": text.id}} for text in document.roots[0].children]
    with pytest.raises(ValueError, match="at most"):
        document.apply_json_patch({"events": events})
    assert not any(text.tags for text in document.roots[0].children)


def test_small_values_do_not_count(document, monkeypatch) -> None:
    monkeypatch.setattr(browser_changes, "MOST_KEPT", 1000)
    for text in document.roots[0].children:
        said(document, text, "text", "y" * 99)
        said(document, text, "tags", ["y" * 99])
    with pytest.raises(ValueError, match="at most 1,000 bytes"):
        said(document, document.roots[0], "name", "y" * 1000)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**6,
        "\N{GRINNING FACE}" * 250_000,
        b"x" * 10**6,
        memoryview(b"x" * 10**6),
        np.zeros(125_000),
        [["x" * 10**5] for _ in range(10)],
        {"one": {"two": "x" * 10**6}},
        {"x" * 10**6: None},
        {("x" * 10**6,)},
        slice(0, "x" * 10**6),
        Value("x" * 10**6),
        list(range(10**5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_memory_of_a_value_is_what_it_takes(value) -> None:
    assert 10**6 <= memory_of(value) < 6 * 10**6


def test_models_take_none_of_it() -> None:
    assert memory_of(Div(text="x" * 10**6)) == 0  # it is there already, or refused


def test_a_page_that_is_gone_takes_no_memory(document) -> None:
    said(document, document.roots[0].children[0], "tags", ["x" * 10**5])
    gc.collect()
    number = len(_kept)
    other = Document()
    other.add_root(Div(name="other"))
    said(other, other.roots[0], "tags", ["x" * 10**5])
    assert len(_kept) == number + 1
    del other
    gc.collect()
    assert len(_kept) == number
