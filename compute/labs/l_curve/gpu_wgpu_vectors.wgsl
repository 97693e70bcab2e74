// Vectors and the rows of V: norms, scaling, scalar products with the rows, and their combinations.

struct Numbers {
    n: u32, groups: u32, rows: u32, first: u32, first_written: u32, index: u32, in_place: u32,
    tiny_low: u32, tiny_high: u32, zero: u32
}
@group(0) @binding(0) var<storage, read> V: array<f32>;  // rows of n numbers
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;  // from number `first_written` on
@group(0) @binding(3) var<storage, read_write> parts: array<vec4<f32>>;  // sums of squares
@group(0) @binding(4) var<storage, read_write> norms: array<vec2<u32>>;  // float64
var<immediate> p: Numbers;

const WIDTH = 256u;
const TOTALS = WIDTH;
const COLUMNS = 32u;  // of V that a workgroup combines, SLICES rows at a time
const SLICES = WIDTH / COLUMNS;
var<workgroup> sums: array<f32, WIDTH>;

#include "float64.wgsl"
#include "sum_of_squares.wgsl"

fn group_of(id: vec3<u32>) -> u32 { return id.y * 65535u + id.x; }

// parts: the sums of squares of w
@compute @workgroup_size(WIDTH)
fn squares_of(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = group_of(id) * WIDTH + thread;
    var square = NO_SQUARES;
    if (k < p.n) { square = square_of(w[k]); }
    let total = total_of(thread, WIDTH, square);
    if (thread == 0u && k < p.n) { parts[group_of(id)] = total; }
}

// Sums of WIDTH of the `groups` parts from `first` on, written behind them
@compute @workgroup_size(WIDTH)
fn fold(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = group_of(id) * WIDTH + thread;
    var square = NO_SQUARES;
    if (k < p.groups) { square = parts[p.first + k]; }
    let total = total_of(thread, WIDTH, square);
    if (thread == 0u && k < p.groups) { parts[p.first + p.groups + group_of(id)] = total; }
}

// The root of a sum of squares as float64, 0 if it is at most `tiny`; NaN if a number is not finite
fn root_of(found: vec4<f32>) -> vec2<u32> {
    if (found.w == 0.0) { return vec2(0u, 0x7ff80000u); }
    if (!(found.x > 0.0)) { return vec2(0u, 0u); }
    let first = sqrt(found.x);
    let square = two_square(first);
    let rest = (kept(found.x - square.x) + kept(found.y - square.y)) / (2.0 * first);
    let sum = two_sum(first, rest);
    let bits = wide_sum(sum.x, sum.y);
    let root = vec2(bits.x, u32(i32(bits.y) + ((i32(found.z) - 127) << 20u)));
    if (root.y < p.tiny_high || (root.y == p.tiny_high && root.x <= p.tiny_low)) { return vec2(0u, 0u); }
    return root;
}

// norms[index] = the norm of w from its `groups` parts from `first` on, and result = w / norm, zeros if it is 0.
// in_place: of the result itself. Every workgroup adds up all parts.
@compute @workgroup_size(WIDTH)
fn normalise(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    var own = NO_SQUARES;
    for (var k = thread; k < p.groups; k += WIDTH) { own = sum_of_squares(own, parts[p.first + k]); }
    let root = root_of(total_of(thread, WIDTH, own));
    let k = group_of(id) * WIDTH + thread;
    if (k == 0u) { norms[p.index] = root; }
    if (k >= p.n) { return; }
    let at = p.first_written + k;
    if (root.x == 0u && root.y == 0u) {
        result[at] = 0.0;
    } else if (p.in_place == 1u) {
        result[at] = result[at] / narrow(root);
    } else {
        result[at] = w[k] / narrow(root);
    }
}

// result[row] = V[row] w, w from number `first` on; a workgroup per row
@compute @workgroup_size(WIDTH)
fn project(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let row = group_of(id);
    var sum = vec4(0.0);
    if (row < p.rows) {
        var k = thread;
        for (; k + 3u * WIDTH < p.n; k += 4u * WIDTH) {
            /*unroll*/ for (var i = 0; i < 4; i++) {
                sum[i] += V[row * p.n + k + u32(i) * WIDTH] * w[p.first + k + u32(i) * WIDTH];
            }
        }
        for (; k < p.n; k += WIDTH) { sum.x += V[row * p.n + k] * w[p.first + k]; }
    }
    sums[thread] = (sum.x + sum.y) + (sum.z + sum.w);
    for (var half = WIDTH / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { sums[thread] += sums[thread + half]; }
    }
    if (thread == 0u && row < p.rows) { result[row] = sums[0]; }
}

// (w V[:rows])[k] in the first COLUMNS threads, k = first + thread: COLUMNS columns of SLICES rows at a time
fn combination(thread: u32, first: u32) -> f32 {
    let k = first + thread % COLUMNS;
    let slice = thread / COLUMNS;
    var sum = vec4(0.0);
    if (k < p.n) {
        var row = slice;
        for (; row + 3u * SLICES < p.rows; row += 4u * SLICES) {
            /*unroll*/ for (var i = 0; i < 4; i++) {
                sum[i] += w[row + u32(i) * SLICES] * V[(row + u32(i) * SLICES) * p.n + k];
            }
        }
        for (; row < p.rows; row += SLICES) { sum.x += w[row] * V[row * p.n + k]; }
    }
    sums[thread] = (sum.x + sum.y) + (sum.z + sum.w);
    for (var half = WIDTH / 2u; half >= COLUMNS; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { sums[thread] += sums[thread + half]; }
    }
    return sums[thread];
}

// result -= w V[:rows]; parts: the sums of squares of the result
@compute @workgroup_size(WIDTH)
fn subtract(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let sum = combination(thread, group_of(id) * COLUMNS);
    let k = group_of(id) * COLUMNS + thread;
    var square = NO_SQUARES;
    if (thread < COLUMNS && k < p.n) {
        let value = result[k] - sum;
        result[k] = value;
        square = square_of(value);
    }
    let total = total_of(thread, COLUMNS, square);
    if (thread == 0u && k < p.n) { parts[group_of(id)] = total; }
}

// result = w V[:rows]
@compute @workgroup_size(WIDTH)
fn combine(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let sum = combination(thread, group_of(id) * COLUMNS);
    let k = group_of(id) * COLUMNS + thread;
    if (thread < COLUMNS && k < p.n) { result[k] = sum; }
}
