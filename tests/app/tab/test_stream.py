"""The frame gate with a fake browser and clock: fast, slow, hidden and disconnected clients; both transports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bokeh.core.serialization import Serializer
from bokeh.document import Document
from bokeh.document.events import DocumentPatchedEvent
from bokeh.plotting import figure
from bokeh.protocol import Protocol
from bokeh.protocol.message import Message
from bokeh.server.session import ServerSession

from app.tab import frame_channel
from app.tab.plots import RasterPlots
from app.tab.stream import (
    FAST,
    PUBLIC,
    WIDEST,
    Delivered,
    FirstDraw,
    FrameGate,
    FrameSource,
    ignore,
    selected_transport,
    window_for,
)
from compute.lab.frames import Frame, Raster
from compute.measure.timing import Timing
from tests.app.tab.test_frame_channel import unpacked


def test_a_plot_is_drawn_for_the_first_time_once_and_not_while_it_has_no_size() -> None:
    first, drawn, plots = FirstDraw(), [], [figure(), figure()]
    for plot in plots:
        first.wait(plot, partial(drawn.append, plot))
    plots[0].trigger("inner_width", None, 0)  # as a browser reports it
    assert not drawn
    plots[0].trigger("inner_width", 0, 300)
    plots[0].trigger("inner_width", 300, 400)
    assert drawn == plots[:1]
    assert first.pending == plots[1:]


def frame(number: int) -> Frame:
    return Frame({}, {}, Timing("cpu_numpy", "one-step", 1, 1), number)


class World:
    """A clock, a loop with its callbacks, an engine that makes the permitted frames, and a browser.

    paint, network: seconds of painting a frame, and of a round trip without it.
    """

    def __init__(self, paint: float = 0.02, network: float = 0.0) -> None:
        self.now, self.paint, self.network = 0.0, paint, network
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.scheduled = self.most_scheduled = self.most_under_way = self.most_owed = 0
        self.through = self.made = self.made_in_all = 0  # the engine's limit, and the number of its last frame
        self.life, self.producing = 0, False  # of the engine's process
        self.connection, self.hidden = 0, False  # of the browser; messages in flight on an old connection are lost
        self.browser_free = 0.0
        self.painted: list[int] = []
        self.delivered: list[Delivered] = []
        self.gate = FrameGate(
            self.send, self.permit, self.schedule, self.confirm, self.delivered.append, lambda: self.now
        )

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heappush(self.queue, (self.now + seconds, next(self.order), act))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.queue and self.queue[0][0] <= end:
            moment, _, act = heappop(self.queue)
            self.now = max(self.now, moment)
            act()
        self.now = end

    def schedule(self, act: Callable[[], None]) -> None:
        self.scheduled += 1
        self.most_scheduled = max(self.most_scheduled, self.scheduled)

        def run() -> None:
            self.scheduled -= 1
            act()

        self.later(0.001, run)

    # -- the engine

    def permit(self, number: int) -> None:
        self.through = max(self.through, number)
        self.produce()

    def produce(self) -> None:
        """Make one frame after the other, 2 ms each."""
        if self.producing or self.made >= self.through:
            return
        self.producing, life = True, self.life

        def done() -> None:
            if life != self.life:
                return  # the frame was lost with its process
            self.producing = False
            self.made += 1
            self.made_in_all += 1
            self.gate.offer(frame(self.made))
            self.produce()

        self.later(0.002, done)

    def kill(self) -> None:
        """End the engine's process; the next one continues with the same numbers and the same limit."""
        self.life, self.producing = self.life + 1, False
        self.later(0.3, self.produce)

    # -- the browser

    def send(self, number: int, sent: Frame) -> None:
        self.most_under_way = max(self.most_under_way, self.gate.under_way)
        self.most_owed = max(self.most_owed, self.gate.under_way + self.through - self.made)
        self.browser_free = max(self.now + self.network / 2, self.browser_free) + self.paint
        self._answer(number, self.browser_free + self.network / 2 - self.now)

    def confirm(self, number: int) -> None:
        arrives = max(self.now + self.network / 2, self.browser_free)  # after the frames in flight
        self._answer(number, arrives + self.network / 2 - self.now)

    def _answer(self, number: int, seconds: float) -> None:
        connection = self.connection

        def painted() -> None:
            if not self.hidden and connection == self.connection:
                self.painted.append(number)
                self.gate.acknowledge(number, self.paint)

        self.later(seconds, painted)


def opened(seconds: float = 1.0, **world: float) -> World:
    """Return a world whose gate has been open for `seconds`."""
    made = World(**world)
    made.gate.open()
    made.run(seconds)
    return made


def test_fast_client_gets_every_frame_in_order() -> None:
    world = opened(2.0, paint=0.02)
    first = world.painted[0]
    assert world.painted == list(range(first, first + len(world.painted)))
    assert len(world.painted) > 80
    assert world.gate.dropped == first - 1 <= 1  # the second of the first two frames may replace the first
    assert world.gate.window == 1
    assert world.gate.rate == pytest.approx(len(world.painted) / 2.0, rel=0.1)


def test_slow_client_queues_nothing() -> None:
    world = opened(19.0, paint=0.2)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.made_in_all - len(world.painted) <= 3  # one in flight, one prepared, one replaced at the start
    assert world.gate.latency == pytest.approx(0.2, abs=0.01)
    times = [(item.seconds, item.client_seconds) for item in world.delivered]
    assert times == [(pytest.approx(0.2), 0.2)] * len(times)  # from the write to the confirmation


def test_frames_beyond_the_limit_replace_each_other() -> None:
    world = World(paint=0.2)
    world.producing = True  # the engine itself makes no frames
    world.gate.open()
    for number in range(1000, 1600):  # an engine that ignores its limit, 30 frames a second
        world.gate.offer(frame(number))
        world.run(1 / 30)
    world.run(1.0)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.gate.dropped > 400
    assert world.painted == sorted(world.painted)


@pytest.mark.parametrize("followers", [False, True])
def test_a_hidden_client_stops_the_supply_except_for_followers(followers: bool) -> None:
    """A hidden tab runs no animation frames, so it confirms nothing; the last frame is painted when it is shown."""
    world = opened()
    world.hidden = True
    world.run(0.1)
    made, delivered = world.made, len(world.delivered)
    for _ in range(90):
        if followers:
            world.gate.pass_on()
        world.run(0.11)
    assert world.made - made == (pytest.approx(90, abs=2) if followers else 0)
    assert world.most_under_way <= world.gate.window
    assert len(world.delivered) == delivered
    world.hidden = False
    painted = len(world.painted)
    world.gate.acknowledge(world.made - 1, 60.0)  # the browser's animation frame
    world.run(1.0)
    assert len(world.painted) > painted + 30


@pytest.mark.parametrize("network", [0.0, 0.08])
def test_tab_switches_reconnects_and_kills_cause_no_burst_and_count_nothing_anew(network: float) -> None:
    """50 switches to another tab and back, 50 lost connections, 20 dead engines, at every stage of a frame."""
    world = World(paint=0.02, network=network)
    world.gate.open()
    widest = world.gate.window
    for turn in range(120):
        world.run(0.35 + 0.0037 * turn)
        if turn % 12 in (0, 5):
            world.kill()
        else:
            world.gate.pause()
            lost = turn % 2 == 0  # the connection; otherwise another tab is shown, and frames in flight are painted
            world.connection += lost
            world.run((0.002 if lost else 0.0011) * (turn % 40))
            world.gate.open()
        widest = max(widest, world.gate.window)
    world.run(1.0)
    assert world.most_under_way <= widest <= WIDEST
    assert world.most_owed <= widest + 1
    assert world.gate.dropped <= 3  # of several thousand: where the window narrows
    assert world.gate.permitted - world.made <= widest + 1
    painted = len(world.painted)
    world.run(1.0)
    assert len(world.painted) > painted + 20
    assert world.painted == sorted(world.painted)


def test_a_confirmation_after_a_pause_is_not_timed() -> None:
    """A frame that waited in a hidden page for a minute measures neither the network nor painting."""
    world = opened(paint=0.02)
    world.gate.pause()
    world.connection += 1
    world.run(60.0)
    world.gate.open()
    world.run(1.0)
    assert world.gate.window == 1
    assert max(item.seconds for item in world.delivered) < 0.1


def test_the_window_follows_the_network_and_not_the_client() -> None:
    world = opened(5.0, paint=0.02, network=0.08)
    assert 3 <= world.gate.window <= WIDEST
    assert world.gate.rate > 35
    world.network = 0.0
    world.run(30.0)
    assert world.gate.window == 1
    assert opened(10.0, paint=0.3).gate.window == 1
    busy = opened(30.0, paint=0.06, network=0.015)  # the second frame in flight waits for the first to be painted
    assert busy.gate.window == 2
    assert busy.gate.latency < 0.15


@pytest.mark.parametrize(
    ("delay", "client", "window"),
    [(0.004, 0.02, 1), (0.010, 0.02, 1), (0.011, 0.02, 2), (0.080, 0.02, 5), (0.080, 0.2, 2), (9.0, 0.01, WIDEST - 1)],
)
def test_window_formula(delay: float, client: float, window: int) -> None:
    assert window_for(delay, client) == window


def test_closed_or_paused_gate_permits_nothing() -> None:
    world = opened(0.5)
    world.gate.pause()
    world.run(0.5)
    permitted = world.gate.permitted
    world.run(5.0)
    assert world.gate.permitted == permitted
    world.gate.close()
    world.gate.offer(frame(permitted + 1))
    painted = len(world.painted)
    world.gate.open()
    world.run(1.0)
    assert len(world.painted) == painted


def test_changed_values_replace_the_prepared_frame() -> None:
    world = opened(1.05, paint=0.2)  # one in flight, one prepared
    made, dropped = world.made, world.gate.dropped
    for _ in range(2):  # the second time no frame is prepared
        world.gate.refresh()
        assert world.gate.dropped == dropped + 1
    world.run(0.4)
    assert made not in world.painted
    assert made + 1 in world.painted


def test_unknown_and_repeated_acknowledgements_do_no_harm() -> None:
    world = World()
    world.gate.open()
    for _ in range(20):
        for number in (-5, 0, 10**9, 1, 1):
            world.gate.acknowledge(number, float("nan"))
        world.run(0.05)
    assert world.painted == sorted(world.painted)
    assert world.most_under_way <= 1
    assert world.most_owed <= 3


# -- the transports


class Wire:
    """A browser's connection to Bokeh that records its messages."""

    def __init__(self) -> None:
        self.protocol, self._socket = Protocol(), self
        self.sent: list[Message[Any]] = []

    async def send_message(self, message: Message[Any]) -> None:
        self.sent.append(message)

    def send_patch_document(self, event: DocumentPatchedEvent) -> Awaitable[None]:
        return self.send_message(self.protocol.create("PATCH-DOC", [event]))

    @property
    def frames(self) -> list[int]:
        """The numbers of the frames sent as data of the source."""
        events = [event for message in self.sent for event in json.loads(message.content_json)["events"]]
        entries = [dict(e["data"]["entries"]) for e in events if e["kind"] == "ColumnDataChanged"]
        return [number for entry in entries for number in entry["number"]]


class Tab:
    """A document with pictures of two rasters, open in two browsers, and the session of its lab.

    painted: the confirmations that its gate received; delivered: the messages of the frame channel; waiting: callbacks
    that need the document's lock.
    """

    def __init__(self, transport: str = FAST, alone: bool = False) -> None:
        self.document = Document()
        self.pictures = RasterPlots(("u", "v"), {"u": "Inferno", "v": "Viridis"})
        self.frames, self.source = self.pictures.frames, self.pictures.frames.source
        self.painted: list[tuple[int, float]] = []
        self.waiting: list[Callable[[], None]] = []
        self.later = self.waiting.append
        self.gate: Any = SimpleNamespace(acknowledge=lambda *painted: self.painted.append(painted))
        self.frames.serve(self, alone)
        for plot in self.pictures.plots.values():
            self.document.add_root(plot.figure)
        self.frames._answer.transport = transport
        self.session = ServerSession("tab", self.document)
        self.document._session_context = lambda: self
        self.wires = [Wire(), Wire()]
        for wire in self.wires:
            self.session.subscribe(wire)
        self.delivered: list[bytes] = []
        frame_channel._sockets[self.document] = SimpleNamespace(deliver=self.delivered.append)

    def show_in(self, target: FrameSource) -> None:
        self.target = target

    def locked(self, act: Callable[[], object]) -> None:
        """Run it as a callback of the document, and wait until everything is sent."""
        asyncio.run(self.session.with_document_locked(act))

    def run_waiting(self) -> None:
        while self.waiting:
            self.locked(self.waiting.pop(0))

    def answer(self, **said: Any) -> None:
        """Set values as the browser does."""
        self.locked(lambda: self.frames._answer.update(**said))

    def show(self, number: int) -> None:
        self.locked(lambda: self.pictures.show(number, rasters(number)))


def rasters(number: int) -> dict[str, Raster]:
    """Return rasters, 3 x 5: u all `number`, v all `number` + 1; limits and extent identify each."""
    extent = (0.0, 1.0, 10.0, 7.0)
    levels = {name: np.full((3, 5), number + at, np.uint8) for at, name in enumerate("uv")}
    return {name: Raster(one, -1.0 * number, 2.0 * number, extent) for name, one in levels.items()}


BOTH = pytest.mark.parametrize("transport", [FAST, "public: no paint"])


def test_a_frame_goes_past_bokeh_encoded_once_and_without_the_documents_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    tab = Tab()
    monkeypatch.setattr(Serializer, "__init__", None)  # Bokeh encodes nothing
    tab.pictures.show(7, rasters(7))
    assert all(not wire.sent for wire in tab.wires)
    (message,) = tab.delivered
    head, columns = unpacked(message)
    assert head["source"] == tab.source.id
    assert head["figures"] == [plot.figure.id for plot in tab.pictures.plots.values()]
    assert {name: float(columns[name]) for name in ("number", "x", "y", "dw", "dh", "u_low", "v_high")} == {
        "number": 7, "x": 0, "y": 1, "dw": 10, "dh": 6, "u_low": -7, "v_high": 14,
    }  # fmt: skip
    assert columns["u"].shape == columns["v"].shape == (3, 5)
    assert set(columns["u"].flat) == {7}
    assert set(columns["v"].flat) == {8}


@BOTH
def test_the_source_has_the_latest_frame_and_hears_its_confirmation(transport: str) -> None:
    tab = Tab(transport)
    for number in (3, 4):
        tab.show(number)
    assert tab.source.data["number"] == [4]
    assert set(tab.source.data["u"][0].flat) == {4}
    tab.answer(value=[4.0, 0.012])
    tab.answer(value=[10.0])  # not a confirmation
    assert tab.painted == [(4, 0.012)]


def test_the_first_frame_is_public_and_the_browser_selects_the_transport_of_others() -> None:
    tab = Tab("")
    assert tab.frames.transport == PUBLIC
    tab.show(1)
    tab.answer(transport=FAST)
    tab.show(2)
    tab.answer(transport="public: no paint")
    tab.show(3)
    assert [wire.frames for wire in tab.wires] == [[1, 3], [1, 3]]
    assert len(tab.delivered) == 1


def test_a_frame_of_a_hidden_tab_is_stored_and_not_sent() -> None:
    tab = Tab()
    tab.locked(tab.document.clear)
    tab.wires[0].sent.clear()
    tab.show(5)
    assert tab.wires[0].sent == []
    assert tab.source.data["number"] == [5]  # it is sent in full when the document is shown again


def test_a_frame_that_may_be_lost_with_the_frame_channel_is_sent_again_as_public() -> None:
    tab = Tab(alone=True)
    tab.show(1)
    assert len(tab.delivered) == 1
    assert tab.target.lock_free
    del frame_channel._sockets[tab.document]
    tab.frames.lost()
    assert not tab.target.lock_free
    tab.run_waiting()
    tab.show(2)
    assert len(tab.delivered) == 1
    assert tab.wires[0].frames == [1, 2]


def test_a_lab_that_is_to_be_watched_rests_before_its_next_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    tab, later = Tab(), []
    monkeypatch.setattr(Document, "add_timeout_callback", lambda document, *args: later.append(args))
    tab.answer(value=[1.0, 0.012])
    assert (tab.painted, later) == ([(1, 0.012)], [])
    tab.frames.rest = 0.5
    tab.answer(value=[2.0, 0.012])
    assert len(tab.painted) == 1
    ((confirm, ms),) = later
    confirm()
    assert (tab.painted[1:], ms) == ([(2, pytest.approx(0.512))], 500)


@BOTH
def test_a_slow_browser_is_sent_no_more_than_it_confirms(transport: str) -> None:
    tab = Tab(transport)
    gate = tab.gate = FrameGate(
        lambda number, sent: tab.pictures.show(number, rasters(number)), ignore, lambda act: act(), tab.frames.skip
    )
    tab.locked(gate.open)
    for number in range(1, 100):
        tab.locked(partial(gate.offer, frame(number)))
    assert len(tab.wires[0].frames) + len(tab.delivered) == 1
    tab.answer(value=[1.0, 0.2])
    assert len(tab.wires[0].frames) + len(tab.delivered) == 2
    assert gate.dropped == 97


@BOTH
@pytest.mark.parametrize("alone", [True, False])
def test_a_confirmation_needs_the_lock_unless_fast_frames_change_only_the_source(transport: str, alone: bool) -> None:
    tab = Tab(transport, alone)
    lock_free = alone and transport == FAST
    assert tab.target.lock_free is lock_free
    tab.frames.confirm(5, 0.1)
    assert tab.painted == ([(5, 0.1)] if lock_free else [])
    tab.run_waiting()
    assert tab.painted == [(5, 0.1)]


def test_an_unknown_transport_of_a_browser_means_public_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="app.tab.stream")
    tab = Tab()
    for said in ("public: no paint", "x" * 10_000, ""):
        tab.answer(transport=said)
        assert tab.frames.transport == PUBLIC
    (line,) = caplog.messages
    assert "public: no paint" in line
    tab.answer(transport=FAST)
    assert tab.frames.transport == FAST


def test_the_environment_selects_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selected_transport() == FAST
    monkeypatch.setenv("FIELDLAB_TRANSPORT", "public")
    assert Tab().frames._code.args["figures"] == []  # so the browser does not try the fast transport
    monkeypatch.setenv("FIELDLAB_TRANSPORT", "pigeon")
    with pytest.raises(ValueError, match="FIELDLAB_TRANSPORT must be public or fast, not 'pigeon'"):
        selected_transport()
