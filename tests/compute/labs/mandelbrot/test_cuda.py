"""The lab's GPU kernels without a GPU: CUDA C on the CPU, and Numba's kernels in its simulator."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.mandelbrot import Mandelbrot, gpu_cupy
from compute.labs.mandelbrot.schedule import Schedule
from compute.labs.mandelbrot.state import FEW, LaunchPart
from tests.cuda_on_cpu import upload
from tests.simulator import simulate

pytestmark = pytest.mark.extended

VIEWS = {
    "home": {"ny": 21, "nx": 26, "max_iterations": 150},
    "float32": {"ny": 21, "nx": 26, "max_iterations": 150, "precision": "float32"},
    "seahorses": {"center": ("-0.743643887", "0.131825904"), "zoom": "1e5", "ny": 9, "nx": 10, "max_iterations": 700},
    "edge": {"center": ("-1.757", "0.001"), "zoom": "1e2", "ny": 6, "nx": 9, "max_iterations": 900,
             "precision": "perturbation"},
    "spiral e50": {"center": ("0", "1"), "zoom": "1e50", "ny": 6, "nx": 9, "max_iterations": 400},
    "spiral e400": {"center": ("0", "1"), "zoom": "1e400", "ny": 5, "nx": 4, "max_iterations": 1500},
}  # fmt: skip


@pytest.mark.parametrize(
    ("view", "how"),
    [
        *((view, {}) for view in VIEWS),
        *(
            (view, {"variant": variant, "shortcuts": False})
            for view in ("home", "float32") for variant in ("doubling by addition", "test each step")
        ),
    ],
)  # fmt: skip
def test_cuda_c_on_the_cpu_equals_numba(on_cpu, view, how):
    """Nearly all counts are equal: fused multiply-adds round differently."""
    reference = Mandelbrot(**VIEWS[view])
    wanted, smooth = reference.counts(), reference.smooth()
    lab = on_cpu(**VIEWS[view], **how)
    counts = lab.counts()
    same = counts == wanted
    assert same.mean() >= 0.995
    assert np.abs(counts - wanted).max() <= 1
    np.testing.assert_allclose(lab.smooth()[same], smooth[same], rtol=2e-3)
    assert lab.iterations > 0
    samples = upload(np.zeros((-(-lab.ny // 4), -(-lab.nx // 4)), np.float32))
    gpu_cupy.pick(lab.state.smooth, samples, 4)
    np.testing.assert_array_equal(samples, lab.state.smooth[::4, ::4])


def test_the_kernel_of_counts_alone_gives_the_same_counts(on_cpu):
    """No smooth count of an escaping pixel is written."""
    lab = on_cpu(**{**VIEWS["home"], "shortcuts": False})
    truth = lab.counts()
    lab.reset()
    lab.state.smooth[:] = 7
    lab.state.forget_totals(lab.device)
    top = lab.max_iterations
    gpu_cupy.counts_only(lab.state, LaunchPart(0, lab.ny, 1, top, top, top, shortcuts=False))
    np.testing.assert_array_equal(lab.state.count, truth)
    assert (lab.state.smooth[truth < top] == 7).all()
    assert lab.state.sums(lab.device) == (truth.sum(), 0)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("top", [1, 4, 20, 23, 64])
def test_few_iterations_by_tiles_equal_the_general_kernel(on_cpu, top, precision):
    """Odd sizes, partially filled tiles, a row with real c; counts, smooth counts and totals."""
    sizes = {"ny": 21, "nx": 45, "max_iterations": top, "precision": precision}
    lab = on_cpu(**sizes, center=("-0.5", "0"), zoom="1", shortcuts=False)
    assert 0 in lab.state.im
    for kernel in (gpu_cupy.direct, gpu_cupy.counts_only):
        found = []
        for fresh in (True, False):
            lab.reset()
            lab.state.forget_totals(lab.device)
            part = LaunchPart(2, 21, 1, top, top, top, shortcuts=False, fresh=fresh)
            assert part.few is fresh
            kernel(lab.state, part)
            found.append((lab.state.count.copy(), lab.state.smooth.copy(), lab.state.sums(lab.device)))
        tiles, general = found
        np.testing.assert_array_equal(tiles[0], general[0])
        np.testing.assert_allclose(tiles[1], general[1], rtol=2e-6, atol=4e-6)  # computed a few steps later
        assert np.isnan(tiles[1]).all() == (kernel is gpu_cupy.counts_only)
        assert tiles[2] == general[2]
        assert (tiles[0][2:] >= 0).all()
        assert (tiles[0][:2] < 0).all()  # rows of another part are not written


def test_only_the_first_sweep_of_a_new_picture_is_fresh():
    schedule = Schedule(16, 9, 5000, shortcuts=False, fresh=True)
    first = schedule.part(10**9)
    assert (first.fresh, first.stride, first.few) == (True, 8, False)
    schedule.did(first, 3)  # pixels are left: the next sweep continues them
    assert not schedule.part(10**9).fresh
    assert not Schedule(16, 9, 20, shortcuts=False).part(10**9).fresh
    assert Schedule(16, 9, 20, False, (1,), fresh=True).part(10**9).few
    assert not Schedule(16, 9, 20, True, (1,), fresh=True).part(10**9).few
    assert not Schedule(16, 9, FEW + 1, False, (1,), fresh=True).part(10**9).few


PROGRAM = """
import sys
import numpy as np
from compute.labs.mandelbrot import Mandelbrot
from tests.compute.labs.mandelbrot import test_cycle
from tests.compute.labs.mandelbrot.test_cuda import SIMULATED
made = {}
for name, view in SIMULATED.items():
    lab = Mandelbrot(backend="gpu_numba", **view)
    lab.advance(1)
    lab.frame()
    made[name], made[name + " smooth"] = lab.counts(), lab.smooth()
    assert lab.iterations > 0
kernel = test_cycle.eased(lab.device, lab.kernels.multiplier)
test_cycle.test_without_a_cycle_the_multiplier_is_nan(kernel)
lam = np.array([0.5, 0.9j, -1])
np.testing.assert_allclose(kernel(lam / 4 - 1, 64, 4), abs(lam), atol=1e-6)
np.savez(sys.argv[1], **made)
"""
SIMULATED = {
    "home": {"ny": 6, "nx": 9, "max_iterations": 40},
    "float32": {"ny": 5, "nx": 4, "max_iterations": 40, "precision": "float32", "shortcuts": False},
    "each step": {"ny": 3, "nx": 4, "max_iterations": 20, "shortcuts": False, "variant": "test each step"},
    "literals": {"ny": 3, "nx": 4, "max_iterations": 20, "shortcuts": False, "variant": "float64 literals"},
    "complex": {"ny": 3, "nx": 4, "max_iterations": 20, "shortcuts": False, "variant": "complex z**2"},
    "inside": {"center": ("-1.757", "0"), "zoom": "1e8", "ny": 2, "nx": 3, "max_iterations": 900},
    "spiral e50": {"center": ("0", "1"), "zoom": "1e50", "ny": 3, "nx": 4, "max_iterations": 400},
    "spiral e320": {"center": ("0", "1"), "zoom": "1e320", "ny": 2, "nx": 3, "max_iterations": 1100},
}


def test_numba_cuda_in_the_simulator_equals_numba(tmp_path):
    simulate(PROGRAM, tmp_path / "made.npz")
    made = dict(np.load(tmp_path / "made.npz"))
    for name, view in SIMULATED.items():
        truth = Mandelbrot(**{**view, "variant": ""})
        np.testing.assert_array_equal(made[name], truth.counts())
        np.testing.assert_allclose(made[name + " smooth"], truth.smooth(), rtol=1e-5)
