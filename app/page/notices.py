"""Notes for engine events and refusals: each says what happened, why, and what to do.

The notes are part of the page: Panel's own notification area stays in memory after its page is closed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document

from app.page.markup import plain
from app.tab.session_states import FellBack
from compute.engine import messages

LIFE = 12_000  # ms that a note stays
MOST = 3  # notes at a time; the oldest one is removed
WIDTH = 440  # px, in a window of at least that width
PLACE = {  # above the status bar, and above the bar of a narrow window
    "position": "fixed", "right": "16px", "bottom": "max(56px, 16px + var(--bar-high, 0px))", "z-index": "1400",
    "width": f"min({WIDTH}px, calc(100vw - 32px))",
}  # fmt: skip
STYLE = {
    "backgroundColor": "var(--paper)",
    "boxShadow": "0 4px 16px rgb(0 0 0 / 25%)",
    "& .MuiAlertTitle-root": {"margin": 0, "font": "inherit", "overflowWrap": "anywhere"},
}


class Notices:
    """A stack of notes in the lower right corner of one page."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.panel = pn.Column(styles=PLACE, margin=0)
        self._pauses: list[pmui.Alert] = []  # notes that say why the lab is paused
        self._about: dict[str, pmui.Alert] = {}  # the latest note about an ongoing activity, by its name
        self._seen = False  # whether the browser has drawn the lab below the notes

    def tell(self, kind: str, text: str, about: str = "") -> None:
        """Show `text`, escaped; kind is "info", "success", "warning" or "error".

        If the same note is still shown, it is not repeated, but its time starts again. about: name of an ongoing
        activity; the note replaces the previous note about that activity.
        """
        note = self._tell(kind, text)
        before = self._about.get(about) if about else None
        if before is not None and before is not note:
            self._drop(before)
        if about:
            self._about[about] = note

    def _tell(self, kind: str, text: str) -> pmui.Alert:
        """Show `text` and return its note."""
        note = pmui.Alert(  # an Alert reads its object as Markdown, but shows its title as text
            title=plain(text), severity=kind, closeable=True, margin=(4, 0), sizing_mode="stretch_width", sx=STYLE
        )
        note.param.watch(partial(self._drop, note), "closed")
        others = [other for other in self.panel.objects if (other.title, other.severity) != (note.title, kind)]
        self.panel.objects = [*others[1 - MOST :], note]
        if self._seen:
            self._count(note)
        return note

    def seen(self) -> None:
        """Start the timers of the notes once the browser has drawn the lab, which can take longer than LIFE."""
        self._seen = True
        for note in self.panel.objects:
            self._count(note)

    def _count(self, note: pmui.Alert) -> None:
        self.document.add_timeout_callback(partial(self._drop, note), LIFE)

    def _drop(self, note: pmui.Alert, *_: object) -> None:
        self.panel.objects = [other for other in self.panel.objects if other is not note]

    def clear(self) -> None:
        """Remove all notes except errors, which stay until closed or expired."""
        self.panel.objects = [note for note in self.panel.objects if note.severity == "error"]

    def resumed(self) -> None:
        """Remove the notes about why the lab was paused, since it runs again or shows another state."""
        kept = [note for note in self.panel.objects if note not in self._pauses]
        self._pauses.clear()
        if len(kept) < len(self.panel.objects):
            self.panel.objects = kept

    def announce(self, event: Any) -> None:
        """Show a note for an engine event; no note for events that do not concern the user."""
        match event:
            case messages.Refused(text=text):
                self.tell("warning", f"Not changed: {text}")
            case messages.Paused(reason=reason) if reason:
                self._pauses.append(self._tell("warning", f"Paused: {reason}"))
            case messages.EngineRestarted(reason=reason, seconds=seconds):
                words = f"The engine was restarted after {seconds:.1f} s ({reason})."
                self.tell("warning", f"{words} The lab continues from the last good field.")
            case FellBack(reason=reason):
                words = "The lab continues on the CPU, from its last good state."
                self.tell("error", f"The engine stopped: {reason}. {words}")
            case messages.LabFailed(reason=reason):
                advice = "Press Run to start it again from its initial state; other pages are not affected."
                self.tell("error", f"This lab was stopped: {reason}. {advice}")
            case messages.EngineBroken(reason=reason):
                advice = "Press Run to start it again, or choose another backend."
                self.tell("error", f"The engine stopped: {reason}. {advice}")
