// A shader that takes years in a grid of 65 535 x 65 535 workgroups; llvmpipe ends a loop after 65 535 rounds.

@group(0) @binding(0) var<storage, read_write> value: array<f32>;

@compute @workgroup_size(64)
fn endless() {
    while (value[0] >= 0.0) { value[0] = value[0] + 1.0; }
}
