"""The steps agree with an exact solution, and the backends with one another; run `python -m pytest` in this folder."""

import numpy as np
import pytest
from fieldlab_labs.new_lab.lab import NewLab

from compute.labs import outside

SMALL = {"ny": 24, "nx": 36, "dtype": "float64"}


@pytest.fixture(params=[backend.name for backend in NewLab.backends() if backend.ready])
def lab(request):
    """A small lab in each backend that is ready on this machine."""
    with NewLab(**SMALL, backend=request.param) as lab:
        yield lab


def test_a_mode_swings_at_its_frequency(lab):
    mode = np.tile(np.cos(2 * np.pi * 3 * np.arange(36) / 36), (24, 1))
    lab.load(mode)
    lab.advance(20)
    omega = np.arccos(1 - 2 * lab.courant**2 * np.sin(np.pi * 3 / 36) ** 2)
    np.testing.assert_allclose(lab.field(), mode * np.cos(omega * 20.5) / np.cos(omega / 2), atol=1e-12)


def test_the_mean_is_conserved(lab):
    lab.update(courant=0.7, damping=0.01)
    before = lab.field()
    lab.advance(50)
    assert np.abs(lab.field() - before).max() > 0.01
    assert lab.field().mean() == pytest.approx(before.mean(), rel=1e-12)


def test_every_backend_agrees_with_the_reference(lab):
    with NewLab(**SMALL, backend="cpu_numpy") as reference:
        for each in (lab, reference):
            each.damping = 0.01
            each.advance(25)
        np.testing.assert_allclose(lab.field(), reference.field(), atol=1e-12)


def test_a_frame_has_the_picture_and_the_mean(lab):
    frame = lab.frame()
    assert frame.rasters["u"].levels.shape == (24, 36)
    assert frame.facts["mean"] == pytest.approx(lab.field().mean())


def test_fieldlab_accepts_the_lab():
    assert NewLab in outside().labs, outside().problems
