"""Perturbation: counts against brute force with many digits, at every depth; orbit, table, and every backend."""

from __future__ import annotations

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from compute.lab.frames import WAITING
from compute.lab.lab import OutOfMemory
from compute.labs.mandelbrot import Mandelbrot, reference_orbit
from compute.labs.mandelbrot.painting import kernel_of
from compute.labs.mandelbrot.place import PRECISIONS, Place, choose
from compute.labs.mandelbrot.state import FRESH, LaunchPart
from compute.labs.mandelbrot.views import VIEWS

SEED = 20261121
SPIRAL = ("0", "1")  # c = i is on the boundary: z enters a repelling cycle of two
FEIGENBAUM = ("-1.40115518909331471", "0")
# centre, zoom, maximum iterations, pixels a side, pixels compared
BRUTE = {
    "seahorses e5": (VIEWS["seahorses"].center, "1e5", 20_000, 60, 40),
    "Feigenbaum e7": (FEIGENBAUM, "1e7", 20_000, 40, 20),
    "seahorses e12": (VIEWS["seahorses"].center, "1e12", 9000, 60, 40),
    "e14": (VIEWS["e14"].center, VIEWS["e14"].zoom, VIEWS["e14"].max_iterations, 90, 60),
    "dive e50": (VIEWS["dive e323"].center, "1e50", 9000, 60, 40),
    "e113": (VIEWS["e113"].center, VIEWS["e113"].zoom, VIEWS["e113"].max_iterations, 48, 24),
    "spiral e280": (SPIRAL, "1e280", 4000, 40, 40),
    "dive e323": (VIEWS["dive e323"].center, VIEWS["dive e323"].zoom, VIEWS["dive e323"].max_iterations, 32, 8),
    "spiral e1000": (SPIRAL, "1e1000", 9000, 40, 40),
    "dive e1007": (VIEWS["dive e1007"].center, VIEWS["dive e1007"].zoom, VIEWS["dive e1007"].max_iterations, 16, 3),
}


def brute(place, top, pixels):
    """Return escape counts of pixels (i, j), each iterated directly with sufficient precision."""
    with gmpy2.context(precision=place.bits + 64):
        spacing = gmpy2.mpfr(gmpy2.mpq(4 / (place.zoom * place.ny)))
        return [
            _escape(
                _real(place.re) + (j - (place.nx - 1) / 2) * spacing,
                _real(place.im) + (i - (place.ny - 1) / 2) * spacing,
                top,
            )
            for i, j in pixels
        ]


def _real(part):
    return gmpy2.mpfr(gmpy2.mpq(part.numerator, part.denominator))


def _escape(a, b, top):
    x = y = gmpy2.mpfr(0)
    for n in range(1, top + 1):
        xy = x * y
        x, y = x * x - y * y + a, xy + xy + b
        if x * x + y * y > 4:
            return n
    return top


def view_of(name, **values):
    center, zoom, top, size, _ = BRUTE[name]
    return {"center": center, "zoom": zoom, "max_iterations": top, "ny": size, "nx": size, **values}


def lab_of(name, backend="cpu_numba", **values):
    return Mandelbrot(backend=backend, **view_of(name, **values))


def reference_of(lab):
    """Build and return the reference orbit of a lab."""
    while not lab.painting.builder.ready:
        lab.painting.builder.advance(1, 1)
    return lab.painting.builder.reference


@pytest.mark.parametrize("name", BRUTE)
def test_counts_equal_brute_force_on_random_pixels(name):
    lab = lab_of(name)
    counts = lab.counts()
    assert lab.painting.task.arithmetic.deep
    assert len(np.unique(counts)) > 3
    pixels = np.random.default_rng(SEED).integers(0, lab.ny, (BRUTE[name][4], 2))
    truth = brute(lab.place, lab.max_iterations, pixels)
    np.testing.assert_array_equal(counts[pixels[:, 0], pixels[:, 1]], truth)


@pytest.mark.float64
@pytest.mark.parametrize("name", ["seahorses e12", "e14", "e113", "spiral e280", "spiral e1000"])
def test_every_backend_equals_numba(any_backend, name):
    small = {"ny": 12, "nx": 17}
    truth, lab = lab_of(name, **small), lab_of(name, any_backend.name, **small)
    np.testing.assert_array_equal(lab.counts(), truth.counts())
    np.testing.assert_allclose(lab.smooth(), truth.smooth(), rtol=1e-5)
    lab.close()


@pytest.mark.float64
@pytest.mark.parametrize("name", ["e14", "seahorses e12", "spiral e1000"])
def test_parts_of_any_size_give_the_same_counts_and_write_their_own_pixels_only(make, name):
    lab, truth = (make(**view_of(name, ny=10, nx=8)) for _ in range(2))
    reference, top = reference_of(lab), lab.max_iterations
    kernel, turn, sizes = kernel_of(lab.kernels, lab.painting.task.arithmetic), 0, (700, 1, 333)
    lab.state.forget_totals(lab.device)
    kernel(lab.state, LaunchPart(1, 3, 4, 1, top, top, shortcuts=False), reference)
    touched = np.zeros((10, 8), bool)
    touched[4:12:4, ::4] = True
    np.testing.assert_array_equal(lab.device.download(lab.state.count) != FRESH, touched)
    while (lab.device.download(lab.state.count) < 0).any():
        part = LaunchPart(0, 10, 1, sizes[turn % 3], top, top, shortcuts=turn % 2 == 0)
        kernel(lab.state, part, reference)
        turn += 1
    np.testing.assert_array_equal(lab.device.download(lab.state.count), truth.counts())


def test_extended_numbers_give_the_counts_of_plain_ones(monkeypatch):
    for name in ("e14", "e113"):
        truth = lab_of(name).counts()
        with monkeypatch.context() as patch:
            patch.setattr("compute.labs.mandelbrot.lab.choose", lambda *_: PRECISIONS["extended"])
            lab = lab_of(name)
        assert lab.painting.task.arithmetic.name == "extended"
        np.testing.assert_array_equal(lab.counts(), truth)


@pytest.mark.float64
@pytest.mark.parametrize("name", ["seahorses e5", "Feigenbaum e7"])
def test_shortcuts_change_no_count(make, name):
    on, off = (make(**view_of(name, ny=12, nx=12, max_iterations=4000, shortcuts=s)) for s in (True, False))
    np.testing.assert_array_equal(on.counts(), off.counts())
    assert on.iterations <= off.iterations
    inside = make(center=("-0.1", "0"), zoom="1e9", ny=8, nx=8, max_iterations=9000)
    assert (inside.counts() == 9000).all()
    assert inside.iterations == 0


def test_the_fast_preview_is_nearly_right():
    exact, fast = lab_of("e113"), lab_of("e113", fidelity="fast preview")
    assert np.mean(exact.counts() != fast.counts()) < 0.05
    fast.update(fidelity="exact")
    np.testing.assert_array_equal(exact.counts(), fast.counts())


def test_the_arithmetic_follows_the_pixel_spacing():
    names = {zoom: choose("auto", Place.of(("0", "1"), zoom, 100, 100)).name for zoom in ("1", "1e3", "1e5", "1e14")}
    assert names == {"1": "float64", "1e3": "float64", "1e5": "perturbation", "1e14": "perturbation"}
    assert choose("auto", Place.of(("0", "1"), "1e290", 100, 100)).name == "extended"
    assert choose("float64", Place.of(("0", "1"), "1e290", 100, 100)).name == "float64"
    assert choose("perturbation", Place.of(("0", "1"), "1", 100, 100)).name == "perturbation"
    shallow = Mandelbrot(ny=30, nx=40, precision="perturbation", max_iterations=200)
    np.testing.assert_array_equal(shallow.counts(), Mandelbrot(ny=30, nx=40, max_iterations=200).counts())


def test_a_reference_reports_progress_and_can_be_cancelled():
    seen = []
    re, im = Fraction(-1), Fraction(1, 10**30)
    done = reference_orbit.compute(re, im, 128, 10_000, lambda part: seen.append(part) or True)
    assert done.finished
    assert seen == [0.4096, 0.8192, 1.0]
    assert done.values().shape == (10_001, 2)
    with pytest.raises(reference_orbit.Cancelled, match="after 4096 of 10000"):
        reference_orbit.compute(re, im, 128, 10_000, lambda part: False)
    assert reference_orbit.compute(Fraction(3), im, 128, 10**8).length == 4  # it escapes


def test_a_tiny_point_of_the_orbit_has_its_own_exponent():
    """Within 1e-400 of a nucleus of period 2, every second Z is about that small."""
    made = reference_orbit.compute(-1 + Fraction(1, 10**400), Fraction(0), 3000, 4)
    x, power = made.values()[2, 0], made.exponents()[2]
    assert made.exponents()[1] == 0
    assert np.log10(abs(x)) + power * np.log10(2) == pytest.approx(-400, abs=1e-6)
    assert made.exponents()[0] < -(10**8)


def test_the_reference_is_built_first_and_reused_for_the_same_centre():
    lab = lab_of("e113", max_iterations=30_000)
    lab.advance()
    assert 0 < lab.progress < 0.3
    assert (lab.iterations, lab.reference_length) == (0, 4096)
    raster = lab.frame().rasters["escape"]
    assert raster.waiting
    assert (raster.levels == WAITING).all()
    lab.counts()
    kept = lab.painting.builder.orbit
    lab.update(shortcuts=False)
    assert lab.painting.builder.orbit is kept
    lab.update(zoom="1e100")
    assert lab.painting.builder.orbit is kept
    lab.update(zoom="1e140")
    assert lab.painting.builder.orbit is not kept
    lab.update(zoom="1")
    assert lab.reference_length == 0


def test_a_reference_beyond_memory_is_refused_and_the_view_stays(monkeypatch):
    lab = Mandelbrot(ny=8, nx=8)
    truth = lab.counts()
    monkeypatch.setattr(type(lab.device), "free_bytes", lambda _: 2**30)
    with pytest.raises(OutOfMemory, match=r"needs 2\.79 GiB on host"):
        lab.update(zoom="1e30", max_iterations=10**7)
    assert (lab.zoom, lab.max_iterations, lab.finished) == ("1e0", 1000, True)
    np.testing.assert_array_equal(lab.counts(), truth)
    with pytest.raises(OutOfMemory, match="this needs"):
        Mandelbrot(ny=8, nx=8, zoom="1e30", max_iterations=10**7)


def test_a_long_deep_view_is_computed_in_short_slices():
    """At the nucleus of period 3 no pixel escapes: 10^6 iterations, but a reset waits for one slice at most."""
    lab = Mandelbrot(ny=8, nx=8, center=("-1.75487766624669276", "0"), zoom="1e12", max_iterations=10**6)
    for _ in range(5):
        lab.advance()
    assert 0 < lab.reference_length <= 5 * 4096
    lab.update(zoom="1", max_iterations=50)
    assert lab.counts().max() == 50


def test_a_single_iteration_and_a_view_off_the_set():
    for zoom in ("1e20", "1e500"):
        lab = Mandelbrot(ny=3, nx=5, center=("0.3", "0.6"), zoom=zoom, max_iterations=1)
        assert (lab.counts() == 1).all()
        lab.update(center=("7.5", "-6"), max_iterations=100)
        assert (lab.counts() == 1).all()
        lab.update(center=("1.5", "0"))
        assert (lab.counts() == 2).all()
