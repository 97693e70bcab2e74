"""Let Panel's React components read the model's values directly, without a copy in React state."""

from __future__ import annotations

from app.upstream.fix import PANEL_ESM, Code, Fix

FIX = Fix(
    name="react_state",
    package="panel",
    versions="1.9",
    kind="fault",
    purpose="a value set while a component was drawn was lost or taken back",
    report=(
        "ReactComponent's model.useState copies the model's value into React state, subscribes after the first effect, "
        "and writes the copy back after each render: a change between render and effect is lost or reverted. Use "
        "React.useSyncExternalStore on the model."
    ),
    replaces=(Code(f"{PANEL_ESM}/react_component.js:ReactComponent._render_code", ("a26fbdee03a1",)),),
)
