"""HTML of typeset equations, and of errors with their position in the text. All text is escaped."""

from __future__ import annotations

from dataclasses import dataclass

from app.page.equations import mathml
from app.page.markup import filled
from compute.labs.equations.mathematics import equations, latex, symbol
from compute.labs.equations.tree import EquationError, Node, System, words

STYLE = """
.typed { overflow-x: auto; padding: 4px 8px 16px; scrollbar-width: thin; }
.typed .equation { margin: 0; padding: 0; }
.typed .equation math { font-size: var(--body); }
.typed.old { opacity: 0.65; }
.typed:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
.typed code, .fault code { font: var(--small)/1.5 'Roboto Mono', 'Liberation Mono', Menlo, Consolas, monospace;
  color: var(--ink); white-space: pre; display: block; background: none; }
.fault { padding: 4px 8px; font-size: var(--small); line-height: 1.4; color: var(--ink); overflow-x: auto; }
.fault b { color: var(--bad); }
.fault mark { color: var(--bad); background: none; font-weight: 700; }
"""
BEFORE, AFTER = 20, 16  # characters of the line shown before an error, and from its column on


def typeset(system: System, old: bool = False) -> str:
    """Return the equations of a system as HTML. old: dimmed, because the text has changed since.

    Equations that are too long for a single conversion to MathML are converted one by one; an equation that is still
    too long is shown as plain text.
    """
    lines = equation_lines(system)
    try:
        shown = _equation(equations(system), "; ".join(each.words for each in lines))
    except ValueError:
        shown = "".join(_line(each) for each in lines)
    # focusable, as it scrolls in a small window
    head = f"<div class='typed{' old' if old else ''}' role='group' aria-label='Typeset equations' tabindex='0'>"
    return f"{head}{shown}</div>"


@dataclass(frozen=True)
class EquationLine:
    """One equation. name, head: its left side as text and as LaTeX; node: its right side."""

    name: str
    head: str
    node: Node

    @property
    def words(self) -> str:
        """The equation as text."""
        return f"{self.name} = {words(self.node)}"

    @property
    def is_tall(self) -> bool:
        """Whether it is higher than a line of text: it has a fraction or cases."""
        return any(command in latex(self.node) for command in (r"\frac", r"\begin"))


def equation_lines(system: System) -> list[EquationLine]:
    """Return the equations and named expressions of a system."""
    lines = [EquationLine(f"{field}_t", rf"\partial_t {symbol(field)}", node) for field, node in system.rates.items()]
    return lines + [EquationLine(name, symbol(name), node) for name, node in system.named.items()]


def _line(line: EquationLine) -> str:
    try:
        return _equation(f"{line.head} = {latex(line.node)}", line.words)
    except ValueError:
        return filled("<code>{words}</code>", words=line.words)


def _equation(formula: str, spoken: str) -> str:
    """Return an equation as MathML, with its text for screen readers. Raise ValueError for one that is too long."""
    shown = mathml(formula).replace("<math ", filled("<math aria-label='{spoken}' ", spoken=spoken), 1)
    return f"<div class='equation'>{shown}</div>"


def error_html(error: EquationError) -> str:
    """Return the error: line and column, the message, and the source line with a caret below the column."""
    first = max(0, error.column - 1 - BEFORE)
    before, after = error.source[first : error.column - 1], error.source[error.column - 1 :][:AFTER]
    # no-break spaces keep the columns of the shown text
    line, gap = (f"{'…' if first else ''}{text}".replace("\t", " ").replace(" ", "\N{NO-BREAK SPACE}")
                 for text in (before + after, "\N{NO-BREAK SPACE}" * len(before)))  # fmt: skip
    gap = gap.replace("…", "\N{NO-BREAK SPACE}")
    return filled(
        "<div class='fault' role='alert'><b>Line {row}, column {column}:</b> {why}<code>{line}</code>"
        "<code aria-hidden='true'>{gap}<mark>^</mark></code></div>",
        row=error.line, column=error.column, why=error.message, line=line, gap=gap,
    )  # fmt: skip


def refusal_html(reason: str) -> str:
    """Return the reason why the lab refused a valid text."""
    return filled("<div class='fault' role='alert'><b>Refused:</b> {why}</div>", why=reason)
