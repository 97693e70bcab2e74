"""Square on any GPU, in WGSL."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.devices.wgsl import folded, launch, program
from compute.ways.declaring import way

CODE = """
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;

@compute @workgroup_size(256)
fn square(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * 65535u * 256u + id.x;
    if (i < arrayLength(&a)) { result[i] = a[i] * a[i]; }
}
"""
PROGRAM = program(CODE)


@way("gpu_wgpu")
def square(a: Array, out: Array) -> None:
    """WebGPU: the kernel in WGSL, one thread per element, in float32.

    Compute out = a * a, both (n,).
    """
    launch(PROGRAM, "square", folded(-(-a.size // 256)), (a, out))
