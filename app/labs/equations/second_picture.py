"""The second picture: the expression `show` of the text, a field, a named expression, or a typed expression."""

from __future__ import annotations

from collections.abc import Callable

import panel_material_ui as pmui

from app.page.markup import plain
from app.page.widgets import FULL, set_options
from app.tab.controls import column
from compute.labs.equations.programs import picture_of
from compute.labs.equations.tree import EquationError, System, words

AS_IN_TEXT = ""  # the expression that stands for `show` of the text
TYPED = "\n"  # value in the list; no expression contains it
PREFIX = "show = "  # before the expression in the text that is parsed
MOST_LABEL = 32  # characters of an expression in the list


def checked(text: str, expression: str) -> System:
    """Return the system of a valid text with `expression` as its second picture, AS_IN_TEXT for its own.

    Raise ValueError if it is invalid: EquationError, whose column counts from the beginning of the expression.
    """
    try:
        return picture_of(text, expression).system
    except EquationError as error:
        column = max(1, error.column - len(PREFIX))
        raise EquationError(error.message, expression, 1, column) from error


class SecondPicture:
    """The widgets of one tab; `panel` contains the list and the field for an expression.

    chosen(expression) is called with a valid expression, or with AS_IN_TEXT.
    """

    def __init__(self, system: System, chosen: Callable[[str], object]) -> None:
        self._chosen = chosen
        self._showing = False  # whether the widgets are set from outside, not by the user
        self.system, self.expression = system, AS_IN_TEXT
        self.choice = pmui.Select(label="Second picture", size="small", **FULL)
        self.field = pmui.TextInput(label="Expression", placeholder="u^2 + v^2", size="small", visible=False, **FULL)
        self.choice.param.watch(lambda event: self._choose(event.new), "value")
        self.field.param.watch(lambda event: self._enter(), ["value", "enter_pressed"])
        self.panel = column(self.choice, self.field)
        self.show(system, AS_IN_TEXT)

    def show(self, system: System, expression: str) -> None:
        """Show the choices of a system, and its present expression."""
        self.system, self.expression = system, expression
        options = self._options()
        listed = expression in options.values()
        self._showing = True
        set_options(self.choice, options, expression if listed else TYPED)
        self.field.visible = not listed
        if not listed:
            self.field.param.update(value=expression, value_input=expression)
        self._complain("")
        self._showing = False

    def refuse(self, reason: str) -> None:
        """Show why the lab refused the expression."""
        self._complain(reason)

    def _options(self) -> dict[str, str]:
        """Return the values of the list by label."""
        shown = words(self.system.show) if self.system.show is not None else ""
        shown = shown if len(shown) <= MOST_LABEL else f"{shown[: MOST_LABEL - 1]}…"
        second = self.system.fields[1] if len(self.system.fields) > 1 else "rate of change"
        first = f"show = {shown}" if shown else f"Automatic: {second}"
        names = [*self.system.fields, *self.system.named]
        return {first: AS_IN_TEXT} | {f"{name}": name for name in names} | {"Expression …": TYPED}

    def _choose(self, value: str) -> None:
        if self._showing:
            return
        self.field.visible = value == TYPED
        if value != TYPED:
            self._use(value)
        elif self.field.value:
            self._enter()

    def _enter(self) -> None:
        if not self._showing and self.choice.value == TYPED and self.field.value.strip():
            self._use(self.field.value.strip())

    def _use(self, expression: str) -> None:
        if expression == self.expression:
            self._complain("")
            return
        try:
            checked(self.system.text, expression)
        except ValueError as error:
            place = f"Column {error.column}: {error.message}" if isinstance(error, EquationError) else str(error)
            self._complain(place)
            return
        self._complain("")
        self.expression = expression
        self._chosen(expression)

    def _complain(self, text: str) -> None:
        self.field.param.update(error_state=bool(text), helper_text=plain(text))
