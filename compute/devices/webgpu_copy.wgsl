// A copy by a kernel: checks the timestamps of a GPU and measures its memory.

struct Numbers { n: u32, zero: u32 }
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> copied: array<u32>;
var<immediate> p: Numbers;

@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.y * 65535u * 256u + id.x;
    if (k < p.n) { copied[k] = source[k]; }
}
