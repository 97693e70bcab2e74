"""Source code of a one-pass plan in Numba with several steps per pass through memory, as in the diffusion lab.

The grid is cut into tiles. A thread copies the fields of a tile, with an apron of cells around it, into its own memory,
which fits in the second-level cache, computes all steps there and copies the tile to the new arrays. Each step is
correct on a part that is smaller by one cell at each side; neighbouring tiles compute the cells near their common
border twice, so that no thread waits for another one.

The memory of a tile is flat: rows and arrays begin at constant distances, so that the compiler needs no test for
overlap. Indices are unsigned: Numba tests signed ones for negative values.

With periodic edges, the cells beyond an edge are computed like those of the grid. With other edges, ghost cells are set
after each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compute.labs.equations.forms.numba_form import CELL_JIT, JIT, PARALLEL_JIT, language, real
from compute.labs.equations.forms.pass_kernel import PassKernel, python_head
from compute.labs.equations.forms.printing import by_array, filled, tidy
from compute.labs.equations.tree import Call, Node, Pass, Plan, System, Tap, children

MOST_STEPS = 12  # per pass; each step makes a column at each side of a tile incorrect
APRON = 16  # cells around a tile: rows remain aligned for vectors
WIDTH = 256  # columns of a tile
TILE_BYTES = 2**19  # of the fields of a tile at two times, without the apron
WALL = "wall"
SLOW = {"sin", "cos", "exp", "log", "tanh", "pow"}  # called for each cell on its own, 20 to 100 times as long as a sum


@dataclass(frozen=True)
class CacheTiling:
    """The sizes of tiles. rows: the most that a tile writes; arrays: the number in the memory of a tile."""

    rows: int
    arrays: int

    @property
    def row_cells(self) -> int:
        """The cells from a row of a tile to the next."""
        return WIDTH + 2 * APRON

    @property
    def array_cells(self) -> int:
        """The cells from an array of a tile to the next."""
        return (self.rows + 2 * APRON + 2) * self.row_cells

    def cut(self, ny: int, nx: int, threads: int) -> tuple[int, int]:
        """Return the rows and columns of a tile of ny x nx cells, so that each thread has equally many if possible."""
        across = -(-nx // WIDTH)
        columns = min(nx, -(-nx // (across * APRON)) * APRON)
        count = -(-ny // self.rows)
        count = -(-count * across // threads) * threads // across
        return min(self.rows, max(min(ny, APRON), -(-ny // max(1, count)))), columns


def tiling(system: System, plan: Plan, dtype: str) -> CacheTiling | None:
    """Return the sizes of tiles; None if a pass through memory can compute one step only.

    It can compute several steps if the plan has one stage and one pass that reads the fields and `wall`, but no
    diagonal neighbours, coordinates or time, and if the edges of all arrays or of no array are periodic. Formulas with
    functions in SLOW take longer than the memory, so that tiles, whose aprons are computed twice, would not pay.
    """
    (each, *others) = plan.passes
    periodic = {system.edge(array).kind == "periodic" for array in each.sources}
    diagonal = any(tap.dx and tap.dy for tap in each.taps)
    simple = not others and len(plan.stages) == 1 and len(periodic) == 1 and not diagonal
    known = set(each.sources) <= {*system.fields, WALL} and set(each.targets) == set(system.fields)
    if not (simple and known) or {"t", "x", "y"} & set(each.names) or SLOW & _functions(each):
        return None
    fields = len(system.fields)
    rows = TILE_BYTES // (2 * fields * WIDTH * np.dtype(dtype).itemsize)
    return CacheTiling(rows, fields + (WALL in each.sources))


def _functions(each: Pass) -> set[str]:
    """Return the names of the functions in a pass."""
    found: set[str] = set()
    todo: list[Node] = [statement.value for statement in each.statements]
    while todo:
        node = todo.pop()
        todo += children(node)
        if isinstance(node, Call):
            found.add(node.name)
    return found


def arrays_read(kernel: PassKernel) -> list[str]:
    """Return the arrays that a call reads, in the order of its arguments."""
    return [*kernel.system.fields, *(array for array in kernel.cell.sources if array == WALL)]


HEAD = """
import math

import numpy as np
from numba import njit, prange

REAL = np.{dtype}
TILE_APRON = {apron}  # cells around a tile, which neighbouring tiles compute as well
TILE_ROW = {row}  # cells from a row of a tile to the next
TILE_ARRAY = {array}  # cells from an array of a tile to the next
NEXT_CELL, NEXT_ROW = np.uint64(1), np.uint64(TILE_ROW)
"""
PLACE = {
    True: '''
def place_of(i, n):
    """Return the row or column of the grid with the value of i: beyond an edge, that at the opposite side."""
    return i % n
''',
    False: '''
def place_of(i, n):
    """Return the row or column of the grid with the value of i: beyond an edge, the nearest one."""
    return min(max(i, 0), n - 1)
''',
}  # by whether the edges are periodic
COPIES = f'''
{JIT}def load_array(a, tile, array, top, left, rows, columns):
    """Copy rows and columns (first, last) of the grid to array number `array` of a tile."""
    ny, nx = a.shape
    first, last = max(columns[0], 0), min(columns[1], nx)
    for row in range(rows[0], rows[1]):
        line = a[place_of(row, ny)]
        here = array * TILE_ARRAY + (row - top + 1) * TILE_ROW - left
        for column in range(columns[0], first):
            tile[here + column] = line[place_of(column, nx)]
        for column in range(first, last):
            tile[here + column] = line[column]
        for column in range(last, columns[1]):
            tile[here + column] = line[place_of(column, nx)]


{JIT}def store_array(tile, array, a, top, left, rows, columns):
    """Copy array number `array` of a tile to rows and columns (first, last) of the grid."""
    for row in range(rows[0], rows[1]):
        here = array * TILE_ARRAY + (row - top + 1) * TILE_ROW - left
        for column in range(columns[0], columns[1]):
            a[row, column] = tile[here + column]
'''
GHOSTS = '''
def {name}(tile, array, top, left, rows, columns, ny, nx{argument}):
    """Set the ghost cells next to rows and columns (first, last) of a tile that are at an edge of the grid."""
    here = array * TILE_ARRAY + TILE_ROW - top * TILE_ROW - left
    for inside, beyond, at_edge in ((0, -1, rows[0] == 0), (ny - 1, ny, rows[1] == ny)):
        if at_edge:
            for column in range(columns[0], columns[1]):
                nearest = tile[here + inside * TILE_ROW + column]
                tile[here + beyond * TILE_ROW + column] = {value}
    for inside, beyond, at_edge in ((0, -1, columns[0] == 0), (nx - 1, nx, columns[1] == nx)):
        if at_edge:
            for row in range(rows[0], rows[1]):
                nearest = tile[here + row * TILE_ROW + inside]
                tile[here + row * TILE_ROW + beyond] = {value}
'''
GHOST = {
    "zero-flux": GHOSTS.format(name="set_ghosts", argument="", value="nearest"),
    "fixed": GHOSTS.format(name="set_fixed_ghosts", argument=", value", value="REAL(2) * value - nearest"),
}  # by kind of the edges


def module(kernel: PassKernel, tiles: CacheTiling, title: str, dtype: str) -> str:
    """Return the text of the module."""
    kinds = [kind for kind in GHOST if kind in kernel.kinds()]
    text = python_head(title, "Numba", [kernel]).replace("one step", "several steps per pass")
    text += HEAD.format(dtype=dtype, apron=APRON, row=tiles.row_cells, array=tiles.array_cells)
    text += f"\n{JIT}{PLACE[_periodic(kernel)].lstrip()}\n{COPIES}\n"
    text += "\n".join(f"{JIT}{GHOST[kind].lstrip()}" for kind in kinds)
    text += f"\n{kernel.python_cell(language(), CELL_JIT)}\n{_step_of_tile(kernel)}\n{_tile(kernel)}\n{_tiles(kernel)}"
    return tidy(text)


def _periodic(kernel: PassKernel) -> bool:
    return kernel.edge(kernel.cell.sources[0]).kind == "periodic"


def _numbers(kernel: PassKernel) -> str:
    return "".join(f", {name}" for name in kernel.cell.numbers)


def _step_of_tile(kernel: PassKernel) -> str:
    """Return the function that computes a step of a part of a tile."""
    arrays = arrays_read(kernel)
    starts = [f"{name}_at = {arrays[k - 1]}_at + np.uint64(TILE_ARRAY)" if k else "" for k, name in enumerate(arrays)]
    lines = "".join(f"            {line}\n" for line in starts if line)
    made = ", ".join(f"tile_out[{name}_at]" for name in kernel.cell.targets)
    given = [*map(_value, kernel.cell.taps), *kernel.cell.names]
    return f'''{JIT}def step_of_tile(tile_in, tile_out, first_cell, row_count, column_count{_numbers(kernel)}):
    """Compute a step of row_count x column_count cells of a tile."""
    row_at = np.uint64(first_cell)
    for _ in range(row_count):
        for column_at in range(np.uint64(column_count)):
            {arrays[0]}_at = row_at + column_at
{lines}            {made} = cell(
                {by_array(kernel.cell, given, " " * 16)},
            )
        row_at += NEXT_ROW
'''


def _value(tap: Tap) -> str:
    shift = {-1: " - NEXT_ROW", 0: "", 1: " + NEXT_ROW"}[tap.dy] + {-1: " - NEXT_CELL", 0: "", 1: " + NEXT_CELL"}[
        tap.dx
    ]
    return f"tile_in[{tap.array}_at{shift}]"


def _tile(kernel: PassKernel) -> str:
    """Return the function that computes all steps of a tile."""
    arrays, targets = arrays_read(kernel), kernel.system.fields
    place = "top_row, left_column, row_range, column_range"
    numbered = [f"({k}, {name}_in)" for k, name in enumerate(arrays)]
    loads = f"    for i_array, array_in in ({_several(numbered)}):\n"
    loads += f"        load_array(array_in, tile_in, i_array, {place})\n{_ghosts(kernel, 'tile_in', arrays, 4)}"
    if WALL in arrays:
        loads += f"    load_array(wall_in, tile_out, np.int64({len(targets)}), {place})\n"
        loads += _ghosts(kernel, "tile_out", [WALL], 4)
    limits = ("{}", "{}") if _periodic(kernel) else ("max({}, 0)", "min({}, {})")

    def span(low: str, high: str, end: str) -> str:
        """Return the first and the last row or column that are computed."""
        return f"{limits[0].format(low)}, {limits[1].format(high, end)}"

    return f'''{JIT}{_head("compute_tile", kernel, "both_tiles, row_span, column_span, step_count")}
    """Compute step_count steps of the rows and columns (first, last) of a tile."""
    ny, nx = {targets[0]}_out.shape
    top_row, left_column = row_span[0] - TILE_APRON, column_span[0] - TILE_APRON
    tile_in, tile_out = both_tiles[0], both_tiles[1]
    row_range = {span("row_span[0] - step_count", "row_span[1] + step_count", "ny")}
    column_range = {span("column_span[0] - TILE_APRON", "column_span[1] + TILE_APRON", "nx")}
{loads}    for steps_left in range(step_count - 1, -1, -1):
        row_range = {span("row_span[0] - steps_left", "row_span[1] + steps_left", "ny")}
        first_cell = (row_range[0] - top_row + 1) * TILE_ROW + column_range[0] - left_column
        row_count, column_count = row_range[1] - row_range[0], column_range[1] - column_range[0]
        step_of_tile(tile_in, tile_out, first_cell, row_count, column_count{_numbers(kernel)})
{_ghosts(kernel, "tile_out", targets, 8)}        tile_in, tile_out = tile_out, tile_in
    for i_array, array_out in ({_several(f"({k}, {name}_out)" for k, name in enumerate(targets))}):
        store_array(tile_in, i_array, array_out, top_row, left_column, row_span, column_span)
'''


def _several(parts: Iterable[str]) -> str:
    """Return the elements of a tuple."""
    first, *others = parts
    return ", ".join([first, *others]) if others else f"{first},"


def _ghosts(kernel: PassKernel, tile: str, names: Sequence[str], indent: int) -> str:
    """Return the loops that set the ghost cells of some arrays of a tile, two lines for each kind of edges."""
    if _periodic(kernel):
        return ""
    arrays, place = arrays_read(kernel), "top_row, left_column, row_range, column_range, ny, nx"
    wide = [(str(arrays.index(name)), kernel.edge(name)) for name in names if name in kernel.wide]
    same = [number for number, edge in wide if edge.kind == "zero-flux"]
    fixed = [f"({number}, {real(edge.value)})" for number, edge in wide if edge.kind == "fixed"]
    lines = []
    if same:
        lines += [f"for i_array in ({_several(same)}):", f"    set_ghosts({tile}, i_array, {place})"]
    if fixed:
        lines.append(f"for i_array, edge_value in ({_several(fixed)}):")
        lines.append(f"    set_fixed_ghosts({tile}, i_array, {place}, edge_value)")
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def _head(name: str, kernel: PassKernel, between: str) -> str:
    """Return the head of a function of all arrays and numbers. between: further arguments."""
    begin = f"def {name}("
    given = [*_arrays(kernel), *between.split(", "), *kernel.cell.numbers]
    return filled([f"{each}," for each in given], begin, " " * len(begin)).removesuffix(",") + "):"


def _arrays(kernel: PassKernel) -> list[str]:
    """Return the arguments for the arrays."""
    return [*(f"{name}_in" for name in arrays_read(kernel)), *(f"{name}_out" for name in kernel.system.fields)]


def _tiles(kernel: PassKernel) -> str:
    """Return the kernel."""
    return f'''{PARALLEL_JIT}{_head("many_steps", kernel, "tile_memory, tile_rows, tile_columns, step_count")}
    """Compute step_count steps of all tiles, several tiles per thread."""
    ny, nx = {kernel.system.fields[0]}_out.shape
    thread_count, tiles_across = tile_memory.shape[0], -(-nx // tile_columns)
    tile_count = tiles_across * -(-ny // tile_rows)
    for thread_index in prange(thread_count):
        i_thread = np.int64(thread_index)
        for i_tile in range(i_thread * tile_count // thread_count, (i_thread + 1) * tile_count // thread_count):
            first_row, first_column = i_tile // tiles_across * tile_rows, i_tile % tiles_across * tile_columns
            compute_tile(
                {", ".join(_arrays(kernel))}, tile_memory[i_thread],
                (first_row, min(first_row + tile_rows, ny)), (first_column, min(first_column + tile_columns, nx)),
                step_count{_numbers(kernel)},
            )
'''
