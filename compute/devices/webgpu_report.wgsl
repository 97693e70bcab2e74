// The arithmetic of a GPU on pairs (a, b): a sum, a product and a fused multiply-add, with their rounding errors.

struct Numbers { n: u32, zero: u32 }
@group(0) @binding(0) var<storage, read> pairs: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> result: array<vec4<f32>>;
var<immediate> p: Numbers;

@compute @workgroup_size(256)
fn arithmetic(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.n) { return; }
    let a = pairs[id.x].x;
    let b = pairs[id.x].y;
    let sum = kept(a + b);
    let from_b = kept(sum - a);
    let error = kept(a - kept(sum - from_b)) + kept(b - from_b);  // Knuth's two-sum
    let rest = bitcast<f32>(bitcast<u32>(a * b) ^ p.zero);
    result[id.x] = vec4<f32>(sum, error, b + product(a, a), fma(a, b, -rest));
}
