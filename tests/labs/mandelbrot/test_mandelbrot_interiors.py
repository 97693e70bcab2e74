"""Deep views of the inside: a reference that repeats lets pixels end early, and changes no count."""

from __future__ import annotations

import numpy as np
import pytest

from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.reference_orbit import LOOK, NEVER

PERIOD_3 = ("-1.75487766624669276", "0")  # its nucleus to 17 digits
INSIDE = ("-1.757", "0")  # of the same component
BUD = ("-0.15652016683375508", "1.0322471089228318")  # a nucleus of period 4, 16 digits
EDGE = ("-1.757", "0.001")  # from zoom 300 down, the edge is in view
FEIGENBAUM = ("-1.40115518909331471", "0")


def lab_of(backend, center, zoom, shortcuts=True, **values):
    return Mandelbrot(**{"backend": backend, "center": center, "zoom": zoom, "ny": 12, "nx": 16, "max_iterations": 3000,
                         "precision": "perturbation", "shortcuts": shortcuts, **values})  # fmt: skip


def reference_of(lab):
    while not lab.painting.builder.ready:
        lab.painting.builder.advance(1, 1)
    return lab.painting.builder.reference


@pytest.mark.parametrize(("center", "period"), [(PERIOD_3, 3), (INSIDE, 3), (BUD, 4)])
def test_the_cycle_of_the_reference_is_found(center, period):
    reference = reference_of(lab_of("cpu_numba", center, "1e12"))
    settled, cycle = reference.settled, reference.cycle
    assert LOOK <= cycle < 4 * LOOK
    assert cycle % period == 0
    orbit = reference.orbit
    np.testing.assert_array_equal(orbit[settled:-cycle], orbit[settled + cycle :])
    assert settled == 0 or (orbit[settled - 1] != orbit[settled - 1 + period]).any()


@pytest.mark.parametrize("center", [FEIGENBAUM, ("0.3", "0.6"), ("-0.743643887037158704", "0.131825904205311970")])
def test_an_orbit_that_wanders_or_escapes_has_no_cycle(center):
    assert reference_of(lab_of("cpu_numba", center, "1e20")).cycle == NEVER


def test_a_cycle_that_repels_is_one_too_but_ends_no_pixel():
    """c = i: the orbit is i, -1 + i, -i, -1 + i, … exactly, and all pixels around it escape."""
    lab = lab_of("cpu_numba", ("0", "1"), "1e30")
    reference = reference_of(lab)
    assert (reference.settled, reference.cycle) == (2, LOOK)
    assert lab.counts().max() < 300


@pytest.mark.parametrize(("center", "zoom"), [(PERIOD_3, "1e12"), (INSIDE, "1e8"), (BUD, "1e6")])
def test_the_inside_of_a_component_ends_early_and_is_inside(any_backend, center, zoom):
    lab = lab_of(any_backend.name, center, zoom)
    assert (lab.counts() == 3000).all()
    steps = lab.iterations / (lab.ny * lab.nx)
    assert steps <= (3000 if any_backend.name == "cpu_numpy" else 600)


@pytest.mark.parametrize(("center", "zoom"), [(EDGE, "100"), (EDGE, "200"), (BUD, "200"), (("-1.75", "0"), "1e4")])
def test_shortcuts_change_no_count_at_the_edge_of_a_component(any_backend, center, zoom):
    on, off = (lab_of(any_backend.name, center, zoom, shortcuts, max_iterations=6000) for shortcuts in (True, False))
    np.testing.assert_array_equal(on.counts(), off.counts())
    assert len(np.unique(off.counts())) > 3
    assert (off.counts() == 6000).mean() > 0.1
    assert on.iterations <= off.iterations
