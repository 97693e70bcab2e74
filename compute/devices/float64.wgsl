// float64 in memory: the bits of a float32, of a sum of two, and of a count, as (low word, high word), and back; exact
// products and sums of float32. `kept` keeps a difference from being rearranged: see wgsl.py.

fn assemble(sign: u32, exponent: i32, mantissa: vec2<u32>) -> vec2<u32> {
    return vec2(mantissa.x, sign | (u32(exponent) << 20u) | (mantissa.y & 0xfffffu));
}

fn wide(x: u32) -> vec2<u32> {
    let sign = x & 0x80000000u;
    var exponent = i32((x >> 23u) & 255u);
    var mantissa = x & 0x7fffffu;
    if (exponent == 255) { return vec2(mantissa << 29u, sign | 0x7ff00000u | (mantissa >> 3u)); }
    if (exponent == 0) {
        if (mantissa == 0u) { return vec2(0u, sign); }
        let shift = countLeadingZeros(mantissa) - 8u;
        mantissa <<= shift;
        exponent = 1 - i32(shift);
    }
    return assemble(sign, exponent + 896, vec2(mantissa << 29u, mantissa >> 3u));
}

// high + rest with |rest| at most half of the last digit of `high`, both finite.
fn wide_sum(high: f32, rest: f32) -> vec2<u32> {
    let h = bitcast<u32>(high);
    let l = bitcast<u32>(rest);
    let exponent = i32((h >> 23u) & 255u);
    let distance = exponent - i32((l >> 23u) & 255u);
    if ((l & 0x7f800000u) == 0u || (h & 0x7f800000u) == 0u || distance > 54) { return wide(h); }
    let whole = (h & 0x7fffffu) | 0x800000u;
    let part = (((l & 0x7fffffu) | 0x800000u) << 6u) >> u32(distance - 24);
    var m = vec2(whole << 30u, whole >> 2u);  // 54 bits
    if (((h ^ l) & 0x80000000u) == 0u) {
        let low = m.x + part;
        m = vec2(low, m.y + select(0u, 1u, low < m.x));
    } else {
        m = vec2(m.x - part, m.y - select(0u, 1u, part > m.x));
    }
    let sign = h & 0x80000000u;
    if (m.y < 0x200000u) { return assemble(sign, exponent + 895, m); }
    return assemble(sign, exponent + 896, vec2((m.x >> 1u) | (m.y << 31u), m.y >> 1u));
}

fn wide_count(n: u32) -> vec2<u32> {
    if (n == 0u) { return vec2(0u, 0u); }
    let top = 31u - countLeadingZeros(n);
    let mantissa = n << (31u - top);  // the leading 1 is bit 31
    return assemble(0u, i32(top) + 1023, vec2(mantissa << 21u, mantissa >> 11u));
}

// The float32 nearest to the bits of a float64, but for a tie; 0 below float32's normal numbers.
fn narrow(bits: vec2<u32>) -> f32 {
    let exponent = i32((bits.y >> 20u) & 2047u) - 896;
    let sign = bits.y & 0x80000000u;
    if (exponent <= 0) { return bitcast<f32>(sign); }
    if (exponent >= 255) { return bitcast<f32>(sign | 0x7f800000u); }
    let mantissa = ((bits.y & 0xfffffu) << 3u) | (bits.x >> 29u);
    return bitcast<f32>(sign | ((u32(exponent) << 23u) + mantissa + ((bits.x >> 28u) & 1u)));
}

// The sum of two float32 numbers and its rounding error (Knuth's two-sum).
fn two_sum(a: f32, b: f32) -> vec2<f32> {
    let sum = kept(a + b);
    let from_b = kept(sum - a);
    return vec2(sum, kept(a - kept(sum - from_b)) + kept(b - from_b));
}

fn halves(a: f32) -> vec2<f32> {
    let high = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
    return vec2(high, kept(a - high));
}

// The larger number first; the same for fewer operations.
fn quick_two_sum(a: f32, b: f32) -> vec2<f32> {
    let sum = kept(a + b);
    return vec2(sum, kept(b - kept(sum - a)));
}

// The product of two float32 numbers and its rounding error (Dekker): no adapter promises a fused multiply-add.
fn two_product(a: f32, b: f32) -> vec2<f32> {
    let product = kept(a * b);
    let x = halves(a);
    let y = halves(b);
    let rest = kept(kept(kept(kept(x.x * y.x) - product) + kept(x.x * y.y)) + kept(x.y * y.x));
    return vec2(product, kept(rest + kept(x.y * y.y)));
}

// The square of a float32 number and its rounding error, as `two_product`.
fn two_square(a: f32) -> vec2<f32> {
    let square = kept(a * a);
    let x = halves(a);
    let cross = kept(x.x * x.y);
    let rest = kept(kept(kept(x.x * x.x) - square) + kept(cross + cross));
    return vec2(square, kept(rest + kept(x.y * x.y)));
}
