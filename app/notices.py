"""What happened, in words: engine events and refusals as notifications that say what, why and what to do."""

from __future__ import annotations

from typing import Any

import panel as pn

from compute.engine import messages

SHORT, LONG = 5_000, 12_000  # ms


def tell(kind: str, text: str, duration: int = LONG) -> None:
    """Show `text` to this tab's user; kind is "info", "success", "warning" or "error"."""
    if pn.state.notifications is not None:
        shows = {"info": pn.state.notifications.info, "warning": pn.state.notifications.warning}
        shows |= {"success": pn.state.notifications.success, "error": pn.state.notifications.error}
        shows[kind](text, duration)


def announce(event: Any) -> None:
    """Tell the user what an engine event means to them; silent for those that mean nothing."""
    match event:
        case messages.Refused(text=text):
            tell("warning", f"Not changed: {text}")
        case messages.Paused(reason=reason) if reason:
            tell("warning", f"Paused: {reason}")
        case messages.Restarted(reason=reason, seconds=seconds):
            tell("warning", f"The engine was restarted after {seconds:.1f} s ({reason}). It goes on from the last good field.")
        case messages.Broken(reason=reason):
            tell("error", f"The engine stopped and will not be started again: {reason}. Choose another backend.")
