"""The frame gate with a fake browser and clock: fast, slow, hidden and disconnected clients; both transports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
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
    """A clock, a loop with its callbacks, an engine that makes the permitted frames, and a browser."""

    def __init__(self, paint: float = 0.02, network: float = 0.0, ahead: int = 1) -> None:
        self.now, self.paint, self.network = 0.0, paint, network
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.scheduled = self.most_scheduled = self.orders = self.most_under_way = self.most_owed = 0
        self.through = self.made = 0  # the engine's limit, and the number of its last frame
        self.made_in_all, self.life = 0, 0
        self.producing = False
        self.painted: list[int] = []
        self.delivered: list[Delivered] = []
        self.browser_free = 0.0
        self.hidden = self.connected_late = False
        self.connection = 0  # of the browser; messages in flight on an old one are lost
        self.gate = FrameGate(
            self.send, self.permit, self.schedule, self.confirm, self.delivered.append, lambda: self.now, ahead
        )

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.orders += 1
        self.queue.append((self.now + seconds, self.orders, act))

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
        self._note()
        start = max(self.now + self.network / 2, self.browser_free)
        self.browser_free = start + self.paint
        self._answer(number, self.browser_free + self.network / 2 - self.now)

    def confirm(self, number: int) -> None:
        arrives = max(self.now + self.network / 2, self.browser_free)  # after the frames in flight
        self._answer(number, arrives + self.network / 2 - self.now)

    def _answer(self, number: int, seconds: float) -> None:
        connection = self.connection

        def painted() -> None:
            if self.hidden or connection != self.connection:
                return
            self.painted.append(number)
            self.gate.acknowledge(number, self.paint)

        self.later(seconds, painted)

    def _note(self) -> None:
        self.most_under_way = max(self.most_under_way, self.gate.under_way)
        self.most_owed = max(self.most_owed, self.gate.under_way + self.through - self.made)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.queue and min(self.queue)[0] <= end:
            event = min(self.queue, key=lambda item: item[:2])
            self.queue.remove(event)
            self.now = max(self.now, event[0])
            event[2]()
        self.now = end


def test_fast_client_gets_every_frame_in_order() -> None:
    world = World(paint=0.02)
    world.gate.open()
    world.run(2.0)
    first = world.painted[0]
    assert world.painted == list(range(first, first + len(world.painted)))
    assert len(world.painted) > 80
    assert world.gate.dropped == first - 1 <= 1  # the second of the first two frames may replace the first
    assert world.gate.window == 1
    assert world.gate.rate == pytest.approx(len(world.painted) / 2.0, rel=0.1)


def test_slow_client_queues_nothing() -> None:
    world = World(paint=0.2)
    world.gate.open()
    world.run(19.0)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.made_in_all - len(world.painted) <= 3  # one in flight, one prepared, one replaced at the start
    assert world.gate.latency == pytest.approx(0.2, abs=0.01)


def test_uninvited_frames_replace_each_other() -> None:
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


def test_hidden_client_stops_the_supply_and_comes_back() -> None:
    """A hidden tab runs no animation frames, so nothing is confirmed; the waiting frame is painted when it is shown."""
    world = World()
    world.gate.open()
    world.run(1.0)
    world.hidden = True
    world.run(0.1)
    made = world.made
    world.run(60.0)
    assert world.made == made
    world.hidden = False
    painted, last = len(world.painted), world.made
    world.gate.acknowledge(last - 1, 60.0)  # the browser's animation frame
    world.run(1.0)
    assert len(world.painted) > painted + 30


def test_frames_of_a_hidden_client_come_as_often_as_others_look_and_are_not_timed() -> None:
    world = World()
    world.gate.open()
    world.run(1.0)
    world.hidden = True
    world.run(0.1)
    made, delivered = world.made, len(world.delivered)
    for _ in range(90):  # as the followers' feed does
        world.gate.pass_on()
        world.run(0.11)
    assert world.made - made == pytest.approx(90, abs=2)
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
        elif turn % 2:
            world.gate.pause()  # another tab of the page; frames in flight are still painted
            world.run(0.0011 * (turn % 40))
            world.gate.open()
        else:
            world.gate.pause()
            world.connection += 1
            world.run(0.002 * (turn % 40))
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


def test_opening_an_open_gate_changes_nothing() -> None:
    world = World(paint=0.2)
    world.gate.open()
    world.run(1.05)
    before = (world.gate.permitted, world.gate.under_way, list(world.painted), len(world.queue))
    for _ in range(50):
        world.gate.open()
    assert (world.gate.permitted, world.gate.under_way, world.painted, len(world.queue)) == before


def test_what_is_confirmed_after_a_pause_is_not_timed() -> None:
    """A frame that waited in a hidden page for a minute measures neither the network nor painting."""
    world = World(paint=0.02)
    world.gate.open()
    world.run(1.0)
    world.gate.pause()
    world.connection += 1
    world.run(60.0)
    world.gate.open()
    world.run(1.0)
    assert world.gate.window == 1
    assert max(item.seconds for item in world.delivered) < 0.1


def test_a_lab_that_has_moved_goes_on_counting() -> None:
    """The first frame of the other engine has a number that the old lab was never permitted."""
    world = World(paint=0.02)
    world.gate.open()
    world.run(1.0)
    world.life += 1  # the old lab is closed in the middle of a frame
    world.made, world.producing = world.gate.permitted, False
    world.through = world.made + 1  # the one frame that shows that the new lab is ready
    world.produce()
    world.run(1.0)
    assert world.most_owed <= 2 + 1
    assert len(world.painted) > 70
    assert world.painted == sorted(world.painted)


def test_window_widens_with_the_network_and_not_with_the_client() -> None:
    far = World(paint=0.02, network=0.08)
    far.gate.open()
    far.run(5.0)
    assert 3 <= far.gate.window <= WIDEST
    assert far.gate.rate > 35
    slow = World(paint=0.3)
    slow.gate.open()
    slow.run(10.0)
    assert slow.gate.window == 1


def test_a_busy_browser_does_not_widen_its_own_window() -> None:
    world = World(paint=0.06, network=0.015)  # two in flight: the second waits behind the first, not for the network
    world.gate.open()
    world.run(30.0)
    assert world.gate.window == 2
    assert world.gate.latency < 0.15


def test_window_narrows_when_the_network_recovers() -> None:
    world = World(paint=0.02, network=0.1)
    world.gate.open()
    world.run(5.0)
    assert world.gate.window > 3
    world.network = 0.0
    world.run(30.0)
    assert world.gate.window == 1


@pytest.mark.parametrize(
    ("delay", "client", "window"),
    [(0.004, 0.02, 1), (0.010, 0.02, 1), (0.011, 0.02, 2), (0.080, 0.02, 5), (0.080, 0.2, 2), (9.0, 0.01, WIDEST - 1)],
)
def test_window_formula(delay: float, client: float, window: int) -> None:
    assert window_for(delay, client) == window


def test_delivery_is_write_to_acknowledgement() -> None:
    world = World(paint=0.05)
    world.gate.open()
    world.run(1.0)
    assert [item.seconds for item in world.delivered] == pytest.approx([0.05] * len(world.delivered))
    assert all(item.client_seconds == 0.05 for item in world.delivered)


def test_closed_or_paused_gate_permits_nothing() -> None:
    world = World()
    world.gate.open()
    world.run(0.5)
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
    world = World(paint=0.2)
    world.gate.open()
    world.run(1.05)  # one in flight, one prepared
    made, painted, dropped = world.made, list(world.painted), world.gate.dropped
    world.gate.refresh()
    assert world.gate.dropped == dropped + 1
    world.gate.refresh()  # with no frame prepared
    assert world.gate.dropped == dropped + 1
    world.run(0.4)
    assert made not in world.painted
    assert made + 1 in world.painted
    assert len(world.painted) > len(painted)


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


class Wire:
    """A browser's connection that records its messages, and the frames sent past Bokeh."""

    def __init__(self) -> None:
        self.protocol, self._socket = Protocol(), self
        self.sent: list[Message[Any]] = []

    async def send_message(self, message: Message[Any]) -> None:
        self.sent.append(message)

    def send_patch_document(self, event: DocumentPatchedEvent) -> Awaitable[None]:
        return self.send_message(self.protocol.create("PATCH-DOC", [event]))

    def events(self) -> list[Any]:
        """Return the events of the messages, each with its buffers."""
        said = []
        for message in self.sent:
            assert message.header["num_buffers"] == len(message._buffers)
            said += [(one, message._buffers) for one in json.loads(message.content_json)["events"]]
        return said


class Tab:
    """A document with pictures of two rasters, open in two browsers."""

    def __init__(self, told: str = FAST) -> None:
        self.document = Document()
        self.pictures = RasterPlots(("u", "v"), {"u": "Inferno", "v": "Viridis"})
        self.frames, self.source = self.pictures.frames, self.pictures.frames.source
        self.painted: list[tuple[int, float]] = []
        self.later = self.show_in = ignore
        self.gate: Any = SimpleNamespace(acknowledge=lambda *painted: self.painted.append(painted))
        self.frames.serve(self)  # type: ignore[arg-type]
        for plot in self.pictures.plots.values():
            self.document.add_root(plot.figure)
        self.frames._answer.transport = told
        self.session = ServerSession("tab", self.document)
        self.document._session_context = lambda: self  # type: ignore[assignment, return-value]
        self.wires = [Wire(), Wire()]
        for wire in self.wires:
            self.session.subscribe(wire)
        self.delivered: list[bytes] = []  # by the page's frame channel
        frame_channel._sockets[self.document] = SimpleNamespace(deliver=self.delivered.append)  # type: ignore[assignment]

    def locked(self, act: Callable[[], object]) -> None:
        """Run it as a callback of the document, and wait until everything is sent."""
        asyncio.run(self.session.with_document_locked(act))

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


def test_the_source_on_the_server_has_the_newest_frame_whichever_way_it_took() -> None:
    for told in (FAST, "public: as it is"):
        tab = Tab(told)
        for number in (3, 4):
            tab.show(number)
        assert tab.source.data["number"] == [4]
        assert set(tab.source.data["u"][0].flat) == {4}


def test_the_first_frame_is_public_and_the_browser_says_how_it_goes_on() -> None:
    tab = Tab("")
    assert tab.frames.transport == PUBLIC
    wire, ways = tab.wires[0], []
    for told in ("", FAST, "public: no paint"):
        if told:
            tab.answer(transport=told)
        wire.sent.clear()
        tab.delivered.clear()
        tab.show(1)
        ways.append(([event["kind"] for event, _ in wire.events()], len(tab.delivered)))
    assert ways == [(["ColumnDataChanged"], 0), ([], 1), (["ColumnDataChanged"], 0)]


def test_what_is_in_no_document_is_sent_nowhere() -> None:
    tab = Tab()
    tab.locked(tab.document.clear)
    tab.wires[0].sent.clear()
    tab.show(5)
    assert tab.wires[0].sent == []
    assert tab.source.data["number"] == [5]  # it is sent in full when the document is shown again


@pytest.mark.parametrize("told", [FAST, "public: no paint"])
def test_a_frame_is_confirmed_alike_whichever_way_it_took(told: str) -> None:
    tab = Tab(told)
    tab.show(9)
    tab.answer(value=[9.0, 0.012])
    tab.answer(value=[10.0])  # not a confirmation
    assert tab.painted == [(9, 0.012)]


class Timed(Document):
    """A document that records its delayed callbacks."""

    def __init__(self, later: list[Any]) -> None:
        super().__init__()
        self._noted = later

    def add_timeout_callback(self, callback: Any, timeout_milliseconds: int) -> Any:
        self._noted.append((callback, timeout_milliseconds))


def test_a_page_without_its_connection_gets_public_frames_and_the_one_that_may_be_lost_again() -> None:
    tab, session = Tab(), Showing()
    session.document = tab.document
    tab.locked(lambda: tab.frames.serve(session, alone=True))  # type: ignore[arg-type]
    tab.show(1)
    assert len(tab.delivered) == 1
    assert session.target.lock_free
    del frame_channel._sockets[tab.document]
    tab.frames.lost()
    assert not session.target.lock_free
    for act in session.waiting:
        tab.locked(act)
    tab.show(2)
    assert len(tab.delivered) == 1
    shown = [event for event, _ in tab.wires[0].events() if event["kind"] == "ColumnDataChanged"]
    assert [dict(event["data"]["entries"])["number"] for event in shown] == [[1], [2]]


def test_a_lab_that_is_to_be_watched_rests_before_its_next_frame() -> None:
    tab, confirmed, later = Tab(), [], []
    session = SimpleNamespace(
        gate=SimpleNamespace(acknowledge=lambda number, seconds: confirmed.append((number, round(seconds, 3)))),
        document=Timed(later),
        later=ignore,
        show_in=ignore,
    )
    tab.locked(lambda: tab.frames.serve(session))
    tab.answer(value=[1.0, 0.012])
    assert (confirmed, later) == ([(1, 0.012)], [])
    tab.frames.rest = 0.5
    tab.answer(value=[2.0, 0.012])
    assert confirmed == [(1, 0.012)]
    ((confirm, ms),) = later
    confirm()
    assert (confirmed[1:], ms) == ([(2, 0.512)], 500)


@pytest.mark.parametrize("told", [FAST, "public: no paint"])
def test_a_slow_browser_is_sent_no_more_than_it_confirms(told: str) -> None:
    tab = Tab(told)
    gate = FrameGate(
        lambda number, sent: tab.pictures.show(number, rasters(number)), ignore, lambda act: act(), tab.frames.skip
    )
    tab.gate = gate
    tab.locked(gate.open)
    for number in range(1, 100):
        tab.locked(partial(gate.offer, frame(number)))
    wire = tab.wires[0]
    assert len(wire.sent) + len(tab.delivered) == 1
    tab.answer(value=[1.0, 0.2])
    assert len([event for event, _ in wire.events() if event.get("attr") == "data"]) + len(tab.delivered) == 2
    assert gate.dropped == 97


def test_a_browser_that_says_anything_else_gets_public_frames_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="app.tab.stream")
    tab = Tab()
    for said in ("public: no paint", "x" * 10_000, ""):
        tab.answer(transport=said)
        assert tab.frames.transport == PUBLIC
    (line,) = caplog.messages
    assert "public: no paint" in line
    tab.answer(transport=FAST)
    assert tab.frames.transport == FAST


def test_the_environment_chooses_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selected_transport() == FAST
    monkeypatch.setenv("FIELDLAB_TRANSPORT", "public")
    assert Tab().frames._code.args["figures"] == []  # so the browser does not try the fast transport
    monkeypatch.setenv("FIELDLAB_TRANSPORT", "pigeon")
    with pytest.raises(ValueError, match="FIELDLAB_TRANSPORT must be public or fast, not 'pigeon'"):
        selected_transport()


class Showing:
    """A session with the attributes that a frame source uses."""

    def __init__(self) -> None:
        self.document = Document()
        self.confirmed: list[int] = []
        self.waiting: list[Callable[[], None]] = []
        self.gate = self

    def show_in(self, target: FrameSource) -> None:
        self.target = target

    def acknowledge(self, number: int, seconds: float) -> None:
        self.confirmed.append(number)

    def later(self, act: Callable[[], None]) -> None:
        self.waiting.append(act)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("told", [FAST, "public: no paint"])
def test_an_answer_past_bokeh_waits_for_the_lock_where_a_frame_may_change_a_model(told: str, alone: bool) -> None:
    tab, session = Tab(told), Showing()
    session.document = tab.document
    tab.locked(lambda: tab.frames.serve(session, alone))  # type: ignore[arg-type]
    tab.answer(transport=told)
    free = alone and told == FAST
    assert session.target.lock_free is free
    tab.frames.confirm(5, 0.1)
    assert session.confirmed == ([5] if free else [])
    for act in session.waiting:
        act()
    assert session.confirmed == [5]
