// Numbers for colours: logarithm, histogram, equalise, mark, distance, blend, resolve. See cpu_numpy.py.

struct Numbers {
    a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, low: f32, high: f32, scale: f32,
    zero: u32
}
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read> table: array<f32>;
var<immediate> p: Numbers;

const NAN = 0x7fc00000u;

fn finite(word: u32) -> bool { return (word & 0x7f800000u) != 0x7f800000u; }

// a: number of values, in all kernels but mark and distance

@compute @workgroup_size(256)
fn logarithm(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) >= p.a) { return; }
    let word = source[k];
    let value = bitcast<f32>(word);
    var found = NAN;
    if (finite(word) && value > 0.0) { found = bitcast<u32>(log2(value)); }
    if (word == 0x7f800000u) { found = word; }
    result[k] = found;
}

// -- b: bins. counts: int64, of which only the low words change

@compute @workgroup_size(256)
fn clear(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) < 2 * p.b) { atomicStore(&counts[k], 0u); }
}

@compute @workgroup_size(256)
fn histogram(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) >= p.a) { return; }
    let word = source[k];
    let value = bitcast<f32>(word);
    if (!finite(word) || value < p.low || value > p.high) { return; }
    let bin = min(i32((value - p.low) * p.scale), p.b - 1);
    atomicAdd(&counts[2 * bin], 1u);
}

fn share_level(word: u32) -> u32 {
    if (!finite(word)) { return 255u; }
    let value = bitcast<f32>(word);
    if (p.low == p.high) { return select(select(0u, 254u, value > p.low), 127u, value == p.low); }
    let place = clamp((value - p.low) * p.scale, 0.0, f32(p.b));
    let left = min(i32(place), p.b - 1);
    let share = table[left] + (place - f32(left)) * (table[left + 1] - table[left]);
    return u32(floor(254.0 * share + 0.5));
}

@compute @workgroup_size(256)
fn equalise(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (4 * i32(k) >= p.a) { return; }
    var word = 0u;
    for (var j = 0; j < 4; j++) { word |= share_level(source[min(4 * i32(k) + j, p.a - 1)]) << u32(8 * j); }
    result[k] = word;
}

// -- a, b: shape of the counts; c, d: shape of the pixels; e, f: first sample; g: factor; h: stride

fn pending(pixel: i32) -> bool {
    let rows = (p.a + p.h - 1) / p.h;
    let columns = (p.b + p.h - 1) / p.h;
    let y = p.e + (pixel / p.d) * p.g;
    let x = p.f + (pixel % p.d) * p.g;
    for (var i = y; i < min(y + p.g, rows); i++) {
        for (var j = x; j < min(x + p.g, columns); j++) {
            if (bitcast<i32>(source[u32(i * p.h) * u32(p.b) + u32(j * p.h)]) < 0) { return true; }
        }
    }
    return false;
}

@compute @workgroup_size(256)
fn mark(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    let pixels = p.c * p.d;
    if (4 * i32(k) >= pixels) { return; }
    let word = result[k];
    var marked = 0u;
    for (var j = 0; j < 4; j++) {
        var level = (word >> u32(8 * j)) & 255u;
        if (level == 254u) { level = 253u; }
        if (level == 255u && 4 * i32(k) + j < pixels && pending(4 * i32(k) + j)) { level = 254u; }
        marked |= level << u32(8 * j);
    }
    result[k] = marked;
}

// -- a, b: shape

struct Slope { value: f32, found: bool }

fn slope(k: i32, before: bool, after: bool, stride: i32) -> Slope {
    let low = before && finite(source[select(k, k - stride, before)]);
    let high = after && finite(source[select(k, k + stride, after)]);
    let left = bitcast<f32>(source[select(k, k - stride, low)]);
    let right = bitcast<f32>(source[select(k, k + stride, high)]);
    return Slope(select(1.0, 0.5, low && high) * (right - left), low || high);
}

@compute @workgroup_size(256)
fn distance_to_set(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = i32(id.y * 65535u * 256u + id.x);
    if (k >= p.a * p.b) { return; }
    let y = k / p.b;
    let x = k % p.b;
    let dy = slope(k, y > 0, y < p.a - 1, p.b);
    let dx = slope(k, x > 0, x < p.b - 1, 1);
    let word = source[k];
    var found = NAN;
    if (finite(word) && (dy.found || dx.found)) {
        let least = exp2(-24.0) * max(abs(bitcast<f32>(word)), 1.0);
        let steep = sqrt(dx.value * dx.value + dy.value * dy.value);
        found = bitcast<u32>(1.0 / (0.6931472 * max(steep, least)));
    }
    result[k] = found;
}

@compute @workgroup_size(256)
fn blend(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) >= p.a) { return; }
    let word = source[k];
    let value = bitcast<f32>(word);
    if (!finite(word) || value <= 0.0) { return; }
    result[k] = bitcast<u32>(bitcast<f32>(result[k]) + log(value));
    atomicAdd(&counts[k], 1u);
}

// c: samples
@compute @workgroup_size(256)
fn resolve(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (i32(k) >= p.a) { return; }
    let hits = i32(atomicLoad(&counts[k]));
    var found = NAN;
    if (hits > 0 && 2 * hits >= p.c) { found = bitcast<u32>(exp(bitcast<f32>(source[k]) / f32(hits))); }
    result[k] = found;
}
