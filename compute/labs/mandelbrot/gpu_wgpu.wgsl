// The Mandelbrot set in WGSL: direct iteration, as `iterate` of formula.py, which has the reasons. A thread owns a pixel.
// gpu_wgpu.py defines STEP: `separate`, which rounds like cpu_numpy.py in float32, `contracted`, or `double_single`,
// which computes with sums of two float32 numbers; COMPLEX: vec2<f32>, or vec4<f32> with the second numbers in z and w;
// POINT, READ, WRITE: the functions that load c, and load and store z, of these; SMOOTH: 0 without smooth counts;
// SHORTCUTS: 1 with cardioid, disc and the search for periods; BLOCK, LONG, TEST: steps between two escape tests; ROUNDS:
// tests that are written out.

struct Numbers {
    ny: i32, nx: i32, first: i32, last: i32, stride: i32, iterations: i32, limit: i32, top: i32, margin: f32,
    zero: u32
}
@group(0) @binding(0) var<storage, read> re: array<f32>;
@group(0) @binding(1) var<storage, read> im: array<f32>;
@group(0) @binding(2) var<storage, read_write> z: array<f32>;  // (2 or 4, ny, nx)
@group(0) @binding(3) var<storage, read_write> count: array<i32>;
@group(0) @binding(4) var<storage, read_write> smooth_counts: array<u32>;  // bits of float32, because NaN has no literal
@group(0) @binding(5) var<storage, read_write> totals: array<atomic<u32>>;  // int64 as (low word, high word)
var<immediate> p: Numbers;

const NAN = 0x7fc00000u;
const SLOTS = 64u;  // pairs of totals, and numbers from one to the next, as in state.py
const LINE = 16u;

// -- a step, and its escape test

fn separate(w: vec2<f32>, c: vec2<f32>) -> vec2<f32> {
    let t = c.x - product(w.y, w.y);
    return vec2(product(w.x, w.x) + t, product(w.x + w.x, w.y) + c.y);
}

// 3 fused multiply-adds and an addition, which is faster here than a fourth multiply-add, unlike in CUDA C.
fn contracted(w: vec2<f32>, c: vec2<f32>) -> vec2<f32> {
    return vec2(fma(w.x, w.x, fma(-w.y, w.y, c.x)), fma(w.x + w.x, w.y, c.y));
}

// Sums of two float32 numbers, w.xy + w.zw: 48 bits, if the GPU rounds every `kept` number as IEEE 754 prescribes.
fn double_single(w: vec4<f32>, c: vec4<f32>) -> vec4<f32> {
    let xx = two_square(w.x);
    let yy = two_square(w.y);
    let xy = two_product(w.x, w.y);
    let squares = kept(kept(xx.y + kept(2.0 * w.x * w.z)) - kept(yy.y + kept(2.0 * w.y * w.w)));
    let across = kept(xy.y + kept(kept(w.x * w.w) + kept(w.z * w.y)));
    let difference = two_sum(xx.x, -yy.x);
    let re = two_sum(difference.x, c.x);
    let im = two_sum(2.0 * xy.x, c.y);
    let x = quick_two_sum(re.x, kept(kept(kept(difference.y + squares) + re.y) + c.z));
    let y = quick_two_sum(im.x, kept(kept(im.y + 2.0 * across) + c.w));
    return vec4(x.x, y.x, x.y, y.y);
}

#include "float64.wgsl"

// Whether |w|^2 <= 4. The bits are compared, because a compiler may assume that there are no NaN and no infinities: those
// of a number >= 0 are in the order of the numbers, and those of NaN and infinity above.
fn bounded(w: vec2<f32>) -> bool {
    return bitcast<u32>(product(w.x, w.x) + product(w.y, w.y)) <= bitcast<u32>(4.0f);
}

// Whether c lies in the main cardioid or the disc of period 2, by at least the margin, so that rounding is no risk.
fn inside(c: vec2<f32>) -> bool {
    let a = c.x - 0.25;
    let y2 = c.y * c.y;
    let q = a * a + y2;
    let left = c.x + 1.0;
    return q * (q + a) + p.margin <= 0.25 * y2 || left * left + y2 + p.margin <= 0.0625;
}

// n + 1 - log2(ln|z_n| / ln 2), computed a few steps later, where it is accurate.
fn smooth_value(escaped: vec2<f32>, c: vec2<f32>, n: i32) -> f32 {
    var w = escaped;
    var start = n;
    var k = 0;
    /*unroll*/ for (var early = 0; early < 2; early++) {
        if (dot(w, w) < 16.0) {
            w = vec2(w.x * w.x - w.y * w.y, 2.0 * w.x * w.y) + c;
            k++;
        }
    }
    if (dot(w, w) < 16.0) {
        while (k < 61 && dot(w, w) < 16.0) {
            w = vec2(w.x * w.x - w.y * w.y, 2.0 * w.x * w.y) + c;
            k++;
        }
    }
    let size = bitcast<u32>(dot(w, w));
    if (size >= bitcast<u32>(1e30f)) {  // also NaN and infinity: only from z_1 = c, far outside
        w = c;
        start = 1;
        k = 0;
    }
    /*unroll*/ for (var late = 0; late < 3; late++) {
        if (dot(w, w) < 1e8) {
            w = vec2(w.x * w.x - w.y * w.y, 2.0 * w.x * w.y) + c;
            k++;
        }
    }
    return f32(start) + (f32(k + 1) - log2(log2(dot(w, w)) * 0.5));
}

// -- the iterations of a pixel

const ACTIVE = 0;
const ESCAPED = 1;
const PERIODIC = 2;

struct Orbit { w: COMPLEX, n: i32, found: i32 }

// The search for a repeated z (Brent): a z equal to an earlier one in every bit never escapes.
struct Search { seen: COMPLEX, age: i32, power: i32 }

fn repeats(search: ptr<function, Search>, w: COMPLEX) -> bool {
    if (SHORTCUTS == 0) { return false; }
    if (all(w == (*search).seen)) { return true; }
    (*search).age++;
    if ((*search).age == (*search).power) { *search = Search(w, 0, 2 * (*search).power); }
    return false;
}

// Iterate in blocks of BLOCK steps up to SOON iterations, then of LONG, at last and after an escape in steps. A loop for
// each: the interior took 4 % longer with a loop that chose the size of its blocks.
fn iterate(start: COMPLEX, c: COMPLEX, done: i32, end: i32) -> Orbit {
    var w = start;
    var n = done;
    var search = Search(start, 0, 1);
    var stays = true;
    while (stays && n < SOON && n + BLOCK <= end) {
        let begun = w;
        /*unroll*/ for (var k = 0; k < BLOCK; k++) { w = STEP(w, c); }
        stays = bounded(w.xy);
        if (!stays) { w = begun; break; }
        n += BLOCK;
        if (repeats(&search, w)) { return Orbit(w, n, PERIODIC); }
    }
    while (stays && n + LONG <= end) {
        let begun = w;
        /*unroll*/ for (var k = 0; k < LONG; k++) { w = STEP(w, c); }
        if (!bounded(w.xy)) { w = begun; break; }
        n += LONG;
        if (repeats(&search, w)) { return Orbit(w, n, PERIODIC); }
    }
    while (stays && n + BLOCK <= end) {
        let begun = w;
        /*unroll*/ for (var k = 0; k < BLOCK; k++) { w = STEP(w, c); }
        if (!bounded(w.xy)) { w = begun; break; }
        n += BLOCK;
        if (repeats(&search, w)) { return Orbit(w, n, PERIODIC); }
    }
    while (n < end) {
        w = STEP(w, c);
        n++;
        if (!bounded(w.xy)) { return Orbit(w, n, ESCAPED); }
    }
    return Orbit(w, n, ACTIVE);
}

fn single_point(row: u32, column: u32) -> vec2<f32> { return vec2(re[column], im[row]); }

fn double_point(row: u32, column: u32) -> vec4<f32> {
    return vec4(re[column], im[row], re[u32(p.nx) + column], im[u32(p.ny) + row]);
}

fn size() -> u32 { return u32(p.ny) * u32(p.nx); }

fn read_single(at: u32) -> vec2<f32> { return vec2(z[at], z[size() + at]); }

fn read_double(at: u32) -> vec4<f32> {
    return vec4(read_single(at), z[2u * size() + at], z[3u * size() + at]);
}

fn write_single(at: u32, w: vec2<f32>) {
    z[at] = w.x;
    z[size() + at] = w.y;
}

fn write_double(at: u32, w: vec4<f32>) {
    write_single(at, w.xy);
    z[2u * size() + at] = w.z;
    z[3u * size() + at] = w.w;
}

// Iterate an unfinished pixel; return its iterations, and 1 if it is left unfinished below the limit.
fn pixel(row: u32, column: u32, done: i32) -> vec2<u32> {
    let at = row * u32(p.nx) + column;
    let c = POINT(row, column);
    var start = COMPLEX();
    if (done > 0) { start = READ(at); }
    var orbit = Orbit(start, done, PERIODIC);
    if (SHORTCUTS == 0 || done > 0 || !inside(c.xy)) {
        orbit = iterate(start, c, done, min(done + p.iterations, p.limit));
    }
    let iterated = u32(orbit.n - done);
    if (orbit.found == ESCAPED) {
        count[at] = orbit.n;
        if (SMOOTH != 0) { smooth_counts[at] = bitcast<u32>(smooth_value(orbit.w.xy, c.xy, orbit.n)); }
        return vec2(iterated, 0u);
    }
    if (orbit.found == PERIODIC || orbit.n >= p.top) {
        count[at] = p.top;
        smooth_counts[at] = NAN;
        return vec2(iterated, 0u);
    }
    count[at] = -1 - orbit.n;
    WRITE(at, orbit.w);
    return vec2(iterated, select(0u, 1u, orbit.n < p.limit));
}

// Of each thread the lower 16 bits of its iterations, and the upper 16 bits below the number of pixels that are left: the
// sum over a workgroup fits in two words.
var<workgroup> parts: array<vec2<u32>, 128>;

fn add(k: u32, low: u32, high: u32) {
    let before = atomicAdd(&totals[2u * k], low);
    let carry = select(0u, 1u, before + low < before);
    if (high + carry > 0u) { atomicAdd(&totals[2u * k + 1u], high + carry); }
}

// Add what the threads of a workgroup have done and left to the totals.
fn add_up(thread: u32, group: vec3<u32>, done: u32, unfinished: u32) {
    parts[thread] = vec2(done & 0xffffu, (done >> 16u) + (unfinished << 24u));
    workgroupBarrier();
    if (thread < 8u) {
        var sum = vec2(0u, 0u);
        /*unroll*/ for (var k = 0; k < 16; k++) { sum += parts[thread + 8u * u32(k)]; }
        parts[thread] = sum;
    }
    workgroupBarrier();
    if (thread == 0u) {
        var sum = vec2(0u, 0u);
        /*unroll*/ for (var k = 0; k < 8; k++) { sum += parts[k]; }
        let slot = LINE * ((group.y * 29u + group.x) % SLOTS);
        let upper = sum.y & 0xffffffu;
        let low = sum.x + (upper << 16u);
        add(slot, low, (upper >> 16u) + select(0u, 1u, low < sum.x));
        add(slot + 1u, sum.y >> 24u, 0u);
    }
}

@compute @workgroup_size(8, 16)  // as `grid` of state.py launches it
fn direct(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32
) {
    let row = (i32(id.y) + p.first) * p.stride;
    let column = i32(id.x) * p.stride;
    var added = vec2(0u, 0u);
    if (i32(id.y) + p.first < p.last && column < p.nx) {
        let done = -1 - count[u32(row) * u32(p.nx) + u32(column)];
        if (done >= 0 && done < p.limit) { added = pixel(u32(row), u32(column), done); }
    }
    add_up(thread, group, added.x, added.y);
}

// -- few iterations: fresh pixels, which need no state; a thread computes TALL rows of a column

// Iterate a pixel to its last iteration and return their number. A block of TEST steps that escapes is replayed.
//
// wgpu adds a counter to every loop, which takes time even if the loop ends immediately. Therefore the lesson's scene
// enters none: it takes 55 us on an H200, 65 with the loops; CUDA C takes 41.
fn fresh_pixel(at: u32, c: COMPLEX) -> i32 {
    let blocks = p.top / TEST * TEST;
    var w = COMPLEX();
    var before = w;
    var n = 0;
    var stays = true;
    if (blocks >= ROUNDS * TEST) {
        /*unroll*/ for (var round = 0; round < ROUNDS; round++) {
            if (stays) {
                before = w;
                /*unroll*/ for (var k = 0; k < TEST; k++) { w = STEP(w, c); }
                stays = bounded(w.xy);
                n += TEST;
            }
        }
    }
    if (blocks != ROUNDS * TEST) {
        while (stays && n < blocks) {
            before = w;
            /*unroll*/ for (var k = 0; k < TEST; k++) { w = STEP(w, c); }
            stays = bounded(w.xy);
            n += TEST;
        }
    }
    var last = n;  // the number of iterations of w
    if (stays) {
        if (blocks < p.top) {
            while (stays && n < p.top) {
                w = STEP(w, c);
                stays = bounded(w.xy);
                n++;
            }
        }
        last = n;
    } else {
        n -= TEST - 1;
        before = STEP(before, c);
        /*unroll*/ for (var k = 1; k < TEST; k++) {
            if (bounded(before.xy)) { n++; }
            before = STEP(before, c);
        }
    }
    count[at] = n;
    if (SMOOTH != 0 && !stays) { smooth_counts[at] = bitcast<u32>(smooth_value(w.xy, c.xy, last)); }
    return n;
}

@compute @workgroup_size(32, 4)  // as `tiles` of state.py launches it
fn few(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32
) {
    let column = min(id.x, u32(p.nx) - 1u);
    let begin = p.first + i32(id.y) * TALL;
    var sum = 0;
    for (var row = begin; row < min(begin + TALL, p.last); row++) {
        if (id.x == column) { sum += fresh_pixel(u32(row) * u32(p.nx) + column, POINT(u32(row), column)); }
    }
    add_up(thread, group, u32(sum), 0u);
}
