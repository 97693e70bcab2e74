"""The editor of the equations' text, with the typeset equations and errors next to it or below it.

The browser sends the text after each key press. After LOOK ms without one, the equations are typeset; after PAUSE ms,
or with Ctrl+Enter, the text is applied. An invalid text is never applied: the editor shows its error, and the lab
continues with the previous text. The parser bounds the text before anything else reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui

from app.labs.equations.typeset import STYLE, error_html, refusal_html, typeset
from app.page.markup import plain
from app.page.theme import html_pane
from app.page.widgets import FULL, Card, card_script
from app.server.widget_values import MOST_TEXT
from compute.labs.equations.language import read
from compute.labs.equations.tree import EquationError, System

LOOK, PAUSE = 150, 800  # ms after the last key press until the equations are typeset, and the text is applied
LEAST_ROWS = 3  # of the text
AROUND_TEXT = 68  # px above and below the rows: label, margins, hint
LEAST_PAIR = 560  # px; a narrower editor shows the equations below the text
SHARE_OF_TEXT = 0.6  # of the height, with the equations below it
WRAPPED = {"flex-wrap": "wrap", "align-content": "flex-start"}
EDITOR = "equations-text"  # CSS class, for editor.js
MONOSPACE = "'Roboto Mono', 'Liberation Mono', Menlo, Consolas, monospace"
HINT = "Applied after a pause, or by Ctrl+Enter."
FAULTY = "The lab continues with the previous text."
# A fading lower edge shows that a part can be scrolled; below the equations, it is empty.
SCROLLED = {"overflow": "hidden auto", "mask-image": "linear-gradient(to top, transparent, black 16px)"}
STYLE_OF_TEXT = {
    "& textarea": {"fontFamily": MONOSPACE, "fontSize": "0.875rem", "lineHeight": 1.5, "whiteSpace": "pre",
                   "overflowX": "auto !important"},
}  # fmt: skip


class Clock(Protocol):
    """The part of a Bokeh document that the editor uses."""

    def add_timeout_callback(self, callback: Callable[[], None], timeout_milliseconds: int) -> Any:
        """Call `callback` once after the timeout; return an object that removes it."""

    def remove_timeout_callback(self, callback_obj: Any) -> None:
        """Cancel a callback."""


class EditorKeys(Card):
    """An invisible component that sends the text on Ctrl+Enter in the editor, and moves the editor's caret."""

    _esm = card_script(Path(__file__).with_name("editor.js"))

    def go(self, line: int, column: int) -> None:
        """Move the caret to a line and a column, both from 1; repeated calls move it again."""
        self._send(line=line, column=column)

    def scroll_back(self) -> None:
        """Scroll the editor to its first line and column."""
        self._send()

    def _send(self, **place: int) -> None:
        self.content = {**place, "number": self.content.get("number", 0) + 1}  # the number makes it a change


def least_height(line: int) -> int:
    """Return the px of height of the least text and an error of two lines below it. line: height of a line in px."""
    return AROUND_TEXT + (LEAST_ROWS + 1) * line


class EquationEditor:
    """The editor of one tab, `panel`: the text in `writing`, the equations or the error in `reading`.

    apply(text, system) is called with each valid text that differs from the applied one. system: the applied one.
    """

    def __init__(self, document: Clock, text: str, apply: Callable[[str, System], object]) -> None:
        self._document, self._apply = document, apply
        self._timers: list[Any] = []
        self._error: EquationError | None = None
        self._why = ""  # the fault of the typed text, "" without one
        self._showing = False  # whether the text is set from outside, not typed
        self.text, self.system = text, read(text)
        self.field = pmui.TextAreaInput(
            label="Equations", value=text, rows=LEAST_ROWS, size="small",
            helper_text=HINT, css_classes=[EDITOR], sx=STYLE_OF_TEXT, **FULL,
        )  # fmt: skip
        self.field.param.watch(self._typed, "value_input")
        self.field.param.watch(lambda event: self._enter(self.field.value_input), "enter_pressed")
        self.keys = EditorKeys(self._received, width=0, height=0)
        self.fault = html_pane("", STYLE, visible=False)
        self.jump = pmui.Button(
            label="Go to the error", icon="my_location", variant="outlined", size="small", margin=(2, 8), visible=False
        )
        self.jump.on_click(lambda event: self._go_to_error())
        self.typeset = html_pane(typeset(self.system), STYLE)
        style: dict[str, Any] = {"margin": 0, "sizing_mode": "fixed"}
        self.writing = pn.Column(self.field, self.keys, styles={"overflow": "hidden auto"}, **style)
        self.reading = pn.Column(self.fault, self.jump, self.typeset, styles=SCROLLED, **style)
        self.panel = pn.Row(self.writing, self.reading, margin=0, sizing_mode="fixed", styles=WRAPPED)

    @property
    def typed(self) -> str:
        """The text in the field, which may be invalid or not applied yet."""
        return str(self.field.value_input)

    def resize(self, width: int, height: int, line: int) -> None:
        """Fit into width x height px, with the equations next to the text, or below it in a narrow window.

        In a window that is too low for both, only the text is shown, and its error below it. line: height of a line of
        the text in px.
        """
        side_by_side = width >= LEAST_PAIR
        self.reading.visible = side_by_side or height > least_height(line)
        self._mark(self._why)
        each = width // 2 if side_by_side else width
        high = height if side_by_side or not self.reading.visible else round(SHARE_OF_TEXT * height)
        self.field.rows = max(LEAST_ROWS, (high - AROUND_TEXT) // line) if self.reading.visible else LEAST_ROWS
        self.writing.param.update(width=each, height=high)
        self.reading.param.update(width=each, height=high if side_by_side else max(height - high, 1))
        self.panel.param.update(width=width, height=height)

    def show(self, text: str) -> None:
        """Show a valid text that was applied elsewhere, for instance by a link; a different typed text is discarded."""
        if text != self.text:
            self.load(text)

    def load(self, text: str) -> None:
        """Replace the typed text by a valid one, which is or will be applied elsewhere, and show its beginning."""
        self.rewrite(text)
        self.keys.scroll_back()

    def rewrite(self, text: str) -> None:
        """Replace the typed text as `load` does, but keep the place that is shown."""
        self._stop()
        self.text, self.system = text, read(text)
        self._put(text)
        self._show_error(None)
        self.typeset.object = typeset(self.system)

    def refuse(self, reason: str, typed: str) -> None:
        """Show a text that the lab refused, and why; `self.text` must already be the text that the lab keeps."""
        self._put(typed)
        self.typeset.object = typeset(self.system, old=True)
        self.fault.param.update(object=refusal_html(reason), visible=True)
        self._mark(f"Refused: {reason}")

    def close(self) -> None:
        """Cancel the timers, when the page closes."""
        self._stop()

    # -- typing

    def _put(self, text: str) -> None:
        self._showing = True
        self.field.param.update(value=text, value_input=text)
        self._showing = False

    def _typed(self, event: Any) -> None:
        if not self._showing:
            self._stop()
            timers = ((self._look, LOOK), (self._take, PAUSE))
            self._timers = [self._document.add_timeout_callback(act, wait) for act, wait in timers]

    def _stop(self) -> None:
        """Cancel the timers, whether or not they have fired."""
        for timer in self._timers:
            with suppress(ValueError):  # it has fired
                self._document.remove_timeout_callback(timer)
        self._timers = []

    def _received(self, message: dict[str, Any]) -> None:
        """Apply the text that the browser sent with Ctrl+Enter."""
        text = message.get("text")
        if isinstance(text, str) and len(text) <= MOST_TEXT:
            self._put(text)
            self._enter(text)

    def _enter(self, text: str) -> None:
        self._stop()
        self._take_text(text)

    def _look(self) -> None:
        """Typeset the typed text; for an invalid text, dim the previous equations."""
        text = self.field.value_input
        try:
            system = read(text)
        except EquationError:
            self.typeset.object = typeset(self.system, old=True)
        else:
            self._show_error(None)
            self.typeset.object = typeset(system)

    def _take(self) -> None:
        self._take_text(self.field.value_input)

    def _take_text(self, text: str) -> None:
        """Apply a text, or show its error."""
        try:
            system = read(text)
        except EquationError as error:
            self._show_error(error)
            self.typeset.object = typeset(self.system, old=True)
            return
        self._show_error(None)
        self.typeset.object = typeset(system)
        if text != self.text:
            self.text, self.system = text, system
            self._apply(text, system)

    # -- errors

    def _show_error(self, error: EquationError | None) -> None:
        self._error = error
        self.fault.param.update(object=error_html(error) if error else "", visible=error is not None)
        self.jump.visible = error is not None
        self._mark(f"Line {error.line}, column {error.column}: {error.message}" if error else "")

    def _mark(self, why: str) -> None:
        """Mark the text as faulty unless `why` is empty."""
        self._why = why
        hint = FAULTY if self.reading.visible else plain(why)
        self.field.param.update(error_state=bool(why), helper_text=hint if why else HINT)

    def _go_to_error(self) -> None:
        if self._error is not None:
            self.keys.go(self._error.line, self._error.column)
