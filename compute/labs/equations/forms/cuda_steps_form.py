"""Source code of a one-pass plan in CUDA C with several steps per launch, as in gpu_steps.cu of the diffusion lab.

A warp streams down a strip of columns and keeps three rows of each time level in registers. In each turn of its loop
one row arrives from memory, and each level computes one row of the next level. A launch therefore reads and writes the
arrays once for all its steps. Lanes exchange their left and right neighbours by shuffles; rows from memory pass through
a ring buffer in shared memory.

With periodic edges, the cells beyond an edge are computed like those of the grid. With other edges, they are not used:
in warps that contain cells at an edge, each level substitutes ghost cells for the neighbours beyond the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compute.labs.equations.forms.cuda_form import REAL, cell_function, columns_of, language
from compute.labs.equations.forms.pass_kernel import PassKernel, c_head
from compute.labs.equations.forms.printing import by_array, filled, weight
from compute.labs.equations.tree import Plan, System, Tap

WARP = 32
MOST_FIELDS = 2
MOST_WEIGHT = 100  # instructions per cell, which are repeated up to 200 times; this limits the compile time
BLOCKS = 12  # warps per multiprocessor; more warps have fewer registers each
TALL = 400  # largest number of rows per warp; more and shorter warps balance the load
WALL = "wall"
LEVEL_ROWS = 24  # rows of 16 bytes in the registers of a lane: 3 per level and field


@dataclass(frozen=True)
class MultiStepTiling:
    """The sizes of a launch. columns: cells per lane and row; blocks: warps per multiprocessor."""

    steps: int
    columns: int
    blocks: int = BLOCKS

    @property
    def apron(self) -> int:
        """The columns on either side of a strip that are invalid after all steps, a multiple of `columns`."""
        return -(-self.steps // self.columns) * self.columns

    def cut(self, ny: int, nx: int, multiprocessors: int) -> tuple[int, int]:
        """Return (number of warps, rows written per warp) for a grid of ny x nx cells."""
        strips = -(-nx // (WARP * self.columns - 2 * self.apron))
        wave = multiprocessors * self.blocks
        waves = -(-strips * -(-ny // TALL) // wave)
        rows = -(-ny // max(1, waves * wave // strips))
        return strips * -(-ny // rows), rows


def arrays_read(kernel: PassKernel) -> list[str]:
    """Return the arrays that a launch reads, in the order of its arguments."""
    return [*kernel.system.fields, *(array for array in kernel.cell.sources if array == WALL)]


def tiling(system: System, plan: Plan, dtype: str) -> MultiStepTiling | None:
    """Return the sizes of a launch; None if a launch can compute one step only.

    A launch can compute several steps if the plan has one stage and one pass of at most MOST_WEIGHT instructions per
    cell that reads at most MOST_FIELDS fields and `wall`, but no diagonal neighbours and no time, and if the edges of
    all fields or of no field are periodic.
    """
    (each, *others) = plan.passes
    periodic = {system.edge(field).kind == "periodic" for field in system.fields}
    diagonal = any(tap.dx and tap.dy for tap in each.taps)
    simple = not others and len(plan.stages) == 1 and len(periodic) == 1 and not diagonal
    known = set(each.sources) <= {*system.fields, WALL} and set(each.targets) == set(system.fields)
    if not (simple and known) or len(system.fields) > MOST_FIELDS or "t" in each.names or weight(each) > MOST_WEIGHT:
        return None
    return MultiStepTiling(LEVEL_ROWS // (3 * len(system.fields)), columns_of(dtype))


HEAD = """
#define LAUNCH_STEPS {steps}                    // steps per launch
#define LANE_COLUMNS {columns}                    // cells per lane and row: 16 bytes
#define STRIP_COLUMNS (32 * LANE_COLUMNS)  // columns that a warp reads
#define STRIP_APRON {apron}                     // of these, not written on either side
#define RING_ROWS 6                        // rows of the ring buffer in shared memory
#define ROWS_AHEAD 5                       // turns between the load of a row and its use
#define EVERY_LANE 0xffffffff

struct __align__(16) Vector {{
    {real} cells[LANE_COLUMNS];
}};

"""
STREAM = """
// The part of the grid that a warp reads and writes. Row q is row top + q of the grid.
struct Stream {{
    int ny, nx, top;
    int height, read;         // rows to write and to read
    int column;               // first column of this lane
    int places[LANE_COLUMNS];      // columns of the grid that it reads
    bool whole, part;         // whether this lane writes all its columns as a vector, or some of them one by one
}};

template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global)
{{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(BYTES) : "memory");
#else
    if (BYTES == 16)
        *(Vector*)shared = *(const Vector*)global;
    else
        *({real}*)shared = *(const {real}*)global;
#endif
}}

__device__ __forceinline__ void close_copies()
{{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}}

// Waits until at most PENDING row copies are in flight.
template <int PENDING>
__device__ __forceinline__ void wait_copies()
{{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}}

// Returns the row or column of the grid from which row or column i is read.
__device__ __forceinline__ int place_of(int i, int n)
{{
    {place}
}}

// INSIDE: the warp reads only cells of the grid, from aligned addresses.
template <bool INSIDE>
__device__ __forceinline__ void load_row(const Stream& s, const {real}* a, int q, Vector* to)
{{
    const {real}* line = a + (size_t)(INSIDE ? s.top + q : place_of(s.top + q, s.ny)) * s.nx;
    if (INSIDE) {{
        copy_async<16>(to, line + s.column);
    }} else {{
        #pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k++) copy_async<sizeof({real})>(&to->cells[k], line + s.places[k]);
    }}
}}

__device__ __forceinline__ void take_row(const Vector* from, {real} (&row)[LANE_COLUMNS])
{{
    const Vector vector = *from;
    #pragma unroll
    for (int k = 0; k < LANE_COLUMNS; k++) row[k] = vector.cells[k];
}}

__device__ __forceinline__ void store_row(const Stream& s, {real}* a, int q, const {real} (&row)[LANE_COLUMNS])
{{
    {real}* line = a + (size_t)(s.top + q) * s.nx + s.column;
    if (s.whole) {{
        Vector vector;
        #pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k++) vector.cells[k] = row[k];
        *(Vector*)line = vector;
    }} else if (s.part) {{
        #pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k++)
            if (s.column + k < s.nx) line[k] = row[k];
    }}
}}
"""
WALLS = """
#define ROW_BITS (LANE_COLUMNS + 2)  // wall bits of a row: column - 1 (lowest) ... column + LANE_COLUMNS

// Returns the wall bits of a row of this lane, including the columns on either side.
__device__ __forceinline__ unsigned bits_of(const Vector* from)
{{
    const Vector vector = *from;
    unsigned bits = 0;
    #pragma unroll
    for (int k = 0; k < LANE_COLUMNS; k++) bits |= (unsigned)(vector.cells[k] > 0) << (k + 1);
    const unsigned before = __shfl_up_sync(EVERY_LANE, bits, 1), after = __shfl_down_sync(EVERY_LANE, bits, 1);
    return bits | (before >> LANE_COLUMNS & 1) | (after >> 1 & 1) << (LANE_COLUMNS + 1);
}}

__device__ __forceinline__ {real} is_wall(unsigned bits, int place)
{{
    return (bits >> place & 1) ? {one} : {zero};
}}
"""
PLACE = {True: "i %= n;\n    return i < 0 ? i + n : i;", False: "return min(max(i, 0), n - 1);"}  # by: periodic


def module(kernel: PassKernel, tiling: MultiStepTiling, title: str, dtype: str) -> str:
    """Return the text of the .cu file."""
    real = REAL[dtype]
    periodic = kernel.edge(kernel.system.fields[0]).kind == "periodic"
    text = c_head(title, f"{tiling.steps} steps per launch in CUDA C", [kernel])
    sizes = {"steps": tiling.steps, "columns": tiling.columns, "apron": tiling.apron}
    text += HEAD.format(real=real, **sizes) + STREAM.lstrip().format(real=real, place=PLACE[periodic])
    if WALL in kernel.cell.sources:
        text += WALLS.format(real=real, one=language(dtype).number(1.0), zero=language(dtype).number(0.0))
    text += f"\nstruct Numbers {{\n    {real} {', '.join(kernel.cell.numbers)};\n}};\n"
    return text + cell_function(kernel, dtype) + _next_row(kernel, dtype, periodic) + _kernel(kernel, dtype)


def _next_row(kernel: PassKernel, dtype: str, periodic: bool) -> str:
    """Return the function that computes a row of the next level from three rows of the current level."""
    real, number, fields = REAL[dtype], language(dtype).number, kernel.system.fields
    rows = ("below", "here", "above")
    text = "\n// Computes row q of the next level from three rows of the current level.\ntemplate <bool INSIDE>\n"
    head = "__device__ __forceinline__ void next_row("
    given = ["const Stream& s,", "const Numbers& p,", "int q,"]
    for field in fields:
        given += [f"const {real} (&{field}_{row})[LANE_COLUMNS]," for row in rows] + [
            f"{real} (&{field}_next)[LANE_COLUMNS],"
        ]
    given += ["unsigned wall_bits,"] if WALL in kernel.cell.sources else []
    text += filled(given, head, " " * len(head)).removesuffix(",") + ")\n{\n"
    wide = [field for field in kernel.wide if field != WALL]
    for field in wide:
        text += f"    const {real} {field}_before = __shfl_up_sync(EVERY_LANE, {field}_here[LANE_COLUMNS - 1], 1);\n"
        text += f"    const {real} {field}_after = __shfl_down_sync(EVERY_LANE, {field}_here[0], 1);\n"
    if not periodic or "y" in kernel.coordinates:
        text += "    const int row = s.top + q;\n"
    if "y" in kernel.coordinates:
        text += f"    const {real} y = ((INSIDE ? row : place_of(row, s.ny)) + {number(0.5)}) * {number(kernel.dx)};\n"
    text += "    #pragma unroll\n    for (int i_col = 0; i_col < LANE_COLUMNS; i_col++) {\n"
    text += "".join(_neighbours(kernel, field, dtype, periodic) for field in wide)
    if "x" in kernel.coordinates:
        text += f"        const {real} x = (s.places[i_col] + {number(0.5)}) * {number(kernel.dx)};\n"
    values = [_value(tap, periodic) for tap in kernel.cell.taps]
    values += [name if name in kernel.coordinates else f"p.{name}" for name in kernel.cell.names]
    call = f"cell(\n            {by_array(kernel.cell, values, ' ' * 12)});\n"
    if len(fields) == 1:
        return text + f"        {fields[0]}_next[i_col] = {call}    }}\n}}\n"
    text += f"        const Cell new_cell = {call}"
    text += "".join(f"        {field}_next[i_col] = new_cell.{field};\n" for field in fields)
    return text + "    }\n}\n"


def _neighbours(kernel: PassKernel, field: str, dtype: str, periodic: bool) -> str:
    """Return the lines that define the neighbours of a cell, with ghost cells beyond edges that are not periodic."""
    real, here, edge = REAL[dtype], f"{field}_here[i_col]", kernel.edge(field)
    text = f"        {real} {field}_left = i_col ? {field}_here[max(i_col - 1, 0)] : {field}_before;\n"
    text += f"        {real} {field}_right = i_col + 1 < LANE_COLUMNS"
    text += f" ? {field}_here[min(i_col + 1, LANE_COLUMNS - 1)] : {field}_after;\n"
    if periodic:
        return text
    ghost = f"{language(dtype).number(2 * edge.value)} - {here}" if edge.kind == "fixed" else here
    text += f"        {real} {field}_down = {field}_below[i_col], {field}_up = {field}_above[i_col];\n"
    text += f"        if (!INSIDE) {{\n            const {real} {field}_ghost = {ghost};\n"
    for side, where in (
        ("left", "s.column + i_col == 0"), ("right", "s.column + i_col == s.nx - 1"),
        ("down", "row == 0"), ("up", "row == s.ny - 1"),
    ):  # fmt: skip
        text += f"            {field}_{side} = {where} ? {field}_ghost : {field}_{side};\n"
    return text + "        }\n"


def _value(tap: Tap, periodic: bool) -> str:
    if tap.array == WALL:
        row = {1: "", 0: "ROW_BITS + ", -1: "2 * ROW_BITS + "}[tap.dy]
        return f"is_wall(wall_bits, {row}i_col{('', ' + 1', ' + 2')[tap.dx + 1]})"
    if tap.dx:
        return f"{tap.array}_{'left' if tap.dx < 0 else 'right'}"
    if not tap.dy:
        return f"{tap.array}_here[i_col]"
    if periodic:
        return f"{tap.array}_{'below' if tap.dy < 0 else 'above'}[i_col]"
    return f"{tap.array}_{'down' if tap.dy < 0 else 'up'}"


def _kernel(kernel: PassKernel, dtype: str) -> str:
    real, fields, read = REAL[dtype], kernel.system.fields, arrays_read(kernel)
    sources = [f"const {real}* __restrict__ {array}_in," for array in read]
    targets = [f"{real}* __restrict__ {field}_out," for field in fields]
    arrays = ", ".join([f"{array}_in" for array in read] + [f"{field}_out" for field in fields])
    numbers = ", ".join(kernel.cell.numbers)

    def head(name: str, *others: str) -> str:
        """Return the head of a function with the arrays and other arguments."""
        return filled([*sources, *targets, *others], name, " " * len(name)).removesuffix(",") + ")"

    def each(line: str, indent: int = 4, arrays: Sequence[str] = fields) -> str:
        """Return the line once for each array, whose name replaces @."""
        return "".join(f"{' ' * indent}{line.replace('@', array)}\n" for array in arrays)

    def wall(line: str, indent: int = 4) -> str:
        """Return the line for the wall, or "" without a wall."""
        return each(line, indent, [array for array in read if array == WALL])

    slots = [
        f"{field}_level[level][{slot}]," for field in fields for slot in ("slot", "(slot + 1) % 3", "(slot + 2) % 3")
    ]
    for k, field in enumerate(fields):
        slots.insert(4 * k + 3, f"{field}_next,")
    if WALL in read:
        slots.append("(unsigned)(wall_rows >> ROW_BITS * level),")
    call = filled(["s,", "p,", "turn + 1 - level,", *slots], " " * 20, " " * 20).removesuffix(",")
    rings = [f"Vector* {array}_ring," for array in read]
    strip_rings = ", ".join(f"{array}_strip + lane" for array in read)
    return f"""
template <bool INSIDE>
{head("__device__ __forceinline__ void compute_rows(", "const Stream& s,", "const Numbers& p,", *rings)}
{{
{each(f"{real} @_level[LAUNCH_STEPS][3][LANE_COLUMNS] = {{}};")}\
{wall("unsigned long long wall_rows = 0;  // the latest row in the lowest bits")}\
    #pragma unroll
    for (int q = 0; q < RING_ROWS; q++) {{
{each("load_row<INSIDE>(s, @_in, min(q, s.read - 1), @_ring + q * 32);", 8, read)}\
        close_copies();
    }}
    wait_copies<RING_ROWS - 3>();
    #pragma unroll
    for (int q = 0; q < 3; q++) {{
{each("take_row(@_ring + q * 32, @_level[0][q]);", 8)}\
{wall("wall_rows = (wall_rows << ROW_BITS) | bits_of(wall_ring + q * 32);", 8)}\
    }}
    #pragma unroll
    for (int q = 0; q < 2; q++) {{
{each("load_row<INSIDE>(s, @_in, min(RING_ROWS + q, s.read - 1), @_ring + q * 32);", 8, read)}\
        close_copies();
    }}
    int from = 3;  // ring index of the first row of the next three turns
    for (int first = 0; first < s.read - 2; first += 3) {{
        #pragma unroll
        for (int slot = 0; slot < 3; slot++) {{
            // Level l computes row turn + 1 - l of level l + 1. Row q of level l is in slot (q + l) % 3.
            const int turn = first + slot, loaded = (from + slot + ROWS_AHEAD) % RING_ROWS;
{each("load_row<INSIDE>(s, @_in, min(turn + 3 + ROWS_AHEAD, s.read - 1), @_ring + loaded * 32);", 12, read)}\
            close_copies();
            #pragma unroll
            for (int level = 0; level < LAUNCH_STEPS; level++) {{
{each(f"{real} @_next[LANE_COLUMNS];", 16)}                next_row<INSIDE>(
{call});
                if (level + 1 < LAUNCH_STEPS) {{
                    #pragma unroll
                    for (int i_col = 0; i_col < LANE_COLUMNS; i_col++) {{
{each("@_level[min(level + 1, LAUNCH_STEPS - 1)][(slot + 2) % 3][i_col] = @_next[i_col];", 24)}\
                    }}
                }} else if ((unsigned)(turn + 2 - 2 * LAUNCH_STEPS) < (unsigned)s.height) {{
{each("store_row(s, @_out, turn + 2 - LAUNCH_STEPS, @_next);", 20)}                }}
            }}
            wait_copies<ROWS_AHEAD>();
{each("take_row(@_ring + (from + slot) % RING_ROWS * 32, @_level[0][slot]);", 12)}\
{wall("wall_rows = (wall_rows << ROW_BITS) | bits_of(wall_ring + (from + slot) % RING_ROWS * 32);", 12)}\
        }}
        from = (from + 3) % RING_ROWS;
    }}
}}

// One warp per block. Block b writes rows b / strips * rows ... + rows - 1 of strip b % strips.
{head("__device__ __forceinline__ void compute_strip(", "int ny,", "int nx,", "int rows,", "const Numbers& p,")}
{{
{each("__shared__ Vector @_strip[RING_ROWS * 32];", 4, read)}\
    const int width = STRIP_COLUMNS - 2 * STRIP_APRON, strips = (nx + width - 1) / width, lane = threadIdx.x;
    const int left = (int)blockIdx.x % strips * width - STRIP_APRON, begin = (int)blockIdx.x / strips * rows;
    Stream s;
    s.ny = ny;
    s.nx = nx;
    s.top = begin - LAUNCH_STEPS;
    s.height = min(rows, ny - begin);
    s.read = s.height + 2 * LAUNCH_STEPS;
    s.column = left + lane * LANE_COLUMNS;
    const bool is_owner = lane >= STRIP_APRON / LANE_COLUMNS && lane < (STRIP_COLUMNS - STRIP_APRON) / LANE_COLUMNS;
    s.whole = is_owner && s.column + LANE_COLUMNS <= nx && nx % LANE_COLUMNS == 0;
    s.part = is_owner && !s.whole;
    #pragma unroll
    for (int i_col = 0; i_col < LANE_COLUMNS; i_col++) s.places[i_col] = place_of(s.column + i_col, nx);
    const bool is_inside = left >= 0 && left + STRIP_COLUMNS <= nx && s.top >= 0 && s.top + s.read <= ny;
    if (is_inside && nx % LANE_COLUMNS == 0)
        compute_rows<true>({arrays}, s, p, {strip_rings});
    else
        compute_rows<false>({arrays}, s, p, {strip_rings});
}}

extern "C" __global__ void __launch_bounds__(32, {BLOCKS})
{head("many_steps(", "int ny,", "int nx,", "int band_rows,", *(f"{real} {name}," for name in kernel.cell.numbers))}
{{
    compute_strip({arrays}, ny, nx, band_rows, {{{numbers}}});
}}
"""
