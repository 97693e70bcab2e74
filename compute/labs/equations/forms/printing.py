"""Print the statements of a pass in a language: one printer for all languages, with a `Language` table for each.

The printer keeps the association of operations and folds constants in float64, so that all languages round alike. It
writes brackets only where the association requires them, and around fluxes. Every number has the kernel's type: NumPy
converts Python numbers to the dtype of the array, the other languages get typed literals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from compute.labs.equations.tree import (
    LEVELS,
    BinaryOp,
    Call,
    Compare,
    Name,
    Negative,
    Node,
    Number,
    Pass,
    Power,
    Ref,
    Statement,
    Tap,
    children,
    rebuilt,
)

WIDTH = 116  # characters of a line
CODE_WIDTH = 72  # characters; the comment of a longer line of code precedes it, on its own line
SUM, PRODUCT, SIGN, POWER, ATOM = 2, 3, 4, 5, 6  # binding levels, as tree.LEVELS

INSTRUCTIONS = {
    "sin": 100,
    "cos": 100,
    "pow": 150,
    "tanh": 30,
    "log": 25,
    "exp": 15,
    "sqrt": 10,
    "/": 10,
}  # per operation on a GPU; 1 for others
FOLDED: Mapping[str, Callable[..., float]] = {
    "sin": math.sin, "cos": math.cos, "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "abs": abs,
    "tanh": math.tanh, "min": min, "max": max, "pow": math.pow, "step": lambda a: float(a > 0),
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
}  # fmt: skip


def folded(node: Node) -> Node:
    """Return the node with its constant parts computed in float64. ValueError if a constant is not finite."""
    operands = [folded(each) for each in children(node)]
    if not operands:
        return node
    known = [_value(each) for each in operands]
    values = [value for value in known if value is not None]
    if isinstance(node, Negative | Compare) or len(values) < len(known):
        return rebuilt(node, operands)
    try:
        result = math.prod(values * node.exponent) if isinstance(node, Power) else FOLDED[_operation(node)](*values)
    except (ArithmeticError, ValueError):
        result = math.nan
    if not math.isfinite(result):
        raise ValueError(f"a constant must be finite; {_operation(node)} of {', '.join(map(repr, values))} is not")
    return Negative(Number(-result)) if result < 0 else Number(result)


def _value(node: Node) -> float | None:
    """Return the value of a constant; None for other nodes."""
    match node:
        case Number(value):
            return value
        case Negative(Number(value)):
            return -value
    return None


def _operation(node: Node) -> str:
    match node:
        case BinaryOp(op, _, _):
            return op
        case Call(name, _):
            return name
    return "power"


@dataclass(frozen=True)
class Language:
    """How a language writes values and statements.

    number: formats a finite constant; typed: formats a constant with an explicit type, for places where no array
    determines it; functions: names of functions by name in the tree; power, step, where: formats with {0}, {1}, {2} for
    the arguments; assignment: a format with {name} and {value}; comment: begins a comment; brackets: whether a value on
    several lines needs brackets; exact: a function that keeps the rounding of a product in a sum, "" for languages that
    do not contract products and sums.
    """

    number: Callable[[float], str]
    typed: Callable[[float], str]
    functions: Mapping[str, str]
    power: str
    step: str
    where: str
    assignment: str = "{name} = {value}"
    comment: str = "#"
    brackets: bool = True
    exact: str = ""

    # -- expressions

    def text(self, node: Node, level: int = 0) -> str:
        """Return an expression as text, in brackets if it binds weaker than `level`."""
        match node:
            case Number(value):
                return self.number(value)
            case Name(name) | Ref(name):
                return name
            case Tap():
                return node.name
            case Negative(operand):
                inner = self.text(operand, PRODUCT)
                own, text = SIGN, f"-({inner})" if inner.startswith("-") else f"-{inner}"
                level = ATOM if level > PRODUCT else 0
            case Power(base, exponent):
                own, text = PRODUCT, "*".join([self.text(base, ATOM)] * exponent)
            case Call(name, arguments):
                own, text = self._call(name, arguments)
            case BinaryOp(op, left, right) | Compare(op, left, right):
                own, space = LEVELS[op], "" if op in "*/" else " "
                first = self._operand(left, own + (own == SUM and _is_flux(left)), op, right)
                text = f"{first}{space}{op}{space}{self._right(right, op, left)}"
        return f"({text})" if own < level else text

    def _operand(self, node: Node, level: int, op: str, other: Node) -> str:
        """Return an operand, with its rounding kept if a compiler may merge the constant `other` into it."""
        if self.exact and _value(other) is not None and _takes_constant(node, op):
            return f"{self.exact}({self.text(node)})"
        return self._rounded(node, level) if LEVELS[op] == SUM else self.text(node, level)

    def _right(self, node: Node, op: str, left: Node) -> str:
        """Return the right operand, in brackets if it begins with a sign."""
        text = self._operand(node, LEVELS[op] + 1, op, left)
        return f"({text})" if text.startswith("-") else text

    def _rounded(self, node: Node, level: int = 0) -> str:
        """Return an operand of a sum, or the value of a statement; if it is a product, keep its rounding."""
        if not self.exact:
            return self.text(node, level)
        if isinstance(node, Negative) and _is_product(node.operand):
            return f"-{self.exact}({self.text(node.operand)})" if level <= SUM else f"(-{self._rounded(node.operand)})"
        return f"{self.exact}({self.text(node)})" if _is_product(node) else self.text(node, level)

    def _call(self, name: str, arguments: Sequence[Node]) -> tuple[int, str]:
        """Return the text of a call and the level at which it binds."""
        form = {"step": self.step, "where": self.where, "pow": self.power}.get(name)
        if form is None:
            return ATOM, f"{self.functions[name]}({', '.join(map(self.text, arguments))})"
        own = ATOM if form.endswith(")") else POWER if name == "pow" else 0
        if name == "pow":
            return own, form.format(*(self.text(each, ATOM if own == POWER else 0) for each in arguments))
        first = self.text(arguments[0], SUM if name == "step" else 0)  # the condition of `where` needs no brackets
        level = 0 if own else 1  # a nested `where` needs brackets if the form has none
        return own, form.format(first, *(self._typed(each, level) for each in arguments[1:]))

    def _typed(self, node: Node, level: int) -> str:
        value = _value(node)
        return self.text(node, level) if value is None else self.typed(value)

    # -- statements

    def body(self, statements: Iterable[Statement], indent: str = "    ") -> str:
        """Return the statements as lines, each with its formula as a comment, on the same line if it fits."""
        lines = [(self._statement(each, indent), each.comment) for each in statements]
        column = max((len(line) for line, _ in lines if len(line) <= CODE_WIDTH), default=0)
        shown = []
        for line, comment in lines:
            text = f"{line.ljust(column)}  {self.comment} {comment}"
            if not comment:
                shown.append(line)
            elif len(line) <= CODE_WIDTH and len(text) <= WIDTH:
                shown.append(text)
            else:
                shown.append(f"{indent}{self.comment} {comment}\n{line}")
        return "\n".join(shown)

    def _statement(self, statement: Statement, indent: str) -> str:
        value = folded(statement.value)
        constant = _value(value)
        text = self._rounded(value) if constant is None else self.typed(constant)
        line = indent + self.assignment.format(name=statement.name, value=text)
        if len(line) <= WIDTH:
            return line
        inner = indent + "    "
        lines = filled(self._parts(value), inner, inner)
        begin, end = ("(\n", f"\n{indent})") if self.brackets else ("\n", "")
        shown = indent + self.assignment.format(name=statement.name, value=begin + lines + end)
        return shown.replace(" = \n", " =\n")

    def _parts(self, node: Node) -> list[str]:
        """Return the value of a statement as parts between which a line may break: before each + and -."""
        match node:
            case BinaryOp(op, left, right) if op in "+-":
                if self.exact and (_value(left) is not None or _value(right) is not None):
                    return [f"{self._operand(left, SUM, op, right)} {op} {self._right(right, op, left)}"]
                first, *others = self._bracketed(right) if self._is_long(right) else [self._right(right, op, left)]
                before = self._bracketed(left) if _is_flux(left) else self._parts(left)
                return [*before, f"{op} {first}", *others]
            case BinaryOp(op, left, right) if self._is_long(right):
                parts = self._bracketed(right, f"{self.text(left, PRODUCT)}{op}")
                if self.exact and op == "*":
                    return [f"{self.exact}({parts[0]}", *parts[1:-1], f"{parts[-1]})"]
                return parts
        return [self._rounded(node, SUM)]

    def _is_long(self, node: Node) -> bool:
        """Return whether a node is a sum that is long enough for line breaks within its brackets."""
        return isinstance(node, BinaryOp) and LEVELS[node.op] == SUM and len(self.text(node)) > WIDTH // 2

    def _bracketed(self, node: Node, before: str = "") -> list[str]:
        *parts, last = self._parts(node)
        parts.append(f"{last})")
        return [f"{before}({parts[0]}", *parts[1:]]


def _is_product(node: Node) -> bool:
    return isinstance(node, Power) or (isinstance(node, BinaryOp) and node.op == "*")


def _takes_constant(node: Node, op: str) -> bool:
    """Return whether WGSL permits a compiler to reassociate `node op constant`."""
    if isinstance(node, Negative):
        return _takes_constant(node.operand, op)
    if op == "*":
        return _is_product(node)
    return op in "+-" and (isinstance(node, Ref) or (isinstance(node, BinaryOp) and node.op in "+-"))


def _is_flux(node: Node) -> bool:
    """Return whether a node is the difference of two values, which is bracketed for readability."""
    plain = (Tap, Ref)
    return (
        isinstance(node, BinaryOp) and node.op == "-" and isinstance(node.left, plain) and isinstance(node.right, plain)
    )


def filled(parts: Sequence[str], begin: str, indent: str) -> str:
    """Return `begin` and the parts as lines of at most WIDTH characters; further lines begin with `indent`."""
    lines = [begin + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) > WIDTH:
            lines.append(indent + part)
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def weight(each: Pass) -> int:
    """Return the approximate number of GPU instructions per cell of a pass."""

    def of(node: Node) -> int:
        """Return the number for an expression."""
        own = INSTRUCTIONS.get(_operation(node), 1) if isinstance(node, Call | BinaryOp) else len(children(node))
        return own + sum(map(of, children(node)))

    return sum(of(statement.value) for statement in each.statements)


def by_array(each: Pass, arguments: Sequence[str], indent: str) -> str:
    """Return the arguments of `cell`: a line per array with neighbours, a line for other arrays, one for the numbers.

    indent: begins each line but the first.
    """
    arrays = [tap.array if each.wide(tap.array) else "" for tap in each.taps] + ["0"] * len(each.names)
    pairs = groupby(zip(arrays, arguments, strict=True), key=lambda pair: pair[0])
    lines = [filled([f"{argument}," for _, argument in group], indent, indent) for _, group in pairs]
    return "\n".join(lines).lstrip().removesuffix(",")


def tidy(text: str) -> str:
    """Return the text of a Python module with two empty lines before each function and one newline at the end."""
    return re.sub(r"\n{2,}(?=@|def )", "\n\n\n", text).rstrip() + "\n"


def plain(value: float) -> str:
    """Return the shortest text of a number, without a trailing ".0"."""
    return repr(value).removesuffix(".0")
