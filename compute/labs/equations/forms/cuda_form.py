"""Source code of a plan in CUDA C. Each thread computes 16 bytes of neighbouring cells in one or two rows.

A thread issues the loads of all its rows before the arithmetic, to keep enough bytes in flight. The neighbours to the
left and right of its cells come from the L1 cache. At the edges of the grid, and if rows are not aligned to 16 bytes,
cells are loaded one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from compute.labs.equations.forms.pass_kernel import PassKernel, c_head
from compute.labs.equations.forms.printing import Language, by_array, filled, weight
from compute.labs.equations.tree import Tap

THREADS = 32, 8  # of a block in x and y
VECTOR_BYTES = 16
MOST_INLINE = 500  # instructions per cell; longer functions are not inlined for each cell, to limit compile time
REAL = {"float32": "float", "float64": "double"}
AT = {
    "periodic": """
// Returns a cell; beyond an edge, the cell at the opposite edge.
__device__ __forceinline__ {real} at_periodic(const {real}* a, int row, int column, int ny, int nx)
{{
    row = row < 0 ? ny - 1 : row < ny ? row : 0;
    column = column < 0 ? nx - 1 : column < nx ? column : 0;
    return a[(size_t)row * nx + column];
}}
""",
    "zero-flux": """
// Returns a cell; beyond an edge, the nearest cell of the grid.
__device__ __forceinline__ {real} at_zero_flux(const {real}* a, int row, int column, int ny, int nx)
{{
    return a[(size_t)min(max(row, 0), ny - 1) * nx + min(max(column, 0), nx - 1)];
}}
""",
    "fixed": """
// Returns a cell; beyond an edge, a ghost cell such that the face between it and the grid has `value`.
__device__ __forceinline__ {real} at_fixed(const {real}* a, int row, int column, int ny, int nx, {real} value)
{{
    const {real} nearest = a[(size_t)min(max(row, 0), ny - 1) * nx + min(max(column, 0), nx - 1)];
    const bool inside = row >= 0 && row < ny && column >= 0 && column < nx;
    return inside ? nearest : {two} * value - nearest;
}}
""",
}  # by kind of edges
READ = """
// Reads cells column - 1 ... column + THREAD_COLUMNS of a row. inside: all are in the grid, the first one aligned.
__device__ __forceinline__ void read_{name}(const {real}* a, int row, int column, int ny, int nx,
                                            {value}bool inside, {real} (&cells)[THREAD_COLUMNS + 2])
{{
    if (inside) {{
        const {real}* first = a + (size_t)row * nx + column;
        const Vector vector = *(const Vector*)first;
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++) cells[k + 1] = vector.cells[k];
        cells[0] = first[-1];
        cells[THREAD_COLUMNS + 1] = first[THREAD_COLUMNS];
    }} else {{
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS + 2; k++) cells[k] = at_{name}(a, row, column + k - 1, ny, nx{given});
    }}
}}
"""
READ_OWN = """
// Reads cells column ... column + THREAD_COLUMNS - 1 of a row. aligned: all are in the grid.
__device__ __forceinline__ void read_own(const {real}* a, int row, int column, int ny, int nx, bool aligned,
                                         {real} (&cells)[THREAD_COLUMNS])
{{
    const {real}* first = a + (size_t)min(row, ny - 1) * nx;
    if (aligned) {{
        const Vector vector = *(const Vector*)(first + column);
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++) cells[k] = vector.cells[k];
    }} else {{
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++) cells[k] = first[min(column + k, nx - 1)];
    }}
}}
"""
WRITE = """
__device__ __forceinline__ void write_cells({real}* a, int row, int column, int nx, bool aligned,
                                            const {real} (&cells)[THREAD_COLUMNS])
{{
    {real}* first = a + (size_t)row * nx + column;
    if (aligned) {{
        Vector vector;
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++) vector.cells[k] = cells[k];
        *(Vector*)first = vector;
    }} else {{
        #pragma unroll
        for (int k = 0; k < THREAD_COLUMNS; k++)
            if (column + k < nx) first[k] = cells[k];
    }}
}}
"""
HEAD = """
#define THREAD_COLUMNS {columns}  // neighbouring cells of a thread: 16 bytes, one vector load or store
#define THREAD_ROWS {rows}     // rows of a thread

struct __align__(16) Vector {{
    {real} cells[THREAD_COLUMNS];
}};
"""


def language(dtype: str) -> Language:
    """Return the syntax and functions of CUDA C for a dtype, float32 or float64."""
    end = "f" if dtype == "float32" else ""

    def number(value: float) -> str:
        """Return a literal of the kernel's type."""
        return f"{value!r}{end}"

    functions = {name: f"{name}{end}" for name in ("sin", "cos", "exp", "log", "sqrt", "tanh")}
    return Language(
        number=number, typed=number,
        functions=functions | {"abs": f"fabs{end}", "min": f"fmin{end}", "max": f"fmax{end}"},
        power=f"pow{end}({{0}}, {{1}})", step=f"{{0}} > {number(0.0)} ? {number(1.0)} : {number(0.0)}",
        where="{0} ? {1} : {2}", assignment=f"const {REAL[dtype]} {{name}} = {{value}};", comment="//", brackets=False,
    )  # fmt: skip


def rows_of(kernels: list[PassKernel]) -> int:
    """Return the rows per thread: 2 if their cells fit into registers, else 1."""
    return 2 if all(len(each.wide) <= 2 for each in kernels) else 1


def columns_of(dtype: str) -> int:
    """Return the columns per thread: 4 for float32, 2 for float64."""
    return VECTOR_BYTES // {"float32": 4, "float64": 8}[dtype]


def module(kernels: list[PassKernel], title: str, dtype: str) -> str:
    """Return the text of the .cu file, with a kernel for each pass."""
    real = REAL[dtype]
    text = c_head(title, "one step in CUDA C", kernels)
    text += HEAD.format(columns=columns_of(dtype), rows=rows_of(kernels), real=real)
    kinds = {kind for each in kernels for kind in each.kinds()}
    for kind, cell_at in AT.items():
        if kind in kinds:
            value, given = (f"{real} value, ", ", value") if kind == "fixed" else ("", "")
            text += cell_at.format(real=real, two=language(dtype).number(2.0))
            text += READ.format(real=real, name=kind.replace("-", "_"), value=value, given=given)
    if any(len(each.wide) < len(each.cell.sources) for each in kernels):
        text += READ_OWN.format(real=real)
    return (
        text + WRITE.format(real=real) + "".join(cell_function(each, dtype) + _kernel(each, dtype) for each in kernels)
    )


def cell_function(kernel: PassKernel, dtype: str) -> str:
    """Return the function of the formula; with several results, also the struct that it returns."""
    real, cell = REAL[dtype], kernel.cell
    name, results, text = real, kernel.results, ""
    if len(cell.targets) > 1:
        name, results = f"Cell{kernel.suffix}", f"{{{kernel.results}}}"
        text = f"\nstruct {name} {{\n    {real} {', '.join(cell.targets)};\n}};\n"
    inline = "__forceinline__" if weight(cell) <= MOST_INLINE else "__noinline__"
    head = f"__device__ {inline} {name} {kernel.cell_name}("
    arguments = by_array(cell, [f"{real} {argument}" for argument in cell.arguments], " " * len(head))
    text += f"\n{head}{arguments})\n{{\n{language(dtype).body(cell.statements)}\n"
    return f"{text}    return {results};\n}}\n"


def _kernel(kernel: PassKernel, dtype: str) -> str:
    real, number = REAL[dtype], language(dtype).number
    head = f"{kernel.step_name}("
    given = [f"const {real}* __restrict__ {array}," for array in kernel.read]
    given += [f"{real}* __restrict__ {array}," for array in kernel.written]
    given += ["int ny,", "int nx,", *(f"{real} {name}," for name in kernel.cell.numbers)]
    text = f'\nextern "C" __global__ void __launch_bounds__({THREADS[0] * THREADS[1]})\n'
    text += filled(given, head, " " * len(head)).removesuffix(",") + ")\n{\n"
    text += """    const int column = (blockIdx.x * blockDim.x + threadIdx.x) * THREAD_COLUMNS;
    const int row = (blockIdx.y * blockDim.y + threadIdx.y) * THREAD_ROWS;
    if (column >= nx || row >= ny) return;
    const bool is_aligned = nx % THREAD_COLUMNS == 0;
"""
    if kernel.wide:
        text += """    const bool is_inside = is_aligned && column > 0 && column + THREAD_COLUMNS < nx && row > 0
        && row + THREAD_ROWS < ny;
"""
    text += _reads(kernel, real, number)
    text += "    #pragma unroll\n    for (int i_row = 0; i_row < THREAD_ROWS; i_row++) {\n"
    text += "        if (row + i_row >= ny) return;\n"
    text += "".join(f"        {real} {target}_new[THREAD_COLUMNS];\n" for target in kernel.cell.targets)
    if "y" in kernel.coordinates:
        text += f"        const {real} y = (row + i_row + {number(0.5)}) * {number(kernel.dx)};\n"
    text += "        #pragma unroll\n"
    text += "        for (int i_col = 0; i_col < THREAD_COLUMNS; i_col++) {\n"
    if "x" in kernel.coordinates:
        text += f"            const {real} x = (column + i_col + {number(0.5)}) * {number(kernel.dx)};\n"
    values = [*(_value(kernel, tap) for tap in kernel.cell.taps), *kernel.cell.names]
    call = f"{kernel.cell_name}(\n                {by_array(kernel.cell, values, ' ' * 16)});\n"
    if len(kernel.cell.targets) > 1:
        text += f"            const Cell{kernel.suffix} new_cell = {call}"
        text += "".join(f"            {target}_new[i_col] = new_cell.{target};\n" for target in kernel.cell.targets)
    else:
        text += f"            {kernel.cell.targets[0]}_new[i_col] = {call}"
    text += "        }\n"
    for target, out in zip(kernel.cell.targets, kernel.written, strict=True):
        text += f"        write_cells({out}, row + i_row, column, nx, is_aligned, {target}_new);\n"
    return text + "    }\n}\n"


def _reads(kernel: PassKernel, real: str, number: Callable[[float], str]) -> str:
    """Return the lines that load the cells of a thread and their neighbours."""
    text = ""
    own = [array for array in kernel.cell.sources if array not in kernel.wide]
    text += "".join(f"    {real} {array}_cells[THREAD_ROWS + 2][THREAD_COLUMNS + 2];\n" for array in kernel.wide)
    text += "".join(f"    {real} {array}_cells[THREAD_ROWS][THREAD_COLUMNS];\n" for array in own)
    if kernel.wide:
        text += "    #pragma unroll\n    for (int i_row = 0; i_row < THREAD_ROWS + 2; i_row++) {\n"
        for array in kernel.wide:
            edge = kernel.edge(array)
            value = f"{number(edge.value)}, " if edge.kind == "fixed" else ""
            name = f"read_{edge.kind.replace('-', '_')}"
            given = f"{array}_in, row + i_row - 1, column, ny, nx, {value}is_inside, {array}_cells[i_row]"
            text += f"        {name}({given});\n"
        text += "    }\n"
    if own:
        text += "    #pragma unroll\n    for (int i_row = 0; i_row < THREAD_ROWS; i_row++) {\n"
        for array in own:
            given = f"{array}_in, row + i_row, column, ny, nx, is_aligned, {array}_cells[i_row]"
            text += f"        read_own({given});\n"
        text += "    }\n"
    return text


def _value(kernel: PassKernel, tap: Tap) -> str:
    shift = {-1: "", 0: " + 1", 1: " + 2"}
    if tap.array in kernel.wide:
        return f"{tap.array}_cells[i_row{shift[tap.dy]}][i_col{shift[tap.dx]}]"
    return f"{tap.array}_cells[i_row][i_col]"
