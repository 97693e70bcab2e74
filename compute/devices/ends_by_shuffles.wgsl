// Threads of a workgroup that is a subgroup exchange the ends of their rows by shuffles: nothing is stored, none waits.

fn end_of_west(slot: u32, thread: u32, own: f32) -> f32 { return subgroupShuffleUp(own, 1u); }

fn end_of_east(slot: u32, thread: u32, own: f32) -> f32 { return subgroupShuffleDown(own, 1u); }

fn pass_on(slot: u32, thread: u32, first: f32, last: f32) {}

fn end_turn() {}
