"""Allow-list and bounds for the changes that a browser makes to its page.

Bokeh applies any change of any property of any model: a stranger could replace scripts and markup, read files of the
server through properties that load them, and let a document grow without bound. Here a browser changes the properties
of `ALLOWED` (app/server/allowed_changes.py) and sends the events of `EVENTS`; everything else is discarded. Values are
plain data of at most MOST_VALUE bytes, MOST_KEPT in all for a page, as the server keeps them as long as the page lives.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from bokeh.core.serialization import Deserializer
from bokeh.document import Document
from bokeh.events import Event
from bokeh.model import DataModel, Model

from app.server.allowed_changes import ALLOWED, EVENTS, NUMBERS, UNUSED, UNUSED_OF_COMPONENTS
from compute.lab.loaded import kept_bytes

MOST_VALUE = 128 * 2**10  # bytes of memory of one value: an address has 64 kB; files arrive as events
MOST_KEPT = 4 * 2**20  # bytes of memory of all values that the browsers of a page have set
SMALL = 400  # bytes of memory of a value that is not counted: a number, a name, a range
_kept: WeakKeyDictionary[Document, dict[tuple[str, str], int]] = WeakKeyDictionary()
log = logging.getLogger(__name__)


class KnownModels(Deserializer):
    """Deserializer of browser messages: every model in them exists in the document; none is created."""

    def _decode_object_ref(self, obj: Any) -> Model:
        """Return the model with the id of `obj`; UnknownReferenceError if the document has none."""
        return self._decode_ref(obj)


def kind_of(model: Model) -> str:
    """Return the name of a model's class, of the data of a component the name of the component."""
    name: str = type(model).__qualified_model__
    return re.sub(r"\d+$", "", name) if isinstance(model, DataModel) else name


def allowed_events(document: Document, events: Iterable[Any]) -> list[Any]:
    """Return those events of a browser's message that it may send, before their values are decoded.

    Discards changes that are not on the allow-list. A browser that reconnects repeats the roots and the title that it
    received, which has no effect either. Raises ValueError for other roots, another title, and rows for a data source.
    """
    return [event for event in events if _is_allowed(document, event)]


def _is_allowed(document: Document, event: Any) -> bool:
    kind = event["kind"]
    if kind == "ModelChanged":
        model = document.models.get_by_id(event["model"]["id"])
        return model is None or _may_change(model, event["attr"], event["new"])  # decoding fails for an unknown id
    if kind == "MessageSent":
        name = event["msg_data"].get("name") if isinstance(event["msg_data"], dict) else None
        allowed = event["msg_type"] == "bokeh_event" and isinstance(name, str) and name in EVENTS
        if not allowed:
            log.warning("discarded an event that is not on the allow-list: %.60s", name)
        return allowed
    if kind == "RootAdded" and event["model"]["id"] in {root.id for root in document.roots}:
        return False
    if kind == "TitleChanged" and event["title"] == document.title:
        return False
    raise ValueError(f"a browser may not send a {kind:.40}")


def _may_change(model: Model, name: object, new: object) -> bool:
    """Return whether a browser may change the property `name` of `model` to `new`, which is not decoded yet."""
    kind = kind_of(model)
    if isinstance(name, str) and name in ALLOWED.get(kind, ()):
        if name not in NUMBERS.get(kind, ()) or (isinstance(new, int | float) and not isinstance(new, bool)):
            return True
        log.warning("discarded a change that is no finite number: %s.%s", kind, name)
        return False
    unused = isinstance(model, DataModel) and name in UNUSED_OF_COMPONENTS
    if not unused and name not in UNUSED.get(kind, ()):
        log.warning("discarded a change that is not on the allow-list: %s.%.60s", kind, name)
    return False


def require_plain(document: Document, events: Iterable[Any]) -> None:
    """Require plain values within the bounds; `events` are allowed, decoded by KnownModels, and unapplied.

    Raises ValueError, which names the property and the bound; the caller then applies none of the events.
    """
    sizes: dict[tuple[str, str], int] = {}
    for event in events:
        if event["kind"] != "ModelChanged":
            continue
        model, name, new = event["model"], event["attr"], event["new"]
        size = kept_bytes([new], _examine)
        if size > MOST_VALUE:
            raise ValueError(f"the {name} of a {kind_of(model)} must take at most {MOST_VALUE:,} bytes of memory")
        sizes[model.id, name] = size
    _keep(document, sizes)


def _examine(value: object) -> None:
    """Raise ValueError for a model or an event."""
    if isinstance(value, Model | Event):
        raise ValueError(f"a browser may not set a value that holds a {type(value).__name__}")  # noqa: TRY004 a message


def _keep(document: Document, sizes: Mapping[tuple[str, str], int]) -> None:
    """Count these values, by model and property, in place of those that they replace."""
    before = _kept.setdefault(document, {})
    after = {key: size for key, size in {**before, **sizes}.items() if size > SMALL}
    if sum(after.values()) > MOST_KEPT:  # only now look for models that were removed
        after = {key: size for key, size in after.items() if document.models.get_by_id(key[0]) is not None}
        if sum(after.values()) > MOST_KEPT:
            raise ValueError(f"the values that browsers set on a page may take at most {MOST_KEPT:,} bytes of memory")
    _kept[document] = after
