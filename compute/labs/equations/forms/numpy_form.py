"""Source code of a plan in NumPy: array expressions on bands of rows, whose temporaries fit into the CPU cache."""

from __future__ import annotations

from compute.labs.equations.forms.pass_kernel import PassKernel, python_head
from compute.labs.equations.forms.printing import Language, by_array, plain, tidy
from compute.labs.equations.tree import Tap

PADS = {"periodic": 'np.pad({0}, 1, mode="wrap")', "zero-flux": 'np.pad({0}, 1, mode="edge")'}
FIXED_PAD = '''

def pad_fixed(a, value):
    """Return a copy with ghost cells such that the face between an edge cell and its ghost cell has `value`."""
    padded = np.pad(a, 1, mode="edge")
    for ghosts in (padded[0], padded[-1], padded[1:-1, 0], padded[1:-1, -1]):
        ghosts[...] = 2 * value - ghosts
    return padded
'''
COORDINATE = {
    "x": "x = (np.arange(nx).astype(REAL) + {half}) * {dx}",
    "y": "y = ((np.arange(ny).astype(REAL) + {half}) * {dx})[:, None]",
}
ROWS = {-1: "first:last", 0: "first + 1:last + 1", 1: "first + 2:last + 2"}
COLUMNS = {-1: ":-2", 0: "1:-1", 1: "2:"}


def language() -> Language:
    """Return the syntax and functions of NumPy; a number gets the dtype of the array that it is combined with."""
    functions = {name: f"np.{name}" for name in ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh")}
    return Language(
        number=plain, typed=lambda value: f"REAL({plain(value)})",
        functions=functions | {"min": "np.minimum", "max": "np.maximum"},
        power="{0}**{1}", step="REAL({0} > 0)", where="np.where({0}, {1}, {2})",
    )  # fmt: skip


def module(kernels: list[PassKernel], title: str, dtype: str) -> str:
    """Return the text of the Python module, with a function for each pass."""
    text = python_head(title, "NumPy", kernels) + f"\nimport numpy as np\n\nREAL = np.{dtype}\n"
    text += "BAND_CELLS = 2**14  # cells of a band of rows, whose arrays fit into the cache\n"
    if any(each.edge(array).kind == "fixed" for each in kernels for array in each.wide):
        text += FIXED_PAD
    return tidy(text + "".join(_functions(each, language()) for each in kernels))


def _functions(kernel: PassKernel, printer: Language) -> str:
    lines = [f"ny, nx = {kernel.written[0]}.shape"]
    lines += [COORDINATE[name].format(half="0.5", dx=plain(kernel.dx)) for name in kernel.coordinates]
    lines += [f"{array}_pad = {_padded(kernel, array)}" for array in kernel.wide]
    bands = ["band_rows = max(1, BAND_CELLS // nx)", "for first in range(0, ny, band_rows):"]
    bands.append("    last = min(first + band_rows, ny)")
    made = ", ".join(f"{out}[first:last]" for out in kernel.written)
    given = [_value(kernel, tap) for tap in kernel.cell.taps]
    given += ["y[first:last]" if name == "y" else name for name in kernel.cell.names]
    bands += [f"    {made} = {kernel.cell_name}(", f"        {by_array(kernel.cell, given, ' ' * 12)},", "    )"]
    code = "\n".join(f"    {line}" for line in lines + bands)
    return f"\n\n{kernel.python_cell(printer)}\n\n{kernel.python_head('step')}\n{code}\n"


def _padded(kernel: PassKernel, array: str) -> str:
    edge = kernel.edge(array)
    return PADS.get(edge.kind, f"pad_fixed({{0}}, {plain(edge.value)})").format(f"{array}_in")


def _value(kernel: PassKernel, tap: Tap) -> str:
    if tap.array not in kernel.wide:
        return f"{tap.array}_in[first:last]"
    return f"{tap.array}_pad[{ROWS[tap.dy]}, {COLUMNS[tap.dx]}]"
