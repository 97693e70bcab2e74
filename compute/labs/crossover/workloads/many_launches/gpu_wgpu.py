"""Many small launches on any GPU, in WGSL."""

from __future__ import annotations

from compute.devices.devices import Array
from compute.devices.wgsl import launch, program
from compute.ways.declaring import way

CODE = """
@group(0) @binding(0) var<storage, read_write> a: array<f32>;

@compute @workgroup_size(256)
fn add_one(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&a)) { a[id.x] += 1.0; }
}
"""
PROGRAM = program(CODE)


@way("gpu_wgpu")
def add_many(a: Array, n: int) -> None:
    """WebGPU: a loop of n launches, which are recorded in one pass and submitted together.

    Add 1 to every element of a, (4096,), n times.
    """
    for _ in range(n):
        launch(PROGRAM, "add_one", (-(-a.size // 256),), (a,))
