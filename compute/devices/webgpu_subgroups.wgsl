// Each thread writes the size of its subgroup, or 0 if its number there does not follow from its number in the workgroup.

@group(0) @binding(0) var<storage, read_write> result: array<u32>;

@compute @workgroup_size(128)
fn sizes(
    @builtin(local_invocation_index) thread: u32, @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32
) {
    result[thread] = select(0u, size, lane == thread % size);
}
