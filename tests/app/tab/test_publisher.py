"""Subscriptions: the order of events, and their end."""

from __future__ import annotations

from app.tab.publisher import Publisher


def test_subscribers_receive_events_in_their_order_until_they_unsubscribe():
    publisher, received = Publisher(), []
    first = publisher.subscribe(lambda event: received.append(("first", event)))
    publisher.subscribe(lambda event: received.append(("second", event)))
    publisher.publish(1)
    publisher.unsubscribe(first)
    publisher.unsubscribe(first)
    publisher.publish(2)
    assert received == [("first", 1), ("second", 1), ("second", 2)]


def test_a_subscriber_may_unsubscribe_during_an_event():
    publisher, received = Publisher(), []
    token = publisher.subscribe(lambda event: publisher.unsubscribe(token))
    publisher.subscribe(received.append)
    publisher.publish(1)
    publisher.publish(2)
    assert received == [1, 2]


def test_closing_ends_all_subscriptions():
    publisher, received = Publisher(), []
    publisher.subscribe(received.append)
    publisher.close()
    publisher.subscribe(received.append)
    publisher.publish(1)
    assert received == []
