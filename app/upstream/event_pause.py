"""Process the first change of a widget after 5 ms, and further changes at most every 50 ms."""

from __future__ import annotations

import time

from panel.reactive import Syncable

from app.upstream.fix import Code, Fix

FIRST, NEXT = 5, 50  # ms; FIRST joins the two messages of a key pressed on a slider: value and value_throttled


def install() -> None:
    """Replace Panel's constant debounce of 50 ms."""
    last = "_fieldlab_last_change"  # attribute with the due time of the last collected changes, by time.monotonic

    def debounce(component: Syncable) -> int:
        """Return the delay in ms from a change to its callbacks."""
        now = time.monotonic()
        milliseconds = max(FIRST, min(NEXT, round(1000 * (getattr(component, last, 0.0) - now) + NEXT)))
        setattr(component, last, now + milliseconds / 1000)
        return milliseconds

    Syncable._debounce = property(debounce)  # type: ignore[assignment] # noqa: SLF001 - Panel has one constant for all


FIX = Fix(
    name="event_pause",
    package="panel",
    versions="1.9, 1.10",
    kind="gain",
    purpose="the server reads a slider after 5 ms instead of 50 ms",
    report=(
        "Syncable._debounce delays the first change of a widget at rest by 50 ms. Process the first change at once and "
        "debounce those that follow."
    ),
    replaces=(
        Code("panel.reactive:Syncable._debounce", ("1a6562590ef1",)),
        Code("panel.reactive:Syncable._schedule_change", ("b9b6dd8fc3e9",)),
    ),
    install=install,
)
