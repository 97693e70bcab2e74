// Vectors and the rows of V: norms, scaling, scalar products with the rows, and their combinations.

struct Numbers {
    n: u32, groups: u32, rows: u32, first: u32, first_written: u32, index: u32, in_place: u32,
    tiny_low: u32, tiny_high: u32, zero: u32
}
@group(0) @binding(0) var<storage, read> V: array<f32>;  // rows of n numbers; or one vector, from number `first` on
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;  // from number `first_written` on
@group(0) @binding(3) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> norms: array<vec2<u32>>;  // float64
var<immediate> p: Numbers;

#include "float64.wgsl"
#include "sum_of_squares.wgsl"

var<workgroup> sums: array<f32, 128>;

fn number(thread: u32, id: vec3<u32>) -> u32 { return (id.y * 65535u + id.x) * 128u + thread; }

fn put_parts(thread: u32, id: vec3<u32>, value: f32) {
    let group = id.y * 65535u + id.x;
    add_squares(thread, value);
    if (thread == 0u && group < p.groups) { parts[group] = squares_found(); }
}

// parts: the sums of squares of w
@compute @workgroup_size(128)
fn squares_of(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = number(thread, id);
    var value = 0.0;
    if (k < p.n) { value = w[k]; }
    put_parts(thread, id, value);
}

var<workgroup> totals: array<vec4<f32>, 128>;

// 4^k for a whole k up to 0; that of -60 below it, which no sum notices
fn power_of_4(k: f32) -> f32 { return bitcast<f32>(u32(127 + 2 * i32(max(k, -60.0))) << 23u); }

fn total_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let top = max(a.z, b.z);
    let sum = sum_of(a.xy * power_of_4(a.z - top), b.xy * power_of_4(b.z - top));
    return vec4(sum, top, a.w * b.w);
}

// norms[index] = the root of the sum of `groups` parts, 0 if it is at most `tiny`; NaN if a number is not finite
@compute @workgroup_size(128)
fn norm(@builtin(local_invocation_index) thread: u32) {
    var own = vec4(0.0, 0.0, 1.0, 1.0);
    for (var k = thread; k < p.groups; k += 128u) { own = total_of(own, parts[k]); }
    totals[thread] = own;
    for (var half = 64u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { totals[thread] = total_of(totals[thread], totals[thread + half]); }
    }
    if (thread != 0u) { return; }
    let found = totals[0];
    if (found.w == 0.0) {
        norms[p.index] = vec2(0u, 0x7ff80000u);
        return;
    }
    var root = vec2(0u, 0u);
    if (found.x > 0.0) {
        let first = sqrt(found.x);
        let square = two_square(first);
        let rest = (kept(found.x - square.x) + kept(found.y - square.y)) / (2.0 * first);
        let sum = two_sum(first, rest);
        let bits = wide_sum(sum.x, sum.y);
        root = vec2(bits.x, u32(i32(bits.y) + ((i32(found.z) - 127) << 20u)));
    }
    if (root.y < p.tiny_high || (root.y == p.tiny_high && root.x <= p.tiny_low)) { root = vec2(0u, 0u); }
    norms[p.index] = root;
}

// result = w / norms[index], zeros if that is 0; in_place: of the result itself
@compute @workgroup_size(128)
fn scale(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = number(thread, id);
    if (k >= p.n) { return; }
    let bits = norms[p.index];
    let at = p.first_written + k;
    if (bits.x == 0u && bits.y == 0u) {
        result[at] = 0.0;
    } else if (p.in_place == 1u) {
        result[at] = result[at] / narrow(bits);
    } else {
        result[at] = w[k] / narrow(bits);
    }
}

// result[row] = V[row] w, w from number `first` on; a workgroup per row
@compute @workgroup_size(128)
fn project(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let row = id.y * 65535u + id.x;
    var sum = 0.0;
    if (row < p.rows) {
        for (var k = thread; k < p.n; k += 128u) { sum += V[row * p.n + k] * w[p.first + k]; }
    }
    sums[thread] = sum;
    for (var half = 64u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { sums[thread] += sums[thread + half]; }
    }
    if (thread == 0u && row < p.rows) { result[row] = sums[0]; }
}

fn combination(k: u32) -> f32 {
    var sum = 0.0;
    for (var row = 0u; row < p.rows; row++) { sum += w[row] * V[row * p.n + k]; }
    return sum;
}

// result -= w V[:rows]; parts: the sums of squares of the result
@compute @workgroup_size(128)
fn subtract(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = number(thread, id);
    var value = 0.0;
    if (k < p.n) {
        value = result[k] - combination(k);
        result[k] = value;
    }
    put_parts(thread, id, value);
}

// result = w V[:rows]
@compute @workgroup_size(128)
fn combine(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let k = number(thread, id);
    if (k < p.n) { result[k] = combination(k); }
}
