"""A page asks this server for its files, and no other: also one whose session began with a WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace

import bokeh.io.doc
import holoviews as hv
import panel as pn
import panel_material_ui as pmui
import pytest
from bokeh.document import Document
from bokeh.document.callbacks import invoke_with_curdoc
from bokeh.resources import Resources
from panel.custom import JSComponent, ReactiveESM
from panel.io import server
from panel.io.document import _destroy_document
from panel.io.server import DocHandler
from panel.io.state import set_curdoc
from panel.reactive import Syncable
from panel.widgets.select import SingleSelectBase

from app import panel_workarounds
from app.labs.l_curve.linked_view import draw_linked
from app.panel_workarounds import MOST_TEXT
from app.widgets import Card

PULLED = """
import asyncio, json, tornado.httpclient, tornado.websocket
from bokeh.util.token import generate_jwt_token, generate_session_id
from panel.io.server import get_server
from app import access, admission, message_bounds
access.install(); admission.install(); message_bounds.install()

async def main():
    server = get_server({"/app": "app/main.py"}, address="127.0.0.1")
    server._tornado._websocket_origins.add(f"localhost:{server.port}")
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    base = f"127.0.0.1:{server.port}"
    socket = await tornado.websocket.websocket_connect(f"ws://{base}/app/ws", subprotocols=protocols)
    for _ in range(3):
        await socket.read_message()
    for text in {"msgid": "1", "msgtype": "PULL-DOC-REQ"}, {}, {}:
        await socket.write_message(json.dumps(text))
    parts = [await asyncio.wait_for(socket.read_message(), 240) for _ in range(3)]
    page = await tornado.httpclient.AsyncHTTPClient().fetch(f"http://{base}/app", request_timeout=240)
    print(json.dumps([parts[2], page.body.decode()]))

asyncio.run(main())
"""


def urls(found: object) -> list[str]:
    """Every address in a document."""
    if isinstance(found, dict):
        return [text for value in found.values() for text in urls(value)]
    if isinstance(found, list):
        return [text for value in found for text in urls(value)]
    return [found] if isinstance(found, str) and found.split("?")[0].endswith((".css", ".js")) else []


def test_a_page_that_began_with_a_websocket_has_its_files_here() -> None:
    """As one whose laptop slept longer than its session lived."""
    command = [sys.executable, "-c", PULLED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    document, page = json.loads(done.stdout)
    found = urls(json.loads(document))
    assert found
    assert not [url for url in found if "//" in url]
    assert "cdn." not in page


HELD = """
from bokeh.document import Document
from app import panel_workarounds
panel_workarounds.share_stylesheets()
import panel as pn
from app.theme import html_pane, stylesheet
document = Document()
root = pn.Column(*(html_pane(f"<p>{number}</p>") for number in range(3))).get_root(document)
held = {sheet for child in root.children for sheet in child.stylesheets if not isinstance(sheet, str)}
whole = [sheet for sheet in held if getattr(sheet, "css", "") == stylesheet()]
other = html_pane("<p></p>").get_root(Document()).stylesheets
print(len(whole), any(sheet in held for sheet in other if not isinstance(sheet, str)))
"""


SHORTENED = """
from types import SimpleNamespace
from app import panel_workarounds
panel_workarounds.shorten_import_maps()
import panel_material_ui as pmui
from bokeh.document import Document

class Own(pmui.MaterialUIComponent):
    _esm_base = "export function render() { return null }"

document = Document()
document._session_context = lambda: SimpleNamespace(server_context=SimpleNamespace())
button, own = (part._get_properties(document) for part in (pmui.Button(), Own()))
print(button["bundle"], len(button["importmap"]["imports"]), "react" in own["importmap"]["imports"])
"""


WEBGL = """
from bokeh.server.tornado import BokehTornado
from app.panel_workarounds import leave_webgl_out
server = BokehTornado({})
before = server.resources().components
leave_webgl_out()
print([part for part in before if part not in server.resources().components])
"""


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What the three say, in a process of their own: they change classes of Panel's and Bokeh's."""
    command = [sys.executable, "-c", HELD + SHORTENED + WEBGL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_a_document_holds_its_stylesheet_once_and_shares_it_with_no_other(told: list[str]) -> None:
    assert told[0] == "1 False"


def test_what_comes_from_material_s_bundle_names_no_libraries(told: list[str]) -> None:
    assert told[1] == "url 1 True"


def test_no_page_loads_the_part_for_webgl(told: list[str]) -> None:
    assert told[2] == "['bokeh-gl']"


def test_html_that_changes_writes_its_text_and_nothing_else(monkeypatch):
    """Nothing else of it is looked at; a change of its styles is written as ever."""
    monkeypatch.setattr(pn.pane.HTML, "_update", pn.pane.HTML._update)
    panel_workarounds.write_html_alone()
    document, pane = Document(), pn.pane.HTML("<b>1</b>", stylesheets=[":host { color: red }"])
    model = pane.get_root(document)
    document.add_root(model)
    looks, theirs = [], pn.pane.HTML._get_properties
    monkeypatch.setattr(pn.pane.HTML, "_get_properties", lambda *given: looks.append(given) or theirs(*given))
    sheets, changed = model.stylesheets, []
    document.on_change(lambda event: changed.append(event.attr))
    with set_curdoc(document):
        pane.object = "<b>2 & 3</b>"
    assert model.text == "&lt;b&gt;2 &amp; 3&lt;/b&gt;"
    assert changed == ["text"]
    assert not looks
    assert model.stylesheets is sheets
    with set_curdoc(document):
        pane.styles = {"color": "green"}
    assert model.styles == {"color": "green"}


def test_a_press_counts_at_once_and_a_drag_twenty_times_a_second(monkeypatch):
    """Milliseconds that Panel waits after a message of a browser: each component has its own pauses."""
    monkeypatch.setattr(Syncable, "_debounce", Syncable._debounce)
    now = [100.0]
    monkeypatch.setattr(panel_workarounds, "time", SimpleNamespace(monotonic=lambda: now[0]))
    panel_workarounds.shorten_pause_before_events()
    slider, other = pn.widgets.FloatSlider(), pn.widgets.FloatSlider()

    def waits(seconds, component=slider):
        """Of a message that comes so much later."""
        now[0] += seconds
        return component._debounce

    assert waits(0) == 5
    assert [waits(0.016), waits(0.050), waits(0.049)] == [39, 39, 40]  # each is due 50 ms after the one before
    assert waits(0.001, other) == 5
    assert waits(0.2) == 5


# A browser's end of a page that is served: opened(page) returns what sends a message, and what waits for one.
CLIENT = """
import asyncio, json
from bokeh.util.token import generate_jwt_token, generate_session_id
from panel.io.server import get_server
from tornado.websocket import websocket_connect

async def opened(page):
    server = get_server({"/": page}, address="127.0.0.1", websocket_origin=["*"])
    server.start()
    protocols = ["bokeh", generate_jwt_token(generate_session_id())]
    client = await websocket_connect(f"ws://127.0.0.1:{server.port}/ws", subprotocols=protocols)

    async def message():
        header, _, content = [json.loads(await asyncio.wait_for(client.read_message(), 240)) for _ in range(3)]
        return header, content

    async def send(number, kind, content):
        for text in {"msgid": number, "msgtype": kind}, {}, content:
            await client.write_message(json.dumps(text))

    return send, message
"""
# A page whose browser says what it is, but never that it has drawn the page. What changes before that word goes into
# the document that is still to be sent.
EARLY = (
    CLIENT
    + """
import panel as pn, panel_material_ui as pmui
from app import bokeh_messages, panel_workarounds
bokeh_messages.send_at_once(); bokeh_messages.one_message_a_turn(); bokeh_messages.allow_listed_changes()
begun = []

def page():
    pn.extension()
    save, notes = pmui.Button(label="save", disabled=True), pn.Column(name="notes")
    page = pmui.Page(main=[pn.Row(save), notes])

    def begin():
        begun.append(True)
        save.disabled = False
        notes.append(pn.pane.Str("first"))
        with pn.io.hold():
            save.label = "save it"
            notes.append(pn.pane.Str("second"))

    pn.state.onload(begin)
    page.servable()
    panel_workarounds.load_early(pn.state.curdoc)

async def main():
    send, message = await opened(page)

    async def ask(number, kind, content):
        await send(number, kind, content)
        told = []
        while True:
            header, content = await message()
            if header.get("reqid") == number:
                return told, content
            told += content["events"]

    def changed(model, attr, new):
        return {"events": [{"kind": "ModelChanged", "model": {"id": model["id"]}, "attr": attr, "new": new}]}

    await message()
    _, reply = await ask("1", "PULL-DOC-REQ", {})
    (browser,) = [root for root in reply["doc"]["roots"] if root["name"] == "panel.models.browser.BrowserInfo"]
    count = [len(begun)]
    told = (await ask("2", "PATCH-DOC", changed(browser, "device_pixel_ratio", 2.0)))[0]
    told += (await ask("3", "PATCH-DOC", changed(browser, "language", "en")))[0]
    count.append(len(begun))
    ready = {"type": "event", "name": "document_ready", "values": {"type": "map"}}
    said = {"events": [{"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": ready}]}
    late = (await ask("4", "PATCH-DOC", said))[0]
    late += (await ask("5", "PATCH-DOC", changed(browser, "language", "de")))[0]
    print(json.dumps([[*count, len(begun)], told, late]))

asyncio.run(main())
"""
)


def test_what_changes_before_a_page_is_drawn_in_whole_reaches_its_browser_once_and_in_order() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    begun, told, late = json.loads(done.stdout)
    assert begun == [0, 1, 1]
    kinds = {"disabled", "label", "children"}
    (first, enabled), (second, notes), (third, label) = [(e["attr"], e["new"]) for e in told if e["attr"] in kinds]
    assert (first, second, third) == ("disabled", "children", "label")  # of several of one property the last counts
    assert (enabled, label) == (False, "save it")
    assert [re.sub("&lt;.*?&gt;", "", note["attributes"]["text"]) for note in notes] == ["first", "second"]
    assert not [event for event in late if event.get("attr") in kinds]


@pytest.fixture
def apart(monkeypatch):
    for module in (bokeh.io.doc, panel_workarounds.code, panel_workarounds.handlers):
        monkeypatch.setattr(module, "patch_curdoc", module.patch_curdoc)  # put back afterwards
    monkeypatch.setattr(bokeh.io.doc, "_PATCHED_CURDOCS", [])
    panel_workarounds.keep_current_documents_apart()


def test_an_error_of_one_page_leaves_its_document_to_nobody(apart):
    mine, other = Document(), Document()

    def failing():
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        invoke_with_curdoc(other, failing)
    assert bokeh.io.curdoc() is not other
    assert invoke_with_curdoc(mine, bokeh.io.curdoc) is mine


def test_what_another_thread_does_for_a_page_is_no_business_of_this_one(apart):
    mine, other, inside, leave = Document(), Document(), Event(), Event()

    def elsewhere():
        def told():
            inside.set()
            leave.wait(30)

        invoke_with_curdoc(other, told)

    thread = Thread(target=elsewhere)
    thread.start()
    try:

        def here():
            inside.wait(30)
            seen = bokeh.io.curdoc()
            leave.set()
            thread.join(30)
            return seen, bokeh.io.curdoc()

        assert invoke_with_curdoc(mine, here) == (mine, mine)
    finally:
        leave.set()
        thread.join()


def test_the_end_of_a_document_is_seen():
    document = Document()
    assert not panel_workarounds.is_destroyed(document)
    document.destroy = partial(_destroy_document, document)  # as Panel does where it makes one
    document.destroy(None)
    assert panel_workarounds.is_destroyed(document)


def test_a_plot_of_holoviews_belongs_to_its_page_whatever_document_is_current():
    mine, other = Document(), Document()
    plot, _ = invoke_with_curdoc(other, lambda: draw_linked(hv.Curve([1, 2]), mine, "curve"))
    assert plot.document is mine


# A page whose slider and button change a model directly. Its browser says that both were used in one breath, so that
# the button's event comes while the slider's value still waits.
HASTY = (
    CLIENT
    + """
import panel as pn, panel_material_ui as pmui
from bokeh.models import Div
from app import bokeh_messages, panel_workarounds
bokeh_messages.send_at_once(); bokeh_messages.one_message_a_turn()
panel_workarounds.hold_documents_for_events()
LAST = "moved to 5.0 and pressed"

def page():
    pn.extension()
    div = Div(text="-")
    slider, button = pmui.FloatSlider(name="slider", start=0, end=9), pmui.Button(name="button")

    def moved(event):
        div.text = f"moved to {event.new}"

    def pressed(event):
        div.text += " and pressed"

    slider.param.watch(moved, "value")
    button.on_click(pressed)
    pn.Row(slider, button, pn.pane.Bokeh(div)).servable()

def models(part):
    if isinstance(part, dict):
        if part.get("type") == "object" and "id" in part:
            yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from models(inner)

async def main():
    send, message = await opened(page)

    def event(name, values):
        data = {"type": "event", "name": name, "values": {"type": "map", "entries": values}}
        return {"events": [{"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data}]}

    await message()
    await send("1", "PULL-DOC-REQ", {})
    while True:
        header, reply = await message()
        if header.get("reqid") == "1":
            break
    found = {part["attributes"].get("class_name"): part for part in models(reply) if "attributes" in part}
    await send("2", "PATCH-DOC", event("document_ready", []))
    slider = {"id": found["FloatSlider"]["attributes"]["data"]["id"]}
    slid = {"kind": "ModelChanged", "model": slider, "attr": "value", "new": 5.0}
    await send("3", "PATCH-DOC", {"events": [slid]})
    model = ["model", {"id": found["Button"]["id"]}]
    await send("4", "PATCH-DOC", event("dom_event", [model, ["node", "click"], ["data", {"type": "map"}]]))
    while LAST not in [event.get("new") for event in (await message())[1].get("events", ())]:
        pass
    print("both")

asyncio.run(main())
"""
)


def test_a_button_pressed_right_after_a_slider_was_moved_leaves_both_done() -> None:
    """Found by `make fuzz`: Panel held no lock then, and a plot must not be changed without it."""
    done = subprocess.run([sys.executable, "-c", HASTY], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["both"]
    assert "does not hold its lock" not in done.stderr


@pytest.mark.parametrize(
    ("widget", "hostile", "good", "becomes"),
    [
        (pmui.Select(options=["a", "b"], value="a"), ("z", None, 7, ["b"], {}), "b", "b"),
        (pmui.RadioButtonGroup(options={"one": 1, "two": 2}, value=1), ("z", None, 7.5, ["two"], {}), "two", 2),
        (pmui.DiscreteSlider(options={"low": 10, "high": 20}, value=10), ("z", None, 2, -1, 1.5, True, 1e308), 1, 20),
    ],
)
def test_what_is_no_option_is_refused_in_words(monkeypatch, caplog, widget, hostile, good, becomes) -> None:
    """Found by a fuzz of messages."""
    for kind in (SingleSelectBase, pmui.DiscreteSlider):
        monkeypatch.setattr(kind, "_process_property_change", kind._process_property_change)
    panel_workarounds.refuse_what_is_no_option()
    before = widget.value
    for value in hostile:
        caplog.clear()
        widget._process_events({"value": value})
        assert widget.value == before
        (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
        assert type(widget).__name__ in record.getMessage()
        assert not record.exc_info
    widget._process_events({"value": good})
    assert widget.value == becomes


@pytest.mark.parametrize("kind", [pmui.TextInput, pmui.LiteralInput])
def test_a_text_that_no_field_takes_is_refused_in_words(monkeypatch, caplog, kind) -> None:
    """Python's parser was given whatever came, on the loop: 4 MB took half a minute and 1.8 GB."""
    for one in (pmui.TextInput, pmui.LiteralInput):
        monkeypatch.setattr(one, "_process_property_change", one._process_property_change)
    panel_workarounds.refuse_what_no_field_sends()
    widget = kind(value="7" if kind is pmui.TextInput else 7)
    before = widget.value
    widget._process_events({"max_length": 10**9})
    for name in ("value", "value_input"):
        for hostile in ("8" * (MOST_TEXT + 1), ["8" * MOST_TEXT], None, 8, b"8"):
            caplog.clear()
            widget._process_events({name: hostile})
            assert widget.value == before
            (record,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
            assert kind.__name__ in record.getMessage()
    widget._process_events({"value": "8"})
    assert str(widget.value) == "8"


class Foreign(JSComponent):
    """A component of somebody else, which may be TypeScript."""

    _esm = "export function render(): null { return null; }"


def test_own_scripts_are_not_translated_and_those_of_others_are(monkeypatch):
    monkeypatch.setattr(ReactiveESM, "_get_properties", ReactiveESM._get_properties)
    panel_workarounds.leave_own_scripts_as_they_are()
    own, other = Card(print).get_root(), Foreign().get_root()
    assert own.bundle == "app.widgets.Card"
    assert own.css_bundle is None
    assert other.bundle is None


def test_styles_of_components_are_texts_without_fonts():
    found = panel_workarounds.component_stylesheets()
    assert ".material-icons{" in found["panel-material-ui/panel-material-ui.bundle.css"]
    assert len(found) == len(panel_workarounds.SHEETS)
    for name, text in found.items():
        assert len(text) > 100, name
        assert "@font-face" not in text


def test_fonts_that_are_loaded_early_are_there():
    names = panel_workarounds.font_files()
    assert len(names) == 2
    extension = panel_workarounds.EXTENSIONS["panel-material-ui"]
    assert all((extension / name.removeprefix("panel-material-ui/")).is_file() for name in names)


def test_housekeeping_begins_without_holding_the_loop_of_a_slow_computer(monkeypatch):
    turns, begun = [], asyncio.Event()

    def slow(state, name):
        turns.append(name)
        begun.set()
        time.sleep(0.01)
        if len(turns) > 20:
            raise RuntimeError("the loop is held")

    async def begin():
        panel_workarounds.begin_housekeeping()
        await begun.wait()
        await asyncio.sleep(0.05)

    monkeypatch.setattr(type(pn.state), "_add_busy_event", slow)
    monkeypatch.setattr(type(pn.state), "_remove_busy_event", lambda state, name: None)
    asyncio.run(begin())
    assert len(turns) == 1


class Turns:
    """In the place of the builder: counts the turns of each page that are asked for and not over, and their most."""

    def __init__(self):
        self.now, self.most = Counter(), Counter()

    @asynccontextmanager
    async def turn(self, short=False):
        page = asyncio.current_task().get_name()
        self.now[page] += 1
        self.most[page] = max(self.most[page], self.now[page])
        await asyncio.sleep(0.01)
        yield
        self.now[page] -= 1

    async def work(self, document, work):
        return work()


class WrittenSession:
    """As much of a session as the page of a GET is written from."""

    def __init__(self, token):
        self.token, self.document = token, Document()


def test_a_session_has_one_page_written_at_a_time_and_others_at_once(monkeypatch):
    """Who asked for a page that is there again and again took as many turns of the builder's, before all others."""
    sessions = {name: WrittenSession(name) for name in "ab"}
    turns = Turns()

    async def get_session(handler):
        return sessions[handler.page]

    monkeypatch.setattr(DocHandler, "get_session", get_session)
    monkeypatch.setattr(server, "server_html_page_for_session", lambda session, **named: f"page of {session.token}")
    panel_workarounds.write_pages_beside(turns)

    async def ask(page):
        handler = SimpleNamespace(page=page, application=SimpleNamespace(resources=Resources))
        session = await DocHandler.get_session(handler)
        return server.server_html_page_for_session(session, token=page)

    async def main():
        return await asyncio.gather(*(asyncio.create_task(ask(page), name=page) for page in "aaabab"))

    assert asyncio.run(main()) == [f"page of {page}" for page in "aaabab"]
    assert turns.most == {"a": 1, "b": 1}
