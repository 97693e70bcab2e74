"""The frame gate with a fake browser and a fake clock: fast, slow, hidden and vanished clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.stream import WIDEST, Delivered, FrameGate, window_for
from compute.frames import Frame
from compute.timings import Timing


def frame(number: int) -> Frame:
    return Frame({}, {}, Timing("cpu_numpy", "one-step", 1, 1), number)


class World:
    """A clock, a loop with its callbacks, an engine that answers credits, a browser that paints in `paint` seconds."""

    def __init__(self, paint: float = 0.02, network: float = 0.0, ahead: int = 1) -> None:
        self.now, self.paint, self.network = 0.0, paint, network
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.scheduled = self.most_scheduled = self.credits = self.made = self.most_under_way = 0
        self.painted: list[int] = []
        self.delivered: list[Delivered] = []
        self.browser_free = 0.0
        self.hidden = False
        self.gate = FrameGate(self.send, self.credit, self.schedule, self.delivered.append, lambda: self.now, ahead)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.queue.append((self.now + seconds, len(self.queue) + self.made, act))

    def schedule(self, act: Callable[[], None]) -> None:
        self.scheduled += 1
        self.most_scheduled = max(self.most_scheduled, self.scheduled)

        def run() -> None:
            self.scheduled -= 1
            act()

        self.later(0.001, run)

    def credit(self, count: int) -> None:
        self.credits += count
        for _ in range(count):
            self.later(0.002, self.produce)

    def produce(self) -> None:
        self.made += 1
        self.gate.offer(frame(self.made))

    def send(self, number: int, sent: Frame) -> None:
        self.most_under_way = max(self.most_under_way, self.gate.under_way)
        if self.hidden:
            return
        start = max(self.now + self.network / 2, self.browser_free)
        self.browser_free = start + self.paint

        def painted() -> None:
            self.painted.append(sent.number)
            self.gate.acknowledge(number, self.paint)

        self.later(self.browser_free + self.network / 2 - self.now, painted)

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
    assert world.gate.dropped == first - 1 <= 1  # of the first two, the newer may replace the older
    assert world.gate.window == 1
    assert world.gate.rate == pytest.approx(len(world.painted) / 2.0, rel=0.1)


def test_slow_client_queues_nothing() -> None:
    world = World(paint=0.2)
    world.gate.open()
    world.run(19.0)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.made - len(world.painted) <= 3  # one under way, one prepared, one replaced at the start
    assert world.gate.latency == pytest.approx(0.2, abs=0.01)


def test_uninvited_frames_replace_each_other() -> None:
    world = World(paint=0.2)
    world.gate.open()
    for _ in range(600):  # an engine that ignores credits, 30 frames a second
        world.produce()
        world.run(1 / 30)
    world.run(1.0)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.gate.dropped > 400
    assert world.painted == sorted(world.painted)


def test_hidden_client_stops_the_supply_and_comes_back() -> None:
    world = World()
    world.gate.open()
    world.run(1.0)
    world.hidden = True
    world.run(0.1)
    made = world.made
    world.run(60.0)
    assert world.made == made
    world.hidden = False
    painted = len(world.painted)
    world.gate.open()  # reconnected
    world.run(1.0)
    assert len(world.painted) > painted + 30


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
    world = World(paint=0.06, network=0.015)  # two under way: the second waits behind the first, not for the network
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


def test_closed_or_paused_gate_asks_for_nothing() -> None:
    world = World()
    world.gate.open()
    world.run(0.5)
    world.gate.pause()
    world.run(0.5)
    granted = world.credits
    world.run(5.0)
    assert world.credits == granted
    world.gate.close()
    world.produce()
    painted = len(world.painted)
    world.run(1.0)
    assert len(world.painted) == painted


def test_changed_values_replace_the_prepared_frame() -> None:
    world = World(paint=0.2)
    world.gate.open()
    world.run(1.05)  # one under way, one prepared
    made, painted = world.made, list(world.painted)
    world.gate.refresh()
    world.run(0.4)
    assert made not in world.painted
    assert made + 1 in world.painted
    assert len(world.painted) > len(painted)


def test_unknown_and_repeated_acknowledgements_do_no_harm() -> None:
    world = World()
    world.gate.open()
    world.run(0.1)
    for number in (-5, 0, 10**9, 1, 1):
        world.gate.acknowledge(number, float("nan"))
    world.run(1.0)
    assert world.painted == sorted(world.painted)
    assert world.most_under_way <= 2
