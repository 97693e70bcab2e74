"""A plan in NumPy: whole arrays in bands of rows that stay in the processor's cache."""

from __future__ import annotations

from compute.labs.equations.forms.printing import Language, by_array, plain, tidy
from compute.labs.equations.forms.sweep import Sweep, python_head
from compute.labs.equations.tree import Tap

PADS = {"periodic": 'np.pad({0}, 1, mode="wrap")', "zero-flux": 'np.pad({0}, 1, mode="edge")'}
FIXED_PAD = '''

def pad_fixed(a, value):
    """Return a copy with ghost cells, so that `value` lies on the face between an edge cell and its ghost cell."""
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
    """Return NumPy's functions; numbers take the type of the arrays."""
    functions = {name: f"np.{name}" for name in ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh")}
    return Language(
        number=plain, typed=lambda value: f"REAL({plain(value)})",
        functions=functions | {"min": "np.minimum", "max": "np.maximum"},
        power="{0}**{1}", step="REAL({0} > 0)", where="np.where({0}, {1}, {2})",
    )  # fmt: skip


def module(sweeps: list[Sweep], title: str, dtype: str) -> str:
    """Return the text of the module."""
    text = python_head(title, "NumPy", sweeps) + f"\nimport numpy as np\n\nREAL = np.{dtype}\n"
    text += "BAND_CELLS = 2**14  # of a band of rows, so that its arrays stay in the cache\n"
    if any(each.edge(array).kind == "fixed" for each in sweeps for array in each.wide):
        text += FIXED_PAD
    return tidy(text + "".join(_sweep(each, language()) for each in sweeps))


def _sweep(sweep: Sweep, printer: Language) -> str:
    lines = [f"ny, nx = {sweep.written[0]}.shape"]
    lines += [COORDINATE[name].format(half="0.5", dx=plain(sweep.dx)) for name in sweep.coordinates]
    lines += [f"{array}_pad = {_padded(sweep, array)}" for array in sweep.wide]
    bands = ["band_rows = max(1, BAND_CELLS // nx)", "for first in range(0, ny, band_rows):"]
    bands.append("    last = min(first + band_rows, ny)")
    made = ", ".join(f"{out}[first:last]" for out in sweep.written)
    given = [_value(sweep, tap) for tap in sweep.cell.taps]
    given += ["y[first:last]" if name == "y" else name for name in sweep.cell.names]
    bands += [f"    {made} = {sweep.cell_name}(", f"        {by_array(sweep.cell, given, ' ' * 12)},", "    )"]
    code = "\n".join(f"    {line}" for line in lines + bands)
    return f"\n\n{sweep.python_cell(printer)}\n\n{sweep.python_head('step')}\n{code}\n"


def _padded(sweep: Sweep, array: str) -> str:
    edge = sweep.edge(array)
    return PADS.get(edge.kind, f"pad_fixed({{0}}, {plain(edge.value)})").format(f"{array}_in")


def _value(sweep: Sweep, tap: Tap) -> str:
    if tap.array not in sweep.wide:
        return f"{tap.array}_in[first:last]"
    return f"{tap.array}_pad[{ROWS[tap.dy]}, {COLUMNS[tap.dx]}]"
