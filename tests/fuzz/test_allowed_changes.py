"""No change of a property is applied that is not on the allow-list, for every model of each lab's page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.load.server import Server
from app.server.allowed_changes import ALLOWED, EVENTS, UNUSED
from tests.fuzz.campaign import LABS, fuzzed_server
from tests.fuzz.visitors import Guest, fetch

pytestmark = pytest.mark.extended

PLANTED = "planted by a browser"
NUMBER = 424_243
VALUES: Sequence[Any] = (
    PLANTED, NUMBER, [PLANTED], True, None, {"type": "map", "entries": [[PLANTED, PLANTED]]},
    {"type": "map", "entries": [["click", [{"type": "object", "name": "CustomJS", "id": "new1",
                                            "attributes": {"code": PLANTED}}]]]},
)  # fmt: skip
NEVER = {"code", "esm", "text", "html", "css", "stylesheets", "js_property_callbacks", "js_event_callbacks", "tags",
         "args", "children", "url", "icon", "image", "object", "name", "subscribed_events", "importmap", "template",
         "bundle", "logo", "data", "syncable"}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve the app with the limits for public servers."""
    with fuzzed_server(tmp_path_factory.mktemp("allowed") / "log") as found:
        yield found


def test_no_property_that_is_run_or_shown_is_allowed() -> None:
    assert not NEVER & {name for names in ALLOWED.values() for name in names}
    assert not any(ALLOWED.get(kind, frozenset()) & names for kind, names in UNUSED.items())


@pytest.mark.parametrize("number", range(len(LABS)), ids=LABS)
def test_no_other_change_is_applied(server: Server, number: int) -> None:
    """A message replaced scripts of a page, which then ran in the browser of the next visitor of the page."""
    sent, planted, alive = asyncio.run(changed(server, number))
    assert sent > 5000  # a page has hundreds of models, each with dozens of properties
    assert planted == []
    assert alive


async def changed(server: Server, number: int) -> tuple[int, list[str], bool]:
    """Send the changes to the page of a lab; return their number, the applied ones, and whether the page answers."""
    guest = Guest(server.address)
    await guest.open()
    guest.choose(number)
    await guest.pull()
    if "running" in guest.state:
        guest.press(" ")
    address = f"{server.address.removesuffix('/app')}/truth?models={guest.session}"
    changes = [
        {"kind": "ModelChanged", "model": {"id": own}, "attr": name, "new": value}
        for own, kind, values in (await fetch(address))["models"]
        for name in values
        if name not in ALLOWED.get(kind, ())
        for value in VALUES
    ]
    for begin in range(0, len(changes), 500):
        guest._send("PATCH-DOC", {"events": changes[begin : begin + 500]})
        await asyncio.sleep(0)
    await guest.pull()  # the server answers after it has handled the previous messages
    planted = [
        f"{kind}.{name}"
        for _, kind, values in (await fetch(address))["models"]
        for name, value in values.items()
        if PLANTED in value or str(NUMBER) in value
    ]
    alive = not guest.reading.done()
    await guest.close()
    return len(changes), planted, alive


def test_only_events_that_pages_send_are_delivered() -> None:
    assert "document_ready" in EVENTS
    assert not {"button_click", "esm_event", "html_stream", "value_submit"} & EVENTS
