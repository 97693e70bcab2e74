"""Make a drag that begins after a pause of 300 ms draw, pan or select like any other drag."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="press",
    package="bokehjs",
    versions="3.9, 3.10",
    kind="fault",
    purpose="a drag that began after a pause of 300 ms did nothing",
    report=(
        "UIGestures turns a button held for 300 ms into a press even where no tool listens to presses, and ignores the "
        "pan that follows. Start the timer only if a press handler is registered."
    ),
    replaces=(Code(f"{BOKEHJS}:UIGestures._pointer_down", ("216c3f4030ec",)),),
)
