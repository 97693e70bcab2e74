"""The data that the parts of this lab exchange: nodes of expressions, a system of equations, the passes of a time step.

language.py reads a text into a System. passes.py lowers it to a Plan. The generators (NumPy, Numba, CUDA C, WGSL) print
a Plan, and reference.py executes it in float64. Only this tree reaches a compiler, never the text.

A Plan is executed as follows. Every array has the shape (ny, nx); row 0 is at y = dx/2. For each stage of the plan,
each pass in order: it reads the current arrays `sources`, writes one spare array per target, and afterwards each
written array becomes the current one of its name. So a later pass reads what an earlier pass has written. If
`from_start`, the arrays `u_start` are copies of the fields at the beginning of the step.

A pass is a pure function `cell` of one cell: the arguments are the values of `taps`, then the numbers `names`; each
statement is one line of it; it returns the values of the statements `results`. Neighbours outside the grid are ghost
cells, which System.edge defines for each array.

Names in a text have letters and digits only. All names derived from them contain an underscore: u_left, u_t, lap_u,
u_new, u_start, aux_1, shared_1. Generators follow that rule for their own names, or list them in language.TAKEN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

BinaryOperator = Literal["+", "-", "*", "/", "^"]
Comparison = Literal["<", ">", "<=", ">="]
EdgeKind = Literal["periodic", "zero-flux", "fixed"]
SchemeName = Literal["euler", "rk3", "symplectic"]

SIDES = {(0, 0): "", (-1, 0): "_left", (1, 0): "_right", (0, -1): "_below", (0, 1): "_above"}  # (dx, dy): suffix
DIAGONALS = {(-1, -1): "_below_left", (1, -1): "_below_right", (-1, 1): "_above_left", (1, 1): "_above_right"}
OFFSETS = SIDES | DIAGONALS  # diagonals occur in dxy only
COORDINATES = ("x", "y")  # vary by cell: the centre of the cell, (column + 0.5) * dx and (row + 0.5) * dx
SYSTEM_NUMBERS = ("Lx", "Ly", "t")  # the same in all cells: nx * dx, ny * dx, time
IMAGE = "image"  # varies by cell: the brightness of the loaded image; in initial values and walls only


@dataclass(frozen=True)
class Number:
    """A constant: finite, not negative; its magnitude is 0 or within float32's normal range."""

    value: float


@dataclass(frozen=True)
class Name:
    """A plain number by its name: a parameter, x, y, t, Lx, Ly, dt, keep or take.

    Before lowering also pi, a field or a named expression.
    """

    name: str


@dataclass(frozen=True)
class Tap:
    """The value of an array, `dx` columns and `dy` rows away. Only after lowering."""

    array: str
    dx: int = 0
    dy: int = 0

    @property
    def name(self) -> str:
        """The argument of `cell`: u, u_left, u_above_right."""
        return self.array + OFFSETS[self.dx, self.dy]


@dataclass(frozen=True)
class Ref:
    """The value of an earlier statement of the same pass. Only after lowering."""

    name: str


@dataclass(frozen=True)
class Negative:
    """The operand with the other sign."""

    operand: Node


@dataclass(frozen=True)
class BinaryOp:
    """Two operands. "^" only before lowering."""

    op: BinaryOperator
    left: Node
    right: Node


@dataclass(frozen=True)
class Power:
    """The product of 2 to 8 equal factors, in order: base * base * base. Only after lowering."""

    base: Node
    exponent: int


@dataclass(frozen=True)
class Compare:
    """A condition: only as the first argument of `where`."""

    op: Comparison
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    """A function of 1 to 3 arguments.

    sin cos exp log sqrt abs tanh step (1 for positive arguments, otherwise 0), min max, where(condition, then, else);
    after lowering also pow(base, exponent), with a base that is not negative in meaningful equations. Before lowering
    also lap dx dy dxx dyy dxy div grad, and in initial values noise.
    """

    name: str
    arguments: tuple[Node, ...]


Node = Number | Name | Tap | Ref | Negative | BinaryOp | Power | Compare | Call


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, in order."""
    match node:
        case Negative(operand):
            return (operand,)
        case BinaryOp(_, left, right) | Compare(_, left, right):
            return (left, right)
        case Power(base, _):
            return (base,)
        case Call(_, arguments):
            return arguments
    return ()


def rebuilt(node: Node, operands: Sequence[Node]) -> Node:
    """Return the node with other operands."""
    match node:
        case Negative():
            return Negative(*operands)
        case BinaryOp() | Compare():
            return replace(node, left=operands[0], right=operands[1])
        case Power():
            return replace(node, base=operands[0])
        case Call():
            return replace(node, arguments=tuple(operands))
    return node


LEVELS = {"<": 1, ">": 1, "<=": 1, ">=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "^": 5}


def words(node: Node, level: int = 0) -> str:
    """Return an expression as text of the language, for comments. It has brackets if it binds weaker than `level`."""
    match node:
        case Number(value):
            return f"{value:.7g}"
        case Name(name) | Ref(name):
            return name
        case Tap():
            return node.name
        case Call(name, arguments):
            return f"{name}({', '.join(words(each) for each in arguments)})"
        case Negative(operand):
            own, text = 3, f"-{words(operand, 4)}"
        case Power(base, exponent):
            own, text = 5, f"{words(base, 6)}^{exponent}"
        case BinaryOp(op, left, right) | Compare(op, left, right):
            own, space = LEVELS[op], "" if op in "*/^" else " "
            first, second = (6, 4) if op == "^" else (own, own + 1)
            text = f"{words(left, first)}{space}{op}{space}{words(right, second)}"
    return f"({text})" if own < level else text


class EquationError(ValueError):
    """An error in a text, with its place. The message shows the source line with a caret below the place.

    line, column: counted from 1. message: the sentence alone. source: the line of the text.
    """

    def __init__(self, message: str, text: str, line: int, column: int) -> None:
        lines = text.split("\n")
        self.message, self.line, self.column = message, line, column
        self.source = lines[line - 1] if line <= len(lines) else ""
        first = max(0, column - 60)  # of a long line, the surroundings of the place
        shown = "".join(each if each.isprintable() else " " for each in self.source[first : first + 100])
        super().__init__(f"line {line}, column {column}: {message}\n    {shown}\n    {' ' * (column - 1 - first)}^")

    def __reduce__(self) -> tuple[type[EquationError], tuple[str, str, int, int]]:
        """Allow pickling: errors travel between processes."""
        return EquationError, (self.message, "\n" * (self.line - 1) + self.source, self.line, self.column)


@dataclass(frozen=True)
class Parameter:
    """A number with a slider: low <= value <= high."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Edge:
    """The ghost cells of an array.

    periodic: the cell of the opposite side. zero-flux: the nearest cell of the grid. fixed: 2 value - nearest cell, so
    that the array has the value on the face between the two.
    """

    kind: EdgeKind = "periodic"
    value: float = 0.0


@dataclass
class System:
    """A system of equations as it was typed.

    fields: names in order of their equations. rates: the right side for each field. named: further names for
    expressions, in an order in which each uses earlier ones only; those with derivatives or in derivatives become
    auxiliary arrays. initial: a missing field begins with 0. wall: positive where cells keep their first value; the
    array `wall` is 1 there, otherwise 0. closed: whether the faces of these cells have no flux. show: the expression of
    the second picture. dx: the width of a cell. dt: None for a step from the stability bound. lines: the line of each
    equation and name, for errors.
    """

    text: str
    fields: list[str] = field(default_factory=list)
    rates: dict[str, Node] = field(default_factory=dict)
    named: dict[str, Node] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    initial: dict[str, Node] = field(default_factory=dict)
    edges: dict[str, Edge] = field(default_factory=dict)
    wall: Node | None = None
    closed: bool = False
    show: Node | None = None
    scheme: SchemeName = "euler"
    dx: float = 1.0
    dt: float | None = None
    lines: dict[str, int] = field(default_factory=dict)

    def edge(self, array: str) -> Edge:
        """Return the edges of an array: its own, else those of `edges:`, else of the first field that has some.

        The mask `wall` has no fixed value: its ghost cells are then those of zero-flux.
        """
        found = self.edges.get(array) or self.edges.get("edges") or next(iter(self.edges.values()), Edge())
        return Edge("zero-flux") if array == "wall" and found.kind == "fixed" else found


@dataclass(frozen=True)
class Statement:
    """One line of `cell`: a name, its value, and the formula as it was typed ("" if there is none)."""

    name: str
    value: Node
    comment: str = ""


@dataclass(frozen=True)
class Pass:
    """One sweep over the grid.

    targets: names of the written arrays. statements: in an order in which each refers to earlier ones only.
    taps: the read values, those of one array side by side. names: the plain numbers, in the order x, y, Lx, Ly, t,
    parameters, keep, take, dt.
    """

    targets: tuple[str, ...]
    statements: tuple[Statement, ...]
    taps: tuple[Tap, ...]
    names: tuple[str, ...]

    @property
    def sources(self) -> list[str]:
        """The names of the read arrays."""
        return list(dict.fromkeys(tap.array for tap in self.taps))

    @property
    def results(self) -> list[str]:
        """The names of the statements that are written to the targets."""
        return [f"{target}_new" for target in self.targets]

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments of `cell`."""
        return [*(tap.name for tap in self.taps), *self.names]

    @property
    def numbers(self) -> list[str]:
        """The arguments that are equal in all cells."""
        return [name for name in self.names if name not in COORDINATES]

    def wide(self, array: str) -> bool:
        """Return whether the pass reads neighbours in this array."""
        return any(tap.array == array and (tap.dx, tap.dy) != (0, 0) for tap in self.taps)


def operations(step: Pass) -> int:
    """Return the number of operations of a pass on a cell: those of its trees, and of a value that it reads."""
    count, todo = len(step.taps), [each.value for each in step.statements]
    while todo:
        operands = children(todo.pop())
        todo += operands
        count += bool(operands)
    return count


@dataclass(frozen=True)
class Stage:
    """One evaluation of the rates in a step: u = keep * u_start + take * (u + dt * rate), at the time t + when * dt.

    Only rk3 uses `keep` and `take`.
    """

    keep: float = 0.0
    take: float = 1.0
    when: float = 0.0


@dataclass(frozen=True)
class Scheme:
    """A time-stepping method. limit: the largest stable dt times the largest magnitude of an eigenvalue."""

    stages: tuple[Stage, ...]
    limit: float


SCHEMES: dict[SchemeName, Scheme] = {
    "euler": Scheme((Stage(),), 2.0),
    # Shu and Osher, J. Comput. Phys. 77 (1988) 439; its limit is that of the imaginary axis, sqrt(3)
    "rk3": Scheme((Stage(0.0, 1.0, 0.0), Stage(0.75, 0.25, 1.0), Stage(1 / 3, 2 / 3, 0.5)), 1.732),
    # each field in turn, with the new values of those before it
    "symplectic": Scheme((Stage(),), 2.0),
}


@dataclass(frozen=True)
class Plan:
    """The passes of a time step, executed once per stage. auxiliary: names of the arrays that are not fields."""

    passes: tuple[Pass, ...]
    stages: tuple[Stage, ...]
    auxiliary: tuple[str, ...]
    from_start: bool
