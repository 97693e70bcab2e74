// The sum of squares of a value per thread of a workgroup of 128, as (sum, rest, exponent, finite): the squares are
// scaled by a power of two, so that none overflows or vanishes, and sum + rest has twice the digits of a float32.

var<workgroup> exponents: array<u32, 128>;
var<workgroup> squares: array<vec2<f32>, 128>;

// The exponent field of a number, at least 1 and at most 253; 255 for NaN and infinity.
fn exponent_of(value: f32) -> u32 {
    let found = (bitcast<u32>(value) >> 23u) & 255u;
    if (found == 255u) { return 255u; }
    return clamp(found, 1u, 253u);
}

// 2^(127 - exponent)
fn scaling(exponent: u32) -> f32 { return bitcast<f32>((254u - min(exponent, 253u)) << 23u); }

fn add_squares(thread: u32, value: f32) {
    exponents[thread] = exponent_of(value);
    for (var half = 64u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { exponents[thread] = max(exponents[thread], exponents[thread + half]); }
    }
    workgroupBarrier();
    squares[thread] = two_square(value * scaling(exponents[0]));
    for (var half = 64u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { squares[thread] = sum_of(squares[thread], squares[thread + half]); }
    }
    workgroupBarrier();
}

fn sum_of(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let sum = two_sum(a.x, b.x);
    return two_sum(sum.x, sum.y + (a.y + b.y));
}

fn squares_found() -> vec4<f32> {
    return vec4(squares[0], f32(min(exponents[0], 253u)), select(0.0, 1.0, exponents[0] < 255u));
}
