"""Lowering: from a System to the passes of a time step, which tree.py describes.

Derivatives become differences of neighbours; second ones are differences of the fluxes through the cell's faces, which
are exact (Sterbenz; see cpu_numpy.py of the diffusion lab). A derivative of an expression with derivatives needs the
neighbours' values of that expression, so an earlier pass stores the expression as an auxiliary array. Terms that occur
more than once become statements.

The stencil of div(D*grad(u)) uses the mean of D at a face. With `wall: zero-flux`, a wall cell acts as a ghost cell:
its neighbours read their own value in its place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce
from itertools import permutations
from math import pi

from compute.labs.equations.language import DERIVATIVES
from compute.labs.equations.tree import (
    COORDINATES,
    OFFSETS,
    SCHEMES,
    SYSTEM_NUMBERS,
    BinaryOp,
    Call,
    Compare,
    EquationError,
    Name,
    Negative,
    Node,
    Number,
    Pass,
    Plan,
    Power,
    Ref,
    Statement,
    System,
    Tap,
    children,
    rebuilt,
    words,
)

MOST_AUXILIARY = 4  # arrays
MOST_LOWERED = 2500  # nodes of a pass
MOST_FACTORS = 8  # of a Power
MOST_TERM_CHARACTERS = 14  # of a statement named after its term, such as u_v2
SUFFIXES = {"t", "new", "start", "in", "out"}  # reserved for derived names

Offset = tuple[int, int]


def lower(system: System) -> Plan:
    """Return the passes of a time step by the system's scheme. Raise EquationError for a system that is too large."""
    lowering = _Lowering(system)
    groups = lowering.groups() if system.scheme == "symplectic" else [system.fields]
    passes = [each for group in groups for each in lowering.with_auxiliary(lowering.update(group))]
    arrays = dict.fromkeys(target for each in passes for target in each.targets)
    scheme = SCHEMES[system.scheme]
    auxiliary = tuple(array for array in arrays if array not in system.fields)
    return Plan(tuple(passes), scheme.stages, auxiliary, from_start=system.scheme == "rk3")


def rates(system: System) -> list[Pass]:
    """Return passes that write the rate of change of each field to the array of the field's name, without walls."""
    lowering = _Lowering(system)
    return lowering.with_auxiliary(lowering.values(system.rates))


def picture(system: System) -> list[Pass]:
    """Return passes that write the expression of the second picture to the array `show`; empty without `show =`.

    In the cells of a wall the value is 0, since derivatives across its faces would exceed all others.
    """
    if system.show is None:
        return []
    lowering = _Lowering(system)
    return lowering.with_auxiliary(lowering.values({"show": system.show}, closed=system.wall is not None))


class _Lowering:
    """The auxiliary arrays of a system, and its passes."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.auxiliary: dict[str, Node] = {}  # expressions by array
        self.arrays: dict[Node, str] = {}  # array names by stored expression
        self._periodic = any(system.edge(field).kind == "periodic" for field in system.fields)
        self._stored: dict[str, bool] = {}
        self._varying: dict[str, bool] = {}
        seen: set[str] = set()
        for field, rate in system.rates.items():
            self._find(rate, field, seen)
        if system.show is not None:
            self._find(system.show, system.fields[0], seen)

    def _find(self, node: Node, origin: str, seen: set[str]) -> None:
        """Find the differentiated expressions that need an array. origin: the name whose line an error reports."""
        if isinstance(node, Name) and node.name in self.system.named and node.name not in seen:
            seen.add(node.name)
            self._find(self.system.named[node.name], node.name, seen)
        elif isinstance(node, Call) and node.name in DERIVATIVES:
            for operand in operands(node):
                if self.stored(operand) and operand not in self.arrays:
                    name = f"aux_{len(self.arrays) + 1}"
                    if isinstance(operand, Name) and operand.name in self.system.named:  # not x or y
                        name = operand.name
                    self.arrays[operand], self.auxiliary[name] = name, operand
                    if len(self.arrays) > MOST_AUXILIARY:
                        self.fail(f"derivatives of more than {MOST_AUXILIARY} expressions with derivatives", origin)
        for each in children(node):
            self._find(each, origin, seen)

    def fail(self, message: str, name: str) -> None:
        """Raise EquationError in the line of a name."""
        raise EquationError(message, self.system.text, self.system.lines.get(name, 1), 1)

    def stored(self, node: Node) -> bool:
        """Return whether an expression must be stored in an array before neighbours can be read.

        So must expressions with derivatives, and on a periodic grid those with x or y, which are not periodic.
        """
        return self._has(node, self._stored, self._needs_array)

    def varying(self, node: Node) -> bool:
        """Return whether an expression differs from cell to cell."""
        fields = (*self.system.fields, *COORDINATES)
        return self._has(node, self._varying, lambda each: isinstance(each, Name) and each.name in fields)

    def _needs_array(self, node: Node) -> bool:
        if isinstance(node, Call):
            return node.name in DERIVATIVES
        return self._periodic and isinstance(node, Name) and node.name in COORDINATES

    def _has(self, node: Node, known: dict[str, bool], test: Callable[[Node], bool]) -> bool:
        """Return whether an expression has a node that passes a test; named expressions are examined once."""
        if isinstance(node, Name) and node.name in self.system.named:
            if node.name not in known:
                known[node.name] = self._has(self.system.named[node.name], known, test)
            return known[node.name]
        return test(node) or any(self._has(each, known, test) for each in children(node))

    def update(self, fields: Iterable[str]) -> Pass:
        """Return the pass that advances fields by a step or stage; in symplectic, with new values of earlier fields."""
        cell = _Cell(self)
        system, one = self.system, Number(1.0)
        step = "stage" if system.scheme == "rk3" else "step"
        for field in fields:
            cell.origin = field
            rate = cell.term(f"{field}_t", cell.lower(system.rates[field]), f"{field}_t = {words(system.rates[field])}")
            new: Node = BinaryOp("+", Tap(field), BinaryOp("*", Name("dt"), rate))
            if system.scheme == "rk3":
                new = BinaryOp("*", Name("take"), new)
                new = BinaryOp("+", BinaryOp("*", Name("keep"), Tap(f"{field}_start")), new)
            if system.wall is not None:
                new = Call("where", (Compare("<", Tap("wall"), one), new, Tap(field)))
            cell.statements[f"{field}_new"] = Statement(f"{field}_new", new, f"{field} after this {step}")
            if system.scheme == "symplectic":
                cell.fresh.add(field)
        return cell.finish(list(fields))

    def values(self, targets: dict[str, Node], closed: bool = False) -> Pass:
        """Return the pass that writes the values of expressions. closed: with 0 in the cells of a wall."""
        cell = _Cell(self)
        for name, node in targets.items():
            cell.origin = name
            value = cell.lower(node)
            if closed:
                value = Call("where", (Compare("<", Tap("wall"), Number(1.0)), value, Number(0.0)))
            cell.statements[f"{name}_new"] = Statement(f"{name}_new", value, f"{name} = {words(node)}")
        return cell.finish(list(targets))

    def with_auxiliary(self, last: Pass) -> list[Pass]:
        """Return the fewest passes that write the auxiliary arrays which `last` reads, followed by `last`."""
        levels: list[list[str]] = []
        needed = [array for array in last.sources if array in self.auxiliary]
        while needed:
            levels = [[array for array in level if array not in needed] for level in levels]
            levels.insert(0, needed)
            sources = [array for name in needed for array in self.values({name: self._value(name)}).sources]
            needed = [array for array in dict.fromkeys(sources) if array in self.auxiliary]
        return [*(self.values({name: self._value(name) for name in level}) for level in levels if level), last]

    def _value(self, array: str) -> Node:
        return self.system.named.get(array, self.auxiliary[array])

    def groups(self) -> list[list[str]]:
        """Return the fields grouped by pass, in the order that needs the fewest passes.

        A field uses the new values of earlier fields. It shares their pass unless it reads their neighbours.
        """
        alone = {field: self.update([field]) for field in self.system.fields}
        apart = {field: any(array in self.auxiliary for array in alone[field].sources) for field in alone}
        found: list[list[list[str]]] = []
        for order in permutations(self.system.fields):
            groups: list[list[str]] = []
            for field in order:
                if groups and not apart[field] and not any(alone[field].wide(each) for each in groups[-1]):
                    groups[-1].append(field)
                else:
                    groups.append([field])
            found.append(groups)
        return min(found, key=len)


def operands(node: Call) -> list[Node]:
    """Return the operands of a derivative: of div, the differentiated expression and an optional factor."""
    argument = node.arguments[0]
    if node.name != "div":
        return [argument] if node.name != "grad" else []
    factor, flux = (argument.left, argument.right) if isinstance(argument, BinaryOp) else (None, argument)
    return [*children(flux), *([factor] if factor is not None else [])]


class _Cell:
    """Collects the statements of a pass.

    fresh: fields that are read with their new values. origin: the target that is being lowered, for errors.
    """

    def __init__(self, lowering: _Lowering) -> None:
        self.lowering, self.system = lowering, lowering.system
        self.statements: dict[str, Statement] = {}
        self.fresh: set[str] = set()
        self.origin = ""
        self._nodes = 0

    def term(self, name: str, value: Node, comment: str = "") -> Node:
        """Return a reference to the statement with this value, which is added under a similar name if it is new."""
        if isinstance(value, Ref):
            return value
        for each in self.statements.values():
            if each.value == value:
                return Ref(each.name)
        number, free = 1, name
        while free in self.statements:
            number += 1
            free = f"{name.removesuffix('_1')}_{number}"
        self.statements[free] = Statement(free, value, comment)
        return Ref(free)

    def lower(self, node: Node, at: Offset = (0, 0)) -> Node:
        """Return an expression, at the cell with this offset, as nodes of a pass."""
        self._nodes += 1
        if self._nodes > MOST_LOWERED:
            self.lowering.fail("the equations are too long once their derivatives are written out", self.origin)
        match node:
            case Name(name):
                return self._name(node, name, at)
            case BinaryOp("^", base, exponent):
                return self._power(base, exponent, at)
            case Call(name, _) if name in DERIVATIVES:
                return self._derivative(node)
        return rebuilt(node, [self.lower(each, at) for each in children(node)])

    def _name(self, node: Name, name: str, at: Offset) -> Node:
        system = self.system
        if name in self.fresh:
            return Ref(f"{name}_new")
        if name in system.fields or name in self.lowering.auxiliary:
            return self._tap(name, at)
        if name in system.named:
            value = self.lower(system.named[name], at)
            inline = at != (0, 0) or self.fresh
            return value if inline else self.term(name, value, f"{name} = {words(system.named[name])}")
        if name in COORDINATES and (shift := system.dx * at[COORDINATES.index(name)]):
            return BinaryOp("+" if shift > 0 else "-", node, Number(abs(shift)))
        return Number(pi) if name == "pi" else node

    def _tap(self, array: str, at: Offset) -> Node:
        if at == (0, 0) or not (self.system.closed and self.system.wall is not None):
            return Tap(array, *at)
        open_side = Compare("<", Tap("wall", *at), Number(1.0))
        value = Call("where", (open_side, Tap(array, *at), Tap(array)))
        return self.term(f"{array}_open{OFFSETS[at]}", value, "the cell's value next to a wall")

    def _power(self, base: Node, exponent: Node, at: Offset) -> Node:
        match exponent:
            case Number(value):
                number = value
            case Negative(Number(value)):
                number = -value
            case _:
                return Call("pow", (self.lower(base, at), self.lower(exponent, at)))
        if abs(number) == 0.5:
            found: Node = Call("sqrt", (self.lower(base, at),))
        elif number.is_integer():
            found = self._whole_power(self.lower(base, at), int(abs(number)), words(base))
        else:
            found = Call("pow", (self.lower(base, at), Number(abs(number))))
        return found if number >= 0 else BinaryOp("/", Number(1.0), found)

    def _whole_power(self, base: Node, number: int, comment: str) -> Node:
        """Return a whole power as products: pow of a negative base is undefined in WGSL."""
        if number < 2:
            return base if number else Number(1.0)
        if not isinstance(base, Tap | Name | Ref | Number):
            base = self.term("base_1", base, comment)
        rest, factors = number % MOST_FACTORS, number // MOST_FACTORS
        if not factors:
            return Power(base, number)
        eighth = Power(base, MOST_FACTORS)
        most = self._whole_power(eighth, factors, f"{comment}^{MOST_FACTORS}")
        return BinaryOp("*", most, self._whole_power(base, rest, comment)) if rest else most

    def _derivative(self, node: Call) -> Node:
        h, text, what = self.system.dx, words(node), node.name
        argument, *factor = operands(node)
        if factor and not self.lowering.varying(factor[0]):
            lap = Call("lap", (argument,))
            return BinaryOp("*", self.lower(factor[0]), self.lower(lap))
        if what == "div" and not factor:
            what = "lap"

        def at(node: Node, dx: int, dy: int) -> Node:
            """Return an expression at the neighbour dx columns and dy rows away."""
            if node in self.lowering.arrays:
                return self._tap(self.lowering.arrays[node], (dx, dy))
            return self.lower(node, (dx, dy))

        def difference(right: Offset, left: Offset) -> Node:
            """Return the argument at `right` minus that at `left`."""
            return BinaryOp("-", at(argument, *right), at(argument, *left))

        def flux(right: Offset, left: Offset) -> Node:
            """Return the flux through the face between two cells, doubled if there is a factor."""
            if not factor:
                return difference(right, left)
            return BinaryOp("*", BinaryOp("+", at(factor[0], *left), at(factor[0], *right)), difference(right, left))

        def second(dx: int, dy: int) -> Node:
            """Return the difference of the fluxes through the two faces of the cell in direction (dx, dy)."""
            return BinaryOp("-", flux((dx, dy), (0, 0)), flux((0, 0), (-dx, -dy)))

        value, scale = {
            "lap": lambda: (BinaryOp("+", second(0, 1), second(1, 0)), 1 / h**2),
            "div": lambda: (BinaryOp("+", second(0, 1), second(1, 0)), 0.5 / h**2),
            "dxx": lambda: (second(1, 0), 1 / h**2),
            "dyy": lambda: (second(0, 1), 1 / h**2),
            "dx": lambda: (difference((1, 0), (-1, 0)), 0.5 / h),
            "dy": lambda: (difference((0, 1), (0, -1)), 0.5 / h),
            "dxy": lambda: (
                BinaryOp("-", difference((1, 1), (-1, 1)), difference((1, -1), (-1, -1))),
                0.25 / h**2,
            ),
        }[what]()
        single = isinstance(argument, Name) and not factor
        return self.term(
            f"{what}_{words(argument) if single else 1}",
            value if scale == 1 else BinaryOp("*", Number(scale), value),
            text,
        )

    def finish(self, targets: list[str]) -> Pass:
        """Return the pass that writes these arrays, with common terms and ordered statements."""
        self._share()
        placed: dict[str, Statement] = {}
        taps: set[Tap] = set()
        names: set[str] = set()

        def visit(node: Node) -> int:
            """Collect the taps and names of a value; return its size."""
            if isinstance(node, Ref):
                place(node.name)
            elif isinstance(node, Tap):
                taps.add(node)
            elif isinstance(node, Name):
                names.add(node.name)
            return 1 + sum(visit(each) for each in children(node))

        def place(name: str) -> None:
            """Append a statement after those it refers to."""
            if name not in placed:
                self._size += visit(self.statements[name].value)
                placed[name] = self.statements[name]

        self._size = 0
        for target in targets:
            place(f"{target}_new")
        if self._size > MOST_LOWERED:
            self.lowering.fail("the equations are too long once their derivatives are written out", targets[0])
        system, sides = self.system, list(OFFSETS)
        arrays = [*system.fields, *self.lowering.auxiliary, *(f"{field}_start" for field in system.fields), "wall"]
        return Pass(
            tuple(targets),
            tuple(placed.values()),
            tuple(sorted(taps, key=lambda tap: (arrays.index(tap.array), sides.index((tap.dx, tap.dy))))),
            tuple(
                name
                for name in (*COORDINATES, *SYSTEM_NUMBERS, *system.parameters, "keep", "take", "dt")
                if name in names
            ),
        )

    def _share(self) -> None:
        """Turn every term that occurs more than once into a statement."""
        uses: Counter[Node] = Counter()

        def visit(node: Node) -> None:
            """Count the uses of a node; count its operands once if it becomes a statement."""
            uses[node] += 1
            if uses[node] == 1 or not _worth_a_name(node):
                for each in children(node):
                    visit(each)

        for statement in self.statements.values():
            visit(statement.value)
        shared = {node: "" for node, count in uses.items() if count > 1 and _worth_a_name(node)}
        for statement in reversed(self.statements.values()):
            if statement.value in shared:
                shared[statement.value] = statement.name
        added = [node for node, name in shared.items() if not name]
        for node in added:
            shared[node] = self._named_after(node, shared.values())

        def with_names(node: Node, root: str = "") -> Node:
            """Return the node with shared terms replaced by references. root: the statement that defines the node."""
            if shared.get(node, root) != root:
                return Ref(shared[node])
            return rebuilt(node, [with_names(each) for each in children(node)])

        old = [*self.statements.values(), *(Statement(shared[node], node) for node in added)]
        self.statements = {
            each.name: Statement(each.name, with_names(each.value, each.name), each.comment) for each in old
        }

    def _named_after(self, node: Node, others: Iterable[str]) -> str:
        """Return a free name composed of the term, such as u_v2 for u*v^2, else shared_1."""
        signs = (("^", ""), ("*", "_"), (" + ", "_plus_"), (" - ", "_minus_"))
        name = reduce(lambda text, sign: text.replace(*sign), signs, words(node))
        taken = {*self.statements, *others}
        if (
            not re.fullmatch(r"[A-Za-z]\w*_\w*", name)
            or len(name) > MOST_TERM_CHARACTERS
            or name.rpartition("_")[2] in SUFFIXES
            or name in taken
        ):
            name = next(each for each in (f"shared_{number}" for number in range(1, 9999)) if each not in taken)
        return name


def _worth_a_name(node: Node) -> bool:
    """Return whether a repeated node becomes a statement. The difference of two cells is short enough to repeat."""
    if isinstance(node, BinaryOp) and node.op == "-" and all(isinstance(each, Tap) for each in children(node)):
        return False
    return isinstance(node, BinaryOp | Power | Call)
