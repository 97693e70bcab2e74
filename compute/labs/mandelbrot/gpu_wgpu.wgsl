// The Mandelbrot set in WGSL: direct iteration in float32, as `iterate` of formula.py, which has the reasons. A thread
// owns a pixel. gpu_wgpu.py defines STEP: `separate`, which rounds like cpu_numpy.py, or `contracted`; SMOOTH: 0 without
// smooth counts; BLOCK: steps between two escape tests.

struct Numbers {
    ny: i32, nx: i32, first: i32, last: i32, stride: i32, iterations: i32, limit: i32, top: i32, shortcuts: i32,
    margin: f32,
    zero: u32
}
@group(0) @binding(0) var<storage, read> re: array<f32>;
@group(0) @binding(1) var<storage, read> im: array<f32>;
@group(0) @binding(2) var<storage, read_write> z: array<f32>;  // (2, ny, nx)
@group(0) @binding(3) var<storage, read_write> count: array<i32>;
@group(0) @binding(4) var<storage, read_write> smooth_counts: array<u32>;  // bits of float32, because NaN has no literal
@group(0) @binding(5) var<storage, read_write> totals: array<atomic<u32>>;  // int64 as (low word, high word)
var<immediate> p: Numbers;

const NAN = 0x7fc00000u;
const SLOTS = 64u;  // pairs of totals, and numbers from one to the next, as in state.py
const LINE = 16u;

// -- a step, and its escape test

fn separate(w: vec2<f32>, c: vec2<f32>) -> vec2<f32> {
    let t = c.x - exact(w.y * w.y);
    return vec2(exact(w.x * w.x) + t, exact((w.x + w.x) * w.y) + c.y);
}

// 3 fused multiply-adds and one addition.
fn contracted(w: vec2<f32>, c: vec2<f32>) -> vec2<f32> {
    return vec2(fma(w.x, w.x, fma(-w.y, w.y, c.x)), fma(w.x + w.x, w.y, c.y));
}

// The bits are tested, because a compiler may assume that there are no NaN and no infinities.
fn bounded(w: vec2<f32>) -> bool {
    let size = exact(w.x * w.x) + exact(w.y * w.y);
    return (bitcast<u32>(size) & 0x7f800000u) != 0x7f800000u && size <= 4.0;
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
    while (k < 61 && dot(w, w) < 16.0) {
        w = vec2(w.x * w.x - w.y * w.y, 2.0 * w.x * w.y) + c;
        k++;
    }
    let size = bitcast<u32>(dot(w, w));
    if (size >= bitcast<u32>(1e30f)) {  // also NaN and infinity: only from z_1 = c, far outside
        w = c;
        start = 1;
        k = 0;
    }
    for (var j = 0; j < 3; j++) {
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

struct Orbit { w: vec2<f32>, n: i32, found: i32 }

fn iterate(start: vec2<f32>, c: vec2<f32>, done: i32, end: i32) -> Orbit {
    var w = start;
    var n = done;
    var seen = start;
    var age = 0;
    var power = 1;
    while (n + BLOCK <= end) {
        let begun = w;
        /*unroll*/ for (var k = 0; k < BLOCK; k++) { w = STEP(w, c); }
        if (!bounded(w)) {
            w = begun;
            break;
        }
        n += BLOCK;
        if (p.shortcuts != 0) {
            if (w.x == seen.x && w.y == seen.y) { return Orbit(w, n, PERIODIC); }
            age++;
            if (age == power) {
                seen = w;
                age = 0;
                power *= 2;
            }
        }
    }
    while (n < end) {
        w = STEP(w, c);
        n++;
        if (!bounded(w)) { return Orbit(w, n, ESCAPED); }
    }
    return Orbit(w, n, ACTIVE);
}

// Iterate an unfinished pixel; return its iterations, and 1 if it is left unfinished below the limit.
fn pixel(row: u32, column: u32, done: i32) -> vec2<u32> {
    let at = row * u32(p.nx) + column;
    let imaginary = u32(p.ny) * u32(p.nx) + at;
    let c = vec2(re[column], im[row]);
    var start = vec2(0.0, 0.0);
    if (done > 0) { start = vec2(z[at], z[imaginary]); }
    var orbit = Orbit(start, done, PERIODIC);
    if (p.shortcuts == 0 || done > 0 || !inside(c)) {
        orbit = iterate(start, c, done, min(done + p.iterations, p.limit));
    }
    let iterated = u32(orbit.n - done);
    if (orbit.found == ESCAPED) {
        count[at] = orbit.n;
        if (SMOOTH != 0) { smooth_counts[at] = bitcast<u32>(smooth_value(orbit.w, c, orbit.n)); }
        return vec2(iterated, 0u);
    }
    if (orbit.found == PERIODIC || orbit.n >= p.top) {
        count[at] = p.top;
        smooth_counts[at] = NAN;
        return vec2(iterated, 0u);
    }
    count[at] = -1 - orbit.n;
    z[at] = orbit.w.x;
    z[imaginary] = orbit.w.y;
    return vec2(iterated, select(0u, 1u, orbit.n < p.limit));
}

// Lower and upper 16 bits of the workgroup's iterations, whose sum can exceed a word, and the pixels that are left.
var<workgroup> low_half: atomic<u32>;
var<workgroup> high_half: atomic<u32>;
var<workgroup> left: atomic<u32>;

fn add(k: u32, low: u32, high: u32) {
    let before = atomicAdd(&totals[2u * k], low);
    let carry = select(0u, 1u, before + low < before);
    if (high + carry > 0u) { atomicAdd(&totals[2u * k + 1u], high + carry); }
}

@compute @workgroup_size(8, 16)  // as `grid` of state.py launches it
fn direct(
    @builtin(global_invocation_id) id: vec3<u32>, @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) thread: u32
) {
    if (thread == 0u) {
        atomicStore(&low_half, 0u);
        atomicStore(&high_half, 0u);
        atomicStore(&left, 0u);
    }
    workgroupBarrier();
    let row = (i32(id.y) + p.first) * p.stride;
    let column = i32(id.x) * p.stride;
    if (i32(id.y) + p.first < p.last && column < p.nx) {
        let done = -1 - count[u32(row) * u32(p.nx) + u32(column)];
        if (done >= 0 && done < p.limit) {
            let added = pixel(u32(row), u32(column), done);
            atomicAdd(&low_half, added.x & 0xffffu);
            atomicAdd(&high_half, added.x >> 16u);
            if (added.y > 0u) { atomicAdd(&left, added.y); }
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        let slot = LINE * ((group.y * 29u + group.x) % SLOTS);
        let upper = atomicLoad(&high_half);
        let below = atomicLoad(&low_half);
        let low = below + (upper << 16u);
        add(slot, low, (upper >> 16u) + select(0u, 1u, low < below));
        add(slot + 1u, atomicLoad(&left), 0u);
    }
}
