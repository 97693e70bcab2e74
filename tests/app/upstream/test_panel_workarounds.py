"""A page loads its files from this server only, even if its session began with a WebSocket."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import holoviews as hv
import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document
from bokeh.document.callbacks import invoke_with_curdoc

from app.labs.l_curve.linked_view import draw_linked
from app.upstream import panel_workarounds
from tests.app.served_page import CLIENT, run_script

SERVED = """
import asyncio, tornado.httpclient
from panel.io.server import get_server
from app.server import access, admission, message_bounds
from app.server import page_ids
access.install(); admission.install(); message_bounds.install(); page_ids.install()

async def main():
    server = get_server({"/app": "app/main.py"}, address="127.0.0.1")
    server.start()
    address = f"http://127.0.0.1:{server.port}/app"
    page = await tornado.httpclient.AsyncHTTPClient().fetch(address, request_timeout=240)
    print(page.body.decode())

asyncio.run(main())
"""


def test_a_page_loads_its_files_from_this_server() -> None:
    done = run_script(SERVED)
    files = re.findall(r'(?:src|href)="([^"]+[.](?:js|css)[^"]*)"', done.stdout)
    assert len(files) > 5
    assert not [url for url in files if "//" in url]
    assert "cdn." not in done.stdout


EARLY = (
    CLIENT
    + """
import panel as pn, panel_material_ui as pmui
from app.upstream import document_changes, panel_workarounds, patches
patches.install(); document_changes.allow_listed_changes()
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
    send, message, ask = await opened(page)
    await message()
    _, reply = await ask("1", "PULL-DOC-REQ", {})
    (browser,) = [root for root in reply["doc"]["roots"] if root["name"] == "panel.models.browser.BrowserInfo"]
    count = [len(begun)]
    changes = (await ask("2", "PATCH-DOC", changed(browser, "device_pixel_ratio", 2.0)))[0]
    changes += (await ask("3", "PATCH-DOC", changed(browser, "language", "en")))[0]
    count.append(len(begun))
    late = (await ask("4", "PATCH-DOC", event("document_ready", [])))[0]
    late += (await ask("5", "PATCH-DOC", changed(browser, "language", "de")))[0]
    print(json.dumps([[*count, len(begun)], changes, late]))

asyncio.run(main())
"""
)


def test_changes_before_a_page_is_drawn_are_sent_once_and_in_order() -> None:
    done = run_script(EARLY)
    begun, changes, late = json.loads(done.stdout)
    assert begun == [0, 1, 1]
    kinds = {"disabled", "label", "children"}
    (first, enabled), (second, notes), (third, label) = [(e["attr"], e["new"]) for e in changes if e["attr"] in kinds]
    assert (first, second, third) == ("disabled", "children", "label")  # only a property's last change is sent
    assert (enabled, label) == (False, "save it")
    assert [re.sub("&lt;.*?&gt;", "", note["attributes"]["text"]) for note in notes] == ["first", "second"]
    assert not [event for event in late if event.get("attr") in kinds]


def test_a_holoviews_plot_belongs_to_its_page_although_another_is_current():
    mine, other = Document(), Document()
    plot, _ = invoke_with_curdoc(other, lambda: draw_linked(hv.Curve([1, 2]), mine, "curve"))
    assert plot.document is mine


def test_preloaded_fonts_exist():
    names = panel_workarounds.font_files()
    assert len(names) == 2
    extension = Path(pmui.__file__).parent / "dist"
    assert all((extension / name.removeprefix("panel-material-ui/")).is_file() for name in names)


def test_housekeeping_calls_its_event_once_and_does_not_block_the_loop(monkeypatch):
    events, begun = [], asyncio.Event()

    def busy(state, name):
        events.append(name)
        begun.set()
        assert len(events) == 1, "the loop is blocked"

    async def begin():
        panel_workarounds.begin_housekeeping()
        await begun.wait()
        await asyncio.sleep(0.05)

    monkeypatch.setattr(type(pn.state), "_add_busy_event", busy)
    monkeypatch.setattr(type(pn.state), "_remove_busy_event", lambda state, name: None)
    asyncio.run(begin())
    assert len(events) == 1
