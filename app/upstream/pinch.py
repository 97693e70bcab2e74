"""Zoom a plot by a pinch in proportion to the distance of the fingers, about the point between them."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, Code, Fix

FIX = Fix(
    name="pinch",
    package="bokehjs",
    versions="3.9, 3.10",
    kind="fault",
    purpose="a pinch zoomed by steps, not about the fingers",
    report=(
        "WheelZoomTool adds up the scales of a pinch, each of which is relative to its start, and zooms out by fixed "
        "steps. Zoom by the ratio of successive scales about the pinch's centre."
    ),
    replaces=(
        Code(f"{BOKEHJS}:WheelZoomToolView._pinch", ("aa56f757133b",)),
        Code(f"{BOKEHJS}:WheelZoomToolView.zoom", ("73c111db78a4",)),
    ),
)
