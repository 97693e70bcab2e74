// The arithmetic of a GPU on pairs (a, b): their sum and product with the rounding errors, b + a a, and the rounding error
// of the product by a fused multiply-add.

struct Numbers { n: u32, zero: u32 }
@group(0) @binding(0) var<storage, read> pairs: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> result: array<vec2<f32>>;  // three for each pair
var<immediate> p: Numbers;

#include "float64.wgsl"

@compute @workgroup_size(256)
fn arithmetic(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.n) { return; }
    let a = pairs[id.x].x;
    let b = pairs[id.x].y;
    let rest = bitcast<f32>(bitcast<u32>(a * b) ^ p.zero);
    result[3u * id.x] = two_sum(a, b);
    result[3u * id.x + 1u] = two_product(a, b);
    result[3u * id.x + 2u] = vec2(b + product(a, a), fma(a, b, -rest));
}
