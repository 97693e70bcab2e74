"""Subscriptions: the order of events, and their end."""

from __future__ import annotations

from app.tab.publisher import Publisher


def test_subscribers_receive_events_in_their_order_until_they_unsubscribe_or_it_is_closed():
    publisher, received = Publisher(), []

    def once(event):
        received.append(("first", event))
        publisher.unsubscribe(first)  # during an event, and a second time without effect
        publisher.unsubscribe(first)

    first = publisher.subscribe(once)
    publisher.subscribe(lambda event: received.append(("second", event)))
    publisher.publish(1)
    publisher.publish(2)
    publisher.close()
    publisher.subscribe(lambda event: received.append(("late", event)))
    publisher.publish(3)
    assert received == [("first", 1), ("second", 1), ("second", 2)]
