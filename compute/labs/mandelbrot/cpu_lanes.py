"""The direct kernel of cpu_numba: 64 pixels per thread in vector registers.

Each step of a pixel depends on the previous step, so a core that iterates a single pixel spends most of its time on the
latency of additions. This kernel iterates 64 pixels in parallel lanes. LLVM compiles the loops over lanes to vector
instructions of the processor's width. When a pixel finishes, the next pixel enters its lane, so pixels that escape
early do not wait for pixels that stay.

A pixel passes through three stages, stored as columns of scratch arrays that fit in the L1 cache:

* Queue: pixels that may escape within the next BLOCK steps. `_masked_steps` tests every pixel after every step and
  freezes it when it escapes. Fresh pixels start in the queue because most pixels of a picture escape early. An escaped
  lane returns to the queue with its state before the last block, which gives the exact count.
* Ready: pixels that survived their first block and wait for a lane.
* Lanes: `_block` computes BLOCK steps without a test, then tests all lanes for escape and period.

The steps use the operations of formula.py in the same order, without contraction. Counts, smooth counts and stored z
are bit-identical to those of `iterate` and `smooth_count`; the tests compare them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from compute.labs.mandelbrot.formula import BLOCK, FAR2, FAR_STEPS, inside

LANES = 64  # 8 vectors of 8 float64 or 4 vectors of 16 float32 in flight, which hides the latency of an addition
GROUP = 16  # lanes; the active lanes are padded to a multiple of this, the widest vector of float32
UNROLLED = 4  # steps between loads and stores of the lanes
HEAD = 2 * BLOCK  # steps; a pixel with fewer remaining steps stays in the queue, unless shortcuts are on
UNIT = 4096  # pixels per unit of work, many times LANES
UNITS = 8  # minimum units per thread, for load balance
NEVER = 2**62
SETTLED = 1e5  # |z| in unused columns of the smooth count, beyond FAR

# Scratch of z's type; each name is the offset of a row of LANES numbers. AGE and POWER count blocks, up to 10**8 / 16,
# which float32 holds exactly.
X, Y, CR, CI, BEFORE_X, BEFORE_Y, SEEN_X, SEEN_Y, AGE, POWER = (LANES * row for row in range(10))  # the lanes
QX, QY, QCR, QCI, ALLOWED, TAKEN = (LANES * row for row in range(10, 16))  # the queue; steps allowed and taken
RX, RY, RCR, RCI, RPOWER = (LANES * row for row in range(16, 26, 2))  # ready, two rows each
REALS = 26 * LANES
# Scratch of float64 for the smooth count
FX, FY, FCR, FCI, FAR_TAKEN = (LANES * row for row in range(5))
FARS = 5 * LANES
# Scratch of int64: n, the last n of this slice, the pixel's row and column
BASE, END, STOP, ROW, COLUMN = (LANES * row for row in range(5))  # the lanes; n = BASE + BLOCK clock, STOP is a clock
QN, QEND, QROW, QCOLUMN = (LANES * row for row in range(5, 9))
RN, REND, RROW, RCOLUMN = (LANES * row for row in range(9, 17, 2))
FN, FROW, FCOLUMN = (LANES * row for row in range(17, 20))
# and the counters of a unit: blocks computed, active lanes, queued pixels, ready pixels; the clock at which the first
# lane reaches the end of its slice; the next pixel's row and column; iterations, unfinished pixels below the limit
CLOCK, ACTIVE, QUEUED, READY, NEXT_STOP, NEXT_ROW, NEXT_COLUMN, WORK, LEFT = (20 * LANES + at for at in range(9))
INTEGERS = 20 * LANES + 9


@njit(cache=True, nogil=True)
def _block(s, flags, width, four, one, periodic):  # type: ignore[no-untyped-def]
    """Iterate the first `width` lanes by BLOCK steps; set flags[l] where lane l has escaped or repeats."""
    for lane in range(width):
        s[BEFORE_X + lane] = s[X + lane]
        s[BEFORE_Y + lane] = s[Y + lane]
    for _ in range(BLOCK // UNROLLED):
        for lane in range(width):
            x, y, cr, ci = s[X + lane], s[Y + lane], s[CR + lane], s[CI + lane]
            for _ in range(UNROLLED):
                t = cr - y * y
                d = x + x
                y = d * y + ci
                x = x * x + t
            s[X + lane] = x
            s[Y + lane] = y
    if periodic:
        for lane in range(width):
            x, y, seen_x, seen_y = s[X + lane], s[Y + lane], s[SEEN_X + lane], s[SEEN_Y + lane]
            age, power = s[AGE + lane] + one, s[POWER + lane]
            renew = age == power
            s[SEEN_X + lane] = x if renew else seen_x
            s[SEEN_Y + lane] = y if renew else seen_y
            s[AGE + lane] = one - one if renew else age
            s[POWER + lane] = power + power if renew else power
            flags[lane] = (not x * x + y * y <= four) | ((x == seen_x) & (y == seen_y))
    else:
        for lane in range(width):
            x, y = s[X + lane], s[Y + lane]
            flags[lane] = not x * x + y * y <= four


@njit(cache=True, nogil=True)
def _masked_steps(s, width, steps, four, one):  # type: ignore[no-untyped-def]
    """Iterate the first `width` pixels of the queue, each until it escapes or reaches its ALLOWED steps.

    TAKEN counts the steps of each pixel. No pixel needs more than `steps`.
    """
    zero = one - one
    for lane in range(width):
        s[TAKEN + lane] = zero
    for _ in range(-(-steps // UNROLLED)):
        for lane in range(width):
            x, y, cr, ci = s[QX + lane], s[QY + lane], s[QCR + lane], s[QCI + lane]
            allowed, taken = s[ALLOWED + lane], s[TAKEN + lane]
            for _ in range(UNROLLED):
                t = cr - y * y
                d = x + x
                next_y = d * y + ci
                next_x = x * x + t
                moves = taken < allowed
                x = next_x if moves else x
                y = next_y if moves else y
                taken = taken + one if moves else taken
                allowed = allowed if next_x * next_x + next_y * next_y <= four else zero
            s[QX + lane] = x
            s[QY + lane] = y
            s[ALLOWED + lane] = allowed
            s[TAKEN + lane] = taken


@njit(cache=True, nogil=True)
def _write_escaped(f, k, escaped, count, smooth):  # type: ignore[no-untyped-def]
    """Store count and smooth count of the first `escaped` pixels in the float64 scratch; see formula.smooth_count."""
    width = -(-escaped // GROUP) * GROUP
    for lane in range(width):
        f[FAR_TAKEN + lane] = 0.0
        if lane >= escaped:
            f[FX + lane], f[FY + lane] = SETTLED, 0.0
    for _ in range(FAR_STEPS):
        near = 0
        for lane in range(width):
            x, y = f[FX + lane], f[FY + lane]
            moves = x * x + y * y < FAR2
            next_x, next_y = x * x - y * y + f[FCR + lane], 2.0 * x * y + f[FCI + lane]
            f[FX + lane] = next_x if moves else x
            f[FY + lane] = next_y if moves else y
            f[FAR_TAKEN + lane] += 1.0 if moves else 0.0
            near += 1 if moves else 0
        if near == 0:
            break
    for lane in range(escaped):
        i, j, n = k[FROW + lane], k[FCOLUMN + lane], k[FN + lane]
        x, y = f[FX + lane], f[FY + lane]
        count[i, j] = n
        smooth[i, j] = n + f[FAR_TAKEN + lane] + 1.0 - math.log2(math.log2(x * x + y * y) * 0.5)


@njit(cache=True, nogil=True)
def _settle(arrays, scratch, numbers, four, one, periodic):  # type: ignore[no-untyped-def]
    """Iterate the queue and clear it.

    Escaped pixels, and pixels at the end of their slice, are stored. Pixels that survive their first block become
    ready.
    """
    _, _, z, count, smooth = arrays
    s, f, k, _, _ = scratch
    limit, top = numbers[4], numbers[5]
    queued, ready, steps, escaped = k[QUEUED], k[READY], 0.0, 0
    width = -(-queued // GROUP) * GROUP
    for lane in range(queued, width):
        s[ALLOWED + lane] = one - one
    for lane in range(queued):
        steps = max(steps, np.float64(s[ALLOWED + lane]))
    _masked_steps(s, width, np.int64(steps), four, one)
    for lane in range(queued):
        x, y, taken = s[QX + lane], s[QY + lane], np.int64(s[TAKEN + lane])
        i, j, n = k[QROW + lane], k[QCOLUMN + lane], k[QN + lane] + taken
        if taken > 0 and not x * x + y * y <= four:
            f[FX + escaped], f[FY + escaped] = x, y
            f[FCR + escaped], f[FCI + escaped] = s[QCR + lane], s[QCI + lane]
            k[FN + escaped], k[FROW + escaped], k[FCOLUMN + escaped] = n, i, j
            escaped += 1
        elif n >= top or (periodic and n == taken == BLOCK and x == 0 and y == 0):  # back at z_0
            count[i, j], smooth[i, j] = top, np.nan
        elif n < k[QEND + lane]:
            s[RX + ready], s[RY + ready] = x, y
            s[RCR + ready], s[RCI + ready], s[RPOWER + ready] = s[QCR + lane], s[QCI + lane], one + one
            k[RN + ready], k[REND + ready], k[RROW + ready], k[RCOLUMN + ready] = n, k[QEND + lane], i, j
            ready += 1
            continue
        else:
            count[i, j], z[0, i, j], z[1, i, j] = -1 - n, x, y
            k[LEFT] += 1 if n < limit else 0
        k[WORK] += n
    _write_escaped(f, k, escaped, count, smooth)
    k[QUEUED], k[READY] = 0, ready


@njit(cache=True, nogil=True, forceinline=True)
def _enter(s, k, lane):  # type: ignore[no-untyped-def]
    """Move the last ready pixel into a lane."""
    at = k[READY] - 1
    x, y, n, end, clock = s[RX + at], s[RY + at], k[RN + at], k[REND + at], k[CLOCK]
    s[X + lane], s[Y + lane], s[CR + lane], s[CI + lane] = x, y, s[RCR + at], s[RCI + at]
    s[SEEN_X + lane], s[SEEN_Y + lane], s[AGE + lane], s[POWER + lane] = x, y, x - x, s[RPOWER + at]
    k[BASE + lane], k[END + lane], k[STOP + lane] = n - BLOCK * clock, end, clock + (end - n) // BLOCK
    k[ROW + lane], k[COLUMN + lane] = k[RROW + at], k[RCOLUMN + at]
    k[NEXT_STOP] = min(k[NEXT_STOP], k[STOP + lane])
    k[READY] = at


@njit(cache=True, nogil=True, forceinline=True)
def _idle(s, lane, four):  # type: ignore[no-untyped-def]
    """Set a lane to z = c = 0 with a cycle test that never succeeds."""
    zero = four - four
    s[X + lane], s[Y + lane], s[CR + lane], s[CI + lane] = zero, zero, zero, zero
    s[SEEN_X + lane], s[AGE + lane], s[POWER + lane] = four, zero, -four


@njit(cache=True, nogil=True, forceinline=True)
def _free(s, k, lane, four):  # type: ignore[no-untyped-def]
    """Refill a lane with a ready pixel, or with the last active lane if no pixel is ready."""
    if k[READY] > 0:
        _enter(s, k, lane)
        return
    k[ACTIVE] -= 1
    last = k[ACTIVE]
    for row in range(10):
        s[LANES * row + lane] = s[LANES * row + last]
    for row in range(5):
        k[LANES * row + lane] = k[LANES * row + last]
    _idle(s, last, four)


@njit(cache=True, nogil=True)
def _gather(arrays, scratch, hop, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """Read unfinished pixels until one is ready or the queue is full.

    Fresh pixels enter the queue for their first block, as do pixels with few remaining steps unless they need a cycle
    test after a block. All other pixels are ready. hop: distance between the rows of this unit.
    """
    re, im, z, count, smooth = arrays
    s, _, k, _, _ = scratch
    _, last, stride, iterations, limit, top = numbers
    four, quarter, sixteenth, one, margin = constants
    row, j, queued, ready = k[NEXT_ROW], k[NEXT_COLUMN], k[QUEUED], 0
    while row < last and ready == 0 and queued < LANES:
        i = row * stride
        ci = im[i]
        while j < re.size and ready == 0 and queued < LANES:
            done = np.int64(-1 - count[i, j])
            if 0 <= done < limit:
                cr = re[j]
                end = min(done + iterations, limit)
                to_go = end - done
                if done == 0 and shortcuts and inside(cr, ci, quarter, sixteenth, one, margin):
                    count[i, j], smooth[i, j] = top, np.nan
                elif to_go < BLOCK or (to_go < HEAD and not shortcuts) or (to_go >= HEAD and done == 0):
                    s[QX + queued], s[QY + queued] = four - four, four - four
                    if done > 0:
                        s[QX + queued], s[QY + queued] = z[0, i, j], z[1, i, j]
                    s[QCR + queued], s[QCI + queued] = cr, ci
                    s[ALLOWED + queued] = to_go if to_go < HEAD else BLOCK
                    k[QN + queued], k[QEND + queued], k[QROW + queued], k[QCOLUMN + queued] = done, end, i, j
                    queued += 1
                    k[WORK] -= done
                else:
                    s[RX], s[RY], s[RCR], s[RCI], s[RPOWER] = four - four, four - four, cr, ci, one
                    if done > 0:
                        s[RX], s[RY] = z[0, i, j], z[1, i, j]
                    k[RN], k[REND], k[RROW], k[RCOLUMN] = done, end, i, j
                    ready = 1
                    k[WORK] -= done
            j += stride
        if j >= re.size:
            row, j = row + hop, 0
    k[NEXT_ROW], k[NEXT_COLUMN], k[QUEUED], k[READY] = row, j, queued, ready


@njit(cache=True, nogil=True, forceinline=True)
def _fill(arrays, scratch, hop, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """Fill the free lanes. Settle the queue when the lanes are empty and no pixels remain."""
    s, _, k, _, _ = scratch
    last = numbers[1]
    four, one = constants[0], constants[3]
    while k[ACTIVE] < LANES:
        if k[READY] == 0 and k[NEXT_ROW] < last:
            _gather(arrays, scratch, hop, numbers, constants, shortcuts)
            if k[READY] == 0:  # the queue is full, or there is no further pixel
                _settle(arrays, scratch, numbers, four, one, shortcuts)
        elif k[READY] == 0 and k[ACTIVE] == 0 and k[QUEUED] > 0:
            _settle(arrays, scratch, numbers, four, one, shortcuts)
        elif k[READY] == 0:
            return
        else:
            _enter(s, k, k[ACTIVE])
            k[ACTIVE] += 1


@njit(cache=True, nogil=True, forceinline=True)
def _run(s, k, flags, words, four, one, periodic):  # type: ignore[no-untyped-def]
    """Iterate blocks until a lane is flagged or reaches the end of its slice. words: `flags` as 64-bit integers."""
    width = -(-k[ACTIVE] // GROUP) * GROUP
    clock, stop, flagged = k[CLOCK], k[NEXT_STOP], np.uint64(0)
    while flagged == 0 and clock < stop:
        _block(s, flags, width, four, one, periodic)
        clock += 1
        for word in range(width // 8):
            flagged |= words[word]
    k[CLOCK] = clock


@njit(cache=True, nogil=True, forceinline=True)
def _collect(arrays, scratch, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """Remove flagged and completed pixels from the lanes: store periodic pixels, queue the others."""
    _, _, _, count, smooth = arrays
    s, _, k, flags, _ = scratch
    four, one = constants[0], constants[3]
    clock = k[CLOCK]
    stopping = clock >= k[NEXT_STOP]
    if stopping:
        k[NEXT_STOP] = NEVER
    for lane in range(k[ACTIVE] - 1, -1, -1):  # downwards, so that the lane moved by _free was already checked
        if flags[lane] == 0 and not stopping:
            continue
        n, end, at = k[BASE + lane] + BLOCK * clock, k[END + lane], k[QUEUED]
        x, y = s[X + lane], s[Y + lane]
        escaped = not x * x + y * y <= four
        if flags[lane] and not escaped:
            count[k[ROW + lane], k[COLUMN + lane]], smooth[k[ROW + lane], k[COLUMN + lane]] = numbers[5], np.nan
            k[WORK] += n
        elif escaped or end - n < BLOCK:
            s[QX + at] = s[BEFORE_X + lane] if escaped else x
            s[QY + at] = s[BEFORE_Y + lane] if escaped else y
            s[QCR + at], s[QCI + at] = s[CR + lane], s[CI + lane]
            s[ALLOWED + at] = BLOCK if escaped else end - n
            k[QN + at], k[QEND + at] = n - BLOCK if escaped else n, end
            k[QROW + at], k[QCOLUMN + at] = k[ROW + lane], k[COLUMN + lane]
            k[QUEUED] += 1
        else:
            k[NEXT_STOP] = min(k[NEXT_STOP], k[STOP + lane])
            continue
        _free(s, k, lane, four)
        if k[QUEUED] == LANES:
            _settle(arrays, scratch, numbers, four, one, shortcuts)


@njit(cache=True, nogil=True)
def _unit(arrays, scratch, first, hop, numbers, constants, shortcuts):  # type: ignore[no-untyped-def]
    """Iterate the rows first, first + hop, … of a part. Return (iterations, unfinished pixels below the limit)."""
    s, _, k, flags, words = scratch
    four, one = constants[0], constants[3]
    k[CLOCK:] = 0
    k[NEXT_STOP], k[NEXT_ROW] = NEVER, first
    for lane in range(LANES):
        _idle(s, lane, four)
    _fill(arrays, scratch, hop, numbers, constants, shortcuts)
    while k[ACTIVE] > 0:
        _run(s, k, flags, words, four, one, shortcuts)
        _collect(arrays, scratch, numbers, constants, shortcuts)
        _fill(arrays, scratch, hop, numbers, constants, shortcuts)
    return k[WORK], k[LEFT]


@njit(cache=True, nogil=True, parallel=True)
def iterate_lanes(arrays, totals, numbers, constants, shortcuts, units):  # type: ignore[no-untyped-def]
    """Iterate the pixels of a part, with the results of formula.iterate.

    arrays: re, im, z, count, smooth; numbers: see cpu_numba; constants: 4, 1/4, 1/16, 1 and the margin, in z's type.
    units: number of work units. Rows are assigned to units in turn: neighbouring rows have a similar cost, distant rows
    may differ by orders of magnitude.
    """
    first = numbers[0]
    work = 0
    left = 0
    for unit in prange(units):
        real = arrays[2].dtype
        flags = np.zeros(LANES, np.uint8)
        scratch = np.empty(REALS, real), np.empty(FARS), np.empty(INTEGERS, np.int64), flags, flags.view(np.uint64)
        did, stay = _unit(arrays, scratch, first + np.int64(unit), np.int64(units), numbers, constants, shortcuts)
        work += did
        left += stay
    totals[0] += work
    totals[1] += left
