"""Compute the page's layout once after a batch of changes, instead of once for each changed component."""

from __future__ import annotations

from app.upstream.fix import BOKEHJS, PANEL_ESM, Code, Fix

FIX = Fix(
    name="layout_once",
    package="bokehjs",
    versions="3.9, 3.10",
    kind="gain",
    purpose="a first visit shows its picture after 2.1 s instead of 2.8 s: one layout instead of 70",
    report=(
        "LayoutDOMView._after_resize and invalidate_layout compute the layout of the whole page for each view whose "
        "size or style has changed, and Panel's React components do so after each render. Collect the views of one "
        "patch or one frame and lay them out together."
    ),
    replaces=(
        Code(f"{BOKEHJS}:LayoutDOMView._after_resize", ("dab31c466362",)),
        Code(f"{BOKEHJS}:LayoutDOMView.invalidate_layout", ("24350a112f34",)),
        Code(f"{BOKEHJS}:Document.apply_json_patch", ("9c607c431508",)),
        Code(f"{PANEL_ESM}/react_component.js:ReactComponentView._on_mounted", ("db7b7f576fb9",)),
    ),
)
