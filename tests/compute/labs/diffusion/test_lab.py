"""The diffusion lab apart from its kernels: presets, images, painting, checkpoints, and its refusals."""

from __future__ import annotations

import io
import tracemalloc

import numpy as np
import param
import pytest
from PIL import Image

from compute.engine.messages import Paused
from compute.lab.lab import OutOfMemory
from compute.labs.diffusion import Diffusion, initial
from compute.labs.diffusion.initial import PRESETS
from tests.compute.engine.faulty import QuietSender, hosted


def test_an_unstable_field_becomes_unhealthy_until_a_reset(diffusion):
    lab = diffusion(ny=40, nx=40, unstable=True, r=0.4, preset="noise")
    assert lab.status.healthy
    with np.errstate(over="ignore", invalid="ignore"):
        lab.advance(2000)
        assert lab.frame().facts["nonfinite"] > 0
    assert not lab.status.healthy
    lab.reset()
    assert lab.frame().facts["nonfinite"] == 0
    assert lab.status.healthy


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_gives_a_finite_field_of_any_shape_in_blocks_of_any_size(preset, monkeypatch):
    lab = Diffusion(ny=45, nx=61, preset=preset, dtype="float64")
    made = lab.field()
    assert np.isfinite(made).all()
    assert np.ptp(made) > 0
    lab.update(ny=1, nx=5)
    assert lab.field().shape == (1, 5)
    monkeypatch.setattr(initial, "BLOCK", 7 * 61)
    lab.update(ny=45, nx=61)
    np.testing.assert_array_equal(lab.field(), made)


def test_a_changed_preset_restarts_and_other_parameters_do_not():
    lab = Diffusion(ny=32, nx=32)
    lab.advance(10)
    before = lab.field()
    lab.update(r=0.1, edges="periodic", section="vertical")
    np.testing.assert_array_equal(lab.field(), before)
    lab.update(backend="cpu_numpy", dtype="float64")
    np.testing.assert_array_equal(lab.field(), before)
    assert lab.steps == 10
    lab.update(preset="ring")
    assert lab.steps == 0
    lab.advance(3)
    lab.update(ny=48)
    assert (lab.steps, lab.field().shape) == (0, (48, 32))


def test_present_values_equal_the_parameters_however_they_were_set():
    lab = Diffusion(ny=32, nx=32)

    def holds() -> bool:
        return lab.values() == {name: getattr(lab, name) for name in lab.param if name != "name"}

    held_within: list[bool] = []
    lab.param.watch(lambda _: held_within.append(holds()), ["r", "edges"])
    lab.r = 0.1
    lab.update(edges="periodic", section_at=0.25)
    assert held_within == [True, True]
    with pytest.raises(ValueError, match="seed"):
        lab.param.update(probe_x=0.1, seed=-1)  # probe_x stays set
    with pytest.raises(ValueError, match="seed"):
        lab.update(probe_x=0.2, seed=-1)
    assert holds()
    with param.parameterized.discard_events(lab):
        lab.probe_y = 0.75
    lab.values()["r"] = 7.0
    assert holds()
    lab.ny = 48  # makes a new grid
    assert (holds(), lab.field().shape) == (True, (48, 32))
    lab.ny = 32
    facts = lab.frame().facts
    assert (facts["r"], facts["probe_y"], facts["probe_x"]) == (0.1, 24, 3)


def test_checkpoint_and_rollback():
    lab = Diffusion(ny=32, nx=32, preset="single mode")
    with pytest.raises(ValueError, match="checkpoint"):
        lab.act("rollback")
    lab.advance(5)
    lab.act("checkpoint")
    kept = lab.field()
    lab.advance(5)
    lab.act("reset")
    lab.act("rollback")
    np.testing.assert_array_equal(lab.field(), kept)
    assert lab.steps == 5
    other = Diffusion(backend="cpu_numpy", ny=32, nx=32)
    other.restore(lab.snapshot())
    np.testing.assert_array_equal(other.exact(), lab.exact())


def test_a_mode_after_a_rollback_is_drawn_for_other_edges_whatever_the_preset_is():
    with Diffusion(ny=24, nx=32, preset="single mode", mode_p=2, mode_q=1) as lab:
        lab.act("checkpoint")
        lab.update(preset="ring", mode_p=5)
        lab.act("rollback")
        lab.update(edges="zero-dirichlet")
        with Diffusion(ny=24, nx=32, preset="single mode", mode_p=2, mode_q=1, edges="zero-dirichlet") as mode:
            np.testing.assert_array_equal(lab.field(), mode.field())
            lab.advance(3)
            np.testing.assert_allclose(lab.field(), lab.exact(), atol=1e-6)


def test_painting_sets_the_disc_and_nothing_else(any_backend):
    lab = Diffusion(backend=any_backend.name, ny=50, nx=80, preset="step")
    before = lab.field()
    lab.act("paint", points=[(20.0, 10.0), (60.0, 10.0)], value=3.0, radius=4.0)
    y, x = np.mgrid[:50, :80] + 0.5
    inside = (np.abs(y - 10) <= 3) & (x >= 20) & (x <= 60)
    outside = np.hypot(np.maximum(np.maximum(20 - x, x - 60), 0), y - 10) > 4
    assert (lab.field()[inside] == 3).all()
    np.testing.assert_array_equal(lab.field()[outside], before[outside])


@pytest.mark.parametrize("file_type", ["PNG", "JPEG"])
def test_an_image_becomes_the_upright_initial_field(file_type):
    picture = Image.new("L", (64, 64))
    picture.paste(255, (0, 0, 64, 32))  # bright at the top
    file = io.BytesIO()
    picture.save(file, file_type)
    lab = Diffusion(ny=32, nx=32)
    lab.act("load_image", data=file.getvalue())
    assert lab.field()[24:].min() > 0.95
    assert lab.field()[:8].max() < 0.05
    lab.update(ny=16, nx=48)
    assert lab.field()[12:].min() > 0.95


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"GIF89a" + bytes(100), "neither"), (b"\x89PNG\r\n\x1a\n" + bytes(50), "neither"), (bytes(17 * 2**20), "16 MiB")],
    ids=["gif", "broken", "large"],
)
def test_an_invalid_image_is_refused_and_loses_nothing(data, words):
    lab = Diffusion(ny=16, nx=16, preset="gaussian", backend="cpu_numpy")
    lab.advance(3)
    lab.act("reset")
    before = lab.field()
    with pytest.raises(ValueError, match=words):
        lab.act("load_image", data=data)
    np.testing.assert_array_equal(lab.field(), before)
    assert lab.frame().notes["undo"] == "gaussian at step 3"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"r": 0.3}, r"r' must be at most 0\.25, not 0\.3"),
        ({"r": float("nan")}, r"r' must be at most 0\.25, not nan"),
        ({"ny": 0}, "ny' must be at least 1, not 0"),
        ({"edges": "open"}, "edges"),
        ({"backend": "fortran"}, "backend"),
        ({"variant": "magic"}, "variant must be empty or one of T-step, one-step for cpu_numba"),
        ({"limits_field": (2.0, 1.0)}, "limits_field"),
        ({"limits_laplacian": (0.0, float("inf"))}, "limits_laplacian"),
        ({"text": "x" * 41}, "text"),
        ({"preset": "ring", "r": 9}, "r"),
    ],
)
def test_invalid_values_are_refused_by_name_without_a_change(values, words):
    lab = Diffusion(ny=16, nx=16)
    lab.advance(2)
    before = lab.values()
    with pytest.raises(ValueError, match=words):
        lab.update(**values)
    assert lab.values() == before
    assert lab.steps == 2
    with pytest.raises(ValueError, match=words):
        Diffusion(**{"ny": 16, "nx": 16, **values})


def test_unstable_widens_the_bound_of_one_lab_only():
    lab, other = Diffusion(ny=8, nx=8), Diffusion(ny=8, nx=8)
    lab.update(unstable=True, r=0.26)
    with pytest.raises(ValueError, match="r must be at most"):
        lab.update(unstable=False)
    assert (lab.unstable, lab.r) == (True, 0.26)
    lab.update(unstable=False, r=0.2)
    for each in (lab, other):
        with pytest.raises(ValueError, match=r"0\.25"):
            each.update(r=0.26)


def test_a_grid_beyond_memory_is_refused_before_anything_is_allocated(monkeypatch):
    lab = Diffusion(ny=64, nx=64)
    before = lab.field()
    monkeypatch.setattr(type(lab.device), "free_bytes", lambda _: 10 * 2**20)
    with pytest.raises(OutOfMemory, match=r"needs 2\.02 GiB on host"):
        lab.update(ny=16384, nx=16384)
    assert lab.ny == 64
    np.testing.assert_array_equal(lab.field(), before)


@pytest.mark.parametrize("order", [("preset", "ny", "dtype", "edges"), ("dtype", "edges", "ny", "preset")])
def test_a_new_field_and_new_grids_at_once_are_one_new_field(order):
    lab = Diffusion(ny=16, nx=16, preset="single mode")
    values = {"preset": "noise", "ny": 20, "dtype": "float64", "edges": "periodic"}
    lab.update(**{name: values[name] for name in order})
    np.testing.assert_array_equal(lab.field(), Diffusion(nx=16, **values).field())


# -- undo of lost fields


def png(width, height):
    """Return a picture, dark at the left and bright at the right."""
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.tile(np.linspace(0, 255, width), (height, 1)))).save(file, "PNG")
    return file.getvalue()


LOSSES = {
    "reset": lambda lab: lab.act("reset"),
    "preset": lambda lab: lab.update(preset="ring", seed=3),
    "image": lambda lab: lab.act("load_image", data=png(16, 16)),
    "rollback": lambda lab: lab.act("rollback"),
    "restore": lambda lab: lab.restore(Diffusion(ny=32, nx=32, preset="step").snapshot()),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_field_is_restored_by_undo_and_lost_again_by_redo(loss):
    lab = Diffusion(ny=32, nx=32, preset="gaussian", backend="cpu_numpy")
    lab.act("checkpoint")
    with pytest.raises(ValueError, match="nothing to undo"):
        lab.act("undo")
    lab.advance(7)
    lab.act("paint", points=[(8.0, 8.0)], value=2.0, radius=3.0)
    kept, before = lab.field(), lab.values()
    LOSSES[loss](lab)
    replaced = lab.field()
    assert not np.array_equal(replaced, kept)
    assert lab.frame().notes["undo"] == "gaussian at step 7"
    lab.act("undo")
    np.testing.assert_array_equal(lab.field(), kept)
    assert (lab.steps, lab.values()) == (7, before)
    np.testing.assert_array_equal(replayed(lab), kept)  # its history was restored, too
    lab.act("redo")
    np.testing.assert_array_equal(lab.field(), replaced)
    lab.act("undo")
    lab.act("reset")  # to the gaussian, not to the undone field
    np.testing.assert_array_equal(lab.field(), Diffusion(ny=32, nx=32, preset="gaussian").field())


def replayed(lab):
    """Return the field recomputed from the lab's history."""
    history = Diffusion.HISTORY.of(Diffusion, lab.values(), lab.snapshot())
    twin = Diffusion(**{**history.values, "backend": "cpu_numpy"})
    for entry in history.entries:
        if entry["step"] > twin.steps:
            twin.advance(entry["step"] - twin.steps)
        twin.HISTORY.apply(twin, entry)
    if history.steps > twin.steps:
        twin.advance(history.steps - twin.steps)
    return twin.field()


def test_browsing_presets_keeps_the_computed_field():
    """A slider of an option makes a new field at each step; none of them may displace the computed field."""
    lab = Diffusion(ny=32, nx=32, preset="gaussian", backend="cpu_numpy")
    lab.advance(9)
    kept = lab.field()
    lab.update(preset="single mode")
    for p in range(4, 9):
        lab.update(mode_p=p)
    assert lab.frame().notes["undo"] == "gaussian at step 9"
    lab.act("undo")
    np.testing.assert_array_equal(lab.field(), kept)
    assert (lab.preset, lab.mode_p) == ("gaussian", 3)


def test_reset_returns_to_the_image_until_it_is_forgotten():
    lab = Diffusion(ny=32, nx=32, preset="gaussian", backend="cpu_numpy")
    lab.act("checkpoint")
    lab.act("load_image", data=png(64, 64))
    image = lab.field()
    assert lab.frame().notes["image"] != ""
    for how in ({"dtype": "float64"}, {"backend": "cpu_numba"}, {"r": 0.1}, {}):
        lab.update(**how)
        lab.advance(5)
        lab.act("reset")
        np.testing.assert_allclose(lab.field(), image, atol=1e-7)
    lab.act("forget_image")
    assert lab.frame().notes["image"] == ""
    np.testing.assert_array_equal(lab.field(), Diffusion(ny=32, nx=32, preset="gaussian", dtype="float64").field())
    lab.act("undo")
    lab.act("rollback")  # a checkpoint made before the image
    assert lab.frame().notes["undo"] == "your image at step 0"
    lab.act("undo")
    lab.act("reset")
    np.testing.assert_allclose(lab.field(), image, atol=1e-7)
    assert lab.frame().notes["image"] != ""


@pytest.mark.parametrize(
    ("size", "grid", "kept"),
    [
        ((120, 90), (30, 30), (15, 0, 105, 90)),
        ((64, 64), (32, 32), (0, 0, 64, 64)),
        ((50, 200), (20, 40), (0, 88, 50, 113)),
        ((200, 50), (40, 40), (75, 0, 125, 50)),
    ],
)
def test_a_frame_contains_the_part_of_the_image_that_is_shown(size, grid, kept):
    """It is the largest central part with the grid's shape; checked by the field's columns and rows."""
    lab = Diffusion(ny=grid[0], nx=grid[1], backend="cpu_numpy")
    lab.act("load_image", data=png(*size))
    width, height, *box = map(int, lab.frame().notes["kept"].split())
    assert (width, height) == size
    assert tuple(box) == kept
    ramp = np.linspace(0, 1, width)[box[0] : box[2]]
    row = lab.field()[grid[0] // 2]
    assert row.min() == pytest.approx(ramp[0], abs=1.5 / min(width, grid[1]))
    assert row.max() == pytest.approx(ramp[-1], abs=1.5 / min(width, grid[1]))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_new_field_needs_no_more_than_the_predicted_memory(preset):
    sides = {"ny": 2048, "nx": 2048, "preset": preset, "backend": "cpu_numpy"}
    tracemalloc.start()
    try:
        Diffusion(**sides).close()
        assert tracemalloc.get_traced_memory()[1] <= Diffusion.predicted_bytes(**sides)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("most", [255, 65535])
def test_a_grey_picture_of_any_depth_spans_black_to_white(most):
    ramp = np.linspace(0, most, 256).astype(np.uint8 if most == 255 else np.uint16)
    file = io.BytesIO()
    Image.fromarray(np.tile(ramp, (256, 1))).save(file, "PNG")
    lab = Diffusion(ny=256, nx=256, backend="cpu_numpy", dtype="float64")
    lab.load_image(file.getvalue())
    np.testing.assert_allclose(255 * lab.field()[0], np.arange(256), atol=1e-9)


def test_an_engine_pauses_the_lab_at_a_step_and_runs_it_on():
    lab, sender = Diffusion(ny=16, nx=16, backend="cpu_numpy", pause_at=20), QuietSender()
    host, run = hosted(lab, sender)
    run()
    assert (lab.steps, host.pacer.running) == (20, False)
    assert [event.reason for event in sender.said if isinstance(event, Paused)] == ["step 20 is reached"]
    run()
    assert (lab.steps > 20, host.pacer.running) == (True, True)
    host.close()


def test_the_drift_is_that_since_the_start_without_a_frame_there():
    """A link or a file recomputes a state without frames; the heat through cold edges is that of the discrete sum."""
    with Diffusion(backend="cpu_numpy", ny=16, nx=24, edges="zero-dirichlet", dtype="float64") as lab:
        start = lab.field().sum()
        lab.advance(200)
        assert lab.frame().facts["heat_drift"] == pytest.approx((lab.field().sum() - start) / abs(start))
        lab.paint([(3.0, 4.0)], 0.7, 2.0)
        start = lab.field().sum()
        lab.advance(50)
        assert lab.frame().facts["heat_drift"] == pytest.approx((lab.field().sum() - start) / abs(start))
