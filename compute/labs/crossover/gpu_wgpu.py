"""Empty a GPU's caches before a run, through WebGPU."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.devices.wgsl import folded, launch, program

_PROGRAM = program("""
@group(0) @binding(0) var<storage, read_write> scratch: array<f32>;

@compute @workgroup_size(256)
fn evict(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * 65535u * 256u + id.x;
    if (i < arrayLength(&scratch)) { scratch[i] += 1.0; }
}
""")


def evict(scratch: Array) -> None:
    """Read and write `scratch`, an array much larger than the caches, to evict all other data."""
    launch(_PROGRAM, "evict", folded(-(-scratch.size // 256)), (scratch,))
