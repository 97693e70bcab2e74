"""Run the callbacks of browser events under the document's lock, like callbacks of changed values."""

# ruff: noqa: SLF001 - Panel has no public name for the coroutines that run callbacks

from __future__ import annotations

from panel.reactive import Syncable

from app.upstream.fix import Code, Fix


def install() -> None:
    """Mark Panel's coroutines as pn.io.with_lock marks a function."""
    for coroutine in (Syncable._event_coroutine, Syncable._change_coroutine):
        coroutine.lock = True  # type: ignore[attr-defined]


FIX = Fix(
    name="event_lock",
    package="panel",
    versions="1.9, 1.10",
    kind="fault",
    purpose="a slider moved right before a key was pressed lost its value",
    report=(
        "Syncable._event_coroutine runs event callbacks, and the value changes that still wait, without the document "
        "lock: a callback that changes a plot raises RuntimeError and the remaining changes are dropped."
    ),
    replaces=(
        Code("panel.reactive:Syncable._event_coroutine", ("36a1c1766c9e",)),
        Code("panel.reactive:Syncable._change_coroutine", ("c844dadb12cf",)),
    ),
    install=install,
)
