// Sums of squares as (sum, rest, exponent, finite): they stand for (sum + rest) 4^(exponent - 127), so that no square
// overflows or vanishes, and have twice the digits of a float32; finite is 0 if a number was NaN or infinite, else 1.
// A file that includes this one defines TOTALS, the largest number of threads whose sums are added, a power of 2.

const NO_SQUARES = vec4<f32>(0.0, 0.0, 1.0, 1.0);
var<workgroup> totals: array<vec4<f32>, TOTALS>;

fn square_of(value: f32) -> vec4<f32> {
    let found = (bitcast<u32>(value) >> 23u) & 255u;
    let exponent = clamp(found, 1u, 253u);
    let scaled = value * bitcast<f32>((254u - exponent) << 23u);
    return vec4(two_square(scaled), f32(exponent), select(1.0, 0.0, found == 255u));
}

// 4^k for a whole k up to 0; that of -60 below it, which no sum notices
fn power_of_4(k: f32) -> f32 { return bitcast<f32>(u32(127 + 2 * i32(max(k, -60.0))) << 23u); }

fn sum_of_squares(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let top = max(a.z, b.z);
    let x = a.xy * power_of_4(a.z - top);
    let y = b.xy * power_of_4(b.z - top);
    let sum = two_sum(x.x, y.x);
    return vec4(two_sum(sum.x, sum.y + (x.y + y.y)), top, a.w * b.w);
}

// The sum over the first `count` threads of the workgroup, a power of 2 up to TOTALS. All threads must call it.
fn total_of(thread: u32, count: u32, own: vec4<f32>) -> vec4<f32> {
    if (thread < count) { totals[thread] = own; }
    for (var half = count / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { totals[thread] = sum_of_squares(totals[thread], totals[thread + half]); }
    }
    workgroupBarrier();
    return totals[0];
}
