"""A plan in Numba: a loop over rows on all cores, and one over the cells of a row, which becomes vector instructions.

Cells at an edge of the grid are computed by a function of their own, so that the inner loop has no branches.
"""

from __future__ import annotations

from collections.abc import Callable

from compute.labs.equations.forms.pass_kernel import PassKernel, python_head
from compute.labs.equations.forms.printing import Language, by_array, plain, tidy
from compute.labs.equations.tree import Tap

JIT = '@njit(cache=True, nogil=True, error_model="numpy")\n'
CELL_JIT = '@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)\n'
PARALLEL_JIT = '@njit(cache=True, nogil=True, error_model="numpy", parallel=True)\n'
AT = {
    "periodic": '''
def at_periodic(a, row, column):
    """Return a cell, or beyond an edge the one at the opposite side."""
    ny, nx = a.shape
    return a[(row + ny) % ny, (column + nx) % nx]
''',
    "zero-flux": '''
def at_zero_flux(a, row, column):
    """Return a cell, or beyond an edge the nearest one."""
    ny, nx = a.shape
    return a[min(max(row, 0), ny - 1), min(max(column, 0), nx - 1)]
''',
    "fixed": '''
def at_fixed(a, row, column, value):
    """Return a cell; beyond an edge, so that `value` lies on the face between this cell and the nearest one."""
    ny, nx = a.shape
    nearest = a[min(max(row, 0), ny - 1), min(max(column, 0), nx - 1)]
    return nearest if 0 <= row < ny and 0 <= column < nx else REAL(2) * value - nearest
''',
}  # by kind of the edges
SHIFT = {-1: " - 1", 0: "", 1: " + 1"}


def real(value: float) -> str:
    """Return a constant of the kernel's type."""
    return f"REAL({plain(value)})"


def coordinate(name: str, dx: float) -> str:
    """Return the line that computes x or y of a cell."""
    place = {"x": "column", "y": "row"}[name]
    return f"{name} = (REAL({place}) + REAL(0.5)) * {real(dx)}"


def language() -> Language:
    """Return the functions of NumPy on numbers, which Numba compiles."""
    functions = {name: f"math.{name}" for name in ("sin", "cos", "exp", "log", "sqrt", "tanh")}
    return Language(
        number=real, typed=real, functions=functions | {"abs": "abs", "min": "np.minimum", "max": "np.maximum"},
        power="{0}**{1}", step="REAL({0} > REAL(0))", where="{1} if {0} else {2}",
    )  # fmt: skip


def module(kernels: list[PassKernel], title: str, dtype: str) -> str:
    """Return the text of the module."""
    text = python_head(title, "Numba", kernels)
    text += f"\nimport math\n\nimport numpy as np\nfrom numba import njit, prange\n\nREAL = np.{dtype}\n"
    kinds = {kind for each in kernels for kind in each.kinds()}
    text += "".join(f"\n\n{JIT}{AT[kind].lstrip()}" for kind in AT if kind in kinds)
    return tidy(text + "".join(_functions(each, language()) for each in kernels))


def _functions(kernel: PassKernel, printer: Language) -> str:
    text = f"\n\n{kernel.python_cell(printer, CELL_JIT)}\n"
    given = ", ".join(kernel.arguments)
    if not kernel.wide:
        return text + _loop(kernel, f"\n{PARALLEL_JIT}{kernel.python_head('step')}", "prange(ny)")
    edge = f"\n{JIT}{kernel.python_head('edge_cell', 'row, column, ')}\n"
    edge += '    """Compute a cell at an edge of the grid."""\n'
    edge += _coordinates(kernel, "xy", "    ") + call(kernel, "    ", lambda tap: _checked(kernel, tap))
    inner = f"\n{JIT}{kernel.python_head('inner_cells', 'row, ')}\n"
    inner += '    """Compute a row without its two ends, all of which have neighbours in the grid."""\n'
    inner += _coordinates(kernel, "y", "    ") + f"    for column in range(1, {kernel.written[0]}.shape[1] - 1):\n"
    inner += _coordinates(kernel, "x", "        ") + call(kernel, "        ", _direct)
    return (
        text
        + f"""{edge}

{inner}

{PARALLEL_JIT}{kernel.python_head("step")}
    ny, nx = {kernel.written[0]}.shape
    for row_index in prange(ny):
        row = np.int64(row_index)
        if 0 < row < ny - 1:
            inner_cells{kernel.suffix}(row, {given})
            for column in (0, nx - 1):
                edge_cell{kernel.suffix}(row, column, {given})
        else:
            for column in range(nx):
                edge_cell{kernel.suffix}(row, column, {given})
""".lstrip("\n")
    )


def _loop(kernel: PassKernel, head: str, rows: str) -> str:
    text = f"{head}\n    ny, nx = {kernel.written[0]}.shape\n    for row in {rows}:\n"
    text += _coordinates(kernel, "y", "        ") + "        for column in range(nx):\n"
    return text + _coordinates(kernel, "x", " " * 12) + call(kernel, " " * 12, _direct)


def _coordinates(kernel: PassKernel, names: str, indent: str) -> str:
    return "".join(f"{indent}{coordinate(name, kernel.dx)}\n" for name in kernel.coordinates if name in names)


def call(kernel: PassKernel, indent: str, value: Callable[[Tap], str]) -> str:
    """Return the line that computes a cell. value: returns the text of each neighbour."""
    made = ", ".join(f"{out}[row, column]" for out in kernel.written)
    given = [*map(value, kernel.cell.taps), *kernel.cell.names]
    inner = f"{indent}    "
    return f"{indent}{made} = {kernel.cell_name}(\n{inner}{by_array(kernel.cell, given, inner)},\n{indent})\n"


def _direct(tap: Tap) -> str:
    return f"{tap.array}_in[row{SHIFT[tap.dy]}, column{SHIFT[tap.dx]}]"


def _checked(kernel: PassKernel, tap: Tap) -> str:
    if (tap.dx, tap.dy) == (0, 0):
        return _direct(tap)
    edge = kernel.edge(tap.array)
    value = f", {real(edge.value)}" if edge.kind == "fixed" else ""
    return f"at_{edge.kind.replace('-', '_')}({tap.array}_in, row{SHIFT[tap.dy]}, column{SHIFT[tap.dx]}{value})"
