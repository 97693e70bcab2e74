"""Seeded messages that no browser sends: each a list of fragments, texts and bytes.

Most of them contain ids and names of the page's models or of another page's, so that they pass the first check; each
kind breaks something else.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.server.message_bounds import MOST_BYTES, MOST_DEPTH, MOST_VALUES

Fragment: TypeAlias = str | bytes
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e308, 5e-324, 0.1, float("nan"), float("inf"),
           float("-inf"), True, 512, 10**6)  # fmt: skip
TEXTS = ("", "x", "0", "-1", "nan", "1e400", "\0", "\ud800", "<img src=x onerror=alert(1)>", "../../etc/passwd",
         "é" * 50, "cpu_numpy", "x" * 5000, "9" * 400, "; DROP", "None", "__class__", "\u202e", "fox")  # fmt: skip
ATTRIBUTES = ("value", "data", "active", "open", "clicks", "value_input", "enter_pressed", "end", "start", "options",
              "number", "address", "wanted", "text", "name", "tags", "visible", "disabled", "objects", "children",
              "inner_width", "x_range", "transport", "esm", "class_name", "subscribed_events", "js_property_callbacks",
              "syncable", "file", "filename", "mime_type", "dark_theme", "sidebar_open", "_x")  # fmt: skip
EVENTS = ("document_ready", "button_click", "data_event", "esm_event", "dom_event", "lodstart", "reset", "pan", "tap",
          "mousemove", "wheel", "selectiongeometry", "rangesupdate", "connection_lost", "client_reconnected", "nobody",
          "double_click", "enter-pressed", "")  # fmt: skip
KEYS = (*" srhupetkqwlz+-.[]", "shift+n", "shift+r", "ctrl+z", "ctrl+shift+z", "arrowleft", "escape", "", "nokey")
MODELS = ("ColumnDataSource", "Figure", "Slider", "CustomJS", "Range1d", "app.tab.stream.Ticket", "os.system", "Nobody",
          "panel.models.esm.ReactComponent", "InlineStyleSheet")  # fmt: skip


@dataclass
class Known:
    """A client's knowledge of a page.

    models: id -> (name, attributes); browser: id of the model that receives keys; sources: ids of frames' sources;
    foreign: ids of another page's models.
    """

    models: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    browser: str = ""
    sources: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class Hostile:
    """Makes messages; equal random numbers and equal knowledge yield equal messages."""

    def __init__(self, random_: random.Random, known: Known) -> None:
        self.random, self.known = random_, known
        self.kinds: Sequence[tuple[int, Callable[[], list[Fragment]]]] = (
            (2, self.garbage), (2, self.wrong_head), (2, self.wrong_order), (3, self.wrong_content), (1, self.too_much),
            (2, self.wrong_blocks), (4, self.wrong_event), (14, self.changed_model), (4, self.changed_data),
            (6, self.event), (5, self.browser_message), (4, self.foreign), (4, self.confirmation), (1, self.frame),
            (2, self.new_model),
        )  # fmt: skip

    def message(self) -> tuple[str, list[Fragment]]:
        """Return the name of a kind and a message of that kind."""
        weights, makers = zip(*self.kinds, strict=True)
        (maker,) = self.random.choices(makers, weights)
        return maker.__name__, maker()

    # -- values

    def value(self, depth: int = 0) -> Any:
        """Return any JSON value, or one that Bokeh decodes to an object."""
        pick = self.random.random()
        if pick < 0.35:
            return self.random.choice(NUMBERS)
        if pick < 0.6:
            return self.random.choice(TEXTS)
        if pick < 0.68 or depth > 3:
            return None
        if pick < 0.78:
            return [self.value(depth + 1) for _ in range(self.random.randrange(5))]
        if pick < 0.85:
            return {self.random.choice(TEXTS[:8]): self.value(depth + 1) for _ in range(self.random.randrange(3))}
        return self.special(depth)

    def special(self, depth: int = 0) -> Any:
        """Return a special value of Bokeh's format, often an invalid one."""
        inner = self.value(depth + 1)
        return self.random.choice([
            {"id": self.model()}, {"id": inner}, {"type": "number", "value": self.random.choice(["nan", "+inf", "x"])},
            {"type": "map", "entries": [["key", inner]]}, {"type": "map", "entries": inner},
            {"type": "set", "entries": [inner]}, {"type": "slice", "start": inner, "stop": None, "step": 0},
            {"type": "bytes", "data": base64.b64encode(gzip.compress(b"x" * 99, mtime=0)).decode()},
            {"type": "bytes", "data": inner},
            {"type": "ndarray", "array": [1, 2], "order": "little", "dtype": "float64", "shape": [10**9]},
            {"type": "ndarray", "array": {"type": "bytes", "data": "AAAA"}, "dtype": "int32", "shape": [-1]},
            {"type": "typed_array", "array": inner, "order": "little", "dtype": "float32"},
            {"type": "value", "value": inner}, {"type": "field", "field": inner}, {"type": "symbol", "name": "x"},
            {"type": "datetime", "value": inner}, {"type": "timedelta", "value": 1e300}, {"type": inner},
            {"type": "object", "name": self.random.choice(MODELS), "id": self.random.choice(["new", "p1", inner]),
             "attributes": {"name": inner}},
        ])  # fmt: skip

    def model(self) -> str:
        """Return the id of a model of the page, rarely of a missing one."""
        if not self.known.models or self.random.random() < 0.03:
            return self.random.choice(["p1", "p999999", "", "x" * 200])
        return self.random.choice(list(self.known.models))

    # -- whole messages

    def head(self, kind: str = "PATCH-DOC", **more: Any) -> str:
        """Return the first part of a message."""
        return json.dumps({"msgid": str(self.random.randrange(10**9)), "msgtype": kind, **more})

    def patch(self, *events: Any) -> list[Fragment]:
        """Return a message with these events."""
        return [self.head(), "{}", json.dumps({"events": list(events)})]

    def garbage(self) -> list[Fragment]:
        """Return an input that is no message."""
        size = self.random.choice([0, 1, 16, 1000, 70_000])
        return [
            self.random.choice([self.random.randbytes(size), "[" * size, "{" * size, "é" * size, "null", "9" * size])
        ]

    def wrong_head(self) -> list[Fragment]:
        """Return a message whose first part is wrong."""
        kind = self.random.choice(
            ["PUSH-DOC", "ERROR", "ACK", "OK", "PULL-DOC-REPLY", "SERVER-INFO-REPLY", "", "x" * 999]
        )
        number = self.random.choice([self.value(), -1, 65, 10**9, "1"])
        return self.random.choice([
            [self.head(kind), "{}", "{}"], [self.head(num_buffers=number), "{}", "{}"],
            [json.dumps(self.value()), "{}", "{}"], [self.head(msgid=self.value()), json.dumps(self.value()), "{}"],
            [self.head("PULL-DOC-REQ"), "[]", "null"], [self.head("PULL-DOC-REQ"), "{}", '{"x": 1}'],
        ])  # fmt: skip

    def wrong_order(self) -> list[Fragment]:
        """Return valid parts in a wrong order, too few parts, or texts instead of bytes."""
        parts: list[Fragment] = [self.head(), "{}", json.dumps({"events": []}), self.head(), b"bytes", "{}"]
        self.random.shuffle(parts)
        return parts[: self.random.randrange(1, 6)]

    def wrong_content(self) -> list[Fragment]:
        """Return JSON that is no patch, or invalid JSON."""
        text = self.random.choice([
            json.dumps(self.value()), json.dumps({"events": self.value()}), json.dumps({"events": [self.value()]}),
            '{"events": [', '{"events": NaN}', '{"events": [1e999999]}', f'{{"events": [{"9" * 5000}]}}',
            '{"events": [], "events": [{}]}', json.dumps({"Events": []}), "\ufeff{}", "[]",
        ])  # fmt: skip
        return [self.head(), self.random.choice(["{}", "[]", "null", '{"x": 1}', "x"]), text]

    def too_much(self) -> list[Fragment]:
        """Return content at or beyond a limit."""
        deep = MOST_DEPTH + self.random.choice([-5, 0, 5, 500])
        many = self.random.choice([1000, MOST_VALUES - 10, MOST_VALUES + 10])
        text = self.random.choice(['{"events":[' + "[" * deep + "]" * deep + "]}", '{"events":[' + "0," * many + "0]}"])
        if self.random.random() < 0.1:
            text = '{"events":"' + "x" * self.random.choice([MOST_BYTES // 2, MOST_BYTES + 1]) + '"}'
        return [self.head(), "{}", text]

    def wrong_blocks(self) -> list[Fragment]:
        """Return blocks of bytes that do not match the message."""
        block = {"id": self.random.choice(["7", "8", self.value()])}
        data = {
            "kind": "ModelChanged",
            "model": {"id": self.model()},
            "attr": "data",
            "new": {"type": "bytes", "data": block},
        }
        count = self.random.choice([0, 1, 2, 3])
        parts: list[Fragment] = [self.head(num_buffers=count), "{}", json.dumps({"events": [data]})]
        for _ in range(self.random.randrange(3)):
            parts += [json.dumps({"id": "7"}), self.random.choice([b"", b"block", self.random.randbytes(999), "text"])]
        return parts

    def wrong_event(self) -> list[Fragment]:
        """Return a patch with events of unknown kinds, or with missing entries."""
        kinds = ["ModelChanged", "MessageSent", "ColumnDataChanged", "ColumnsStreamed", "ColumnsPatched",
                 "TitleChanged", "RootAdded", "RootRemoved", "Nobody", None, self.value()]  # fmt: skip
        event: dict[str, Any] = {
            "kind": self.random.choice(kinds),
            "model": {"id": self.model()},
            "attr": self.random.choice(ATTRIBUTES),
        }
        for name in ("new", "data", "column_source", "patches", "title", "rollover", "msg_type", "msg_data"):
            event[name] = self.value()
        for name in self.random.sample(list(event), self.random.randrange(4)):
            del event[name]
        return self.patch(*[event] * self.random.choice([1, 1, 1, 50]))

    def changed_model(self) -> list[Fragment]:
        """Set an attribute of one of the page's models to an invalid value."""
        events = []
        for _ in range(self.random.choice([1, 1, 2, 5])):
            model = self.model()
            own = self.known.models.get(model, ("", ()))[1]
            attribute = self.random.choice([*own, *ATTRIBUTES])
            events.append({"kind": "ModelChanged", "model": {"id": model}, "attr": attribute, "new": self.value()})
        return self.patch(*events)

    def changed_data(self) -> list[Fragment]:
        """Replace, stream or patch the data of a source."""
        source = {"id": self.random.choice([*self.known.sources, self.model()])}
        columns = {"type": "map", "entries": [[self.random.choice(["number", "image", "x"]), self.value()]]}
        return self.patch(self.random.choice([
            {"kind": "ColumnDataChanged", "model": source, "attr": "data", "data": columns, "cols": None},
            {"kind": "ColumnsStreamed", "model": source, "attr": "data", "data": columns, "rollover": self.value()},
            {"kind": "ColumnsPatched", "model": source, "attr": "data",
             "patches": {"type": "map", "entries": [["number", [[self.value(), self.value()]]]]}},
        ]))  # fmt: skip

    def event(self) -> list[Fragment]:
        """Send an event that did not or could not happen."""
        values = [
            ["model", {"id": self.model()}],
            ["data", self.value()],
            ["x", self.value()],
            ["modifiers", self.value()],
        ]
        entries = values[: self.random.randrange(1, 5)]
        data = {"type": "event", "name": self.random.choice(EVENTS), "values": {"type": "map", "entries": entries}}
        kind = self.random.choice(["bokeh_event", "bokeh_event", "bokeh_event", "ping", ""])
        return self.patch({"kind": "MessageSent", "msg_type": kind, "msg_data": data})

    def browser_message(self) -> list[Fragment]:
        """Send a message about the browser's keys, window or address."""
        said = self.random.choice([
            [["key", self.random.choice([*KEYS, self.value()])]], [["width", self.value()], ["height", self.value()]],
            [["visible", self.value()]],
            [["query", self.random.choice(["scene=1.x", "scene=" + "A" * 9000, self.value()])]],
        ])  # fmt: skip
        values = [["model", {"id": self.known.browser}], ["data", {"type": "map", "entries": said}]]
        data = {"type": "event", "name": "data_event", "values": {"type": "map", "entries": values}}
        return self.patch({"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data})

    def foreign(self) -> list[Fragment]:
        """Use another page's models and frames."""
        model = self.random.choice(self.known.foreign or ("p1",))
        event = {
            "kind": "ModelChanged",
            "model": {"id": model},
            "attr": self.random.choice(ATTRIBUTES),
            "new": self.value(),
        }
        root = {"kind": self.random.choice(["RootAdded", "RootRemoved"]), "model": {"id": model}}
        number = self.random.choice([0, 1, 10**9])
        return self.random.choice([self.patch(event), self.patch(root), [f"frame {model} {number} 0.001"]])

    def confirmation(self) -> list[Fragment]:
        """Confirm a frame that was not painted, or send an invalid confirmation."""
        source = self.random.choice([*self.known.sources, "p1"])
        number = self.random.choice(["0", "-1", "1", "999999999999999", "9" * 16, "1e9", "nan", "", "00", "٣"])
        seconds = self.random.choice(["0.001", "0", "999999", "-1", "nan", "inf", "1e3", "0.0000000001", ""])
        return [
            self.random.choice(
                [f"frame {source} {number} {seconds}", f"frame {source}", "frame ", "frame " + "x" * 999]
            )
        ]

    def frame(self) -> list[Fragment]:
        """Return bytes in the format of the server's frames."""
        head = self.random.choice([b"{}", self.random.randbytes(20), b'{"source": "x"}'])
        return [self.random.choice([len(head), 0, 2**32 - 1]).to_bytes(4, "little") + head]

    def new_model(self) -> list[Fragment]:
        """Create models in places that do not accept them."""
        name, own = self.random.choice(MODELS), f"new{self.random.randrange(100)}"
        made = {"type": "object", "name": name, "id": own, "attributes": {"tags": [self.value()]}}
        event = {
            "kind": "ModelChanged",
            "model": {"id": self.model()},
            "attr": self.random.choice(ATTRIBUTES),
            "new": made,
        }
        return self.patch(self.random.choice([event, {"kind": "RootAdded", "model": made}]))
