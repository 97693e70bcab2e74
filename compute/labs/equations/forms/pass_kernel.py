"""A pass of a plan with what every generated form needs: the names of its functions and arrays, edges, and its text."""

from __future__ import annotations

from dataclasses import dataclass

from compute.labs.equations.forms.printing import Language, by_array, filled
from compute.labs.equations.tree import COORDINATES, Edge, Pass, Plan, System, Tap, words


@dataclass(frozen=True)
class PassKernel:
    """One pass of `system` over the grid. cell: the pass; suffix: of the names of its functions, "" for the only one.

    Names of generated variables contain an underscore, those of a text never do; see tree.py.
    """

    system: System
    cell: Pass
    suffix: str = ""

    @property
    def cell_name(self) -> str:
        """The name of the formula's function."""
        return f"cell{self.suffix}"

    @property
    def step_name(self) -> str:
        """The name of the kernel."""
        return f"step{self.suffix}"

    @property
    def dx(self) -> float:
        """The width of a cell."""
        return self.system.dx

    @property
    def read(self) -> list[str]:
        """The arguments of the kernel for the arrays that it reads."""
        return [f"{array}_in" for array in self.cell.sources]

    @property
    def written(self) -> list[str]:
        """The arguments of the kernel for the arrays that it writes."""
        return [f"{target}_out" for target in self.cell.targets]

    @property
    def arguments(self) -> list[str]:
        """All arguments of the kernel in the Python forms, and their order in every form: arrays, then numbers."""
        return [*self.read, *self.written, *self.cell.numbers]

    @property
    def wide(self) -> list[str]:
        """The arrays of which it reads neighbours."""
        return [array for array in self.cell.sources if self.cell.wide(array)]

    @property
    def coordinates(self) -> list[str]:
        """Those of x and y that the formula contains."""
        return [name for name in COORDINATES if name in self.cell.names]

    @property
    def neighbours(self) -> list[Tap]:
        """The values that it reads from other cells."""
        return [tap for tap in self.cell.taps if (tap.dx, tap.dy) != (0, 0)]

    def edge(self, array: str) -> Edge:
        """Return the edges of an array."""
        return self.system.edge(array)

    def kinds(self) -> set[str]:
        """Return the kinds of edges of the arrays of which it reads neighbours."""
        return {self.edge(array).kind for array in self.wide}

    # -- the Python forms

    def python_cell(self, printer: Language, decorator: str = "") -> str:
        """Return the function of the formula."""
        name = f"def {self.cell_name}("
        arguments = by_array(self.cell, self.cell.arguments, " " * len(name))
        return f"{decorator}{name}{arguments}):\n{printer.body(self.cell.statements)}\n    return {self.results}\n"

    @property
    def results(self) -> str:
        """The results of the formula, as in a return statement."""
        return ", ".join(self.cell.results)

    def python_head(self, name: str, first: str = "") -> str:
        """Return the first line of a function of the arrays and numbers. first: further arguments before them."""
        begin = f"def {name}{self.suffix}("
        text = filled([f"{each}," for each in self.arguments], begin + first, " " * len(begin))
        return text.removesuffix(",") + "):"


def pass_kernels(system: System, plan: Plan) -> list[PassKernel]:
    """Return the passes of a plan; the functions of several are named after the arrays that they write."""
    if len(plan.passes) == 1:
        return [PassKernel(system, plan.passes[0])]
    return [PassKernel(system, each, "_" + "_".join(each.targets)) for each in plan.passes]


def equations(system: System) -> list[str]:
    """Return the equations as text, rebuilt from the tree."""
    lines = [f"{name}_t = {words(system.rates[name])}" for name in system.fields]
    return lines + [f"{name} = {words(value)}" for name, value in system.named.items()]


def python_head(title: str, form: str, kernels: list[PassKernel]) -> str:
    """Return the docstring of a Python form."""
    lines = "\n".join(f"    {line}" for line in equations(kernels[0].system))
    return f'"""{title}: one step in {form}, generated from\n\n{lines}\n"""\n'


def c_head(title: str, form: str, kernels: list[PassKernel]) -> str:
    """Return the same as a comment of CUDA C or WGSL. form: its name, with the steps of a launch."""
    lines = "\n".join(f"//     {line}" for line in equations(kernels[0].system))
    return f"// {title}: {form}, generated from\n//\n{lines}\n"
