"""The table of jumps: every backend against NumPy, NumPy against exact steps, and assumptions of the kernels."""

from __future__ import annotations

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from compute.devices.devices import Host
from compute.labs.mandelbrot import bla, cpu_numba, reference_orbit
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.views import VIEWS
from tests.compute.labs.mandelbrot.test_deep import SEED
from tests.simulator import simulate

NUCLEUS = -1 + Fraction(1, 10**170), Fraction(0)  # every second Z is about 1e-170: its square underflows in float64
OLD_BITS = {"e14": 200, "e113": 500, "dive e323": 1200, "dive e1007": 3500}
# orbit, log2 of the largest |dc|, with exponents or plain
CASES = {
    "e14 plain": ("e14", -100.0, False),
    "e113 plain": ("e113", -375.0, False),
    "e113 far": ("e113", -375.0, True),
    "nucleus plain": ("nucleus", -570.0, False),
    "nucleus far": ("nucleus", -1300.0, True),
    "e1007 far": ("dive e1007", -3346.0, True),
    "three steps": ("spiral 3", -200.0, False),
    "two steps": ("spiral 2", -200.0, True),
    "one step": ("spiral 1", -200.0, False),
}


def orbit_of(name):
    """Return values and exponents of a real orbit; a long one is truncated."""
    if name == "nucleus":
        made = reference_orbit.compute(*NUCLEUS, 1500, 999)
    elif name.startswith("spiral"):
        made = reference_orbit.compute(Fraction(0), Fraction(1), 200, int(name.split()[1]))
    else:
        place = Place.of(VIEWS[name].center, VIEWS[name].zoom, 1080, 1920)
        made = reference_orbit.compute(place.re, place.im, OLD_BITS[name], min(VIEWS[name].max_iterations, 9001))
    return made.values(), made.exponents()


def table_of(function, case, device):
    """Return table, powers and radius of `function` for a case."""
    name, log2_dc, far = CASES[case]
    return filled(function, *orbit_of(name), log2_dc, -53.0, far, device)


def filled(function, values, exponents, log2_dc, log2_epsilon, far, device):
    """Return table, powers and radius, from arrays filled with 7; entries outside the table stay 7."""
    if not far:
        values, exponents = np.ldexp(values, exponents[:, None]), exponents[:1]
    size = bla.entries(len(values) - 1)
    shapes = ((size, 4), np.float64), ((size, 2), np.int32), ((size,), np.float64)
    arrays = [device.upload(np.full(shape, 7, dtype)) for shape, dtype in shapes]
    function(device.upload(values), device.upload(exponents), *arrays, log2_dc, log2_epsilon, far)
    return [device.download(array) for array in arrays]


def exists(steps, size):
    """Return which places of the table contain a stretch that ends within the orbit."""
    found = np.zeros(size, bool)
    for level in range(steps.bit_length()):
        for i in range(steps >> level):
            found[(2 * i << level) + (1 << level) - 1] = True
    return found


def agree(made, truth, case):
    """Check usable entries to a few ulp, and that the same entries are usable and no others were written."""
    name, _, far = CASES[case]
    (table, powers, radius), (table0, powers0, radius0) = made, truth
    there = exists(len(orbit_of(name)[0]) - 2, len(radius))
    for array in (table[~there], radius[~there]) + (() if far else (powers,)):
        assert (array == 7).all()
    low = bla.NEVER if far else 0.0
    use = there & (radius0 > low)
    np.testing.assert_array_equal(there & (radius > low), use)
    np.testing.assert_array_equal(radius[there & ~use], low)
    with np.errstate(divide="ignore"):
        logs = [each[use] if far else np.log2(each[use]) for each in (radius, radius0)]
    np.testing.assert_allclose(*logs, rtol=0, atol=1e-12)
    numbers, numbers0 = table[use].view(complex), table0[use].view(complex)
    if far:
        np.testing.assert_array_equal(powers[use], powers0[use])
    assert (np.abs(numbers - numbers0) <= 1e-13 * np.abs(numbers0)).all()  # 2^-53 for each of the merges below
    return int(use.sum())


@pytest.mark.float64
@pytest.mark.parametrize("case", CASES)
def test_every_backend_makes_the_table_of_numpy(way, case):
    truth = table_of(bla.bla, case, Host())
    made = table_of(way.kernels.bla, case, way.device)
    assert agree(made, truth, case) >= (0 if "step" in case or "e14" in case else 400)


PROGRAM = """
import sys
import numpy as np
from compute.devices.backends import backend
from tests.compute.labs.mandelbrot.test_bla import CASES, SIMULATED, table_of
chosen = backend("gpu_numba")
device, kernels = chosen.open_device(), chosen.kernels("compute.labs.mandelbrot")
CASES |= SIMULATED
np.savez(sys.argv[1], **{f"{case}/{k}": array for case in SIMULATED
                         for k, array in enumerate(table_of(kernels.bla, case, device))})
"""
SIMULATED = {"plain": ("spiral 131", -200.0, False), "far": ("spiral 77", -2000.0, True)}


def test_numba_cuda_in_the_simulator_makes_the_table_of_numpy(tmp_path, monkeypatch):
    simulate(PROGRAM, tmp_path / "made.npz")
    made = dict(np.load(tmp_path / "made.npz"))
    for case, values in SIMULATED.items():
        monkeypatch.setitem(CASES, case, values)
        assert agree([made[f"{case}/{k}"] for k in range(3)], table_of(bla.bla, case, Host()), case) > 70


@pytest.mark.parametrize("case", ["e113 plain", "nucleus far", "e1007 far"])
def test_a_usable_entry_is_as_exact_as_its_steps(case):
    """In 2000 bits, for a delta just below the radius: the neglected term is below the rounding."""
    name, log2_dc, far = CASES[case]
    values, exponents = orbit_of(name)
    table, powers, radius = table_of(bla.bla, case, Host())
    logs = radius if far else np.log2(radius, where=radius > 0, out=np.full(len(radius), bla.NEVER))
    rng = np.random.default_rng(SEED)
    usable = np.flatnonzero(exists(len(values) - 2, len(radius)) & (logs > bla.NEVER))
    chosen = np.concatenate([rng.choice(usable, 20), usable[np.argsort(usable & (usable + 1))[:10]]])
    with gmpy2.context(precision=12_000):
        for at in map(int, chosen):
            length = (at + 1) & -(at + 1)
            if length > 600:
                continue
            first = (at + 1 - length) // 2 + 1
            delta = [gmpy2.exp2(gmpy2.mpfr(logs[at]) - 0.6), gmpy2.exp2(gmpy2.mpfr(logs[at]) - 1.1)]
            dc = [gmpy2.exp2(gmpy2.mpfr(log2_dc) - 0.6), -gmpy2.exp2(gmpy2.mpfr(log2_dc) - 0.6)]
            z = [[gmpy2.mul_2exp(gmpy2.mpfr(part), int(exponents[m])) for part in values[m]]
                 for m in range(first, first + length)]  # fmt: skip
            exact = delta
            for zx, zy in z:
                x, y = exact
                exact = [(2 * zx + x) * x - (2 * zy + y) * y + dc[0], (2 * zx + x) * y + (2 * zy + y) * x + dc[1]]
            entry = [gmpy2.mul_2exp(gmpy2.mpfr(table[at, k]), int(powers[at, k // 2]) if far else 0) for k in range(4)]
            jump = [
                entry[0] * delta[0] - entry[1] * delta[1] + entry[2] * dc[0] - entry[3] * dc[1],
                entry[0] * delta[1] + entry[1] * delta[0] + entry[2] * dc[1] + entry[3] * dc[0],
            ]
            error = max(abs(a - b) for a, b in zip(jump, exact, strict=True))
            assert error <= gmpy2.exp2(-50) * max(abs(part) for part in exact) * (1 + length // 64)


def test_longer_jumps_from_the_same_index_have_smaller_radii():
    """The kernels stop at the first unusable entry."""
    _, _, radius = table_of(cpu_numba.bla, "e113 plain", Host())
    steps = (len(radius) + 1) // 2
    for level in range(1, steps.bit_length()):
        starts = np.arange(steps >> level) << (level + 1)
        assert (radius[starts + (1 << level) - 1] <= radius[starts + (1 << level - 1) - 1]).all()


@pytest.mark.float64
def test_an_orbit_too_short_for_a_table_works(make):
    assert (make(center=("7", "7"), zoom="1e20", ny=3, nx=2, max_iterations=500).counts() == 1).all()


@pytest.mark.float64
@pytest.mark.parametrize("log2_epsilon", [-53.0, -24.0])
@pytest.mark.parametrize("far", [False, True])
def test_no_entry_jumps_over_an_index_at_which_a_pixel_may_escape(way, log2_epsilon, far):
    """C = -2 + 1e-8: from Z_1 on the orbit is nearly 2 for a while, and single steps are usable there."""
    made = reference_orbit.compute(-2 + Fraction(1, 10**8), Fraction(0), 200, 40)
    table = filled(way.kernels.bla, made.values(), made.exponents(), -60.0, log2_epsilon, far, way.device)
    radius = table[2][::2]  # of single steps, from Z_1 on
    radius = np.exp2(np.maximum(radius, -2000)) if far else radius
    z = np.abs(np.ldexp(made.values(), made.exponents()[:, None]).view(complex)[:, 0])
    used = [k for k in range(len(radius) - 1) if radius[k] > 0 and radius[k + 1] > 0]  # two of them may be one jump
    assert len(used) > 3
    for k in used:
        assert z[k + 2] + radius[k + 1] <= 2
        assert radius[k + 1] <= bla.reach(log2_epsilon)
    near = np.flatnonzero((z[2:-1] + bla.reach(log2_epsilon) > 2)[: len(radius)])
    assert (radius[near] == 0).all()
