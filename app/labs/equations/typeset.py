"""Typed equations as HTML: typeset, and errors with their place. All text is escaped."""

from __future__ import annotations

from app.page.equations import mathml
from app.page.markup import filled
from compute.labs.equations.mathematics import equations, latex, symbol
from compute.labs.equations.tree import EquationError, Node, System, words

STYLE = """
.typed { overflow-x: auto; padding: 4px 8px; scrollbar-width: thin; }
.typed .equation { margin: 0; padding: 0; }
.typed .equation math { font-size: var(--body); }
.typed.old { opacity: 0.45; }
.typed code, .fault code { font: var(--small)/1.5 'Roboto Mono', 'Liberation Mono', Menlo, Consolas, monospace;
  color: var(--ink); white-space: pre; display: block; background: none; }
.fault { padding: 4px 8px; font-size: var(--small); line-height: 1.4; color: var(--ink); overflow-x: auto; }
.fault b { color: var(--bad); }
.fault mark { color: var(--bad); background: none; font-weight: 700; }
"""
CONTEXT = 32  # characters of the line that are shown before the place, and after it


def typeset(system: System, old: bool = False) -> str:
    """Return the equations of a system as HTML. old: pale, because the text has changed since.

    If all of them are too long for one conversion to MathML, each is converted on its own; one that is still too long
    is shown as plain text.
    """
    try:
        shown = _equation(equations(system))
    except ValueError:
        rates = [(f"{field}_t", rf"\partial_t {symbol(field)}", node) for field, node in system.rates.items()]
        named = [(name, symbol(name), node) for name, node in system.named.items()]
        shown = "".join(_line(*each) for each in rates + named)
    return f"<div class='typed{' old' if old else ''}'>{shown}</div>"


def _line(name: str, head: str, node: Node) -> str:
    try:
        return _equation(f"{head} = {latex(node)}")
    except ValueError:
        return filled("<code>{name} = {value}</code>", name=name, value=words(node))


def _equation(formula: str) -> str:
    return f"<div class='equation'>{mathml(formula)}</div>"


def error_html(error: EquationError) -> str:
    """Return the error with its place: line and column, the sentence, the source line, and a caret below the place."""
    first = max(0, error.column - 1 - CONTEXT)
    before, after = error.source[first : error.column - 1], error.source[error.column - 1 :][:CONTEXT]
    # no-break spaces, as the shown text must keep its columns
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
