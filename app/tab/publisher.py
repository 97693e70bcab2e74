"""Typed events that several parts of a tab receive: `Publisher.subscribe` returns the token that ends a subscription.

An object that calls exactly one other object gets it, or a function, as an argument of its constructor instead. A
session's publishers are closed with the session, and so are the subscriptions of everything in its tab.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

Event = TypeVar("Event")


class Publisher(Generic[Event]):
    """Pass each event to all subscribers, in the order of their subscriptions and on the caller's thread."""

    def __init__(self) -> None:
        self._subscribers: dict[int, Callable[[Event], object]] = {}
        self._tokens = count(1)
        self._closed = False

    def subscribe(self, callback: Callable[[Event], object]) -> int:
        """Call `callback` with each event; return the token for `unsubscribe`. No effect on a closed publisher."""
        token = next(self._tokens)
        if not self._closed:
            self._subscribers[token] = callback
        return token

    def unsubscribe(self, token: int) -> None:
        """End the subscription of `token`; a subscription that has ended already is ignored."""
        self._subscribers.pop(token, None)

    def publish(self, event: Event) -> None:
        """Call every subscriber that exists now. If one raises, the later ones do not receive the event."""
        for callback in list(self._subscribers.values()):
            callback(event)

    def close(self) -> None:
        """End all subscriptions; later calls have no effect."""
        self._closed = True
        self._subscribers.clear()
