"""Sphinx extension for the reference: `{parameters} MODULE:LAB` is a table of a lab's parameters, made from its class.

A row has the name, the default, the allowed values, the unit (the brackets of the parameter's label), an example of a
valid value, and the meaning. A lab's signature lists the parameters with their defaults.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import param
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from compute.lab.lab import Lab

HEAD = "| Parameter | Default | Allowed | Unit | Example | Meaning |\n|---|---|---|---|---|---|"
LABEL = re.compile(r"(?P<words>.*?)(?: \[(?P<unit>.+)\])?")
WORDS = {
    "integer": "a whole number", "number": "a number", "string": "a text", "range": "two numbers", "tuple": "a tuple",
    "numerictuple": "a tuple of numbers", "dict": "a dictionary", "list": "a list",
}  # fmt: skip


class Parameters(SphinxDirective):
    """`{parameters} MODULE:LAB`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        module, _, name = self.arguments[0].partition(":")
        lab = getattr(import_module(module), name)
        self.env.note_dependency(inspect.getfile(lab))
        return self.parse_text_to_nodes("\n".join([HEAD, *(row(name, lab.param[name]) for name in own_names(lab))]))


def own_names(lab: type[Lab]) -> list[str]:
    """Return the names of the parameters that a program can set."""
    return [name for name in lab.param if name != "name"]


def row(name: str, parameter: param.Parameter[Any]) -> str:
    """Return a parameter's row of the table, in Markdown."""
    label = LABEL.fullmatch(parameter.label or "")
    words, unit = (label["words"], label["unit"]) if label else ("", None)
    meaning = " ".join(filter(None, (f"{words}." if words else "", parameter.doc)))
    value = example(parameter)
    shown = "" if value is None else f"`{value!r}`"
    cells = (f"`{name}`", f"`{parameter.default!r}`", allowed(parameter), unit or "", shown, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def allowed(parameter: param.Parameter[Any]) -> str:
    """Return in Markdown what values a parameter may have."""
    if isinstance(parameter, param.Boolean):
        return "`True`, `False`"
    if isinstance(parameter, param.Selector):
        return ", ".join(f"`{value!r}`" for value in parameter.objects)
    kind = type(parameter).__name__.lower()
    words = WORDS.get(kind, kind)
    low, high = getattr(parameter, "bounds", None) or (None, None)
    words += f" from {low}" if low is not None else ""
    words += f" to {high}" if high is not None else ""
    return f"{words} or `None`" if parameter.allow_None and not isinstance(parameter, param.String) else words


def example(parameter: param.Parameter[Any]) -> Any:
    """Return a valid value that differs from the default, or the default, or None if neither says anything."""
    if isinstance(parameter, param.Boolean):
        return not parameter.default
    if isinstance(parameter, param.Selector):
        return next((value for value in parameter.objects if value != parameter.default), parameter.default)
    if isinstance(parameter, param.Number):
        return number(parameter)
    return parameter.default or None


def number(parameter: param.Number[Any]) -> float | None:
    """Return half of a number's default, or twice if that is below its bounds; without a default 0.5, within bounds."""
    low, high = parameter.bounds or (None, None)
    if not parameter.default:
        known = parameter.bounds and not isinstance(parameter, param.Integer)
        return max(low or 0.5, min(high or 0.5, 0.5)) if known else None
    half = parameter.default // 2 if isinstance(parameter, param.Integer) else parameter.default / 2
    return half if low is None or half >= max(low, 1e-300) else 2 * parameter.default


def with_parameters(
    _app: Sphinx, what: str, _name: str, of: object, _options: object, _signature: str, returns: str
) -> tuple[str, str] | None:
    """Write a lab's parameters with their defaults into its signature."""
    if what != "class" or not (isinstance(of, type) and issubclass(of, Lab)) or of is Lab:
        return None
    return f"(*, {', '.join(f'{name}={of.param[name].default!r}' for name in own_names(of))})", returns


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-signature", with_parameters)
    app.add_directive("parameters", Parameters)
