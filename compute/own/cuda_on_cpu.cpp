// Runs CUDA kernels on a CPU and watches what they touch.
//
// Every CUDA thread is a fiber with its own stack; blocks run one after the other, and threads of a block from barrier to
// barrier: in the given order, backwards or at random. What a kernel computes must not depend on that order. The kernels
// are compiled with -fsanitize=thread, and instead of that tool's library the functions below hear of every access:
//  - one outside of the arrays that were passed, as a missing guard for the last block makes it;
//  - two by different threads to the same element, one of them a write, with neither a barrier nor atomics between them:
//    a race, found whatever the order was. Threads of different blocks are never ordered within a launch. Two threads that
//    store the same value make no race, and reads of other blocks' results are allowed where a kernel uses __threadfence.
// Counted besides: accesses, atomics, barriers, and the 32-byte sectors that the warps' accesses to the arrays need.
// Shared memory is full of NaN before every block. Kernels compiled without that option run faster, and nothing is heard.

#undef _FORTIFY_SOURCE  // which takes every jump to another stack for a mistake
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <memory>
#include <random>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

struct uint3 { unsigned x, y, z; };
struct FieldlabPlace { uint3 thread, block, block_size, grid_size; };
struct FieldlabLaunch { unsigned grid[3], block[3]; };

// What one launch told, for Python (cuda_on_cpu.py has the same fields).
struct Access { int argument, write, atomic; int64_t element; unsigned block[3], thread[3]; };
struct Told {
    int outside, race, stuck;       // found: yes or no
    Access first, second;           // of what was found; argument -1: shared memory, -2: no array at all
    int64_t reads, writes, atomics, shared, barriers, sectors, accesses;
};

extern "C" { FieldlabPlace fieldlab_place; alignas(16) char fieldlab_dynamic_shared[1 << 18]; Told fieldlab_told; }

namespace {

constexpr size_t STACK = 1 << 17;
enum class State { ready, at_block_barrier, at_warp_barrier, done };
struct Thread {
    uint3 index;
    State state;
    unsigned warp_epoch, number, accesses;
    char slots[2][32];
    int exchanges, predicate;
};
// What a thread runs on. It stays for the next block and the next launch, and is left and entered again by _setjmp, which
// unlike swapcontext asks the system nothing: 0.03 us instead of 0.2.
struct Fiber {
    std::unique_ptr<char[]> stack{new char[STACK]};   // not filled: most of it is never touched
    ucontext_t start;
    bool entered;
    jmp_buf place;
};
// Who touched an element: launch-wide number of the block, the thread in it, its barriers so far.
struct Mark { int64_t block = -1; unsigned thread = 0, epoch = 0, warp_epoch = 0; bool atomic = false; };
struct Cell { Mark write, read, other_read; };
struct Array { char* begin; char* end; int item; std::vector<Cell> cells; };

jmp_buf scheduler;
std::vector<std::unique_ptr<Fiber>> fibers;   // of the largest block so far
std::vector<Thread> threads;
size_t current;
void (*kernel)(void*);
void* closure;
std::vector<Array> arrays;
std::vector<Cell> shared_cells, dynamic_cells;
char *shared_begin, *shared_end;
int order; unsigned seed;
bool watched, running, fenced;
unsigned epoch; int64_t block_number;
int dynamic_bytes;
std::unordered_map<uint64_t, std::vector<uint64_t>> sectors;   // of a block: by warp and the how many-th access of its threads
struct Pending { char* at = nullptr; int bytes; char old[16]; Access first, second; } pending;

Access as_access(int argument, int64_t element, bool write, bool atomic, int64_t block, unsigned thread)
{
    const uint3 g = fieldlab_place.grid_size, b = fieldlab_place.block_size;
    const unsigned n = unsigned(block);
    return {argument, write, atomic, element, {n % g.x, n / g.x % g.y, n / g.x / g.y},
            {thread % b.x, thread / b.x % b.y, thread / b.x / b.y}};
}

bool ordered(const Mark& then, bool global)
{
    if (then.block < 0) return true;
    if (then.block != block_number) return !global;
    const Thread& me = threads[current];
    if (then.thread == me.number || then.epoch != epoch) return true;
    return then.thread / 32 == me.number / 32 && then.warp_epoch != me.warp_epoch;
}

void settle()   // two threads wrote the same element: a race only if the second changed it
{
    if (pending.at && std::memcmp(pending.at, pending.old, pending.bytes) && !fieldlab_told.race) {
        fieldlab_told.race = 1;
        fieldlab_told.first = pending.first;
        fieldlab_told.second = pending.second;
    }
    pending.at = nullptr;
}

void race(const Mark& then, bool then_wrote, int argument, int64_t element, bool write, bool atomic)
{
    if (fieldlab_told.race) return;
    fieldlab_told.race = 1;
    fieldlab_told.first = as_access(argument, element, then_wrote, then.atomic, then.block, then.thread);
    fieldlab_told.second = as_access(argument, element, write, atomic, block_number, threads[current].number);
}

void touch(Cell& cell, bool global, int argument, int64_t element, char* at, int bytes, bool write, bool atomic)
{
    const Thread& me = threads[current];
    const Mark mark{block_number, me.number, epoch, me.warp_epoch, atomic};
    const bool excused = fenced && global;
    if (!ordered(cell.write, global) && !(atomic && cell.write.atomic) && !excused) {
        if (write && !atomic && !cell.write.atomic && bytes <= 16) {
            if (!pending.at && !fieldlab_told.race) {
                pending.at = at; pending.bytes = bytes;
                std::memcpy(pending.old, at, bytes);
                pending.first = as_access(argument, element, true, false, cell.write.block, cell.write.thread);
                pending.second = as_access(argument, element, true, false, block_number, me.number);
            }
        } else race(cell.write, true, argument, element, write, atomic);
    }
    if (write) {
        for (const Mark& read : {cell.read, cell.other_read})
            if (!ordered(read, global) && !(atomic && read.atomic) && !excused) race(read, false, argument, element, write, atomic);
        cell.write = mark;
    } else {
        if (cell.read.block != mark.block || cell.read.thread != mark.thread) cell.other_read = cell.read;
        cell.read = mark;
    }
}

// The k-th access of each lane of a warp counts as one instruction; it needs each sector that its lanes touch once.
void count_sectors(char* at, int bytes, Thread& me)
{
    auto& seen = sectors[uint64_t(me.number / 32) << 32 | me.accesses++];
    if (seen.empty()) fieldlab_told.accesses++;
    for (uint64_t sector = uint64_t(at) / 32; sector <= uint64_t(at + bytes - 1) / 32; sector++)
        if (std::find(seen.begin(), seen.end(), sector) == seen.end()) { seen.push_back(sector); fieldlab_told.sectors++; }
}

void heard(void* address, int bytes, bool write, bool atomic)
{
    if (!running) return;
    settle();
    char* at = (char*)address;
    const bool in_static = at >= shared_begin && at < shared_end;
    const bool in_dynamic = at >= fieldlab_dynamic_shared && at < fieldlab_dynamic_shared + sizeof fieldlab_dynamic_shared;
    if (in_static || in_dynamic) {
        fieldlab_told.shared++;
        char* begin = in_static ? shared_begin : fieldlab_dynamic_shared;
        const int64_t offset = at - begin;
        auto& cells = in_static ? shared_cells : dynamic_cells;
        if (in_dynamic && offset + bytes > dynamic_bytes && !fieldlab_told.outside) {
            fieldlab_told.outside = 1;
            fieldlab_told.first = as_access(-1, offset, write, atomic, block_number, threads[current].number);
        }
        for (int i = 0; i < bytes && size_t(offset + i) < cells.size(); i++)
            touch(cells[offset + i], false, -1, offset, at, bytes, write, atomic);
        return;
    }
    for (size_t i = 0; i < arrays.size(); i++) {
        Array& array = arrays[i];
        if (at < array.begin - (1 << 16) || at >= array.end + (1 << 16)) continue;
        Thread& me = threads[current];
        (atomic ? fieldlab_told.atomics : write ? fieldlab_told.writes : fieldlab_told.reads)++;
        count_sectors(at, bytes, me);
        const int64_t element = (at - array.begin) / array.item - (at < array.begin && (at - array.begin) % array.item ? 1 : 0);
        if (at < array.begin || at + bytes > array.end) {
            if (!fieldlab_told.outside) {
                fieldlab_told.outside = 1;
                fieldlab_told.first = as_access(int(i), element, write, atomic, block_number, me.number);
            }
            return;
        }
        for (int64_t k = element; k * array.item < at + bytes - array.begin; k++)
            touch(array.cells[k], true, int(i), k, array.begin + k * array.item, std::min(bytes, array.item), write, atomic);
        return;
    }
    // Stacks, constants, tables: not of interest.
}

// Neither is inlined: what its caller keeps in registers must be on the stack when another thread goes on.
__attribute__((noinline)) void leave()
{
    if (!_setjmp(fibers[current]->place)) _longjmp(scheduler, 1);
}

__attribute__((noinline)) void enter(Fiber& fiber)
{
    if (_setjmp(scheduler)) return;
    if (fiber.entered) _longjmp(fiber.place, 1);
    fiber.entered = true;
    setcontext(&fiber.start);
}

void run_threads()   // one after the other
{
    for (;;) {
        kernel(closure);
        threads[current].state = State::done;
        leave();
    }
}

void make_fibers(size_t wanted)
{
    while (fibers.size() < wanted) {
        fibers.push_back(std::make_unique<Fiber>());
        Fiber& fiber = *fibers.back();
        fiber.entered = false;
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = fiber.stack.get();
        fiber.start.uc_stack.ss_size = STACK;
        fiber.start.uc_link = nullptr;
        makecontext(&fiber.start, run_threads, 0);
    }
}

void wait(State barrier)
{
    settle();
    threads[current].state = barrier;
    leave();
}

bool release(size_t first, size_t last, State barrier)
{
    bool any = false;
    for (size_t i = first; i < last; i++) {
        if (threads[i].state == State::done) continue;
        if (threads[i].state != barrier) return false;
        any = true;
    }
    for (size_t i = first; i < last; i++)
        if (threads[i].state == barrier) { threads[i].state = State::ready; threads[i].warp_epoch++; }
    return any;
}

bool resume_all(const std::vector<unsigned>& turns)
{
    bool ran = false;
    for (unsigned turn : turns) {
        current = turn;
        if (threads[current].state != State::ready) continue;
        fieldlab_place.thread = threads[current].index;
        enter(*fibers[current]);
        settle();
        ran = true;
    }
    return ran;
}

bool release_any()
{
    bool released = release(0, threads.size(), State::at_block_barrier);
    if (released) { epoch++; fieldlab_told.barriers++; }
    for (size_t first = 0; first < threads.size(); first += 32)
        released |= release(first, std::min(first + 32, threads.size()), State::at_warp_barrier);
    return released;
}

std::vector<unsigned> turns(unsigned count, std::mt19937& random)
{
    std::vector<unsigned> found(count);
    for (unsigned i = 0; i < count; i++) found[i] = order == 1 ? count - 1 - i : i;
    if (order == 2) std::shuffle(found.begin(), found.end(), random);
    return found;
}

bool run_block(const std::vector<unsigned>& thread_turns)
{
    if (shared_begin) std::memset(shared_begin, 0xff, shared_end - shared_begin);
    std::memset(fieldlab_dynamic_shared, 0xff, dynamic_bytes);
    if (watched) {
        shared_cells.assign(shared_end - shared_begin, Cell());
        dynamic_cells.assign(dynamic_bytes, Cell());
    }
    epoch = 0;
    sectors.clear();
    const uint3 size = fieldlab_place.block_size;
    for (size_t i = 0; i < threads.size(); i++) {
        Thread& t = threads[i];
        t.index = {unsigned(i) % size.x, unsigned(i) / size.x % size.y, unsigned(i) / size.x / size.y};
        t.state = State::ready;
        t.warp_epoch = 0; t.exchanges = 0; t.accesses = 0; t.number = unsigned(i);
    }
    while (resume_all(thread_turns) || release_any()) {}
    for (size_t i = 0; i < threads.size(); i++)
        if (threads[i].state != State::done) {
            fibers.clear();   // those that wait would go on in the middle of this kernel
            fieldlab_told.stuck = 1;
            fieldlab_told.first = as_access(-2, 0, false, false, block_number, unsigned(i));
            return false;
        }
    return true;
}

}  // namespace

extern "C" {

void fieldlab_prepare(int which_order, unsigned with_seed, int shared_bytes, int watch)
{
    order = which_order; seed = with_seed; dynamic_bytes = shared_bytes; watched = watch;
    arrays.clear();
    fieldlab_told = Told();
}

void fieldlab_array(char* begin, int64_t bytes, int item)
{
    arrays.push_back({begin, begin + bytes, item, std::vector<Cell>(size_t(bytes / item))});
}

void fieldlab_launch(const FieldlabLaunch* sizes, char* begin, char* end, void (*body)(void*), void* with)
{
    shared_begin = begin; shared_end = end; kernel = body; closure = with; fenced = false; pending.at = nullptr;
    fieldlab_place.grid_size = {sizes->grid[0], sizes->grid[1], sizes->grid[2]};
    fieldlab_place.block_size = {sizes->block[0], sizes->block[1], sizes->block[2]};
    threads = std::vector<Thread>(sizes->block[0] * sizes->block[1] * sizes->block[2]);
    make_fibers(threads.size());
    std::mt19937 random(seed);
    running = watched;
    for (unsigned b : turns(sizes->grid[0] * sizes->grid[1] * sizes->grid[2], random)) {
        block_number = b;
        fieldlab_place.block = {b % sizes->grid[0], b / sizes->grid[0] % sizes->grid[1], b / sizes->grid[0] / sizes->grid[1]};
        if (!run_block(turns(unsigned(threads.size()), random))) break;
    }
    running = false;
}

void fieldlab_barrier() { wait(State::at_block_barrier); }
void fieldlab_warp_barrier() { wait(State::at_warp_barrier); }
void fieldlab_fence() { fenced = true; }
void fieldlab_atomic(void* address, int bytes) { heard(address, bytes, true, true); }

void fieldlab_exchange(const void* mine, void* theirs, int bytes, int lane)
{
    Thread& me = threads[current];
    const int slot = me.exchanges++ % 2;   // so that a fast lane does not overwrite what a slow one reads
    std::memcpy(me.slots[slot], mine, std::min(bytes, 32));
    const size_t source = me.number / 32 * 32 + lane;
    wait(State::at_warp_barrier);
    if (lane >= 0 && lane < 32 && source < threads.size()) std::memcpy(theirs, threads[source].slots[slot], std::min(bytes, 32));
}

unsigned fieldlab_ballot(int predicate)
{
    Thread& me = threads[current];
    me.predicate = predicate != 0;
    const size_t first = me.number / 32 * 32;
    wait(State::at_warp_barrier);
    unsigned found = 0;
    for (size_t i = first; i < std::min(first + 32, threads.size()); i++) found |= unsigned(threads[i].predicate && threads[i].state != State::done) << (i - first);
    wait(State::at_warp_barrier);
    return found;
}

int fieldlab_count(int predicate)
{
    threads[current].predicate = predicate != 0;
    wait(State::at_block_barrier);
    int found = 0;
    for (const Thread& thread : threads) found += thread.predicate && thread.state != State::done;
    wait(State::at_block_barrier);
    return found;
}

#define HEARD(n)                                                          \
    void __tsan_read##n(void* p) { heard(p, n, false, false); }           \
    void __tsan_write##n(void* p) { heard(p, n, true, false); }           \
    void __tsan_unaligned_read##n(void* p) { heard(p, n, false, false); } \
    void __tsan_unaligned_write##n(void* p) { heard(p, n, true, false); } \
    void __tsan_volatile_read##n(void* p) { heard(p, n, false, false); }  \
    void __tsan_volatile_write##n(void* p) { heard(p, n, true, false); }
HEARD(1) HEARD(2) HEARD(4) HEARD(8) HEARD(16)
void __tsan_read_range(void* p, unsigned long n) { heard(p, int(n), false, false); }
void __tsan_write_range(void* p, unsigned long n) { heard(p, int(n), true, false); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}

}  // extern "C"
