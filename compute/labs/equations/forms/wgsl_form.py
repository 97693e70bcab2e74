"""Source code of a plan in WGSL, float32 only. Each thread computes a few cells of a column.

A thread loads its cells and their neighbours before the arithmetic. Loads between the arithmetic, and arrays that the
driver keeps in memory, were slower on an H200; see gpu_wgpu.wgsl of the diffusion lab. compute/devices/wgsl.py resolves
the marks `/*unroll*/` and `/*registers*/`.

`exact(value)` keeps a rounding that a compiler may change otherwise: that of a product in a sum, which would be fused,
and that of a sum or product next to a constant, since Mesa's drivers compute (u + x) + 3 as (u + 3) + x.
"""

from __future__ import annotations

from collections.abc import Sequence

from compute.labs.equations.forms.pass_kernel import PassKernel, c_head
from compute.labs.equations.forms.printing import Language, by_array, filled
from compute.labs.equations.tree import Tap

THREADS, THREAD_ROWS = (32, 8), 4  # of a workgroup in x and y; rows of a thread
INSIDE = "row >= 0 && row < p.ny && column >= 0 && column < p.nx"
AT = {
    "periodic": "{0}_in[index_of((row + p.ny) % p.ny, (column + p.nx) % p.nx)]",
    "zero-flux": "{0}_in[index_of(clamp(row, 0, p.ny - 1), clamp(column, 0, p.nx - 1))]",
    "fixed": "{1} - {0}_in[index_of(clamp(row, 0, p.ny - 1), clamp(column, 0, p.nx - 1))]",
}  # ghost cell by kind of edges. {1}: twice the value on the face between it and the nearest cell


def language() -> Language:
    """Return the syntax and functions of WGSL."""
    names = ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh", "min", "max")
    return Language(
        number=repr, typed=repr, functions={name: name for name in names}, power="pow({0}, {1})",
        step="select(0.0, 1.0, {0} > 0.0)", where="select({2}, {1}, {0})", assignment="let {name} = {value};",
        comment="//", brackets=False, exact="exact",
    )  # fmt: skip


def begin_of(kernel: PassKernel, title: str, form: str, numbers: Sequence[str] = ()) -> str:
    """Return the head of a program: its bindings and `struct Numbers`. numbers: further members of the struct."""
    fields = kernel.system.fields
    read = kernel.read if not numbers else [f"{field}_in" for field in fields]
    written = kernel.written if not numbers else [f"{field}_out" for field in fields]
    arrays = [(array, "read") for array in read] + [(array, "read_write") for array in written]
    text = c_head(title, form, [kernel]) + "\n"
    for k, (array, access) in enumerate(arrays):
        text += f"@group(0) @binding({k}) var<storage, {access}> {array}: array<f32>;\n"
    members = ["ny: i32,", "nx: i32,", *numbers, *(f"{name}: f32," for name in kernel.cell.numbers), "zero: u32 }"]
    text += filled(members, "struct Numbers { ", " " * 17) + "\nvar<immediate> p: Numbers;\n"
    return text + "\nfn index_of(row: i32, column: i32) -> u32 { return u32(row) * u32(p.nx) + u32(column); }\n"


def module(kernels: list[PassKernel], title: str) -> str:
    """Return the program of a single pass. Each pass needs its own program, as a program has one set of bindings."""
    (kernel,) = kernels
    text = begin_of(kernel, title, "one step in WGSL")
    for array in kernel.wide:
        edge = kernel.edge(array)
        ghost = AT[edge.kind].format(array, repr(2 * edge.value))
        text += f"""
// Returns a cell of {array}, or a ghost cell beyond an edge.
fn {array}_at(row: i32, column: i32) -> f32 {{
    if ({INSIDE}) {{ return {array}_in[index_of(row, column)]; }}
    return {ghost};
}}
"""
    return text + cell_function(kernel) + _kernel(kernel)


def cell_function(kernel: PassKernel) -> str:
    """Return the function of the formula; with several results, also the struct that it returns."""
    cell, several = kernel.cell, len(kernel.cell.targets) > 1
    text = f"\nstruct Cell {{ {', '.join(f'{target}: f32' for target in cell.targets)} }}\n" if several else ""
    arguments = by_array(cell, [f"{argument}: f32" for argument in cell.arguments], " " * len("fn cell("))
    text += f"\nfn cell({arguments}) -> {'Cell' if several else 'f32'} {{\n{language().body(cell.statements)}\n"
    return text + f"    return {f'Cell({kernel.results})' if several else kernel.results};\n}}\n"


def _kernel(kernel: PassKernel) -> str:
    diagonal = {tap.array for tap in kernel.cell.taps if tap.dx and tap.dy}
    text = f"\n@compute @workgroup_size({THREADS[0]}, {THREADS[1]})\n"
    text += "fn step(@builtin(global_invocation_id) id: vec3<u32>) {\n"
    text += f"    let column = i32(id.x);\n    let first = i32(id.y) * {THREAD_ROWS};\n"
    text += "    if (column >= p.nx || first >= p.ny) { return; }\n"
    if "x" in kernel.coordinates:
        text += f"    let x = exact((f32(column) + 0.5) * {kernel.dx!r});\n"
    if kernel.wide:
        text += "".join(_declared(array, array in diagonal) for array in kernel.wide)
        text += "    if (column > 0 && column + 1 < p.nx && first > 0 && "
        text += f"first + {THREAD_ROWS} < p.ny) {{\n        let start = index_of(first - 1, column);\n"
        text += "".join(
            _loaded(array, array in diagonal, "{0}_in[start + u32({1}) * u32(p.nx){2}]") for array in kernel.wide
        )
        text += "    } else {\n"
        text += "".join(_loaded(array, array in diagonal, "") for array in kernel.wide)
        text += "    }\n"
    text += f"    /*unroll*/ for (var i_row = 0; i_row < {THREAD_ROWS}; i_row++) {{\n        let row = first + i_row;\n"
    text += "        if (row >= p.ny) { return; }\n        let here = index_of(row, column);\n"
    if "y" in kernel.coordinates:
        text += f"        let y = exact((f32(row) + 0.5) * {kernel.dx!r});\n"
    given = [_value(kernel, tap, tap.array in diagonal) for tap in kernel.cell.taps]
    given += [name if name in kernel.coordinates else f"p.{name}" for name in kernel.cell.names]
    text += f"        let new_cell = cell(\n            {by_array(kernel.cell, given, ' ' * 12)});\n"
    several = len(kernel.cell.targets) > 1
    for target, out in zip(kernel.cell.targets, kernel.written, strict=True):
        text += f"        {out}[here] = new_cell{f'.{target}' if several else ''};\n"
    return text + "    }\n}\n"


def _sides(diagonal: bool) -> tuple[int, int]:
    """Return the index, from row first - 1, and the number of the rows that need left and right neighbours."""
    return (0, THREAD_ROWS + 2) if diagonal else (1, THREAD_ROWS)


def _declared(array: str, diagonal: bool) -> str:
    rows = THREAD_ROWS + 2
    text = f"    /*registers*/ var {array}_cells: array<f32, {rows}>;  // rows first - 1 to first + {THREAD_ROWS}\n"
    for side in ("west", "east"):
        text += f"    /*registers*/ var {array}_{side}: array<f32, {_sides(diagonal)[1]}>;\n"
    return text


def _loaded(array: str, diagonal: bool, inside: str) -> str:
    """Return the lines that load an array. inside: format of a cell by array, row and column shift, "" near an edge."""
    begin, count = _sides(diagonal)

    def cell(shift: int, side: int) -> str:
        """Return the cell in row i_row + shift, from row first - 1. side: -1 left, 0 none, 1 right."""
        if inside:
            return inside.format(array, _plus("i_row", shift), ("", " + 1u", " - 1u")[side])
        row = _plus("first + i_row", shift - 1)
        return f"{array}_at(min({row}, p.ny), column{('', ' + 1', ' - 1')[side]})"

    return f"""        /*unroll*/ for (var i_row = 0; i_row < {THREAD_ROWS + 2}; i_row++) {{
            {array}_cells[i_row] = {cell(0, 0)};
        }}
        /*unroll*/ for (var i_row = 0; i_row < {count}; i_row++) {{
            {array}_west[i_row] = {cell(begin, -1)};
            {array}_east[i_row] = {cell(begin, 1)};
        }}
"""


def _value(kernel: PassKernel, tap: Tap, diagonal: bool) -> str:
    if tap.array not in kernel.wide:
        return f"{tap.array}_in[here]"
    name = {-1: "west", 0: "cells", 1: "east"}[tap.dx]
    shift = tap.dy + (1 if tap.dx == 0 else 1 - _sides(diagonal)[0])
    return f"{tap.array}_{name}[{_plus('i_row', shift)}]"


def _plus(text: str, number: int) -> str:
    """Return the sum of an expression and a number as text."""
    return f"{text} {'+' if number > 0 else '-'} {abs(number)}" if number else text
