#pragma once
// Runs CUDA C on a CPU: include this, then a .cu file, and call cuda_on_cpu::launch. Every CUDA thread is a fiber with its
// own stack; blocks run one after the other, forwards or backwards. What a kernel computes must not depend on that order:
// running both ways finds races between blocks, each time.
// __syncthreads waits for all living threads of the block, a shuffle for all living lanes of the warp; if some of them can
// never arrive, the program says so and aborts. Shared memory is filled with NaN before every block.

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__ static
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("shared_memory")))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

struct Index { unsigned x, y; };
static Index threadIdx, blockIdx, blockDim, gridDim;

// The linker marks the ends of a section whose name is an identifier; weak, for kernels without shared memory.
extern "C" char __start_shared_memory[] __attribute__((weak));
extern "C" char __stop_shared_memory[] __attribute__((weak));

namespace cuda_on_cpu {

enum class State { ready, at_block_barrier, at_warp_barrier, done };

struct Thread {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(1 << 17);
    Index index;
    State state;
    int shuffles;       // so far; its parity chooses the slot, so that a fast lane does not overwrite what a slow one reads
    double slots[2];
};

inline ucontext_t scheduler;
inline std::vector<Thread> threads;
inline size_t current;
inline std::function<void()> kernel;

inline void run_thread()
{
    kernel();
    threads[current].state = State::done;
}

inline void wait(State barrier)
{
    threads[current].state = barrier;
    swapcontext(&threads[current].context, &scheduler);
}

// Lets the threads first ... last - 1 go on if all that live wait at the barrier.
inline bool release(size_t first, size_t last, State barrier)
{
    bool any = false;
    for (size_t i = first; i < last; i++) {
        if (threads[i].state == State::done) continue;
        if (threads[i].state != barrier) return false;
        any = true;
    }
    for (size_t i = first; i < last; i++)
        if (threads[i].state == barrier) threads[i].state = State::ready;
    return any;
}

inline bool resume_all()
{
    bool ran = false;
    for (current = 0; current < threads.size(); current++) {
        if (threads[current].state != State::ready) continue;
        threadIdx = threads[current].index;
        swapcontext(&scheduler, &threads[current].context);
        ran = true;
    }
    return ran;
}

inline bool release_any()
{
    bool released = release(0, threads.size(), State::at_block_barrier);
    for (size_t first = 0; first < threads.size(); first += 32)
        released |= release(first, std::min(first + 32, threads.size()), State::at_warp_barrier);
    return released;
}

inline void run_block()
{
    if (__start_shared_memory) std::memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
    for (size_t i = 0; i < threads.size(); i++) {
        Thread& thread = threads[i];
        thread.index = {unsigned(i) % blockDim.x, unsigned(i) / blockDim.x};
        thread.state = State::ready;
        thread.shuffles = 0;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        thread.context.uc_link = &scheduler;
        makecontext(&thread.context, run_thread, 0);
    }
    while (resume_all() || release_any()) {}
    for (const Thread& thread : threads)
        if (thread.state != State::done) {
            std::fprintf(stderr, "thread (%u, %u) of block (%u, %u) waits for threads that never arrive\n",
                         thread.index.x, thread.index.y, blockIdx.x, blockIdx.y);
            std::abort();
        }
}

inline void launch(Index grid, Index block, bool backwards, std::function<void()> body)
{
    gridDim = grid;
    blockDim = block;
    kernel = body;
    threads = std::vector<Thread>(block.x * block.y);
    const unsigned blocks = grid.x * grid.y;
    for (unsigned i = 0; i < blocks; i++) {
        const unsigned b = backwards ? blocks - 1 - i : i;
        blockIdx = {b % grid.x, b / grid.x};
        run_block();
    }
}

// The value of the lane `distance` away, or one's own where there is none.
template <class T> T shuffle(T value, int distance)
{
    Thread& me = threads[current];
    const size_t mine = current;
    const int slot = me.shuffles++ % 2;
    std::memcpy(&me.slots[slot], &value, sizeof(T));
    wait(State::at_warp_barrier);
    const long other = long(mine % 32) + distance;
    const size_t source = other < 0 || other > 31 ? mine : mine + distance;
    T result;
    std::memcpy(&result, &threads[source].slots[slot], sizeof(T));
    return result;
}

}  // namespace cuda_on_cpu

inline void __syncthreads() { cuda_on_cpu::wait(cuda_on_cpu::State::at_block_barrier); }
template <class T> T __shfl_up_sync(unsigned, T value, int by) { return cuda_on_cpu::shuffle(value, -by); }
template <class T> T __shfl_down_sync(unsigned, T value, int by) { return cuda_on_cpu::shuffle(value, by); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
#define __log2f(x) std::log2(float(x))  // a macro: the C library has a function of that name, hidden
inline int __double2hiint(double value)
{
    long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    return int(bits >> 32);
}
inline int __double2loint(double value)
{
    long long bits;
    std::memcpy(&bits, &value, sizeof bits);
    return int(bits);
}
inline double __hiloint2double(int high, int low)
{
    const unsigned long long bits = (unsigned long long)unsigned(high) << 32 | unsigned(low);
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline double __longlong_as_double(long long bits)
{
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> T min(T a, T b) { return b < a ? b : a; }
template <class T> T max(T a, T b) { return a < b ? b : a; }
