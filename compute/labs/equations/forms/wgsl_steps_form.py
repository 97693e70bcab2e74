"""Source code of a one-pass plan in WGSL with several steps per launch, as in gpu_wgpu.wgsl of the diffusion lab.

A workgroup streams down a strip of columns. A thread keeps two rows of its columns for each time level in registers. In
each turn of its loop a third row arrives, and each level computes one row and passes it to the next level. Threads
exchange the cells to their left and right through workgroup memory. Edges are treated as in cuda_steps_form.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from compute.labs.equations.forms import cuda_steps_form
from compute.labs.equations.forms.cuda_steps_form import WALL
from compute.labs.equations.forms.pass_kernel import PassKernel
from compute.labs.equations.forms.printing import by_array
from compute.labs.equations.forms.wgsl_form import begin_of, cell_function
from compute.labs.equations.tree import Plan, System, Tap

THREADS, COLUMNS, AHEAD = 64, 4, 4  # per workgroup; cells per thread and row; turns from a load to its use, even
WAVE, LEAST_ROWS = 1024, 6  # workgroups per launch, about as many as a large GPU runs concurrently; rows of each


@dataclass(frozen=True)
class MultiStepStrips:
    """The sizes of a launch. steps: a multiple of COLUMNS; a strip loses as many columns on either side."""

    steps: int

    @property
    def width(self) -> int:
        """The columns that a workgroup writes."""
        return THREADS * COLUMNS - 2 * self.steps

    def cut(self, ny: int, nx: int) -> tuple[int, int, int]:
        """Return (workgroups in x, workgroups in y, rows written per workgroup) for a grid of ny x nx cells."""
        strips = -(-nx // self.width)
        rows = min(ny, max(LEAST_ROWS, -(-ny // max(1, WAVE // strips))))
        return strips, -(-ny // rows), rows


def strips_of(system: System, plan: Plan) -> MultiStepStrips | None:
    """Return the sizes of a launch; None if it can compute one step only, as in CUDA C, or if the pass reads a wall."""
    tiling = cuda_steps_form.tiling(system, plan, "float32")
    return None if tiling is None or WALL in plan.passes[0].sources else MultiStepStrips(tiling.steps)


def module(kernel: PassKernel, strips: MultiStepStrips, title: str) -> str:
    """Return the text of the WGSL program."""
    fields, steps = kernel.system.fields, strips.steps
    periodic = kernel.edge(fields[0]).kind == "periodic"
    # Vulkan does not define % of negative numbers; the lowest i is -3 steps.
    place = f"return i32(u32(i + {3 * steps} * n) % u32(n));" if periodic else "return clamp(i, 0, n - 1);"
    text = begin_of(kernel, title, f"{steps} steps per launch in WGSL", ["band_rows: i32,"])
    text += "\n// Returns the row or column of the grid from which row or column i is read.\n"
    text += f"fn place_of(i: i32, n: i32) -> i32 {{ {place} }}\n"
    text += cell_function(kernel)
    text += "\n// First and last cell of each thread's row by level, double-buffered for even and odd turns.\n"
    for field in fields:
        text += f"var<workgroup> {field}_ends: array<array<vec2<f32>, {THREADS + 2}>, {2 * steps}>;\n"

    def each(line: str, indent: int) -> str:
        """Return the line once for each field, whose name replaces @."""
        return "".join(f"{' ' * indent}{line.replace('@', field)}\n" for field in fields)

    loop = "/*unroll*/ for (var i_col = 0; i_col < 4; i_col++) {"
    return f"""{text}
@compute @workgroup_size({THREADS})
fn many_steps(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {{
    let offset = i32(thread) * {COLUMNS};
    let column = i32(group.x) * {strips.width} - {steps} + offset;
    let writes = offset >= {steps} && offset < {THREADS * COLUMNS - steps};
    let first = i32(group.y) * p.band_rows;
    let end = min(first + p.band_rows, p.ny);
    let top = first - {steps};
    let turns = end - first + {2 * steps};
    /*registers*/ var places: array<u32, {COLUMNS}>;
    {loop} places[i_col] = u32(place_of(column + i_col, p.nx)); }}
{each(f"/*registers*/ var @_loaded: array<array<f32, {COLUMNS}>, {AHEAD}>;", 4)}\
    /*unroll*/ for (var i_turn = 0; i_turn < {AHEAD}; i_turn++) {{
        let line = index_of(place_of(top + min(i_turn, turns - 1), p.ny), 0);
        {loop}
{each("@_loaded[i_turn][i_col] = @_in[line + places[i_col]];", 12)}        }}
    }}
{each(f"/*registers*/ var @_here: array<array<f32, {COLUMNS}>, {steps}>;", 4)}\
{each(f"/*registers*/ var @_below: array<array<f32, {COLUMNS}>, {steps}>;", 4)}\
{each(f"/*registers*/ var @_above: array<f32, {COLUMNS}>;  // the row that arrives at a level", 4)}\
{each(f"/*registers*/ var @_row: array<f32, {COLUMNS + 2}>;", 4)}\
    for (var begin = 0; begin < turns; begin += {AHEAD}) {{
        /*unroll*/ for (var i_turn = 0; i_turn < {AHEAD}; i_turn++) {{
            let turn = begin + i_turn;
            let line = index_of(place_of(top + min(turn + {AHEAD}, turns - 1), p.ny), 0);
            {loop}
{each("@_above[i_col] = @_loaded[i_turn][i_col];", 16)}\
{each("@_loaded[i_turn][i_col] = @_in[line + places[i_col]];", 16)}            }}
            /*unroll*/ for (var i_level = 0; i_level < {steps}; i_level++) {{
                let row = top + turn - i_level - 1;
{each(f"@_row[0] = @_ends[i_turn % 2 * {steps} + i_level][thread].y;", 16)}\
{each(f"@_row[{COLUMNS + 1}] = @_ends[i_turn % 2 * {steps} + i_level][thread + 2u].x;", 16)}\
{each(f"@_ends[(i_turn + 1) % 2 * {steps} + i_level][thread + 1u] = vec2(@_above[0], @_above[{COLUMNS - 1}]);", 16)}\
                {loop}
{each("@_row[i_col + 1] = @_here[i_level][i_col];", 20)}                }}
                {loop}
{_cell(kernel, periodic)}\
{each("@_below[i_level][i_col] = @_row[i_col + 1];", 20)}\
{each("@_here[i_level][i_col] = @_above[i_col];", 20)}\
{each(f"@_above[i_col] = new_cell{'.@' if len(fields) > 1 else ''};", 20)}                }}
            }}
            workgroupBarrier();
            let written = top + turn - {steps};
            if (turn >= {2 * steps} && written < end && writes) {{
                {loop}
                    if (column + i_col < p.nx) {{
{each("@_out[index_of(written, column + i_col)] = @_above[i_col];", 24)}                    }}
                }}
            }}
        }}
    }}
}}
"""


def _cell(kernel: PassKernel, periodic: bool) -> str:
    """Return the lines that compute a cell of row `row`."""
    text, indent = "", " " * 20
    for field in kernel.wide if not periodic else ():
        edge, here = kernel.edge(field), f"{field}_row[i_col + 1]"
        ghost = f"{2 * edge.value!r} - {here}" if edge.kind == "fixed" else here
        text += f"{indent}let {field}_ghost = {ghost};\n"
        for side, value, where in (
            ("left", "row[i_col]", "column + i_col == 0"),
            ("right", "row[i_col + 2]", "column + i_col == p.nx - 1"),
            ("down", "below[i_level][i_col]", "row == 0"),
            ("up", "above[i_col]", "row == p.ny - 1"),
        ):
            text += f"{indent}let {field}_{side} = select({field}_{value}, {field}_ghost, {where});\n"
    if "x" in kernel.coordinates:
        text += f"{indent}let x = exact((f32(places[i_col]) + 0.5) * {kernel.dx!r});\n"
    if "y" in kernel.coordinates:
        text += f"{indent}let y = exact((f32(place_of(row, p.ny)) + 0.5) * {kernel.dx!r});\n"
    given = [_value(tap, periodic) for tap in kernel.cell.taps]
    given += [name if name in kernel.coordinates else f"p.{name}" for name in kernel.cell.names]
    inner = " " * 24
    return f"{text}{indent}let new_cell = cell(\n{inner}{by_array(kernel.cell, given, inner)});\n"


def _value(tap: Tap, periodic: bool) -> str:
    if not (tap.dx or tap.dy):
        return f"{tap.array}_row[i_col + 1]"
    if periodic:
        names = {
            (-1, 0): "row[i_col]",
            (1, 0): "row[i_col + 2]",
            (0, -1): "below[i_level][i_col]",
            (0, 1): "above[i_col]",
        }
    else:
        names = {(-1, 0): "left", (1, 0): "right", (0, -1): "down", (0, 1): "up"}
    return f"{tap.array}_{names[tap.dx, tap.dy]}"
