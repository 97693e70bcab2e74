"""What Panel and Bokeh do otherwise than needed, or offer only in private, and what no other module here is about."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import bokeh.io.doc
import panel as pn
import panel_material_ui
import panel_material_ui as pmui
import param
from bokeh.application.handlers import code
from bokeh.document import Document
from bokeh.models import InlineStyleSheet
from bokeh.models.css import StyleSheet
from bokeh.resources import Resources
from bokeh.server import contexts
from bokeh.server.contexts import ApplicationContext
from bokeh.server.session import ServerSession, current_time
from bokeh.server.tornado import BokehTornado
from bokeh.server.views import ws
from bokeh.util.token import get_token_payload
from panel.custom import JSComponent, ReactiveESM
from panel.io import handlers, server
from panel.io.resources import LOCAL_DIST
from panel.io.resources import Resources as PanelResources
from panel.io.server import DocHandler
from panel.models.browser import BrowserInfo
from panel.reactive import Reactive, Syncable
from panel.util import edit_readonly
from panel.widgets.select import SingleSelectBase
from panel_material_ui.base import FONT_CSS, MaterialComponent
from tornado.ioloop import IOLoop

from app.bokeh_messages import Beside

log = logging.getLogger(__name__)

HOUR = 3_600_000  # ms: longer than a turn of any callback


def begin_housekeeping() -> None:
    """Have Panel begin its process-wide housekeeping of busy widgets now, before there is a page.

    It is a task that never ends. Panel begins it with the first event of any widget, and a task keeps the context it
    was begun in: the whole page of the first visitor would stay in memory.

    The event is a callback that Panel calls once and cancels. It is cancelled where it would wait for its next turn: a
    turn that takes longer than its period waits for nothing, and holds the loop (1 ms did so on a slow computer).
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=HOUR, count=1)


def load_early(document: Document) -> None:
    """Have Panel take the page of `document` for loaded, and run `pn.state.onload`, once its browser hears of changes.

    By itself Panel does so when the last component is drawn, one to two seconds later. Until then it takes the page for
    one that is still to be sent, and drops what is changed under a hold, which is all that a layout or a component is
    told (`panel.io.document._drain_unconnected_events`). But a browser hears of every change as soon as each root has
    its views: it makes them one root after the other, and one that Panel adds behind the page says at once what browser
    this is. A change that came sooner could meet views that do not listen yet.
    """

    def load(attr: str, old: object, new: object) -> None:
        """Load; the document's "ready" does it once more, and finds nothing to do."""
        pn.state._on_load(document)  # noqa: SLF001 as above

    for browser in document.select({"type": BrowserInfo}):
        browser.on_change("device_pixel_ratio", load)


def serve_own_files(document: Document) -> None:
    """Load the styles of `document` from this server, as Panel does for a page that a GET request creates.

    A page that is built ahead of its visitor is created without such a request.
    """
    folder = pn.state.rel_path
    document.template_variables["dist_url"] = f"{folder}/{LOCAL_DIST}" if folder else LOCAL_DIST


FIRST, NEXT = 5, 50  # ms that what a browser changes is collected: after a pause, and while it goes on changing


def shorten_pause_before_events() -> None:
    """Have what a browser changes count after FIRST, if its component was at rest, and else after NEXT.

    Panel waits 50 ms in either case, to take a slider that is dragged, or a field that is typed in, for less than each
    of its values: half of what it took until a press of a key on a slider was seen. FIRST joins the two messages of
    such a press, the value and the value that it rests at.
    """
    last = "_fieldlab_heard"  # when what came last was to count, by time.monotonic

    def wait(component: Syncable) -> int:
        """Milliseconds until what has come now counts."""
        now = time.monotonic()
        milliseconds = max(FIRST, min(NEXT, round(1000 * (getattr(component, last, 0.0) - now) + NEXT)))
        setattr(component, last, now + milliseconds / 1000)
        return milliseconds

    Syncable._debounce = property(wait)  # type: ignore[assignment] # noqa: SLF001 Panel has one number for all


def _nothing() -> None:
    """An event is enough."""


class NeverBusy(param.Parameterized):
    """Takes the place of the process-wide busy flag, whose watchers would keep every closed page alive."""

    busy = param.Boolean(default=False)


def never_busy(page: Any) -> None:
    """Give a page template a busy flag of its own."""
    with edit_readonly(page):
        page.busy = NeverBusy().param.busy


MATERIAL = "@mui/material/"  # by which Panel's browser side knows a component of this family


def shorten_import_maps() -> None:
    """Have components that come from Material's bundle say no more than that.

    Panel sends each of them the addresses of thirty libraries, 2 kB that the browser reads and compares each time,
    though all of them are in the bundle.
    """
    given = MaterialComponent._get_properties  # noqa: SLF001 Panel offers no other place for it

    def properties(component: MaterialComponent, document: Document | None) -> dict[str, Any]:
        """The properties of its model."""
        known: dict[str, Any] = given(component, document)
        imports = known["importmap"].get("imports", {})
        if known["bundle"] == "url" and MATERIAL in imports:
            known["importmap"] = {"imports": {MATERIAL: imports[MATERIAL]}}
        return known

    MaterialComponent._get_properties = properties  # noqa: SLF001 as above


MOST_TEXT = 5000  # characters of a text field: Panel's max_length, which a message may set, too
SHORT = 250  # characters of CSS that are not worth a model


def share_stylesheets() -> None:
    """Have a document hold each text of CSS once: Panel sends the page's own, 4 kB, with each piece of HTML."""
    given = Reactive._get_properties  # noqa: SLF001 Panel takes no models for the parameter

    def properties(component: Reactive, document: Document | None) -> dict[str, Any]:
        """The properties of its model."""
        known: dict[str, Any] = given(component, document)
        if document is not None and "stylesheets" in known:
            sheets: dict[str, StyleSheet] = pn.state._stylesheets.setdefault(document, {})  # noqa: SLF001 where Panel has the others
            known["stylesheets"] = [_shared(sheet, sheets) for sheet in known["stylesheets"]]
        return known

    Reactive._get_properties = properties  # noqa: SLF001 as above


EXTENSIONS = {
    "panel": Path(pn.__file__).parent / "dist",
    "panel-material-ui": Path(panel_material_ui.__file__).parent / "dist",
}
SHEETS = (  # of those: what components ask for, each in its own shadow root
    "panel/css/loading.css",
    "panel/css/listpanel.css",
    "panel/css/markdown.css",
    "panel/bundled/theme/material.css",
    "panel/bundled/theme/material_variables.css",
    "panel-material-ui/panel-material-ui.bundle.css",
)
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")


@cache
def component_stylesheets() -> dict[str, str]:
    """The text of each style sheet that components link to, by its address below static/extensions/.

    A page has it in its head, and static/bokeh_patches.js puts it in the place of the links: 256 of them, each of which
    came some time after its component and had that drawn and laid out anew. Fonts are left out: those of the page's
    own sheets count, and none within a component.
    """
    found = {}
    for name in SHEETS:
        extension, _, path = name.partition("/")
        found[name] = FONT_FACE.sub("", (EXTENSIONS[extension] / path).read_text(encoding="utf-8"))
    return found


def load_fonts_for_their_letters() -> None:
    """Have a browser load of Roboto what has the letters of the page.

    Material's sheet of icons names every part of that font once more, for all letters: a browser loads all eighteen,
    one after the other, and draws and lays out the page anew for each. Its bundle's sheet has them, and the icons, too.
    """
    FONT_CSS.clear()


def font_files() -> list[str]:
    """The fonts that every page needs, as addresses below static/extensions/: its letters, plain and bold."""
    folder = EXTENSIONS["panel-material-ui"]
    found = [next(iter(sorted(folder.glob(f"roboto-latin-{weight}-normal-*.woff2"))), None) for weight in (400, 700)]
    return [f"panel-material-ui/{path.name}" for path in found if path is not None]


def leave_own_scripts_as_they_are() -> None:
    """Have a browser take the scripts of this project's components for the JavaScript that they are.

    Panel translates each from TypeScript, in the browser and with every visit, unless it comes from a bundle.
    """
    given = ReactiveESM._get_properties  # noqa: SLF001 Panel offers no other place for it

    def properties(component: ReactiveESM, document: Document | None) -> dict[str, Any]:
        """The properties of its model."""
        known: dict[str, Any] = given(component, document)
        kind = type(component)
        if isinstance(component, JSComponent) and kind.__module__.startswith("app.") and known.get("bundle") is None:
            known["bundle"] = f"{kind.__module__}.{kind.__name__}"
        return known

    ReactiveESM._get_properties = properties  # type: ignore[method-assign] # noqa: SLF001 as above


def write_html_alone() -> None:
    """Have a piece of HTML that changes write its text alone: Panel finds all its properties anew, styles too.

    A status bar costs 36 us so, and 620 us otherwise.
    """

    def update(pane: pn.pane.HTML, ref: str, model: Any) -> None:
        """Take the place of Panel's own, which is called when the HTML has changed, or how it is made safe."""
        model.text = pane._transform_object(pane.object)["object"]  # noqa: SLF001 as above

    pn.pane.HTML._update = update  # noqa: SLF001 as above


def _shared(sheet: StyleSheet | str, sheets: dict[str, StyleSheet]) -> StyleSheet | str:
    if not isinstance(sheet, str) or len(sheet) < SHORT:
        return sheet
    if sheet not in sheets:
        sheets[sheet] = InlineStyleSheet(css=sheet)
    return sheets[sheet]


def leave_webgl_out() -> None:
    """Have no page load Bokeh's part for WebGL, 194 kB: every plot here is drawn on a canvas."""
    given = BokehTornado.resources

    def resources(server: BokehTornado, absolute_url: str | bool | None = None) -> Resources:
        """Bokeh's resources."""
        found = given(server, absolute_url)
        found.components = [part for part in found.components if part != "bokeh-gl"]
        return found

    BokehTornado.resources = resources  # type: ignore[method-assign]


def write_pages_beside(beside: Beside) -> None:
    """Write the page that answers a GET beside the loop: it takes 40 ms, most of them for the addresses in its head.

    One of a session at a time: whoever asks for a page that is there, by its token, asks app/admission.py for nothing.
    """
    given, write = DocHandler.get_session, server.server_html_page_for_session
    written: WeakKeyDictionary[ServerSession, tuple[str, str]] = WeakKeyDictionary()  # token -> page
    writing: WeakKeyDictionary[ServerSession, asyncio.Lock] = WeakKeyDictionary()

    async def get_session(handler: DocHandler) -> ServerSession:
        """Panel's own; then the page is written, as Panel does next."""
        session = await given(handler)
        document, token = session.document, session.token
        resources = PanelResources.from_bokeh(handler.application.resources())
        named = {"title": document.title, "token": token, "template": document.template}
        variables = document.template_variables
        page = partial(write, session, resources=resources, template_variables=variables, **named)
        async with writing.setdefault(session, asyncio.Lock()), beside.turn(short=True):
            written[session] = token, await beside.work(document, page)
        return session

    def page(session: ServerSession, *about: Any, **named: Any) -> str:
        """What was written for this token; else Panel's own."""
        token, text = written.pop(session, ("", ""))
        return text if token and token == named.get("token") else write(session, *about, **named)

    DocHandler.get_session = get_session
    server.server_html_page_for_session = page


def is_destroyed(document: Document) -> bool:
    """Whether the page of `document` is over; it takes no callbacks then. Bokeh tells it nowhere else."""
    return isinstance(document, Document) and not hasattr(document, "_roots")


def session_ids(context: ApplicationContext) -> set[str]:
    """Return the ids of the sessions that there are or that are being made; Bokeh tells them nowhere else."""
    return {*context._sessions, *context._pending_sessions}  # noqa: SLF001


def hand_over(session: ServerSession, context: ApplicationContext, name: str, request: Any, token: str | None) -> None:
    """Make `session`, which the server began by itself and keeps from expiring, the session `name` of `request`.

    It is then as if `context` had made it for that: Bokeh gives a session its id, request and token at its start alone.
    """
    its = context._session_contexts.pop(session.id)  # noqa: SLF001 as above
    del context._sessions[session.id]  # noqa: SLF001
    payload = get_token_payload(token) if token else {}
    kept = {part: payload.get(part) for part in ("arguments", "cookies", "headers")}
    session._id = its._id = name  # type: ignore[assignment] # noqa: SLF001
    session._token = its._token = token  # noqa: SLF001
    its._request = contexts._RequestProxy(request, **kept)  # type: ignore[arg-type] # noqa: SLF001
    context._sessions[session.id], context._session_contexts[session.id] = session, its  # noqa: SLF001
    session._last_unsubscribe_time = current_time()  # noqa: SLF001 its browser has as long to come as any other
    session.unblock_expiration()


def on_websocket_error(protocol: Callable[[Any, str], None], internal: Callable[[Any, str], None]) -> None:
    """Call protocol(handler, words) where a browser broke the protocol, internal(...) where a message failed here."""
    ws.WSHandler._protocol_error = protocol  # noqa: SLF001 bokeh has no other place for it
    ws.WSHandler._internal_error = internal  # noqa: SLF001 as above


class _OfEachThread(threading.local):
    """A list of each thread's own: as much of one as `bokeh.io.doc` uses."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: int) -> Any:
        return self._entries[place]

    def append(self, entry: Any) -> None:
        """Put `entry` on top of this thread's stack."""
        self._entries.append(entry)

    def pop(self) -> Any:
        """Take the top of this thread's stack off, and return it."""
        return self._entries.pop()


def keep_current_documents_apart() -> None:
    """Have every thread know its own current document, and only as long as what it does for that one lasts.

    Bokeh keeps one stack of them for all threads, and leaves a document on it after an error. An engine's thread that
    told a page something at the wrong moment, or an error in any page's callback, had the pages of all others drawn
    into a document that was not theirs, and closed maybe: their plots of HoloViews could not be made from then on.
    """
    stack = _OfEachThread()

    @contextmanager
    def patch_curdoc(document: Any) -> Iterator[None]:
        """Let `document` be the current one meanwhile."""
        stack.append(weakref.ref(document))
        try:
            yield
        finally:
            stack.pop()

    bokeh.io.doc._PATCHED_CURDOCS = stack  # type: ignore[assignment] # noqa: SLF001 it has no other place for it
    for module in (bokeh.io.doc, code, handlers):
        module.patch_curdoc = patch_curdoc  # type: ignore[attr-defined]


def hold_documents_for_events() -> None:
    """Have what a browser's events set off hold the document, as what its changes of values set off does.

    Panel runs the handlers of an event without the document's lock, and before them those of all changes that still
    wait, 5 to 50 ms each. What such a handler changes of a plot raised an exception then, and the rest was left undone:
    a slider was moved, a key pressed at once, and the slider's value was never asked for.
    """
    for coroutine in (Syncable._event_coroutine, Syncable._change_coroutine):  # noqa: SLF001
        coroutine.lock = True  # type: ignore[attr-defined] # as pn.io.with_lock says it of a function


def refuse_what_is_no_option() -> None:
    """Have a widget of options refuse a message whose value is none of them, with one line in the log.

    Panel looks up what came, and what is not there, or cannot be, ends in an exception with its traceback.
    """
    for kind, key in (SingleSelectBase, str), (pmui.DiscreteSlider, int):
        _refuse_others(kind, key)


def refuse_what_no_field_sends() -> None:
    """Have a text field refuse messages of more than MOST_TEXT characters, or without a text, with a line in the log.

    The browser's field sends neither. Panel parses a number as Python code, on the loop: 4 MB took half a minute and
    gigabytes. None passes Panel's own check and then fails in the function that parses the text.
    """
    for kind in pmui.TextInput, pmui.LiteralInput:
        _refuse_other_texts(kind)


def _refuse_other_texts(kind: type[Any]) -> None:
    given = kind._process_property_change  # noqa: SLF001 Panel has no other place for it

    def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Panel's own, of what is not refused."""
        sent = {name: message[name] for name in ("value", "value_input") if name in message}
        refused = [name for name, text in sent.items() if not isinstance(text, str) or len(text) > MOST_TEXT]
        if refused:
            log.warning("a %s was sent no text of at most %d characters", type(widget).__name__, MOST_TEXT)
            message = {name: its for name, its in message.items() if name not in refused}
        done: dict[str, Any] = given(widget, message)
        return done

    kind._process_property_change = change  # noqa: SLF001 as above


def _refuse_others(kind: type[Any], key: type) -> None:
    """Let widgets of `kind` take no message whose value is none of their options.

    key: str where a message names an option, int where it counts them.
    """
    given = kind._process_property_change  # noqa: SLF001 Panel has no other place for it

    def change(widget: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Panel's own, of what is not refused."""
        options = range(len(widget.labels)) if key is int else [*widget.unicode_values, *widget.labels]
        value = message.get("value")
        if options and "value" in message and (type(value) is not key or value not in options):
            log.warning("a %s of %d options was sent another: %.99r", type(widget).__name__, len(widget.labels), value)
            message = {name: its for name, its in message.items() if name != "value"}
        done: dict[str, Any] = given(widget, message)
        return done

    kind._process_property_change = change  # noqa: SLF001 as above
