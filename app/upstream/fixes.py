"""The fixes of Panel, Bokeh and panel-material-ui, and their switch.

Without the fixes the page also works, but slower and with the faults that they repair. The environment variable
FIELDLAB_FIXES selects them:

* `all` (default), `none`, or names separated by commas;
* names with a minus, `-layout_once,-press`: all except these.

A fix is installed only if its probe finds the code for which it was written. The limits on clients are not fixes and
cannot be disabled: see app/server/ and app/server/message_bounds.py.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

from app.upstream import (
    current_documents,
    dead_connections,
    early_visibility,
    event_lock,
    event_pause,
    forgotten_models,
    layout_once,
    local_styles,
    local_theme,
    native_modules,
    patches,
    pinch,
    press,
    react_state,
    reconnecting,
    whole_documents,
)
from app.upstream.fix import Fix

log = logging.getLogger(__name__)
SETTING = "FIELDLAB_FIXES"
ALL, NONE = "all", "none"
ON, OFF, NOT_NEEDED = "on", "off", "not needed"  # NOT_NEEDED: the installed release is repaired
FIXES: tuple[Fix, ...] = (
    dead_connections.FIX,
    whole_documents.FIX,
    event_lock.FIX,
    current_documents.FIX,
    reconnecting.FIX,
    react_state.FIX,
    local_theme.FIX,
    local_styles.FIX,
    early_visibility.FIX,
    forgotten_models.FIX,
    press.FIX,
    pinch.FIX,
    patches.FIX,
    event_pause.FIX,
    layout_once.FIX,
    native_modules.FIX,
)


def chosen(setting: str | None = None) -> frozenset[str]:
    """Return the names of the fixes that `setting` enables; None reads FIELDLAB_FIXES. ValueError if invalid."""
    words = [word.strip() for word in (os.environ.get(SETTING, ALL) if setting is None else setting).split(",")]
    known = {fix.name for fix in FIXES}
    if words in ([ALL], [NONE]):
        return frozenset(known if words == [ALL] else ())
    names = {word.removeprefix("-") for word in words}
    if unknown := sorted(names - known):
        raise ValueError(f"{SETTING} must be {ALL}, {NONE} or names of fixes, not {unknown[0][:60]!r}")
    without = {word.startswith("-") for word in words}
    if len(without) > 1:
        raise ValueError(f"{SETTING} must name the fixes to switch on, or with a minus those to switch off, not both")
    return frozenset(known - names if without == {True} else names)


@cache
def states() -> dict[str, str]:
    """Return ON, OFF, NOT_NEEDED or the failure of the probe for each fix; computed once, before any is installed."""
    names = chosen()
    return {fix.name: _state(fix, fix.name in names) for fix in FIXES}


def _state(fix: Fix, is_chosen: bool) -> str:
    if not fix.is_needed:
        return NOT_NEEDED
    return (fix.probe() or ON) if is_chosen else OFF


def active() -> list[Fix]:
    """Return the fixes that are enabled and passed their probe."""
    return [fix for fix in FIXES if states()[fix.name] == ON]


def install() -> None:
    """Install the server's part of the active fixes, and log the fixes that failed their probe."""
    for fix in FIXES:
        if (state := states()[fix.name]) not in (ON, OFF, NOT_NEEDED):
            log.warning("fix %s is off: %s %s: %s", fix.name, fix.package, fix.version, state)
    for fix in active():
        if fix.install is not None:
            fix.install()


@cache
def script() -> str:
    """Return the browser's part of the active fixes as one JavaScript module, for a page's head."""
    parts = []
    for fix in active():
        if fix.script is not None:
            code = fix.script.read_text(encoding="utf-8").replace("</", "<\\/")
            parts.append(f"// {fix.name}: {fix.purpose}\n(() => {{\n{code}}})();\n")
    return "".join(parts)


def facts() -> list[dict[str, Any]]:
    """Return the fixes as plain values, for `fieldlab info`."""
    return [
        {
            "name": fix.name, "package": fix.package, "version": fix.version, "kind": fix.kind,
            "purpose": fix.purpose, "state": states()[fix.name],
        }
        for fix in FIXES
    ]  # fmt: skip
