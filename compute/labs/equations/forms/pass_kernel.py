"""The kernel of a pass as all forms need it: functions, arguments, edges, and the heads of the generated texts."""

from __future__ import annotations

from dataclasses import dataclass

from compute.labs.equations.forms.printing import Language, by_array, filled
from compute.labs.equations.tree import COORDINATES, Edge, Pass, Plan, System, Tap, words


@dataclass(frozen=True)
class PassKernel:
    """The kernel that executes one pass of `system`.

    cell: the pass. suffix: ends the names of its functions, "" if the plan has one pass. Names of generated variables
    contain an underscore, names in a system never do; see tree.py.
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
        """The arguments for the arrays that the kernel reads."""
        return [f"{array}_in" for array in self.cell.sources]

    @property
    def written(self) -> list[str]:
        """The arguments for the arrays that the kernel writes."""
        return [f"{target}_out" for target in self.cell.targets]

    @property
    def arguments(self) -> list[str]:
        """All arguments of the kernel in the Python forms: arrays, then numbers. Other forms keep this order."""
        return [*self.read, *self.written, *self.cell.numbers]

    @property
    def wide(self) -> list[str]:
        """The arrays in which the kernel reads neighbours."""
        return [array for array in self.cell.sources if self.cell.wide(array)]

    @property
    def coordinates(self) -> list[str]:
        """The coordinates, x and y, that the formula contains."""
        return [name for name in COORDINATES if name in self.cell.names]

    @property
    def neighbours(self) -> list[Tap]:
        """The taps at other cells."""
        return [tap for tap in self.cell.taps if (tap.dx, tap.dy) != (0, 0)]

    def edge(self, array: str) -> Edge:
        """Return the kind of edges of an array, with the value of fixed edges."""
        return self.system.edge(array)

    def kinds(self) -> set[str]:
        """Return the kinds of edges of the arrays in `wide`."""
        return {self.edge(array).kind for array in self.wide}

    # -- the Python forms

    def python_cell(self, printer: Language, decorator: str = "") -> str:
        """Return the function of the formula."""
        name = f"def {self.cell_name}("
        arguments = by_array(self.cell, self.cell.arguments, " " * len(name))
        return f"{decorator}{name}{arguments}):\n{printer.body(self.cell.statements)}\n    return {self.results}\n"

    @property
    def results(self) -> str:
        """The results of the formula, separated by commas, as in a return statement."""
        return ", ".join(self.cell.results)

    def python_head(self, name: str, first: str = "") -> str:
        """Return the head of a function with the kernel's arguments. first: text of arguments before them."""
        begin = f"def {name}{self.suffix}("
        text = filled([f"{each}," for each in self.arguments], begin + first, " " * len(begin))
        return text.removesuffix(",") + "):"


def pass_kernels(system: System, plan: Plan) -> list[PassKernel]:
    """Return the kernels of a plan; with several passes, functions are named after the arrays that they write."""
    if len(plan.passes) == 1:
        return [PassKernel(system, plan.passes[0])]
    return [PassKernel(system, each, "_" + "_".join(each.targets)) for each in plan.passes]


def equations(system: System) -> list[str]:
    """Return the equations and named expressions as lines of text, rebuilt from the tree."""
    lines = [f"{name}_t = {words(system.rates[name])}" for name in system.fields]
    return lines + [f"{name} = {words(value)}" for name, value in system.named.items()]


def python_head(title: str, form: str, kernels: list[PassKernel]) -> str:
    """Return the module docstring of a Python form. form: the name of the form."""
    lines = "\n".join(f"    {line}" for line in equations(kernels[0].system))
    return f'"""{title}: one step in {form}, generated from\n\n{lines}\n"""\n'


def c_head(title: str, form: str, kernels: list[PassKernel]) -> str:
    """Return the head comment of CUDA C or WGSL. form: the steps of a launch and the name of the form."""
    lines = "\n".join(f"//     {line}" for line in equations(kernels[0].system))
    return f"// {title}: {form}, generated from\n//\n{lines}\n"
