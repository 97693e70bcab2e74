"""What a browser may change on its page: values, within bounds, and none of the models that the page consists of.

Bokeh takes any change of any property of any model. Which models a page has, and which of them stands where, is the
server's affair: what it next writes into a model that has been put in another's place fails, or goes to nobody. And all
that a browser sets the server keeps, for as long as the page lives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

from bokeh.core.property.descriptors import UnsetValueError
from bokeh.document import Document
from bokeh.model import Model
from bokeh.model.util import visit_value_and_its_immediate_references
from bokeh.models.nodes import Coordinate

CHANGING = {"ModelChanged": "new", "ColumnDataChanged": "data"}  # events that set a property -> where its value stands
GROWING = {  # events that no component of ours sends, and that let a document grow or shrink -> whose affair that is
    "RootRemoved": "the server says what is on the page",
    "ColumnsStreamed": "the server says what a source holds",
    "ColumnsPatched": "the server says what a source holds",
}
MOST_KEPT = 16 * 2**20  # bytes of memory of all that the browsers of a page have set in it
SMALL = 400  # bytes of memory of a value that does not count: a number, a name, a range
_kept: WeakKeyDictionary[Document, dict[tuple[str, str], int]] = WeakKeyDictionary()


def require_allowed(document: Document, events: Iterable[Any]) -> None:
    """Require that a browser may do what the events of its message say, read and not yet applied.

    ValueError names the property, or the bound; then none of the events may be applied. That what is there already is
    said again is allowed: a browser that comes back does so.
    """
    large: dict[tuple[str, str], int] = {}
    for event in events:
        _require_size(document, event)
        said = CHANGING.get(event["kind"])
        if said is None or not isinstance(event["model"], Model):
            continue  # Bokeh refuses what changes no model
        model, name, new = event["model"], event["attr"], event[said]
        held = _held(model, name)
        if new is not held and not (_chosen(new, held, document) or _same(new, held)):
            raise ValueError(f"a browser may not replace the {name} of a {type(model).__name__}")
        large[model.id, str(name)] = memory_of(new)
    _keep(document, large)


def memory_of(value: Any) -> int:
    """Bytes of memory that a value which was read from a message takes, models in it left out. Not recursive."""
    found, todo = 0, [value]
    while todo:
        one = todo.pop()
        if not isinstance(one, Model):
            found += max(sys.getsizeof(one), getattr(one, "nbytes", 0))
            todo += _parts(one)
    return found


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | set):
        yield from value
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    elif is_dataclass(value):  # as Bokeh's Value, Field and Expr
        yield from (getattr(value, one.name) for one in fields(value))


def _require_size(document: Document, event: Any) -> None:
    """Require that an event of a browser's message lets the document have the roots, the title and the rows it has.

    All of them the server would keep, each message's 4 MB on top of the last one's. A browser that comes back says once
    more, in good faith, which roots it has been sent.
    """
    kind = event["kind"]
    if kind in GROWING:
        raise ValueError(f"a browser may send no {kind}: {GROWING[kind]}")
    if kind == "RootAdded" and not any(event["model"] is root for root in document.roots):
        raise ValueError("a browser may send a RootAdded of a root that is there already, and of no other model")
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


def _held(model: Model, name: Any) -> Any:
    """What a property holds; None if there is none of that name, or if it has no value yet."""
    if not isinstance(name, str) or name not in model.properties():
        return None
    try:
        return getattr(model, name)
    except UnsetValueError:  # as the inner_width of a plot until its browser says it
        return None


def _chosen(new: Any, held: Any, document: Document) -> bool:
    """Whether a browser may choose: one model of the page where there was none, or an edge of the box that zooms."""
    if isinstance(held, Coordinate):
        return isinstance(new, int | float)
    return isinstance(new, Model) and new.document is document and not _models(held)


def _same(new: Any, held: Any) -> bool:
    """Whether two values consist of the same models, in the same order; of none at all, mostly."""
    return [id(model) for model in _models(new)] == [id(model) for model in _models(held)]


def _models(value: Any) -> list[Model]:
    found: list[Model] = []
    visit_value_and_its_immediate_references(value, found.append)
    return found
