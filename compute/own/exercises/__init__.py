"""Ten exercises, from array + 1 to streams: each has a file with a gap (`*.py.txt`), hidden inputs and demands.

A student's answer is compared with NumPy at sizes derived from the student's name, in three orders of blocks and
threads, with every memory access recorded (compute/own/watch.py). Some exercises also limit launches, accesses or
atomics. No GPU is needed. files.py documents further exercises from a teacher's folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Literal

import numpy as np

from compute.cli.arguments import named
from compute.own.exercises.files import CHECK, ExerciseText, named_folders, texts_in
from compute.own.watch import KernelLaunch

LARGEST_N = 4096  # hidden n of a folder's exercise: a simulator runs the answer
BINS = 8
Demand = Callable[[Sequence[KernelLaunch], int, int], str]  # (launches, streams, n) -> the unmet demand as text, or ""


def _nothing(launches: Sequence[KernelLaunch], streams: int, n: int) -> str:  # noqa: ARG001 - as every Demand
    return ""


@dataclass(frozen=True)
class Exercise(ExerciseText):
    """An exercise with its hidden part. inputs: (n, rng) -> arrays.

    reference: returns the expected results, or None after changing its inputs; large: range of the largest hidden n;
    demand: requirement beyond correct numbers; on: memory of the arrays passed to `solve`.
    """

    inputs: Callable[[int, np.random.Generator], tuple[Any, ...]]
    reference: Callable[..., Any]
    large: tuple[int, int] = (130, 400)
    demand: Demand = _nothing
    on: Literal["device", "host"] = "device"

    def sizes(self, seed: int) -> tuple[int, ...]:
        """Return the hidden n: 1, an odd n, a neighbour of a multiple of 32, and a large n, no multiple of 16."""
        rng = np.random.default_rng(seed)
        odd, uneven = 2 * int(rng.integers(8, 16)) + 1, 32 * int(rng.integers(1, 4)) + int(rng.choice([-1, 1]))
        large = int(rng.integers(*self.large))
        return tuple(sorted({1, odd, min(uneven, self.large[1]), large + (large % 16 == 0)}))


def seed_of(student: str, exercise: str) -> int:
    """Return a seed that depends only on the student and the exercise, on every machine."""
    return int.from_bytes(hashlib.sha256(f"{student}\n{exercise}".encode()).digest()[:4])


# -- inputs


def _numbers(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random(n, dtype=np.float32),)


def _matrix(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random((n, n), dtype=np.float32),)


def _equations(n: int, rng: np.random.Generator) -> tuple[Any, ...]:
    a, c = rng.uniform(0.5, 1, (2, n)).astype(np.float32)
    return a, (2.1 + rng.random(n)).astype(np.float32), c


# -- expected results


def _plus_one(a: Any) -> None:
    a += 1


def _smoothed(x: Any) -> None:
    for _ in range(3):
        x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3


def _sum(x: Any) -> Any:
    return np.array([x.sum(dtype=np.float64)], np.float32)


def _counted(x: Any) -> Any:
    return np.bincount((x * BINS).astype(np.int64), minlength=BINS).astype(np.int32)


def _mean_of_five(x: Any) -> Any:
    p = np.pad(x, 2, mode="edge")
    return (p[:-4] + p[1:-3] + p[2:-2] + p[3:-1] + p[4:]) / np.float32(5)


def _larger_root(a: Any, b: Any, c: Any) -> Any:
    return (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a)


# -- demands


def _neighbours(most: float, large: int, power: int) -> Demand:
    """Demand at most `most` 32-byte sectors per warp access for n >= `large`, and n**power reads and writes each."""

    def demand(launches: Sequence[KernelLaunch], _streams: int, n: int) -> str:
        """Return the unmet demand, or ""."""
        sectors, accesses = sum(one.sectors for one in launches), sum(one.accesses for one in launches)
        reads, writes = sum(one.reads for one in launches), sum(one.writes for one in launches)
        if max(reads, writes) > n**power:
            made = f"{reads} reads and {writes} writes at n = {n}"
            return f"the numbers are right, but there are {made}; {n**power} of each would do"
        if n < large or sectors <= most * accesses:
            return ""
        return (
            f"the numbers are right, but an access of a warp touches {sectors / accesses:.1f} pieces of 32 bytes, and "
            f"{most:g} would do: neighbouring threads must touch neighbouring numbers"
        )

    return demand


def _few_atomics(each: int, block: int) -> Demand:
    """Demand at most `each` atomics on the result per block of `block` elements."""

    def demand(launches: Sequence[KernelLaunch], _streams: int, n: int) -> str:
        """Return the unmet demand, or ""."""
        made, most = sum(one.atomics for one in launches), each * -(-n // block)
        if made <= most:
            return ""
        return f"the numbers are right, but there are {made} atomic additions to the result at n = {n}; {most} would do"

    return demand


def _few_reads(launches: Sequence[KernelLaunch], streams: int, n: int) -> str:  # noqa: ARG001 - as every Demand
    made, most = sum(one.reads for one in launches), 68 * -(-n // 64)
    if made <= most:
        return ""
    return (
        f"the numbers are right, but x is read {made} times at n = {n}; {most} reads would do with a tile and its halo"
    )


def _one_kernel(launches: Sequence[KernelLaunch], streams: int, n: int) -> str:  # noqa: ARG001 - as every Demand
    if len(launches) != 1:
        return f"the numbers are right, but there are {len(launches)} launches; one would do"
    reads, writes = launches[0].reads, launches[0].writes
    if reads > 3 * n or writes > n:
        made = f"{reads} reads and {writes} writes at n = {n}"
        return f"the numbers are right, but there are {made}; {3 * n} and {n} would do"
    return ""


def _two_streams(launches: Sequence[KernelLaunch], streams: int, n: int) -> str:
    if n < 64:
        return ""
    if len(launches) < 4:
        return f"the numbers are right, but there are {len(launches)} launches; each of the four parts needs one"
    return (
        "" if streams > 1 else f"the numbers are right, but {streams or 'no'} stream of the two is used by the kernels"
    )


EXERCISES = (
    Exercise("add_one", "Add one, with a guard for the last block", _numbers, _plus_one),
    Exercise(
        "coalescing", "Neighbours read neighbours", _numbers, lambda x: 2 * x, (600, 1000), _neighbours(5, 512, 1)
    ),
    Exercise("tile", "Transpose through shared memory", _matrix, lambda x: x.T.copy(), (33, 50), _neighbours(8, 32, 2)),
    Exercise("in_place", "The race of a smoothing in place", _numbers, _smoothed),
    Exercise("reduction", "The sum, one atomic a block", _numbers, _sum, demand=_few_atomics(1, 64)),
    Exercise("histogram", "A histogram with atomics", _numbers, _counted),
    Exercise("private", "A histogram a block", _numbers, _counted, (300, 600), _few_atomics(BINS, 64)),
    Exercise("halo", "A stencil with its halo in shared memory", _numbers, _mean_of_five, demand=_few_reads),
    Exercise("fused", "One kernel for a whole formula", _equations, _larger_root, demand=_one_kernel),
    Exercise(
        "streams", "Copies during kernels, on two streams", _numbers, lambda x: x * x, (130, 400), _two_streams, "host"
    ),
)


def listed() -> tuple[ExerciseText, ...]:
    """Return the ten exercises, then those of the named folders; nothing of the latter runs."""
    return (*EXERCISES, *(one for folder in named_folders() for one in texts_in(folder)))


def exercise(name: str) -> Exercise:
    """Return the exercise of that name; the hidden part of a folder's exercise is run for that.

    Raise ValueError, which lists the names, if it does not exist, or its hidden part is invalid.
    """
    found = named("exercise", name, {one.name: one for one in listed()})
    return found if isinstance(found, Exercise) else _completed(found)


@cache
def _completed(of: ExerciseText) -> Exercise:
    """Run the hidden part of a folder's exercise."""
    path = of.folder / f"{of.name}{CHECK}"
    spec = spec_from_file_location(f"check_{of.name}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    parts = vars(module)
    for function in ("inputs", "reference"):
        if not callable(parts.get(function)):
            raise ValueError(f"{path} must have a function {function}")  # noqa: TRY004 - of a file's contents
    large, on, demand = parts.get("LARGE", (130, 400)), parts.get("ON", "device"), parts.get("demand", _nothing)
    if on not in ("device", "host") or not callable(demand):
        raise ValueError(f"{path}: ON must be 'device' or 'host', not {on!r}, and demand a function")
    whole = isinstance(large, tuple) and len(large) == 2 and all(type(n) is int for n in large)
    if not whole or not 130 <= large[0] < large[1] <= LARGEST_N:
        raise ValueError(
            f"{path}: LARGE must be two whole numbers, 130 <= lowest < highest <= {LARGEST_N}, not {large}"
        )
    return Exercise(of.name, of.title, parts["inputs"], parts["reference"], large, demand, on, folder=of.folder)
