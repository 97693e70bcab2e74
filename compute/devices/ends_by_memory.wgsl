// Threads of a workgroup exchange the ends of their rows through workgroup memory, those of this turn and of the next.

var<workgroup> ends: array<array<vec2<f32>, THREADS + 2>, SLOTS>;

fn end_of_west(slot: u32, thread: u32, own: f32) -> f32 { return ends[slot][thread].y; }

fn end_of_east(slot: u32, thread: u32, own: f32) -> f32 { return ends[slot][thread + 2u].x; }

fn pass_on(slot: u32, thread: u32, first: f32, last: f32) { ends[slot][thread + 1u] = vec2(first, last); }

fn end_turn() { workgroupBarrier(); }
