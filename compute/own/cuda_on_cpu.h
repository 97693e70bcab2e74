#pragma once
// CUDA C for a C++ compiler: what a kernel may name, so that it runs on the CPU, watched (cuda_on_cpu.cpp).
// Put before the kernels; FIELDLAB_KERNEL(name), after them, makes one callable.

#include <link.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __inline__ inline
#define __shared__ thread_local  // and so static in a function, as "static __shared__" is too
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))  // which may stand behind __shared__ too
#define UNWATCHED __attribute__((no_sanitize("thread"))) inline

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 from) : x(from.x), y(from.y), z(from.z) {}
};

struct FieldlabPlace { uint3 thread, block, block_size, grid_size; };
extern "C" {
extern FieldlabPlace fieldlab_place;
extern char fieldlab_dynamic_shared[];
void fieldlab_barrier();
void fieldlab_warp_barrier();
void fieldlab_fence();
void fieldlab_atomic(void* address, int bytes);
void fieldlab_exchange(const void* mine, void* theirs, int bytes, int lane);
unsigned fieldlab_ballot(int predicate);
int fieldlab_count(int predicate);
struct FieldlabLaunch { unsigned grid[3], block[3]; };
void fieldlab_launch(const FieldlabLaunch*, char* shared_begin, char* shared_end, void (*body)(void*), void* closure);
}
#define threadIdx fieldlab_place.thread
#define blockIdx fieldlab_place.block
#define blockDim fieldlab_place.block_size
#define gridDim fieldlab_place.grid_size
static const int warpSize = 32;

// -- barriers, shuffles, votes

UNWATCHED void __syncthreads() { fieldlab_barrier(); }
UNWATCHED int __syncthreads_count(int p) { return fieldlab_count(p); }
UNWATCHED int __syncthreads_or(int p) { return fieldlab_count(p) > 0; }
UNWATCHED int __syncthreads_and(int p) { return fieldlab_count(!p) == 0; }
UNWATCHED void __syncwarp(unsigned = 0xffffffff) { fieldlab_warp_barrier(); }
UNWATCHED void __threadfence() { fieldlab_fence(); }
UNWATCHED void __threadfence_block() { fieldlab_fence(); }
UNWATCHED void __threadfence_system() { fieldlab_fence(); }
UNWATCHED int fieldlab_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
template <class T> UNWATCHED T fieldlab_from(T value, int lane)
{
    T result = value;
    fieldlab_exchange(&value, &result, sizeof(T), lane);
    return result;
}
template <class T> UNWATCHED T __shfl_sync(unsigned, T value, int lane, int width = 32)
{
    return fieldlab_from(value, fieldlab_lane() / width * width + lane % width);
}
template <class T> UNWATCHED T __shfl_up_sync(unsigned, T value, unsigned by, int width = 32)
{
    const int me = fieldlab_lane();
    return fieldlab_from(value, me % width < int(by) ? me : me - int(by));
}
template <class T> UNWATCHED T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32)
{
    const int me = fieldlab_lane();
    return fieldlab_from(value, me % width + int(by) >= width ? me : me + int(by));
}
template <class T> UNWATCHED T __shfl_xor_sync(unsigned, T value, int mask, int = 32)
{
    return fieldlab_from(value, fieldlab_lane() ^ mask);
}
UNWATCHED unsigned __ballot_sync(unsigned, int p) { return fieldlab_ballot(p); }
UNWATCHED int __any_sync(unsigned, int p) { return fieldlab_ballot(p) != 0; }
UNWATCHED int __all_sync(unsigned, int p) { return fieldlab_ballot(!p) == 0; }
#define FIELDLAB_REDUCE(name, expression)                                                               \
    template <class T> UNWATCHED T __reduce_##name##_sync(unsigned, T a)                                \
    {                                                                                                   \
        for (int k = 16; k; k /= 2) { const T b = fieldlab_from(a, fieldlab_lane() ^ k); a = expression; } \
        return a;                                                                                       \
    }
FIELDLAB_REDUCE(add, a + b)
FIELDLAB_REDUCE(min, b < a ? b : a)
FIELDLAB_REDUCE(max, a < b ? b : a)
FIELDLAB_REDUCE(and, a & b)
FIELDLAB_REDUCE(or, a | b)
FIELDLAB_REDUCE(xor, a ^ b)
UNWATCHED unsigned __activemask() { return 0xffffffff; }

// -- atomics

template <class T, class F> UNWATCHED T fieldlab_update(T* p, F next)
{
    fieldlab_atomic((void*)p, sizeof(T));
    const T old = *p;
    *p = next(old);
    return old;
}
#define FIELDLAB_ATOMIC(name, expression)                                                            \
    template <class T, class U> UNWATCHED T name(T* p, U given)                                      \
    {                                                                                                \
        const T v = T(given);                                                                        \
        return fieldlab_update(p, [v](T old) __attribute__((no_sanitize("thread"))) { return T(expression); }); \
    }                                                                                                \
    template <class T, class U> UNWATCHED T name##_block(T* p, U given) { return name(p, given); }
FIELDLAB_ATOMIC(atomicAdd, old + v)
FIELDLAB_ATOMIC(atomicSub, old - v)
FIELDLAB_ATOMIC(atomicMax, v > old ? v : old)
FIELDLAB_ATOMIC(atomicMin, v < old ? v : old)
FIELDLAB_ATOMIC(atomicExch, (old, v))
FIELDLAB_ATOMIC(atomicAnd, old & v)
FIELDLAB_ATOMIC(atomicOr, old | v)
FIELDLAB_ATOMIC(atomicXor, old ^ v)
FIELDLAB_ATOMIC(atomicInc, old >= v ? 0 : old + 1)
FIELDLAB_ATOMIC(atomicDec, old == 0 || old > v ? v : old - 1)
template <class T, class U, class V> UNWATCHED T atomicCAS(T* p, U expected, V value)
{
    const T wanted = T(expected), next = T(value);
    return fieldlab_update(
        p, [=](T old) __attribute__((no_sanitize("thread"))) { return old == wanted ? next : old; });
}

// -- small vectors and built-in functions

#define FIELDLAB_VECTORS(T, name)                                                  \
    struct name##2 { T x, y; };                                                    \
    struct name##3 { T x, y, z; };                                                 \
    struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) name##4 { T x, y, z, w; }; \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                     \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }             \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FIELDLAB_VECTORS(float, float)
FIELDLAB_VECTORS(double, double)
FIELDLAB_VECTORS(int, int)
FIELDLAB_VECTORS(unsigned char, uchar)
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

template <class T, class F> inline T fieldlab_bits(F from)
{
    T to;
    static_assert(sizeof to == sizeof from);
    memcpy(&to, &from, sizeof to);
    return to;
}

template <class T> inline T __ldg(const T* p) { return *p; }
template <class A, class B> inline std::common_type_t<A, B> min(A a, B b) { return b < a ? b : a; }
template <class A, class B> inline std::common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
inline int __float2int_rd(float x) { return int(floorf(x)); }
inline int __float2int_rn(float x) { return int(rintf(x)); }
inline int __float2int_rz(float x) { return int(x); }
inline long long __double_as_longlong(double x) { return fieldlab_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return fieldlab_bits<double>(x); }
inline int __float_as_int(float x) { return fieldlab_bits<int>(x); }
inline float __int_as_float(int x) { return fieldlab_bits<float>(x); }
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)((unsigned long long)unsigned(high) << 32 | unsigned(low)));
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mul24(int a, int b) { return a * b; }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned __brev(unsigned x)
{
    unsigned turned = 0;
    for (int bit = 0; bit < 32; bit++) turned |= (x >> bit & 1) << (31 - bit);
    return turned;
}
inline double sinpi(double x) { return x == rint(x) ? 0 * x : sin(M_PI * remainder(x, 2.0)); }
inline double cospi(double x) { return sinpi(0.5 - fabs(remainder(x, 2.0))); }
inline float sinpif(float x) { return float(sinpi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double norm3d(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }
inline float norm3df(float x, float y, float z) { return float(norm3d(x, y, z)); }
inline float __frcp_rn(float x) { return 1.0f / x; }
UNWATCHED long long clock64() { static long long reads = 0; return reads += 1; }  // time goes on, and means nothing here
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)

// -- how a kernel is called: arguments by their addresses, as the driver takes them

// All shared memory of a library is one piece, its thread-local storage. In a section of its own it would not be: GCC 12
// leaves the variables of templates out of it.
static thread_local char fieldlab_anchor;
struct FieldlabShared { char *begin, *end; };
UNWATCHED int fieldlab_find_shared(dl_phdr_info* library, size_t, void* found)
{
    char* const begin = (char*)library->dlpi_tls_data;
    for (int i = 0; begin && i < library->dlpi_phnum; i++) {
        char* const end = begin + library->dlpi_phdr[i].p_memsz;
        if (library->dlpi_phdr[i].p_type != PT_TLS || &fieldlab_anchor < begin || &fieldlab_anchor >= end) continue;
        *(FieldlabShared*)found = {begin, end};
        return 1;
    }
    return 0;
}

// Of a parameter: bytes, 100 more for a real number, 1000 for a pointer to such, 2000 for a pointer to const, 9000 else.
template <class T> constexpr int fieldlab_kind()
{
    using B = std::remove_cv_t<T>;
    if constexpr (std::is_pointer_v<B>) {
        using P = std::remove_pointer_t<B>;
        if constexpr (std::is_void_v<P> || std::is_class_v<P>) return 1000;  // float2 is laid over an array of float
        else return (std::is_const_v<P> ? 2000 : 1000) + (std::is_floating_point_v<P> ? 100 : 0) + int(sizeof(P));
    } else if constexpr (std::is_floating_point_v<B>) return 100 + int(sizeof(B));
    else if constexpr (std::is_integral_v<B> || std::is_enum_v<B>) return int(sizeof(B));
    else return 9000 + int(sizeof(B));
}
template <class... P> int fieldlab_kinds(void (*)(P...), int* kinds)
{
    const int found[] = {fieldlab_kind<P>()..., 0};
    for (size_t i = 0; i < sizeof...(P); i++) kinds[i] = found[i];
    return sizeof...(P);
}
template <class... P, size_t... I>
UNWATCHED void fieldlab_call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>)
{
    kernel(*(std::remove_cv_t<P>*)arguments[I]...);
}
template <class... P> void fieldlab_start(void (*kernel)(P...), const FieldlabLaunch* sizes, void** arguments)
{
    struct Closure { void (*kernel)(P...); void** arguments; } closure{kernel, arguments};
    FieldlabShared shared = {&fieldlab_anchor, &fieldlab_anchor + 1};
    dl_iterate_phdr(fieldlab_find_shared, &shared);
    fieldlab_launch(sizes, shared.begin, shared.end,
                    [](void* c) { fieldlab_call(((Closure*)c)->kernel, ((Closure*)c)->arguments,
                                                std::index_sequence_for<P...>()); }, &closure);
}
#define FIELDLAB_KERNEL(name)                                                                               \
    extern "C" int fieldlab_kinds_##name(int* kinds) { return fieldlab_kinds(&name, kinds); }               \
    extern "C" void fieldlab_launch_##name(const FieldlabLaunch* sizes, void** arguments)                   \
    { fieldlab_start(&name, sizes, arguments); }
