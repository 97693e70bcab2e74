"""The reference: passes executed node by node in NumPy, independent of all generated code. Also the initial values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import pi
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.files.images import LoadedPicture
from compute.labs.equations.passes import lower, picture
from compute.labs.equations.tree import (
    IMAGE,
    BinaryOp,
    Call,
    Compare,
    Edge,
    Name,
    Negative,
    Node,
    Number,
    Pass,
    Power,
    Ref,
    System,
    Tap,
)

Field = NDArray[Any]
BLOCK = 2**18  # cells of a block of rows

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "^": np.power,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "tanh": np.tanh,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "where": np.where,
}


class Evaluator:
    """Evaluate expressions in one number type.

    values: by name, of names, taps and statements. conditions: if given, stores the result of each comparison and step,
    and returns it for the same one later, so that differences of nearby values do not see jumps.
    """

    def __init__(
        self, values: Mapping[str, Any], dtype: DTypeLike = float, conditions: dict[Node, Any] | None = None
    ) -> None:
        self.values, self.conditions = values, conditions
        self.real: Any = np.dtype(dtype).type

    def __call__(self, node: Node) -> Any:
        """Return the value of an expression: a number or an array. Overflow and the like give inf or nan."""
        match node:
            case Number(value):
                found = self.real(value)
            case Tap() | Name() | Ref():
                found = self.values[node.name]
            case Negative(operand):
                found = -self(operand)
            case Power(base, exponent):
                found = reduce(np.multiply, [self(base)] * exponent)
            case Compare():
                found = self._condition(node)
            case BinaryOp(op, left, right):
                found = OPERATORS[op](self(left), self(right))
            case Call("step", (argument,)):
                found = np.where(self(Compare(">", argument, Number(0.0))), self.real(1), self.real(0))
            case Call("noise", (Number(seed),)):
                found = self.values["noise"](int(seed))
            case Call(name, arguments):
                found = FUNCTIONS[name](*(self(each) for each in arguments))
        return found

    def _condition(self, node: Compare) -> Any:
        if self.conditions is not None and node in self.conditions:
            return self.conditions[node]
        found = OPERATORS[node.op](self(node.left), self(node.right))
        if self.conditions is not None:
            self.conditions[node] = found
        return found


def coordinates(
    system: System, ny: int, nx: int, dtype: DTypeLike = float, rows: tuple[int, int] | None = None
) -> dict[str, Any]:
    """Return x (nx,) and y (ny, 1) of the cells' centres, and the lengths Lx and Ly of the grid.

    rows: first and last (exclusive), if y is for these rows only.
    """
    real: Any = np.dtype(dtype).type
    x, y = ((np.arange(*span).astype(dtype) + real(0.5)) * real(system.dx) for span in ((nx,), rows or (ny,)))
    return {"x": x, "y": y[:, None], "Lx": real(nx * system.dx), "Ly": real(ny * system.dx)}


def initial(
    system: System,
    ny: int,
    nx: int,
    parameters: Mapping[str, float] | None = None,
    image: LoadedPicture | None = None,
) -> dict[str, Field]:
    """Return the (ny, nx) float64 initial values of the fields, and the optional array `wall`, 1 or 0.

    parameters: values that differ from the text's. image: cropped to the shape of the grid; without one, the name
    `image` is 0. Blocks of rows are evaluated in turn, which bounds the additional memory. noise(seed) depends on seed,
    row and nx.
    """
    wanted = {field: system.initial.get(field, Number(0.0)) for field in system.fields}
    if system.wall is not None:
        wanted["wall"] = Call("step", (system.wall,))
    found = {name: np.empty((ny, nx)) for name in wanted}
    bright = np.zeros((ny, 1)) if image is None else image.fitted(ny, nx)[::-1]
    white = 1 if image is None else image.scale
    height = max(1, BLOCK // nx)
    with np.errstate(all="ignore"):
        for first in range(0, ny, height):
            rows = (first, min(first + height, ny))
            values = _Values(system, ny, nx, rows, parameters or {})
            values[IMAGE] = bright[slice(*rows)] / np.float64(white)
            evaluate = Evaluator(values)
            for name, node in wanted.items():
                found[name][slice(*rows)] = evaluate(node)
    return found


class _Values(dict[str, Any]):
    """The values of names in initial values, for some rows; a named expression is evaluated when it is used first."""

    def __init__(
        self, system: System, ny: int, nx: int, rows: tuple[int, int], parameters: Mapping[str, float]
    ) -> None:
        super().__init__({name: parameter.value for name, parameter in system.parameters.items()})
        self.update((name, float(value)) for name, value in parameters.items())
        self.update(coordinates(system, ny, nx, rows=rows), pi=pi, t=0.0, noise=self._noise)
        self._named, self._rows, self._nx = system.named, range(*rows), nx

    def __missing__(self, name: str) -> Any:
        self[name] = Evaluator(self)(self._named[name])
        return self[name]

    def _noise(self, seed: int) -> Field:
        return np.stack([np.random.default_rng((seed, row)).uniform(-1, 1, self._nx) for row in self._rows])


def with_ghosts(array: Field, edge: Edge) -> Field:
    """Return a (ny + 2, nx + 2) copy of an array with its ghost cells."""
    padded = np.pad(array, 1, mode="wrap" if edge.kind == "periodic" else "edge")
    if edge.kind == "fixed":
        twice = array.dtype.type(edge.value) + array.dtype.type(edge.value)
        inside = array.copy()
        padded = twice - padded
        padded[1:-1, 1:-1] = inside
    return padded


def neighbours(system: System, step: Pass, arrays: Mapping[str, Field]) -> dict[str, Field]:
    """Return the (ny, nx) arrays of all taps of a pass, by their names."""
    padded = {array: with_ghosts(arrays[array], system.edge(array)) for array in step.sources}
    ny, nx = arrays[step.sources[0]].shape if step.sources else (0, 0)
    return {
        tap.name: padded[tap.array][1 + tap.dy : 1 + tap.dy + ny, 1 + tap.dx : 1 + tap.dx + nx] for tap in step.taps
    }


def cell(
    step: Pass, arguments: Mapping[str, Any], dtype: DTypeLike = float, conditions: dict[Node, Any] | None = None
) -> list[Any]:
    """Return the results of a pass, an array or a number per target. conditions: see Evaluator."""
    values = dict(arguments)
    evaluate = Evaluator(values, dtype, conditions)
    for statement in step.statements:
        values[statement.name] = evaluate(statement.value)
    return [values[name] for name in step.results]


class Reference:
    """A simulation on the host. arrays: the current arrays by name. time: its own number, the sum of the steps.

    start: fields (and `wall`), copied; without it the initial values of the text. dt: without it that of the text.
    """

    def __init__(
        self,
        system: System,
        ny: int,
        nx: int,
        *,
        dt: float | None = None,
        start: Mapping[str, Field] | None = None,
        parameters: Mapping[str, float] | None = None,
        dtype: DTypeLike = float,
    ) -> None:
        if dt is None and system.dt is None:
            raise ValueError("dt is neither in the text nor given")
        self.system, self.plan, self.dtype, self.time = system, lower(system), np.dtype(dtype), 0.0
        self.dt = system.dt or 0.0 if dt is None else dt
        self.shape = (ny, nx)
        self.parameters = {name: each.value for name, each in system.parameters.items()} | dict(parameters or {})
        begin = initial(system, ny, nx, self.parameters) | dict(start or {})
        self.arrays = {name: np.array(value, self.dtype) for name, value in begin.items()}

    def advance(self, steps: int) -> None:
        """Compute `steps` time steps. Overflow gives inf or nan."""
        with np.errstate(all="ignore"):
            for _ in range(steps):
                if self.plan.from_start:
                    copies = {f"{field}_start": self.arrays[field].copy() for field in self.system.fields}
                    self.arrays.update(copies)
                for stage in self.plan.stages:
                    numbers = {"keep": stage.keep, "take": stage.take, "t": self.time + stage.when * self.dt}
                    for step in self.plan.passes:
                        self.run(step, numbers)
                self.time += self.dt

    def show(self) -> Field:
        """Return the second picture; the system must have one."""
        with np.errstate(all="ignore"):
            for step in picture(self.system):
                self.run(step, {"t": self.time})
        return self.arrays["show"]

    def run(self, step: Pass, numbers: Mapping[str, float]) -> None:
        """Execute one pass."""
        real: Any = self.dtype.type
        plain = {name: real(value) for name, value in (self.parameters | dict(numbers) | {"dt": self.dt}).items()}
        arguments = plain | coordinates(self.system, *self.shape, self.dtype)
        results = cell(step, arguments | neighbours(self.system, step, self.arrays), self.dtype)
        for target, value in zip(step.targets, results, strict=True):
            self.arrays[target] = np.array(np.broadcast_to(value, self.shape), self.dtype)
