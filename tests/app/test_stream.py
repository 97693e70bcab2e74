"""The frame gate with a fake browser and a fake clock: fast, slow, hidden and vanished clients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.stream import WIDEST, Delivered, FrameGate, window_for
from compute.frames import Frame
from compute.measure.timing import Timing


def frame(number: int) -> Frame:
    return Frame({}, {}, Timing("cpu_numpy", "one-step", 1, 1), number)


class World:
    """A clock, a loop with its callbacks, an engine that makes what is permitted, and a browser."""

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
        self.connection = 0  # of the browser; what is on its way through an old one is lost
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
        """One frame after the other, 2 ms each."""
        if self.producing or self.made >= self.through:
            return
        self.producing, life = True, self.life

        def done() -> None:
            if life != self.life:
                return  # it died with its process
            self.producing = False
            self.made += 1
            self.made_in_all += 1
            self.gate.offer(frame(self.made))
            self.produce()

        self.later(0.002, done)

    def kill(self) -> None:
        """The engine's process dies; the next one goes on with the same numbers and the same limit."""
        self.life, self.producing = self.life + 1, False
        self.later(0.3, self.produce)

    # -- the browser

    def send(self, number: int, sent: Frame) -> None:
        self._note()
        start = max(self.now + self.network / 2, self.browser_free)
        self.browser_free = start + self.paint
        self._answer(number, self.browser_free + self.network / 2 - self.now)

    def confirm(self, number: int) -> None:
        arrives = max(self.now + self.network / 2, self.browser_free)  # behind the frames that are on their way
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
    assert world.gate.dropped == first - 1 <= 1  # of the first two, the newer may replace the older
    assert world.gate.window == 1
    assert world.gate.rate == pytest.approx(len(world.painted) / 2.0, rel=0.1)


def test_slow_client_queues_nothing() -> None:
    world = World(paint=0.2)
    world.gate.open()
    world.run(19.0)
    assert world.most_under_way <= 1
    assert world.most_scheduled <= 1
    assert world.made_in_all - len(world.painted) <= 3  # one under way, one prepared, one replaced at the start
    assert world.gate.latency == pytest.approx(0.2, abs=0.01)


def test_uninvited_frames_replace_each_other() -> None:
    world = World(paint=0.2)
    world.producing = True  # nothing by itself
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
    """Animation frames stop in a hidden tab, so that nothing is confirmed; what waited is painted when it is shown."""
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


@pytest.mark.parametrize("network", [0.0, 0.08])
def test_tab_switches_reconnects_and_kills_cause_no_burst_and_count_nothing_anew(network: float) -> None:
    """50 switches to another tab and back, 50 lost connections, 20 dead engines, at every stage of a frame's way."""
    world = World(paint=0.02, network=network)
    world.gate.open()
    widest = world.gate.window
    for turn in range(120):
        world.run(0.35 + 0.0037 * turn)
        if turn % 12 in (0, 5):
            world.kill()
        elif turn % 2:
            world.gate.pause()  # another tab of the page; what is on its way is still painted
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
    assert world.gate.dropped <= 3  # of some thousand: where the window narrows
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
    """A frame that lay in a hidden page for a minute says nothing about the network, nor about painting."""
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
    """The other engine's first frame has a number that the old lab was never permitted."""
    world = World(paint=0.02)
    world.gate.open()
    world.run(1.0)
    world.life += 1  # the old lab is given up, in the middle of a frame
    world.made, world.producing = world.gate.permitted, False
    world.through = world.made + 1  # the one frame that shows that it is there
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
    for _ in range(20):
        for number in (-5, 0, 10**9, 1, 1):
            world.gate.acknowledge(number, float("nan"))
        world.run(0.05)
    assert world.painted == sorted(world.painted)
    assert world.most_under_way <= 1
    assert world.most_owed <= 3
