"""Other libraries that compute typed equations, for `fieldlab bench equations --against py-pde,pystencils`.

A library advances the fields of a case by forward Euler, with the same cells, edges, number type, time step and number
of threads as Numba's kernel. Its results are checked like those of a backend, and its samples are taken in turn with
theirs. It is imported with its first case; the first call begins after that and includes the compilation of kernels.

py-pde (D. Zwicker, J. Open Source Softw. 5 (2020) 2158) compiles the text of the right sides with Numba. pystencils
(M. Bauer et al., SC '19, doi:10.1145/3295500.3356186) generates C++ from the statements of a pass, here with OpenMP and
vector instructions, and compiles it with the system's compiler; NumPy fills its ghost cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from time import perf_counter
from typing import Any, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.devices.builds import building
from compute.devices.devices import HOST, Host
from compute.labs.equations.forms import Program
from compute.labs.equations.lab import Equations
from compute.labs.equations.tree import (
    BinaryOp,
    Call,
    Edge,
    Name,
    Negative,
    Node,
    Number,
    Power,
    Ref,
    Tap,
    children,
    words,
)
from compute.measure.case import Implementation
from compute.measure.timing import Timing

Fields = Mapping[str, NDArray[Any]]  # (ny, nx) by name


class LibrarySolver(Protocol):
    """The fields of a program in a library. Its constructor takes program, start, numbers and dt."""

    def load(self, start: Fields) -> None:
        """Replace the fields."""

    def advance(self, steps: int) -> None:
        """Advance `steps` >= 1 steps."""

    def fields(self) -> dict[str, NDArray[Any]]:
        """Return the (ny, nx) fields by name."""


class PyPde:
    """py-pde's Euler solver with its Numba backend. Its first axis is y, so that rows are contiguous as here."""

    def __init__(self, program: Program, start: Fields, numbers: Mapping[str, float], dt: float) -> None:
        import pde

        system, dt = program.system, float(dt)
        ny, nx = start[system.fields[0]].shape
        edge = system.edge(system.fields[0])
        grid = pde.CartesianGrid([[0, ny * system.dx], [0, nx * system.dx]], [ny, nx], periodic=edge.kind == "periodic")
        faces: dict[str, Any] = {
            "periodic": "periodic", "zero-flux": {"derivative": 0}, "fixed": {"value": edge.value},
        }  # fmt: skip
        rates = {name: words(rate).replace("^", "**") for name, rate in system.rates.items()}
        rates = {name: text.replace("lap(", "laplace(") for name, text in rates.items()}
        equation = pde.PDE(rates, bc=faces[edge.kind], consts=dict(numbers))
        parts = [pde.ScalarField(grid, start[name].copy()) for name in system.fields]
        self._names, self._dt = system.fields, dt
        self._state = pde.FieldCollection(parts) if len(parts) > 1 else parts[0]
        self._stepper = pde.EulerSolver(equation, backend="numba").make_stepper(self._state, dt)

    def load(self, start: Fields) -> None:
        """Replace the fields."""
        self._state.data[...] = np.reshape([start[name] for name in self._names], self._state.data.shape)

    def advance(self, steps: int) -> None:
        """Advance `steps` >= 1 steps."""
        self._stepper(self._state, 0.0, steps * self._dt)

    def fields(self) -> dict[str, NDArray[Any]]:
        """Return the (ny, nx) fields by name."""
        shape = len(self._names), *self._state.data.shape[-2:]
        return dict(zip(self._names, self._state.data.reshape(shape), strict=True))


class PyStencils:
    """A kernel of pystencils for the pass of a program, between two sets of arrays with ghost cells."""

    def __init__(self, program: Program, start: Fields, numbers: Mapping[str, float], dt: float) -> None:
        import pystencils
        import sympy

        (each,), names = program.plan.passes, program.system.fields
        self._edge = program.system.edge(names[0])
        self._now, self._next = ({name: np.pad(start[name], 1) for name in names} for _ in range(2))
        dtype = start[names[0]].dtype.name
        values = {**numbers, "dt": dt}
        self._numbers = {name: values[name] for name in each.names}

        def field(name: str) -> Any:
            """Return pystencils' description of an array: a field's name with _in or _out."""
            return pystencils.Field.create_from_numpy_array(name, self._now[name.partition("_")[0]])

        sources, targets = ({name: field(f"{name}_{end}") for name in names} for end in ("in", "out"))

        def leaf(node: Node) -> Any:
            """Return a value as a symbol of sympy, or an access of pystencils."""
            match node:
                case Tap(array, dx, dy):
                    return sources[array][dy, dx]
                case Ref(name) | Name(name):
                    return sympy.Symbol(name)
            assert isinstance(node, Number)  # noqa: S101 - refusal() refuses others
            return sympy.Integer(int(node.value)) if node.value.is_integer() else sympy.Float(node.value)

        lines = [pystencils.Assignment(sympy.Symbol(line.name), _sum(line.value, leaf)) for line in each.statements]
        made = zip(each.targets, each.results, strict=True)
        lines += [pystencils.Assignment(targets[name][0, 0], sympy.Symbol(result)) for name, result in made]
        config = pystencils.CreateKernelConfig(target=pystencils.Target.CurrentCPU, default_dtype=dtype)
        config.cpu.openmp.enable, config.cpu.openmp.num_threads = True, numba.get_num_threads()
        config.cpu.vectorize.enable = config.cpu.vectorize.assume_inner_stride_one = True
        self._kernel = pystencils.create_kernel(lines, config).compile()

    def load(self, start: Fields) -> None:
        """Replace the fields."""
        for name, array in start.items():
            self._now[name][1:-1, 1:-1] = array

    def advance(self, steps: int) -> None:
        """Advance `steps` >= 1 steps."""
        for _ in range(steps):
            for array in self._now.values():
                fill_ghosts(array, self._edge)
            arrays = {f"{name}_in": array for name, array in self._now.items()}
            arrays |= {f"{name}_out": array for name, array in self._next.items()}
            self._kernel(**arrays, **self._numbers)
            self._now, self._next = self._next, self._now

    def fields(self) -> dict[str, NDArray[Any]]:
        """Return the (ny, nx) fields by name."""
        return {name: array[1:-1, 1:-1] for name, array in self._now.items()}


def fill_ghosts(padded: NDArray[Any], edge: Edge) -> None:
    """Set the ghost cells around (ny, nx) cells, without corners, which five-point stencils do not read."""
    periodic = edge.kind == "periodic"
    for ghosts, near, opposite in (
        (padded[0], padded[1], padded[-2]), (padded[-1], padded[-2], padded[1]),
        (padded[:, 0], padded[:, 1], padded[:, -2]), (padded[:, -1], padded[:, -2], padded[:, 1]),
    ):  # fmt: skip
        ghosts[...] = opposite if periodic else near
        if edge.kind == "fixed":
            np.subtract(2 * edge.value, near, out=ghosts)


def _sum(node: Node, leaf: Callable[[Node], Any]) -> Any:
    """Return an expression of + - * / and powers in sympy. leaf: converts numbers, names and taps."""
    match node:
        case Negative(operand):
            return -_sum(operand, leaf)
        case Power(base, exponent):
            return _sum(base, leaf) ** exponent
        case BinaryOp(op, left, right):
            a, b = _sum(left, leaf), _sum(right, leaf)
            return {"+": a.__add__, "-": a.__sub__, "*": a.__mul__, "/": a.__truediv__}[op](b)
    return leaf(node)


def refusal(program: Program) -> str:
    """Return why the libraries cannot compute a program; "" if they can."""
    system = program.system
    if system.scheme != "euler":
        return f"its scheme is {system.scheme}, not euler"
    if system.wall is not None:
        return "it has a wall"
    if len({system.edge(name) for name in system.fields}) > 1:
        return "its fields have different edges"
    known = {*system.fields, *system.parameters}
    todo = list(system.rates.values())
    while todo:
        node = todo.pop()
        if isinstance(node, Name) and node.name not in known:
            return f"its equations contain {node.name}"
        if isinstance(node, Call) and not (node.name == "lap" and isinstance(node.arguments[0], Name)):
            return f"its equations contain {words(node)[:40]}"
        todo += children(node)
    return ""


def _library(packages: Mapping[str, str], variant: str, solver: type, dtypes: tuple[str, ...]) -> Implementation:
    """Return a library. packages: modules by the name of their distribution, its own first."""
    name, install = next(iter(packages)), f"pip install {' '.join(packages)}"
    backend = Backend(name, HOST, Host, tuple(packages.values()), name, dtypes=dtypes, installed_by=install)
    return Implementation(backend, variant, solver)


_FOUND = (
    _library({"py-pde": "pde"}, "Numba", PyPde, ("float64",)),
    _library(  # without cpuinfo it generates no vector instructions
        {"pystencils": "pystencils", "py-cpuinfo": "cpuinfo"}, "C++", PyStencils, ("float32", "float64")
    ),
)
LIBRARIES = {library.backend.name: library for library in _FOUND}


class LibraryTarget:
    """A lab's start, numbers and time step in a library, with the functions of StateTarget that a bench calls."""

    def __init__(self, library: Implementation, lab: Equations) -> None:
        self._library, self._program = library, lab.program
        self._start, self._numbers, self._dt = lab.data(), lab.numbers, lab.dt
        self._key = library, lab.ny, lab.nx, lab.dtype, self._dt, *self._numbers.items()
        self._cells = lab.ny * lab.nx * len(lab.program.system.fields)
        self._begun = False
        for name in library.backend.needs:
            import_module(name)

    def begin(self, seed: int) -> None:  # noqa: ARG002 - the start is the same for every seed
        """Restore the start state at the next step."""
        self._begun = False

    def advance(self, steps: int) -> Timing:
        """Run `steps` steps; the first call in a process includes the construction of the solver."""
        began = perf_counter()
        if not self._begun:
            self._solver.load(self._start)
            self._begun = True
        self._solver.advance(steps)
        name, variant = self._library.backend.name, self._library.variant
        return Timing(name, variant, steps, self._cells, compute=perf_counter() - began)

    def result(self) -> NDArray[Any]:
        """Return the (n,) float64 numbers of all fields, sorted by name."""
        found = [array.ravel() for _, array in sorted(self._solver.fields().items())]
        return np.concatenate(found, dtype=np.float64, casting="same_kind")

    @property
    def _solver(self) -> LibrarySolver:
        """The solver of this program and grid; its kernels are compiled once per process."""
        return self._program.kept(self._key, self._made)

    def _made(self) -> LibrarySolver:
        with building(self._library.name):
            solver: LibrarySolver = self._library.kernel(self._program, self._start, self._numbers, self._dt)
        return solver
