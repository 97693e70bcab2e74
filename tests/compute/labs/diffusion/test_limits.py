"""Fixed colour limits are those of the initial field, whenever the first frame is made; refits are in the history."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from app.tab.restore import scene_of_lab
from compute.export.render import Replay
from compute.export.scene import Style
from compute.labs.diffusion import Diffusion


@pytest.fixture
def lab():
    lab = Diffusion(ny=24, nx=24, preset="single mode", backend="cpu_numpy", hold_limits=True)
    yield lab
    lab.close()


def limits(lab):
    return lab.frame().rasters["field"].span


def began(lab):
    first = Diffusion(ny=24, nx=24, preset=lab.preset, backend="cpu_numpy").field()
    return (float(first.min()), float(first.max()))


@pytest.mark.parametrize("seen", [True, False])
def test_decaying_heat_keeps_its_initial_colours(lab, seen):
    if seen:
        lab.frame()
    lab.advance(40)
    assert limits(lab) == began(lab)
    assert lab.field().max() < 0.9 * began(lab)[1]
    lab.update(hold_limits=False)
    assert limits(lab) == (float(lab.field().min()), float(lab.field().max()))


@pytest.mark.parametrize("backend", ["cpu_numpy", "cpu_numba"])
def test_both_pictures_of_an_unstable_field_show_its_chequerboard(backend):
    """The colours of the Laplacian span that of any field within the limits: 4 (high - low)."""
    values = {"backend": backend, "preset": "gaussian + chequerboard mode", "edges": "periodic", "hold_limits": True}
    lab = Diffusion(ny=24, nx=24, unstable=True, r=0.3, **values)
    first = lab.frame()
    low, high = first.rasters["field"].span
    assert first.rasters["laplacian"].span[1] < 4 * (high - low)  # the actual range is smaller
    lab.advance(60)  # 1.4 ** 60 = 6e8
    frame = lab.frame()
    lab.close()
    assert frame.rasters["laplacian"].span == (pytest.approx(-4 * (high - low)), pytest.approx(4 * (high - low)))
    field, laplacian = (frame.rasters[name].levels for name in ("field", "laplacian"))
    signs = np.indices((24, 24)).sum(axis=0) % 2 == 0
    for levels, ends in ((field, (254, 0)), (laplacian, (0, 254))):  # after even steps, the signs are the initial ones
        assert (levels[signs] == ends[0]).all()
        assert (levels[~signs] == ends[1]).all()


def test_a_stroke_before_the_first_frame_does_not_change_the_limits(lab):
    lab.act("paint", points=[(5.0, 5.0)], value=9.0, radius=3.0)
    assert limits(lab) == began(lab)


def test_a_refit_fixes_the_current_span_until_a_reset(lab):
    lab.advance(40)
    lab.act("refit")
    now = limits(lab)
    assert now == (float(lab.field().min()), float(lab.field().max()))
    lab.advance(40)
    assert limits(lab) == now
    lab.act("reset")
    assert limits(lab) == began(lab)
    lab.act("undo")
    assert limits(lab) == now


def test_a_replayed_history_with_a_refit_gives_the_same_picture(lab):
    lab.advance(5)
    lab.act("refit")
    lab.advance(30)
    recorded = Diffusion.HISTORY.of(Diffusion, lab.values(), lab.snapshot())
    twin = Diffusion(**{**recorded.values, "backend": "cpu_numpy"})
    twin.advance(5)
    for entry in recorded.entries:
        Diffusion.HISTORY.require_entry(entry["do"], entry["with"])
        twin.HISTORY.apply(twin, entry)
    twin.advance(30)
    assert limits(twin) == limits(lab)
    np.testing.assert_array_equal(twin.frame().rasters["field"].levels, lab.frame().rasters["field"].levels)


def stroke(lab):
    lab.act("paint", points=[(5.0, 5.0)], value=9.0, radius=3.0)


def run(lab):
    lab.advance(500)


def other_type(lab):
    lab.update(dtype="float64")


def image(lab):
    file = io.BytesIO()
    Image.fromarray(np.arange(0, 256, 4, np.uint8).reshape(8, 8)).save(file, "PNG")
    lab.act("load_image", data=file.getvalue())


@pytest.mark.parametrize(
    "before", [(run,), (stroke,), (run, stroke), (other_type, run), (image,), (image, stroke), (image, run)]
)
def test_limits_that_are_held_later_are_in_the_history(before):
    lab = Diffusion(ny=24, nx=24, preset="gaussian", backend="cpu_numpy")
    for change in before:
        change(lab)
    lab.update(hold_limits=True)
    held = limits(lab)
    lab.advance(100)
    assert limits(lab) == held
    scene = scene_of_lab(Diffusion, lab.values(), lab.HISTORY.origin(lab), "field", Style(), None)
    replay = Replay.of(scene)
    replay.to(scene.steps)
    assert limits(replay.lab) == held
    assert replay.lab.history.entries == lab.history.entries


@pytest.mark.parametrize("values", [{"dtype": "float64"}, {"backend": "cpu_numba"}])
def test_limits_survive_another_number_type_and_backend(lab, values):
    lab.advance(40)
    lab.update(**values)
    assert limits(lab) == pytest.approx(began(lab), rel=1e-6)
