// A sparse product by rows less a multiple of a vector, with the sums of squares of the result.
//
// LANES threads share a row. Each loads PACK neighbouring entries at a time, twice before it multiplies: the loads of 16
// and 8 bytes that are under way at the same time hide the latency of memory. A row may start anywhere: it is read from
// the last multiple of PACK entries on, and entries of other rows count as 0. A workgroup multiplies SHARE rows, and the
// first SHARE threads add up the parts of a row each, so that two barriers suffice.

struct Numbers {
    rows: u32, groups: u32, first_x: u32, first_old: u32, scaled: u32, index: u32, zero: u32
}
@group(0) @binding(0) var<storage, read> starts: array<u32>;
@group(0) @binding(1) var<storage, read> columns: array<COLUMNS>;
@group(0) @binding(2) var<storage, read> values: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> x: array<f32>;  // from number `first_x` on
@group(0) @binding(4) var<storage, read> old: array<f32>;  // from number `first_old` on
@group(0) @binding(5) var<storage, read> scale: array<vec2<u32>>;  // float64; number `index` is the factor of `old`
@group(0) @binding(6) var<storage, read_write> result: array<f32>;
@group(0) @binding(7) var<storage, read_write> parts: array<vec4<f32>>;
var<immediate> p: Numbers;

const WIDTH = 256u;
const PACK = 4u;
const SHARE = WIDTH / LANES;
const STRIDE = LANES + 1u;  // of the parts of a row: threads that add up different rows use different banks
const TOTALS = SHARE;
var<workgroup> sums: array<f32, SHARE * STRIDE>;

#include "float64.wgsl"
#include "sum_of_squares.wgsl"

fn from_two_bytes(packed: vec2<u32>) -> vec4<u32> {
    return vec4(packed.x & 0xffffu, packed.x >> 16u, packed.y & 0xffffu, packed.y >> 16u);
}

fn from_four_bytes(packed: vec4<u32>) -> vec4<u32> { return packed; }

// The products of a pack of entries; of those before `begin` and from begin + count on 0.
fn products(packed: COLUMNS, found: vec4<f32>, pack: u32, begin: u32, count: u32) -> vec4<f32> {
    let column = UNPACKED(packed) + p.first_x;
    let entry = vec4(PACK * pack - begin) + vec4(0u, 1u, 2u, 3u);
    return select(vec4(0.0), found, entry < vec4(count)) * vec4(x[column.x], x[column.y], x[column.z], x[column.w]);
}

fn part_of_row(row: u32, lane: u32) -> f32 {
    let begin = starts[row];
    let end = starts[row + 1u];
    let last = (end + PACK - 1u) / PACK;
    var even = vec4(0.0);
    var odd = vec4(0.0);
    var pack = begin / PACK + lane;
    for (; pack + LANES < last; pack += 2u * LANES) {
        let columns_0 = columns[pack];
        let columns_1 = columns[pack + LANES];
        let values_0 = values[pack];
        let values_1 = values[pack + LANES];
        even += products(columns_0, values_0, pack, begin, end - begin);
        odd += products(columns_1, values_1, pack + LANES, begin, end - begin);
    }
    if (pack < last) { even += products(columns[pack], values[pack], pack, begin, end - begin); }
    let sum = even + odd;
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// The product with row first + thread, in the first SHARE threads of the workgroup.
fn row_product(thread: u32, first: u32) -> f32 {
    let row = first + thread / LANES;
    var sum = 0.0;
    if (row < p.rows) { sum = part_of_row(row, thread % LANES); }
    sums[thread / LANES * STRIDE + thread % LANES] = sum;
    workgroupBarrier();
    sum = 0.0;
    if (thread < SHARE) {
        for (var k = thread * STRIDE; k < thread * STRIDE + LANES; k++) { sum += sums[k]; }
    }
    return sum;
}

@compute @workgroup_size(WIDTH)
fn multiply(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let first = (id.y * 65535u + id.x) * SHARE;
    let sum = row_product(thread, first);
    if (thread < SHARE && first + thread < p.rows) { result[first + thread] = sum; }
}

// scaled: 1 if `old` is another vector, 2 if it is the result itself
@compute @workgroup_size(WIDTH)
fn recur(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>) {
    let group = id.y * 65535u + id.x;
    let row = group * SHARE + thread;
    let sum = row_product(thread, group * SHARE);
    var square = NO_SQUARES;
    if (thread < SHARE && row < p.rows) {
        let factor = narrow(scale[p.index]);
        var value = 0.0;
        if (p.scaled == 2u) {
            value = sum - product(factor, result[row]);
        } else {
            value = sum - product(factor, old[p.first_old + row]);
        }
        result[row] = value;
        square = square_of(value);
    }
    let total = total_of(thread, SHARE, square);
    if (thread == 0u && group < p.groups) { parts[group] = total; }
}
