// Kernels that measure a GPU: a copy, and chains of fused multiply-adds.

struct Numbers { n: u32, first: u32, first_written: u32, rounds: u32, b: f32, c: f32, zero: u32 }
@group(0) @binding(0) var<storage, read> source: array<TYPE>;
@group(0) @binding(1) var<storage, read_write> result: array<TYPE>;
var<immediate> p: Numbers;

// n elements from number `first` of the source to number `first_written` of the result: words or vectors of 4 words
@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (k < p.n) { result[p.first_written + k] = source[p.first + k]; }
}

// Each thread: `rounds` times UNROLLED multiply-adds on each of 4 numbers
@compute @workgroup_size(256)
fn fma_chains(@builtin(global_invocation_id) id: vec3<u32>) {
    var x = vec4<f32>(f32(id.x), f32(id.x) + 1.0, f32(id.x) + 2.0, f32(id.x) + 3.0);
    let b = vec4<f32>(p.b);
    let c = vec4<f32>(p.c);
    for (var i = 0u; i < p.rounds; i++) {
        /*unroll*/ for (var k = 0; k < UNROLLED; k++) { x = fma(x, b, c); }
    }
    if (id.x < p.n) { result[id.x] = TYPE(bitcast<u32>(x.x + x.y + x.z + x.w)); }
}
