// A sparse product by rows less a multiple of a vector, with the sums of squares of the result: LANES threads per row.

struct Numbers {
    rows: u32, groups: u32, first_x: u32, first_old: u32, scaled: u32, index: u32, zero: u32
}
@group(0) @binding(0) var<storage, read> starts: array<i32>;
@group(0) @binding(1) var<storage, read> columns: array<i32>;
@group(0) @binding(2) var<storage, read> values: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;  // from number `first_x` on
@group(0) @binding(4) var<storage, read> old: array<f32>;  // from number `first_old` on
@group(0) @binding(5) var<storage, read> scale: array<vec2<u32>>;  // float64; number `index` is the factor of `old`
@group(0) @binding(6) var<storage, read_write> result: array<f32>;
@group(0) @binding(7) var<storage, read_write> parts: array<vec4<f32>>;
var<immediate> p: Numbers;

#include "float64.wgsl"
#include "sum_of_squares.wgsl"

const THREADS = 128u;
var<workgroup> sums: array<f32, 128>;

fn product(thread: u32, row: u32) -> f32 {
    let lane = thread % LANES;
    var sum = 0.0;
    if (row < p.rows) {
        for (var k = starts[row] + i32(lane); k < starts[row + 1u]; k += i32(LANES)) {
            sum += values[k] * x[p.first_x + u32(columns[k])];
        }
    }
    sums[thread] = sum;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) { sums[thread] += sums[thread + half]; }
    }
    return sums[thread];
}

@compute @workgroup_size(128)
fn multiply(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let group = id.y * 65535u + id.x;
    let row = group * (THREADS / LANES) + thread / LANES;
    let value = product(thread, row);
    if (thread % LANES == 0u && row < p.rows) { result[row] = value; }
}

// scaled: 1 if `old` is another vector, 2 if it is the result itself
@compute @workgroup_size(128)
fn recur(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let group = id.y * 65535u + id.x;
    let row = group * (THREADS / LANES) + thread / LANES;
    let sum = product(thread, row);
    var value = 0.0;
    if (thread % LANES == 0u && row < p.rows) {
        let factor = narrow(scale[p.index]);
        if (p.scaled == 2u) {
            value = sum - exact(factor * result[row]);
        } else {
            value = sum - exact(factor * old[p.first_old + row]);
        }
        result[row] = value;
    }
    add_squares(thread, value);
    if (thread == 0u && group < p.groups) { parts[group] = squares_found(); }
}
