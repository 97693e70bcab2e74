"""Profile the steps on this GPU and compare forms of its kernels, to choose their constants.

`python -m compute.labs.l_curve.gpu_tune [n]` prints the times for the tutorial's problem in float32. It changes
nothing: the forms are constants of gpu_launch.py (THREADS) and gpu_onepass.py (SHAPES).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

from compute.devices.backends import backend
from compute.labs.l_curve import gpu_cupy, gpu_launch, gpu_onepass
from compute.labs.l_curve.bidiagonal import BidiagonalArrays, compressed
from compute.labs.l_curve.problems import make

N, REAL = 15_000, "float32"
THREADS = (512, 640, 768, 896, 1024)
FORMS = ((2, 8, 4, 2), (2, 8, 2, 2), (2, 8, 2, 4), (2, 8, 1, 4), (2, 8, 1, 6), (1, 8, 4, 2), (1, 16, 1, 4))
LAUNCHES, ROUNDS = 20, 5
STEPS = (100, 290, 580)  # a curve at the tutorial's accuracy takes 580


class Tuning:
    """The tutorial's problem on the GPU, with methods to time its kernels."""

    def __init__(self, n: int) -> None:
        self.device = backend("gpu_cupy").open_device()
        A, self.b, _ = make("random_sparse", n=n)
        self.A = compressed(A, REAL)
        self.work = BidiagonalArrays.of(self.device, gpu_cupy, self.A, max(STEPS))
        self.begin()

    def begin(self) -> None:
        """Run `start`."""
        self.device.write(self.b.astype(REAL), self.work.u)
        gpu_cupy.start(self.work)

    def seconds(self, call: Callable[[], Any], launches: int = LAUNCHES) -> float:
        """Return device seconds of one call: the median of ROUNDS of `launches` calls each, without the first round."""
        taken = []
        for _ in range(ROUNDS + 1):
            with self.device.stopwatch() as watch:
                for _ in range(launches):
                    call()
            taken.append(watch.seconds() / launches)
        return float(np.median(taken[1:]))

    def products(self) -> Iterator[str]:
        """Time products by threads of a block with x in shared memory; A and its transpose in turn."""
        work, kept = self.work, dict(gpu_launch.THREADS)
        turns = (work.A, work.V[0], work.w), (work.T, work.u, work.w)
        for threads in THREADS:
            gpu_launch.THREADS[REAL] = threads
            gpu_launch._product.cache_clear()  # noqa: SLF001 the forms are tried by the package itself
            seconds = self.seconds(lambda: self.both(*turns)) / 2
            yield f"product, {threads} threads: {1e6 * seconds:.1f} us, {self.rate(seconds):.0f} GB/s"
        gpu_launch.THREADS.update(kept)
        gpu_launch._product.cache_clear()  # noqa: SLF001

    def both(self, *turns: Any) -> None:
        """Compute a product with A and a product with its transpose."""
        for turn in turns:
            gpu_cupy.multiply(*turn)

    def passes(self) -> Iterator[str]:
        """Time forms of the pass: groups, warps of a group, rows of a turn, turns in registers."""
        work, kept = self.work, dict(gpu_onepass.SHAPES)
        truth = self.coefficients(gpu_cupy.two_products)
        for form in FORMS:
            gpu_onepass.SHAPES[REAL] = (form,)
            gpu_onepass._tiles.clear()  # noqa: SLF001
            start = perf_counter()
            tiles = gpu_onepass.tiles_of(work.A)
            self.device.synchronise()
            laid = perf_counter() - start
            if tiles is None:
                yield f"pass {form}: not for this matrix"
                continue
            run = gpu_onepass.sweep(tiles)
            sums, made = (
                self.device.allocate((run.blocks * work.w.size,), REAL),
                self.device.allocate((run.blocks,), "f8"),
            )
            how = gpu_launch.Recurrence(norm=self.device.upload(np.zeros(1)), made=made)
            seconds = self.seconds(lambda: run(tiles, work.V[0], work.u, sums, how))  # noqa: B023
            apart = np.abs(self.coefficients(gpu_cupy.steps) / truth - 1).max()
            nbytes = sum(array.nbytes for array in (tiles.starts, tiles.columns, tiles.values))
            yield (
                f"pass {form}: {1e6 * seconds:.1f} us, {self.rate(seconds):.0f} GB/s of 6 bytes, {nbytes / 1e6:.0f} MB "
                f"laid out in {1e3 * laid:.0f} ms; coefficients differ by {apart:.1e}"
            )
        gpu_onepass.SHAPES.update(kept)
        gpu_onepass._tiles.clear()  # noqa: SLF001

    def vectors(self) -> Iterator[str]:
        """Time the orthogonalisation of w to STEPS rows of V, and the merge of the sums of a pass."""
        work, kernels = self.work, gpu_launch.vectors(self.work.w)
        parts = self.device.allocate((gpu_launch.SLICES * (max(STEPS) + 1),), REAL)
        made = self.device.allocate((gpu_launch.MOST_BLOCKS,), "float64")
        for k in STEPS:
            slices = kernels.slices_for(k, work.w.size)
            one = self.seconds(lambda: kernels.project(work.V, k, work.w, parts, slices))  # noqa: B023
            two = self.seconds(lambda: kernels.subtract(work.V, k, parts, slices, work.w, made))  # noqa: B023
            size = k * work.w.nbytes / 1e9
            rates = f"{size / one:.0f} and {size / two:.0f} GB/s"
            yield f"k = {k}: project {1e6 * one:.1f} us, subtract {1e6 * two:.1f} us; {rates}"
        blocks = gpu_launch.facts(0).multiprocessors
        sums, squares = self.device.allocate((blocks * work.w.size,), REAL), (made, made)
        left = work.w, work.beta, work.V[0], squares, gpu_launch.NULL
        merge = self.seconds(lambda: kernels.merge((sums, blocks), *left))
        yield f"merge of {blocks} sums: {1e6 * merge:.1f} us"

    def curves(self) -> Iterator[str]:
        """Time all steps of a curve at the tutorial's accuracy."""
        for name, steps in gpu_cupy.VARIANTS.items():
            for orthogonal in (True, False):
                taken = []
                for _ in range(ROUNDS):
                    self.begin()
                    self.device.synchronise()
                    with self.device.stopwatch() as watch:
                        steps(self.work, 0, max(STEPS), orthogonal, 0.0)
                    taken.append((watch.seconds(), watch.launch))
                seconds, launch = np.median(taken, axis=0)
                what = "orthogonalised" if orthogonal else "without orthogonalisation"
                took = f"{1e3 * seconds:.2f} ms, launched in {1e3 * launch:.2f} ms"
                yield f"{max(STEPS)} steps, {name}, {what}: {took}"

    def coefficients(self, steps: Callable[..., None]) -> Any:
        """Return alpha and beta of the first steps."""
        self.begin()
        steps(self.work, 0, 8, True, 0.0)
        return np.concatenate([self.device.download(getattr(self.work, name))[:8] for name in ("alpha", "beta")])

    def rate(self, seconds: float) -> float:
        """Return GB/s at 6 bytes per non-zero."""
        return 6e-9 * float(self.A.nnz) / seconds


def main() -> None:
    """Print all times, and the copy bandwidth for comparison."""
    from compute.measure.roofs import copy_bandwidth

    tuning = Tuning(int(sys.argv[1]) if len(sys.argv) > 1 else N)
    copied = copy_bandwidth(tuning.device).rate.median
    sys.stdout.write(f"n = {tuning.A.shape[0]}, {tuning.A.nnz} non-zeros, {REAL}; copying: {copied / 1e9:.0f} GB/s\n")
    for part in (tuning.products, tuning.passes, tuning.vectors, tuning.curves):
        for line in part():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
