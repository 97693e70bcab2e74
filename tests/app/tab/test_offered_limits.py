"""Controls offer only values within this server's limits, and name the limit where they disable something."""

from __future__ import annotations

from contextlib import closing
from math import log10
from typing import Any

import pytest
from msgspec import structs

from app.features.export.fields import HEIGHTS, heights
from app.features.export.source import slide
from app.labs.diffusion.controls import SIDES, DiffusionControls
from app.labs.diffusion.view import DiffusionView
from app.labs.l_curve.problem_controls import ProblemControls
from app.labs.mandelbrot.control_groups import IterationGroup
from app.labs.mandelbrot.places import iterations
from compute.cli.settings import PRESETS
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from tests.direct import DirectSession


def grid_field() -> Any:
    with closing(Diffusion(backend="cpu_numpy", ny=64, nx=64)) as lab:
        session: Any = DirectSession(lab)
        return DiffusionControls(session, DiffusionView(session, (1200, 800)), None).size.panel  # type: ignore[arg-type]


def test_grids_beyond_the_limit_are_greyed_and_the_reason_stands_below(limited):
    limited(**structs.asdict(PRESETS["public"]))
    field = grid_field()
    assert [n for n in SIDES if n not in field.disabled_options] == [64, 128, 256, 512, 1024, 2048]
    assert "8,388,608" in field.helper_text
    assert "setting grid" in field.helper_text
    limited(grid=2048**2)
    assert 2048 not in grid_field().disabled_options  # exactly the limit


def test_without_limits_nothing_is_disabled_and_no_limit_is_shown(limited):
    limited(**structs.asdict(PRESETS["laptop"]))
    field = grid_field()
    assert (field.disabled_options, field.helper_text) == ([], "")
    group = IterationGroup(DirectSession(Mandelbrot(backend="cpu_numpy", ny=8, nx=8)))  # type: ignore[arg-type]
    assert (group.slider_most.end, group.typed.helper_text) == (7, "")
    field = heights(1080, Mandelbrot)
    assert (field.disabled_options, field.value, field.helper_text) == ([], 1080, "")


def test_the_slider_of_iterations_stays_where_the_user_moved_it():
    """A rounded position, sent back, would arrive in the browser after the next position of a quick user."""
    session: Any = DirectSession(Mandelbrot(backend="cpu_numpy", ny=8, nx=8, max_iterations=100))
    group = IterationGroup(session)
    group.slider_most.value = 2.95
    assert (session.live.max_iterations, group.typed.value, group.slider_most.value) == (890, "890", 2.95)
    group.typed.value = "900"
    assert group.slider_most.value == pytest.approx(log10(900))


def test_iterations_end_at_the_limit_and_more_is_refused_where_it_is_typed(limited):
    limited(iterations=20_000)
    session: Any = DirectSession(Mandelbrot(backend="cpu_numpy", ny=8, nx=8, max_iterations=100))
    group = IterationGroup(session)
    assert group.slider_most.end == pytest.approx(log10(20_000))
    group.slider_most.value = group.slider_most.end
    assert session.live.max_iterations == 20_000
    group.typed.value = "20001"
    assert group.typed.error_state
    assert "at most 20,000 on this server, not 20,001" in group.typed.helper_text
    assert session.live.max_iterations == 20_000
    group.typed.value = "500"
    assert (session.live.max_iterations, group.typed.error_state) == (500, False)
    with pytest.raises(ValueError, match="max_iterations must be at most"):
        iterations("1e6")


@pytest.mark.parametrize(("problem", "most"), [("shaw", 10_000), ("blur", 100)])
def test_unknowns_beyond_the_limit_are_refused_beside_their_field(limited, problem, most):
    """For a picture, n is the length of a side."""
    limited(unknowns=10_000)
    session: Any = DirectSession(LCurve(backend="cpu_numpy", problem=problem, n=16))
    field = ProblemControls(session, lambda: None, lambda: None, lambda values: None).fields["n"].panel
    assert "10,000" in field.helper_text
    field.value = str(most + 2)  # even, as shaw requires
    assert field.error_state
    assert "unknowns must be at most 10,000 on this server" in field.helper_text
    assert session.live.n == 16


@pytest.mark.parametrize("name", ["classroom", "public"])
def test_pictures_are_offered_as_large_as_their_grid_may_be(limited, name):
    """This applies if each pixel is one of the lab's; drawing a field larger costs the lab nothing."""
    limited(**structs.asdict(PRESETS[name]))
    field = heights(1080, Mandelbrot)
    for height in HEIGHTS.values():
        rows, columns = slide(height)
        assert (height in field.disabled_options) == (rows * columns > PRESETS[name].grid)
    assert field.disabled_options == [4320]
    assert "setting grid" in field.helper_text
    assert heights(1080, Diffusion).disabled_options == []
    limited(grid=2**20)
    assert heights(1080, Mandelbrot).value == 720  # the selected height is an allowed one
