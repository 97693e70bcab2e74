"""For each exercise a solution, and typical wrong answers with the expected fault.

The texts fill the gap from '# -- your code' to '# -- end'.
"""

from __future__ import annotations

from typing import NamedTuple


class Answers(NamedTuple):
    """right: the solution; wrong: (a part of it, its replacement, kind of the fault, part of its message)."""

    right: str
    wrong: tuple[tuple[str, str, str, str], ...]


ANSWERS = {
    "add_one": Answers(
        """
@cuda.jit
def add_one(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1
""",
        (
            ("    if i < a.size:\n        a[i] += 1", "    a[i] += 1", "outside", "but a has"),
            ("cuda.grid(1)", "cuda.threadIdx.x", "race", "a race: "),
        ),
    ),
    "coalescing": Answers(
        """
@cuda.jit
def double(x, out):
    t = cuda.grid(1)
    for i in range(t, x.size, cuda.gridsize(1)):
        out[i] = 2 * x[i]
""",
        (
            (
                "    for i in range(t, x.size, cuda.gridsize(1)):",
                "    each = -(-x.size // 64)\n    for i in range(t * each, min((t + 1) * each, x.size)):",
                "demand",
                "neighbouring threads must touch neighbouring numbers",
            ),
            ("range(t, x.size, cuda.gridsize(1))", "range(x.size)", "demand", "of each would do"),
        ),
    ),
    "tile": Answers(
        """
@cuda.jit
def transpose(x, out):
    tile = cuda.shared.array((16, 16), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = 16 * cuda.blockIdx.x, 16 * cuda.blockIdx.y
    n = x.shape[0]
    if top + row < n and left + column < n:
        tile[row, column] = x[top + row, left + column]
    cuda.syncthreads()
    if left + row < n and top + column < n:
        out[left + row, top + column] = tile[column, row]
""",
        (
            (
                (
                    "    cuda.syncthreads()\n    if left + row < n and top + column < n:\n"
                    "        out[left + row, top + column] = tile[column, row]"
                ),
                (
                    "    if top + row < n and left + column < n:\n"
                    "        out[left + column, top + row] = x[top + row, left + column]"
                ),
                "demand",
                "would do",
            ),
            ("    cuda.syncthreads()\n", "", "race", "shared memory"),
        ),
    ),
    "in_place": Answers(
        """
@cuda.jit
def smooth(x, out):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        out[i] = (x[i - 1] + x[i] + x[i + 1]) / 3
    elif i < x.size:
        out[i] = x[i]


def steps(x, out, blocks):
    result = x
    for _ in range(3):
        smooth[blocks, 64](x, out)
        x, out = out, x
    result.copy_to_device(x)
""",
        (("smooth[blocks, 64](x, out)\n        x, out = out, x", "smooth[blocks, 64](x, x)", "race", "a race: "),),
    ),
    "reduction": Answers(
        """
@cuda.jit
def add_up(x, total):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 32
    while step:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(total, 0, part[0])
""",
        (
            (
                "            part[t] += part[t + step]\n        cuda.syncthreads()",
                "            part[t] += part[t + step]",
                "race",
                "shared memory",
            ),
            (
                "    if t == 0:\n        cuda.atomic.add(total, 0, part[0])",
                "    if i < x.size:\n        cuda.atomic.add(total, 0, x[i])",
                "demand",
                "atomic additions to the result",
            ),
        ),
    ),
    "histogram": Answers(
        """
@cuda.jit
def count(x, counts):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(counts, int(x[i] * 8), 1)
""",
        (("cuda.atomic.add(counts, int(x[i] * 8), 1)", "counts[int(x[i] * 8)] += 1", "race", "counts["),),
    ),
    "private": Answers(
        """
@cuda.jit
def count(x, counts):
    mine = cuda.shared.array(8, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, int(x[i] * 8), 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])
""",
        (
            (
                "cuda.atomic.add(mine, int(x[i] * 8), 1)",
                "cuda.atomic.add(counts, int(x[i] * 8), 1)",
                "demand",
                "atomic additions to the result",
            ),
            ("        mine[t] = 0\n", "        pass\n", "differs", "it is wrong at n = "),
        ),
    ),
    "halo": Answers(
        """
@cuda.jit
def mean(x, out):
    tile = cuda.shared.array(68, float32)
    i, t, n = cuda.grid(1), cuda.threadIdx.x, x.shape[0]
    first = 64 * cuda.blockIdx.x - 2
    tile[t] = x[min(max(first + t, 0), n - 1)]
    if t < 4:
        tile[64 + t] = x[min(first + 64 + t, n - 1)]
    cuda.syncthreads()
    if i < n:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2] + tile[t + 3] + tile[t + 4]) / 5
""",
        (
            (
                "(tile[t] + tile[t + 1] + tile[t + 2] + tile[t + 3] + tile[t + 4])",
                "(x[max(i - 2, 0)] + x[max(i - 1, 0)] + x[i] + x[min(i + 1, n - 1)] + x[min(i + 2, n - 1)])",
                "demand",
                "reads would do with a tile",
            ),
        ),
    ),
    "fused": Answers(
        """
@cuda.jit
def root(a, b, c, out):
    i = cuda.grid(1)
    if i < a.size:
        ai, bi = a[i], b[i]
        out[i] = (-bi + sqrt(bi * bi - 4 * ai * c[i])) / (2 * ai)


def launch(a, b, c, out, blocks):
    root[blocks, 64](a, b, c, out)
""",
        (
            (
                "        out[i] = (-bi + sqrt(bi * bi - 4 * ai * c[i])) / (2 * ai)\n",
                (
                    "        out[i] = bi * bi - 4 * ai * c[i]\n\n\n"
                    "@cuda.jit\ndef finish(a, b, out):\n    i = cuda.grid(1)\n"
                    "    if i < a.size:\n        out[i] = (-b[i] + sqrt(out[i])) / (2 * a[i])\n"
                ),
                "demand",
                "2 launches; one would do",
            ),
            (
                "(-bi + sqrt(bi * bi - 4 * ai * c[i])) / (2 * ai)",
                "(-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i])",
                "demand",
                "reads and",
            ),
        ),
    ),
    "streams": Answers(
        """
def in_parts(x, out):
    streams = [cuda.stream(), cuda.stream()]
    size = -(-x.size // 4)
    for number in range(4):
        stream, begin, end = streams[number % 2], number * size, min((number + 1) * size, x.size)
        if begin < end:
            part = cuda.to_device(x[begin:end], stream=stream)
            square[-(-size // 64), 64, stream](part)
            part.copy_to_host(out[begin:end], stream=stream)
    for stream in streams:
        stream.synchronize()
""",
        (
            ("streams[number % 2]", "streams[0]", "demand", "1 stream of the two is used"),
            ("size = -(-x.size // 4)", "size = x.size // 4", "differs", "it is wrong at n = "),
        ),
    ),
}
