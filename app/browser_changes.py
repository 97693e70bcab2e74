"""What a browser may change on its page: values, within bounds, and none of the models that the page consists of.

Bokeh takes any change of any property of any model. Which models a page has, and which of them stands where, is the
server's affair: what it next writes into a model that has been put in another's place fails, or goes to nobody. And all
that a browser sets the server keeps, for as long as the page lives. No BokehJS of ours says more than is allowed here.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from bokeh.core.property.descriptors import UnsetValueError
from bokeh.core.property.visual import Image
from bokeh.core.serialization import Deserializer
from bokeh.document import Document
from bokeh.events import Event
from bokeh.model import Model
from bokeh.models.nodes import Coordinate
from panel_material_ui.template import base

from app.theme import ASSETS

CHANGING = {"ModelChanged": "new", "ColumnDataChanged": "data"}  # events that set a property -> where its value stands
GROWING = {  # events that no component of ours sends, and that let a document grow or shrink -> whose affair that is
    "RootRemoved": "the server says what is on the page",
    "ColumnsStreamed": "the server says what a source holds",
    "ColumnsPatched": "the server says what a source holds",
}
MOST_VALUE = 128 * 2**10  # bytes of memory of a value that a browser sets: an address has 64 kB; files are no values
MOST_KEPT = 4 * 2**20  # bytes of memory of all that the browsers of a page have set in it
SMALL = 400  # bytes of memory of a value that does not count: a number, a name, a range
PLAIN = frozenset({type(None), bool, int, float, str, bytes, memoryview, np.ndarray, array})  # types that hold no other
OWN_ICONS = frozenset(str(path) for path in ASSETS.glob("*.svg"))
_kept: WeakKeyDictionary[Document, dict[tuple[str, str], int]] = WeakKeyDictionary()


class KnownModels(Deserializer):
    """Reads a browser's message, whose models are all of the page: it makes none."""

    def _decode_object_ref(self, obj: Any) -> Model:
        """The model of that id; UnknownReferenceError if the page has none."""
        return self._decode_ref(obj)


def read_no_files() -> None:
    """Have no property that a browser sets read the server's file of that name: pictures of Bokeh's, the page's logo.

    Panel, too, keeps every logo for ever. Only files of OWN_ICONS are read.
    """
    Image.transform = lambda self, value: value  # type: ignore[method-assign]
    given = base._read_icon  # noqa: SLF001 there is no other place for it

    def read(icon: Any) -> Any:
        """The file of ours, as Panel writes it into a page; all else as it is."""
        return given(icon) if isinstance(icon, str) and icon in OWN_ICONS else icon

    base._read_icon = read  # noqa: SLF001 as above


def new_events(document: Document, content: Any) -> list[Any]:
    """The events of a browser's message as it came, but for those that tell roots which are there already.

    A browser that comes back says once more, in good faith and in full, which roots it has been sent; they may hold
    models that it has made for itself. ValueError for other roots.
    """
    roots = {root.id for root in document.roots}
    events = []
    for event in content["events"]:
        if event["kind"] != "RootAdded":
            events.append(event)
        elif event["model"]["id"] not in roots:
            raise ValueError("a browser may send a RootAdded of a root that is there already, and of no other model")
    return events


def require_allowed(document: Document, events: Iterable[Any]) -> None:
    """Require that a browser may do what the events of its message say, read by KnownModels and not yet applied.

    ValueError names the property, or the bound; then none of the events may be applied. That what is there already is
    said again is allowed.
    """
    large: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, str], list[int]] = {}
    for event in events:
        _require_size(document, event)
        said = CHANGING.get(event["kind"])
        if said is None or not isinstance(event["model"], Model):
            continue  # Bokeh refuses what changes no model
        model, name, new = event["model"], event["attr"], event[said]
        if not isinstance(name, str) or name not in model.properties():
            continue  # Bokeh says so in its log, and keeps nothing
        key = model.id, name
        if key not in held:
            held[key] = models_in(_held(model, name))
        if models_in(new) != held[key] and not _is_edge(new, _held(model, name)):
            raise ValueError(f"a browser may not replace the {name} of a {type(model).__name__}")
        large[key] = memory_of(new)
        if large[key] > MOST_VALUE:
            raise ValueError(f"the {name} of a {type(model).__name__} must take at most {MOST_VALUE:,} bytes of memory")
    _keep(document, large)


def models_in(value: Any) -> list[int]:
    """The identity of each model in a value, at any depth, in an order that is always the same. Not recursive.

    ValueError for an event in it, which would be kept, with what it holds.
    """
    found, todo = [], [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Model):
            found.append(id(one))
        elif isinstance(one, Event):
            raise ValueError("no property may hold an event")  # noqa: TRY004 it came in a message
        else:
            todo += _parts(one)
    return found


def memory_of(value: Any) -> int:
    """Bytes of memory that a value which was read from a message takes, models in it left out. Not recursive."""
    found, todo = 0, [value]
    while todo:
        one = todo.pop()
        if not isinstance(one, Model):
            found += max(sys.getsizeof(one), getattr(one, "nbytes", 0))
            if isinstance(one, list | tuple | set) and PLAIN.issuperset(map(type, one)):
                found += sum(map(sys.getsizeof, one))
            else:
                todo += _parts(one)
    return found


def _parts(value: Any) -> Iterator[Any]:
    """What a value holds, but for lists of nothing but plain values."""
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        if not PLAIN.issuperset(map(type, value)):
            yield from value
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    elif is_dataclass(value) and not isinstance(value, type):  # as Bokeh's Value, Field and Expr
        yield from (getattr(value, one.name) for one in fields(value))


def _require_size(document: Document, event: Any) -> None:
    """Require that an event of a browser's message lets the document have the title and the rows it has.

    All of them the server would keep, each message's 4 MB on top of the last one's. A browser that comes back says the
    title once more, too.
    """
    kind = event["kind"]
    if kind in GROWING:
        raise ValueError(f"a browser may send no {kind}: {GROWING[kind]}")
    if kind == "TitleChanged" and event["title"] != document.title:
        raise ValueError("a browser may send a TitleChanged with the title that the page has already, and no other")


def _keep(document: Document, large: Mapping[tuple[str, str], int]) -> None:
    """Count these values, by model and property, in the place of those that they replace."""
    before = _kept.setdefault(document, {})
    after = {key: size for key, size in {**before, **large}.items() if size > SMALL}
    if sum(after.values()) > MOST_KEPT:  # now it is worth while to look which models are gone
        after = {key: size for key, size in after.items() if document.models.get_by_id(key[0]) is not None}
        if sum(after.values()) > MOST_KEPT:
            raise ValueError(f"what browsers set on a page may take at most {MOST_KEPT:,} bytes of memory in all")
    _kept[document] = after


def _held(model: Model, name: str) -> Any:
    """What a property holds; None if it has no value yet."""
    try:
        return getattr(model, name)
    except UnsetValueError:  # as the inner_width of a plot until its browser says it
        return None


def _is_edge(new: Any, held: Any) -> bool:
    """Whether an edge of the box that zooms, a node until somebody draws it, is now a number."""
    return isinstance(held, Coordinate) and isinstance(new, int | float)
