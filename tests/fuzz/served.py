"""`python -m tests.fuzz.served`: `panel serve` with a handler at /truth that reports the state of each page.

A client can compare the page's widgets, the session's values and the engine's values, and read the origins of all
exceptions, of which the bounded log has only a few.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bokeh.server.tornado import BokehTornado
from panel.command import main
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from app.page.widgets import ValueWidgets
from app.server.admission import session_limiter
from app.server.browser_changes import kind_of
from app.server.builder import builder
from app.tab.lab_tab import LabTab
from compute.export.link import unpacked
from compute.export.scene import Scene

ROOT = Path(__file__).resolve().parent.parent.parent
PASSING = (
    "app/upstream/document_changes.py",
    "app/server/browser_changes.py",
    "app/server/message_bounds.py",
    "app/tab/frame_channel.py",
)
RAISED: Counter[str] = Counter()  # logged exceptions, by message and place in our code


def plain(value: Any) -> Any:
    """Return `value` after a round trip through JSON."""
    return json.loads(json.dumps(value, default=repr))


def groups(controls: ValueWidgets) -> Iterator[ValueWidgets]:
    """Yield `controls` and its nested groups of widgets."""
    yield controls
    for inner in vars(controls).values():
        if isinstance(inner, ValueWidgets):
            yield from groups(inner)


def state_of(tab: LabTab) -> dict[str, Any]:
    """Return the state of a lab's tab: the values of its session, engine, widgets and link."""
    session = tab.session
    handle = session.shown.handle
    state = handle._lab if handle is not None else None
    widgets = {}
    for group in groups(tab.controls):
        for name, widget in group._widgets.items():
            models = [model.data.id for model, _ in widget._models.values() if hasattr(model, "data")]
            widgets[f"{type(group).__name__}.{name}"] = [widget.value, session.values[name], models]
    return {
        "phase": session.phase, "playing": session.playing, "values": dict(session.values), "widgets": widgets,
        "applied": dict(state.values) if state else {},
        "pending": {name: value for _, update in (state.unapplied if state else ()) for name, value in update.items()},
        "running": state.running if state else None,
        "link": values_at_the_end(unpacked(tab.address.text)) if tab.address.text else None,
    }  # fmt: skip


def values_at_the_end(scene: Scene) -> dict[str, Any]:
    """Return the values at the end of a scene: the initial ones, with the later changes of its history."""
    values = dict(scene.values)
    for entry in scene.history:
        values |= entry.get("set", {})
    return values


async def nothing_is_built() -> None:
    """Wait for the builder's thread to finish: reading a tuple while the thread builds it breaks the tuple."""
    while builder().busy:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


class Truth(RequestHandler):
    """GET /truth."""

    async def get(self) -> None:
        """Return the state; with ?page=ID of that page alone.

        With ?models=ID return the properties of all models of that page.
        """
        await nothing_is_built()
        if page := self.get_argument("models", ""):
            self.finish(plain({"models": list(properties_of(page))}))
            return
        wanted = self.get_argument("page", "")
        pages = {
            name: {"shown": page.current and page.current.session.lab.LAB, "labs": {
                lab: state_of(tab) for lab, tab in page.labs.open.items() if tab.started}}
            for page, name in session_limiter().pages.items() if wanted in {"", name}
        }  # fmt: skip
        self.finish(plain({"pages": pages, "raised": RAISED}))


def properties_of(page: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the id, kind and properties, as text, of each model of the page with that session id."""
    (document,) = (one.document for one, name in session_limiter().pages.items() if name == page)
    for model in document.models:
        values = model.properties_with_values(include_undefined=True)
        yield model.id, kind_of(model), {name: repr(value) for name, value in values.items()}


class NotedRecord(logging.LogRecord):
    """A log record that counts its exception by the place in our code that raised it."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        if self.exc_info and self.exc_info[1] is not None:
            RAISED[where(self.exc_info[1])] += 1


def where(error: BaseException) -> str:
    """Return the error's kind and the last place in our code on its traceback, if any."""
    places = traceback.extract_tb(error.__traceback__)
    own = [one for one in places if Path(one.filename).is_relative_to(ROOT) and ".venv" not in one.filename]
    ours = [one for one in own if not one.filename.endswith(PASSING)]
    if ours:
        return (
            f"{Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].lineno} {type(error).__name__}: {str(error)[:80]}"
        )
    last = f", {Path(places[-1].filename).name}:{places[-1].lineno}" if places else ""
    return f"{type(error).__name__}{last}"


def install() -> None:
    """Install the handler of /truth, and count exceptions."""
    logging.setLogRecordFactory(NotedRecord)
    find = BokehTornado.find_handler

    def find_handler(server: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
        """Return the handler for /truth, and Bokeh's for other paths."""
        if request.path == "/truth":
            return server.get_handler_delegate(request, Truth)
        return find(server, request, **options)

    BokehTornado.find_handler = find_handler  # type: ignore[method-assign]


if __name__ == "__main__":
    install()
    sys.argv[1:1] = ["serve"]
    main()
