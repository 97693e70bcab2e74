// A field as one byte per pixel: survey, reduce, levels, window, disc, gather. Floats are read as words, because WGSL
// lets a compiler assume that there are no NaN and no infinities; the bits of a word can be tested.

struct Numbers {
    a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32,
    low: f32, low_rest: f32, scale: f32, equal: i32,
    zero: u32
}
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
var<immediate> p: Numbers;

fn finite(word: u32) -> bool { return (word & 0x7f800000u) != 0x7f800000u; }

#include "float64.wgsl"

fn put_wide(k: u32, value: vec2<u32>) {
    result[2u * k] = value.x;
    result[2u * k + 1u] = value.y;
}

// -- survey: minimum, maximum, sum as two floats, and the number of cells that are not finite; then one workgroup adds

struct Found { low: f32, high: f32, sum: f32, rest: f32, nonfinite: u32 }

var<workgroup> founds: array<Found, 256>;

// The sum of two sums: the rounding error of the first parts is added to the second.
fn both(a: Found, b: Found) -> Found {
    let sum = two_sum(a.sum, b.sum);
    let rest = sum.y + (a.rest + b.rest);
    return Found(min(a.low, b.low), max(a.high, b.high), sum.x, rest, a.nonfinite + b.nonfinite);
}

fn add_up(thread: u32, own: Found) {
    founds[thread] = own;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { founds[thread] = both(founds[thread], founds[thread + half]); }
    }
}

fn nothing() -> Found { return Found(3.4028235e38, -3.4028235e38, 0.0, 0.0, 0u); }

// a: number of cells
@compute @workgroup_size(256)
fn survey(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) group: vec3<u32>) {
    var own = nothing();
    for (var k = group.x * 256u + thread; k < u32(p.a); k += 256u * PARTS) {
        let word = source[k];
        if (finite(word)) {
            let value = bitcast<f32>(word);
            own = both(own, Found(value, value, value, 0.0, 0u));
        } else {
            own.nonfinite += 1u;
        }
    }
    add_up(thread, own);
    if (thread == 0u) {
        let found = founds[0];
        let k = 5u * group.x;
        result[k] = bitcast<u32>(found.low);
        result[k + 1u] = bitcast<u32>(found.high);
        result[k + 2u] = bitcast<u32>(found.sum);
        result[k + 3u] = bitcast<u32>(found.rest);
        result[k + 4u] = found.nonfinite;
    }
}

@compute @workgroup_size(256)
fn survey_parts(@builtin(local_invocation_index) thread: u32) {
    var own = nothing();
    for (var k = thread; k < PARTS; k += 256u) {
        let sums = vec2<f32>(bitcast<f32>(source[5u * k + 2u]), bitcast<f32>(source[5u * k + 3u]));
        let low = bitcast<f32>(source[5u * k]);
        let high = bitcast<f32>(source[5u * k + 1u]);
        own = both(own, Found(low, high, sums.x, sums.y, source[5u * k + 4u]));
    }
    add_up(thread, own);
    if (thread != 0u) { return; }
    let found = founds[0];
    if (found.low > found.high) {
        put_wide(0u, vec2(0u, 0x7ff00000u));
        put_wide(1u, vec2(0u, 0xfff00000u));
    } else {
        put_wide(0u, wide(bitcast<u32>(found.low)));
        put_wide(1u, wide(bitcast<u32>(found.high)));
    }
    let sum = kept(found.sum + found.rest);
    if (finite(bitcast<u32>(sum))) {
        put_wide(2u, wide_sum(sum, kept(found.rest - kept(sum - found.sum))));
    } else {
        put_wide(2u, wide(bitcast<u32>(sum)));
    }
    put_wide(3u, wide_count(found.nonfinite));
}

// -- reduce. a, b: shape of the field; c, d: first cell; e: factor; f, g: shape of the pixels

struct Mean { base: f32, rest: f32, finite: bool }  // base + rest: differences from a cell have small rounding errors

fn mean(pixel: i32) -> Mean {
    let y = p.c + (pixel / p.g) * p.e;
    let x = p.d + (pixel % p.g) * p.e;
    let height = min(p.e, p.a - y);
    let width = min(p.e, p.b - x);
    let base = bitcast<f32>(source[u32(y) * u32(p.b) + u32(x)]);
    var total = 0.0;
    var all = true;
    for (var i = 0; i < height; i++) {
        var line = 0.0;
        let first = u32(y + i) * u32(p.b) + u32(x);
        for (var j = 0; j < width; j++) {
            let word = source[first + u32(j)];
            all = all && finite(word);
            line += kept(bitcast<f32>(word) - base);
        }
        total += line;
    }
    return Mean(base, total / f32(height * width), all);
}

@compute @workgroup_size(256)
fn block_means(@builtin(global_invocation_id) id: vec3<u32>) {
    let pixel = i32(id.y * 65535u * 256u + id.x);
    if (pixel >= p.f * p.g) { return; }
    let found = mean(pixel);
    result[pixel] = select(0x7fc00000u, bitcast<u32>(found.base + found.rest), found.finite);
}

// -- levels: a thread writes four pixels, a word. low + low_rest: the lower limit; equal: whether both limits are equal

fn level(value: Mean) -> u32 {
    if (!value.finite) { return 255u; }
    let above = kept(value.base - p.low) + kept(value.rest - p.low_rest);
    if (p.equal != 0) { return select(select(0u, 254u, above > 0.0), 127u, above == 0.0); }
    return u32(clamp(round(above * p.scale), 0.0, 254.0));
}

@compute @workgroup_size(256)
fn block_levels(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    let pixels = p.f * p.g;
    if (4 * i32(k) >= pixels) { return; }
    var word = 0u;
    for (var j = 0; j < 4; j++) { word |= level(mean(min(4 * i32(k) + j, pixels - 1))) << u32(8 * j); }
    result[k] = word;
}

// a: number of values
@compute @workgroup_size(256)
fn to_levels(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (4 * i32(k) >= p.a) { return; }
    var word = 0u;
    for (var j = 0; j < 4; j++) {
        let value = source[min(4 * i32(k) + j, p.a - 1)];
        word |= level(Mean(bitcast<f32>(value), 0.0, finite(value))) << u32(8 * j);
    }
    result[k] = word;
}

// -- window. b: columns of the field; c, d: first cell; f, g: shape of the window
@compute @workgroup_size(256)
fn window(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = i32(id.y * 65535u * 256u + id.x);
    if (k >= p.f * p.g) { return; }
    put_wide(u32(k), wide(source[u32(p.c + k / p.g) * u32(p.b) + u32(p.d + k % p.g)]));
}

// -- disc. b: columns of the field; c, d: first cell; f, g: shape of the square; low, low_rest: the centre of the first
// cell relative to the disc's in y and x; scale: radius; a: bits of the value
@compute @workgroup_size(256)
fn disc(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = i32(id.y * 65535u * 256u + id.x);
    if (k >= p.f * p.g) { return; }
    let dy = p.low + f32(k / p.g);
    let dx = p.low_rest + f32(k % p.g);
    if (product(dy, dy) + product(dx, dx) <= product(p.scale, p.scale)) {
        result[u32(p.c + k / p.g) * u32(p.b) + u32(p.d + k % p.g)] = bitcast<u32>(p.a);
    }
}
