"""Add one on any GPU, in WGSL."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.devices.wgsl import folded, launch, program
from compute.ways.declaring import way

CODE = """
@group(0) @binding(0) var<storage, read_write> a: array<f32>;

@compute @workgroup_size(256)
fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * 65535u * 256u + id.x;
    if (i < arrayLength(&a)) { a[i] += 1.0; }
}
"""
PROGRAM = program(CODE)


@way("gpu_wgpu")
def add_one(a: Array) -> None:
    """WebGPU: the kernel in WGSL, one thread per element, in float32.

    Add 1 to every element of a, (n,), in place.
    """
    launch(PROGRAM, "add_one", folded(-(-a.size // 256)), (a,))
