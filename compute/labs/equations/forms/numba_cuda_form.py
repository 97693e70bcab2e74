"""Source code of a plan in Numba-CUDA, with one thread per cell."""

from __future__ import annotations

from compute.labs.equations.forms import numba_form
from compute.labs.equations.forms.numba_form import call, coordinate, real
from compute.labs.equations.forms.pass_kernel import PassKernel, python_head
from compute.labs.equations.forms.printing import Language, tidy
from compute.labs.equations.tree import Tap

THREADS = 32, 8  # of a block in x and y
NEIGHBOURS = {
    "periodic": """
        {0}left = column - 1 if column > 0 else nx - 1
        {0}right = column + 1 if column < nx - 1 else 0
        {0}below = row - 1 if row > 0 else ny - 1
        {0}above = row + 1 if row < ny - 1 else 0
""",
    "nearest": """
        {0}left, {0}right = max(column - 1, 0), min(column + 1, nx - 1)
        {0}below, {0}above = max(row - 1, 0), min(row + 1, ny - 1)
""",
}  # rows and columns of neighbours. {0}: "next_"; "wrapped_" for periodic edges if a pass has both kinds
COLUMNS, ROWS = {-1: "left", 1: "right"}, {-1: "below", 1: "above"}
FIXED = '''

@cuda.jit(device=True)
def ghost_fixed(nearest, outside, value):
    """Return the nearest cell, or outside the ghost cell such that the face between the two has `value`."""
    return REAL(2) * value - nearest if outside else nearest
'''


def language() -> Language:
    """Return the syntax of Python with the functions of math, which Numba compiles for the GPU."""
    base = numba_form.language()
    functions = {**base.functions, "min": "min", "max": "max"}
    return Language(real, real, functions, base.power, base.step, base.where)


def module(kernels: list[PassKernel], title: str, dtype: str) -> str:
    """Return the text of the Python module, with a kernel for each pass."""
    text = python_head(title, "Numba-CUDA", kernels)
    text += f"\nimport math\n\nimport numpy as np\nfrom numba import cuda\n\nREAL = np.{dtype}\n"
    if any("fixed" in each.kinds() for each in kernels):
        text += FIXED
    return tidy(text + "".join(_functions(each) for each in kernels))


def _functions(kernel: PassKernel) -> str:
    kinds = {"periodic" if kind == "periodic" else "nearest" for kind in kernel.kinds()}
    prefix = {kind: "wrapped_" if kind == "periodic" and len(kinds) > 1 else "next_" for kind in kinds}
    places = "".join(NEIGHBOURS[kind].lstrip("\n").format(prefix[kind]) for kind in NEIGHBOURS if kind in kinds)
    lines = "".join(f"        {coordinate(name, kernel.dx)}\n" for name in kernel.coordinates)

    def value(tap: Tap) -> str:
        """Return the expression for a cell or its neighbour."""
        if (tap.dx, tap.dy) == (0, 0):
            return f"{tap.array}_in[row, column]"
        edge = kernel.edge(tap.array)
        begin = prefix["periodic" if edge.kind == "periodic" else "nearest"]
        row = begin + ROWS[tap.dy] if tap.dy else "row"
        column = begin + COLUMNS[tap.dx] if tap.dx else "column"
        nearest = f"{tap.array}_in[{row}, {column}]"
        if edge.kind != "fixed":
            return nearest
        sides = {(-1, 0): "column == 0", (1, 0): "column == nx - 1", (0, -1): "row == 0", (0, 1): "row == ny - 1"}
        outside = " or ".join(sides[side] for side in ((tap.dx, 0), (0, tap.dy)) if side in sides)
        return f"ghost_fixed({nearest}, {outside}, {real(edge.value)})"

    return f"""

{kernel.python_cell(language(), "@cuda.jit(device=True)" + chr(10))}

@cuda.jit
{kernel.python_head("step")}
    column, row = cuda.grid(2)
    ny, nx = {kernel.written[0]}.shape
    if row < ny and column < nx:
{places}{lines}{call(kernel, " " * 8, value)}"""
