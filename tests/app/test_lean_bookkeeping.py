"""What is noted about components in less room: the same models, the same changes heard, the same defaults."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import panel as pn
import param
import pytest
from bokeh.core.property.wrappers import PropertyValueList
from bokeh.document import Document
from bokeh.model import DataModel, Model
from bokeh.models import ColumnDataSource, Div, Row
from bokeh.settings import settings
from panel.custom import JSComponent
from panel.io import resources
from panel.io.resources import Resources
from panel_material_ui import Button, Column, IntSlider, Paper, Select

from app import lean_bookkeeping


@pytest.fixture(scope="module", autouse=True)
def installed():
    """As on the server; for good."""
    lean_bookkeeping.install()
    lean_bookkeeping.install()


class Watched(param.Parameterized):
    """Parameters that are watched together and alone."""

    one, two, three = param.Integer(0), param.Integer(0), param.Integer(0, bounds=(0, 10))


def test_a_list_of_a_model_tells_each_model_that_has_it():
    heard, first, second = [], Div(), Div()
    for div in (first, second):
        div.on_change("tags", lambda attr, old, new, div=div: heard.append((div, list(old), list(new))))
    first.tags = ["a"]
    first.tags.append("b")
    assert heard == [(first, [], ["a"]), (first, ["a"], ["a", "b"])]
    shared, tags = first.tags, Div.lookup("tags")
    shared._register_owner(second, tags)
    shared._register_owner(second, tags)
    assert len(shared._owners) == 2
    heard.clear()
    shared.append("c")
    assert [div for div, _, _ in heard] == [first, second]
    shared._unregister_owner(second, tags)
    heard.clear()
    shared.append("d")
    assert [div for div, _, _ in heard] == [first]


def test_a_list_that_is_no_models_tells_nobody():
    alone = PropertyValueList([1, 2])
    alone.append(3)
    assert alone == [1, 2, 3]
    assert not alone._owners


def test_a_source_tells_of_rows_that_are_added_to_it():
    source, document = ColumnDataSource({"x": [1]}), Document()
    document.add_root(source)
    heard = []
    document.on_change(heard.append)
    source.stream({"x": [2]})
    assert [type(event).__name__ for event in heard] == ["ColumnsStreamedEvent"]
    assert source.data["x"] == [1, 2]


def test_watchers_of_one_parameter_hear_of_no_other():
    watched, heard = Watched(), []
    both = watched.param.watch(lambda *events: heard.append(("both", *(e.name for e in events))), ["one", "two"])
    alone = watched.param.watch(lambda event: heard.append(("alone", event.name)), "one")
    watched.two = 1
    assert heard == [("both", "two")]
    heard.clear()
    watched.one = 1
    assert heard == [("both", "one"), ("alone", "one")]
    heard.clear()
    watched.param.unwatch(both)
    watched.param.unwatch(both)  # harmless
    watched.param.update(one=2, two=2)
    assert heard == [("alone", "one")]
    heard.clear()
    watched.param.unwatch(alone)
    watched.one = 3
    assert not heard


def test_a_parameter_that_is_watched_twice_by_one_watcher_is_told_as_before():
    watched, heard = Watched(), []
    watched.param.watch(heard.append, ["one", "one"])
    watched.one = 1
    assert len(heard) == 2  # as param does


def test_a_watcher_that_begins_another_while_it_is_called_does_not_hear_it_at_once():
    watched, heard = Watched(), []
    watched.param.watch(lambda event: watched.param.watch(heard.append, "one"), "one")
    watched.one = 1
    assert not heard
    watched.one = 2
    assert len(heard) == 1


def test_only_known_parameters_can_be_watched():
    with pytest.raises(ValueError, match="four"):
        Watched().param.watch(print, ["one", "four"])


def test_bounds_of_one_object_are_no_others():
    first, second = Watched(), Watched()
    first.param.three.bounds = (0, 5)
    assert second.param.three.bounds == Watched.param.three.bounds == (0, 10)
    with pytest.raises(ValueError, match="three"):
        first.three = 7
    second.three = 7


def test_a_default_that_is_a_list_is_each_models_own():
    first, second = Row(), Row()
    first.children.append(Div())
    assert not second.children
    assert not Row().children


def test_a_theme_goes_before_a_default():
    div = Div()
    assert div.text == ""
    div.apply_theme({"text": "themed"})
    assert div.text == "themed"
    div.unapply_theme()
    assert div.text == ""
    assert Div().text == ""


def test_ids_of_models_differ():
    assert len({Div().id for _ in range(10)}) == 10


@pytest.fixture
def drawn():
    """(components, their models) in a document."""
    parts = Button(label="b"), IntSlider(start=0, end=9, value=1), Select(options={"a": 1, "b": 2}, value=1)
    document = Document()
    root = pn.Column(*parts).get_root(document)
    document.add_root(root)
    pn.state._views[root.ref["id"]] = (pn.Column(*parts), root, document, None)
    yield parts, [part._models[root.ref["id"]][0] for part in parts], document
    pn.state._views.pop(root.ref["id"])


def test_one_callback_hears_of_all_changes_of_a_model(drawn):
    for model in drawn[1]:
        callbacks = [call for calls in model.data._callbacks.values() for call in calls]
        assert len(callbacks) > 5
        assert len(set(map(id, callbacks))) == 1


def test_a_component_with_a_model_has_own_parameters_only_where_it_needs_them(drawn):
    for part in drawn[0]:
        assert len(part._param__private.params) < len(list(part.param)) / 2


def test_the_parameters_of_classes_are_as_before_their_components_were_drawn():
    def slots():
        return {
            (kind.__name__, name, slot): repr(getattr(about, slot))
            for kind in (Button, IntSlider, Select)
            for name, about in kind.param.objects(instance=False).items()
            for slot in ("constant", "readonly", "precedence", "default", "allow_None", "owner", "watchers")
        }

    before = slots()
    pn.Column(Button(), IntSlider(start=3, end=5, value=4), Select(options=[1, 2])).get_root(Document())
    assert slots() == before


def test_a_plain_value_has_nobody_go_through_what_lies_below_and_new_parts_name_their_page(monkeypatch):
    outer, document = Paper(Button(label="old"), elevation=1), Document()
    root = outer.get_root(document)
    document.add_root(root)
    select, walked = Model.select, []
    monkeypatch.setattr(Model, "select", lambda model, what: walked.append(model) or select(model, what))
    outer.elevation = 3
    assert root.data.elevation == 3
    assert walked == []
    outer.objects = [Button(label="new"), Column(Button(label="newer"))]
    parts = list(select(root, {"type": DataModel}))
    assert {part.label for part in parts if hasattr(part, "label")} == {"new", "newer"}
    assert all(f"__ref:{root.ref['id']}" in part.tags for part in parts)


def test_kinds_of_components_are_defined_once_for_all_pages():
    def definitions() -> list[dict[str, object]]:
        document = Document()
        document.add_root(Button(label="one").get_root())
        return document.to_json().content["defs"]

    first, second = definitions(), definitions()
    by_name = {one["name"]: one for one in first}
    assert len(by_name) == len(first) > 50
    assert {"name": "label", "kind": "Any", "default": ""} in by_name["Button1"]["properties"]
    assert first == second
    anew = {one["name"] for one, other in zip(first, second, strict=True) if one is not other}
    assert anew <= {"ChatMessage1"}  # which brings an icon along


def test_files_of_components_are_looked_for_once(monkeypatch):
    looked: list[Path] = []
    given = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda path: (looked.append(path), given(path))[1])

    class New(JSComponent):
        """A kind of component that nobody has asked for."""

        _esm = "export function render() { return null; }"

    New().get_root()
    Button(label="one").get_root()
    assert looked
    looked.clear()
    assert New().get_root().esm == New._esm
    assert "bundle.js" in Button(label="two").get_root().esm
    assert looked == []


def test_the_styles_of_a_page_are_named_without_taking_paths_apart(monkeypatch):
    named = Resources(mode="server").css_files  # whatever has to be found once
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(resources, "Path", lambda *parts: (made.append(parts), Path(*parts))[1])
    assert Resources(mode="server").css_files == named
    assert any("panel-material-ui" in name for name in named)
    assert len(made) < 10, made[:3]  # 480 before: Python's table of strings doubled after 250 pages of them


def test_files_that_are_watched_are_looked_for_each_time(monkeypatch):
    found: list[str] = []
    find = lean_bookkeeping._once(found.append)
    for autoreload in (False, True):
        monkeypatch.setattr(lean_bookkeeping, "config", SimpleNamespace(autoreload=autoreload))
        find("one")
        find("one")
    assert found == ["one"] * 3


def test_a_page_is_built_without_a_search_for_plots_that_show_nothing():
    assert not settings.perform_document_validation()
