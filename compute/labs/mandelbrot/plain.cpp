// The Mandelbrot set in plain C++: what a sceptic writes to check the Numba kernel. plain_c.py compiles and times it.
//
// 32 neighbouring pixels of a row take the same step together, 16 steps between two tests; the block in which a pixel
// escapes is replayed step by step. The compiler vectorises the loops over lanes. Rows are handed to the threads one by
// one. Counts are those of the project's kernels if nothing is contracted: -ffp-contract=off.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

constexpr int LANES = 32, BLOCK = 16, FAR_STEPS = 64;

template <class T>
struct Picture {
    const T *re, *im;
    int ny, nx, top;
    bool shortcuts;
    T margin;
    int32_t *count;
    float *smooth;
};

template <class T>
static void step(T &x, T &y, T cr, T ci) {
    T t = cr - y * y, d = x + x;
    y = d * y + ci;
    x = x * x + t;
}

template <class T>
static bool bounded(T x, T y) {
    return x * x + y * y <= T(4);
}

template <class T>
static bool inside(T cr, T ci, T margin) {  // the main cardioid or the disc of period 2
    T a = cr - T(0.25), y2 = ci * ci, q = a * a + y2, left = cr + T(1);
    return q * (q + a) + margin <= T(0.25) * y2 || left * left + y2 + margin <= T(0.0625);
}

static float smooth_count(double x, double y, double cr, double ci, int64_t n) {
    int k = 0;
    for (; k < FAR_STEPS && x * x + y * y < 1e8; k++) {
        double t = x * x - y * y + cr;
        y = 2.0 * x * y + ci;
        x = t;
    }
    return float(n + k + 1.0 - std::log2(std::log2(x * x + y * y) * 0.5));
}

template <class T>
static int64_t group(const Picture<T> &p, int i, int j) {  // the iterations done on up to LANES pixels of a row
    T x[LANES] = {}, y[LANES] = {}, cr[LANES] = {}, ci[LANES] = {}, begin_x[LANES], begin_y[LANES];
    T seen_x[LANES] = {}, seen_y[LANES] = {};
    bool live[LANES] = {};
    int32_t *count = p.count + int64_t(i) * p.nx + j;
    float *smooth = p.smooth + int64_t(i) * p.nx + j;
    int alive = 0, n = 0, age = 0, power = 1;
    int64_t work = 0;
    auto finish = [&](int l, int64_t done, int32_t value, float nu) {
        work += done, count[l] = value, smooth[l] = nu, live[l] = false, alive--;
        x[l] = y[l] = cr[l] = ci[l] = 0;
    };
    for (int l = 0; l < std::min(LANES, p.nx - j); l++) {
        cr[l] = p.re[j + l], ci[l] = p.im[i], live[l] = true, alive++;
        if (p.shortcuts && inside(cr[l], ci[l], p.margin)) finish(l, 0, p.top, NAN);
    }
    for (; alive && n + BLOCK <= p.top; n += BLOCK) {
        for (int l = 0; l < LANES; l++) begin_x[l] = x[l], begin_y[l] = y[l];
        for (int k = 0; k < BLOCK; k++)
            for (int l = 0; l < LANES; l++) step(x[l], y[l], cr[l], ci[l]);
        int escaped = 0, same = 0;
        for (int l = 0; l < LANES; l++) escaped |= !bounded(x[l], y[l]);
        for (int l = 0; escaped && l < LANES; l++)
            if (!bounded(x[l], y[l])) {
                T a = begin_x[l], b = begin_y[l];
                int k = n;
                do step(a, b, cr[l], ci[l]), k++;
                while (bounded(a, b));
                finish(l, k, k, smooth_count(a, b, cr[l], ci[l], k));
            }
        if (!p.shortcuts) continue;
        for (int l = 0; l < LANES; l++) same |= live[l] & (x[l] == seen_x[l]) & (y[l] == seen_y[l]);
        for (int l = 0; same && l < LANES; l++)
            if (live[l] && x[l] == seen_x[l] && y[l] == seen_y[l]) finish(l, n + BLOCK, p.top, NAN);
        if (++age == power) {
            for (int l = 0; l < LANES; l++) seen_x[l] = x[l], seen_y[l] = y[l];
            age = 0, power *= 2;
        }
    }
    for (int l = 0; l < LANES && alive; l++)
        if (live[l]) {  // fewer than BLOCK steps to go
            int k = n;
            bool stays = true;
            while (stays && k < p.top) step(x[l], y[l], cr[l], ci[l]), k++, stays = bounded(x[l], y[l]);
            finish(l, k, stays ? p.top : k, stays ? NAN : smooth_count(x[l], y[l], cr[l], ci[l], k));
        }
    return work;
}

template <class T>
static int64_t paint(const Picture<T> &p, int threads) {
    std::atomic<int> next{0};
    std::atomic<int64_t> work{0};
    auto rows = [&] {
        int64_t mine = 0;
        for (int i; (i = next++) < p.ny;)
            for (int j = 0; j < p.nx; j += LANES) mine += group(p, i, j);
        work += mine;
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(rows);
    rows();
    for (auto &other : others) other.join();
    return work;
}

extern "C" int64_t picture_float64(const double *re, const double *im, int ny, int nx, int top, int shortcuts,
                                   double margin, int32_t *count, float *smooth, int threads) {
    return paint<double>({re, im, ny, nx, top, shortcuts != 0, margin, count, smooth}, threads);
}

extern "C" int64_t picture_float32(const float *re, const float *im, int ny, int nx, int top, int shortcuts,
                                   float margin, int32_t *count, float *smooth, int threads) {
    return paint<float>({re, im, ny, nx, top, shortcuts != 0, margin, count, smooth}, threads);
}
