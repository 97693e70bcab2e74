"""Orders on their way to the worker. A thread sends them, so that nobody ever waits for a worker that hangs."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compute.engine.line import Line
from compute.engine.messages import QUESTIONS, Order

log = logging.getLogger(__name__)

MOST = 4000  # orders waiting at most: a worker that does not read for its whole deadline gets about 300 a client
# an unsent one is replaced by the next of its lab
NEWEST_WINS = frozenset({"update", "look", "set_pace", "frames_through"})
# what opening a lab again covers
STATE = NEWEST_WINS | QUESTIONS | {"open_lab", "run", "pause", "record", "stop_recording"}


@dataclass(frozen=True)
class Item:
    """An order and the descriptors that go with it, which the outbox closes."""

    order: Order
    descriptors: tuple[int, ...] = ()

    def drop(self) -> None:
        """Close the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Outbox:
    """A queue with a sending thread. `failed(order, error)` hears of orders that could not be pickled."""

    def __init__(self, name: str, failed: Callable[[Order, Exception], None]) -> None:
        self._failed = failed
        self._items: deque[Item] = deque()
        self._line: Line | None = None
        self._sending = self._closed = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"{name} orders", daemon=True)
        self._thread.start()

    def put(self, order: Order, descriptors: Sequence[int] = ()) -> bool:
        """Queue an order; False, and not queued, if too many wait."""
        item = Item(order, tuple(descriptors))
        with self._change:
            if len(self._items) >= MOST or self._closed:
                item.drop()
                return False
            self._replace_older(order)
            self._items.append(item)
            self._change.notify_all()
        return True

    def _replace_older(self, order: Order) -> None:
        """Drop the unsent orders that this one makes void, as far back as the last other order of its lab."""
        if order.verb not in NEWEST_WINS:
            return
        for item in reversed(self._items):
            if item.order.lab == order.lab:
                if item.order.verb not in NEWEST_WINS:
                    return
                if voids(order, item.order):
                    self._items.remove(item)
                    return

    def connect(self, line: Line, first: Iterable[Item], last: Iterable[Item] = ()) -> None:
        """Send over `line`: `first`, then what still waits and is not covered by it, then `last`."""
        with self._change:
            for item in self._items:
                if item.order.verb in STATE:
                    item.drop()
            kept = [item for item in self._items if item.order.verb not in STATE]
            self._items = deque([*first, *kept, *last])
            self._line = line
            self._change.notify_all()

    def disconnect(self) -> None:
        """Stop sending. Call it once the worker is dead, so that a send under way ends."""
        with self._change:
            self._line = None
            self._change.wait_for(lambda: not self._sending)

    def forget(self, lab: int) -> None:
        """Drop all orders of a lab."""
        with self._change:
            for item in self._items:
                if item.order.lab == lab:
                    item.drop()
            self._items = deque(item for item in self._items if item.order.lab != lab)

    def close(self) -> None:
        """End the thread; unsent orders are dropped."""
        with self._change:
            self._closed = True
            for item in self._items:
                item.drop()
            self._items.clear()
            self._change.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or (self._line and self._items))
                if self._closed:
                    return
                item, line, self._sending = self._items.popleft(), self._line, True
            try:
                self._send(line, item)
            finally:
                with self._change:
                    self._sending = False
                    self._change.notify_all()

    def _send(self, line: Line | None, item: Item) -> None:
        try:
            assert line is not None  # noqa: S101 - waited for
            line.send(item.order, item.descriptors)
        except OSError as error:  # the worker has died; its watcher restarts it, and the rest waits for the next
            log.debug("order %s was not sent: %s", item.order.verb, error)
            with self._change:
                self._line = None
        except Exception as error:  # noqa: BLE001 - reported to the lab's client
            self._failed(item.order, error)
        finally:
            item.drop()


def voids(newer: Order, older: Order) -> bool:
    """Whether `newer` sets everything that `older` sets."""
    if newer.verb != older.verb:
        return False
    if newer.verb == "update":
        return bool(older.arguments["values"].keys() <= newer.arguments["values"].keys())
    return True
