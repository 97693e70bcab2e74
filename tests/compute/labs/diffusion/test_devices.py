"""Frames of the lab on several GPUs equal those on one GPU; both use stand-ins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.tab.restore import scene_of_lab
from compute.devices import backends
from compute.export.scene import Style
from compute.lab import lab as base
from compute.labs.diffusion import Diffusion, lab
from compute.labs.diffusion.scheme import EDGES
from tests.cuda_streams import SlabGpu


@pytest.fixture
def gpus(machine, monkeypatch):
    """Install three GPUs as devices of the backend gpu_cupy."""
    machine(0)
    fake = [replace(each, needs=(), device_class=SlabGpu) if each.name == "gpu_cupy" else each
            for each in backends.BACKENDS]  # fmt: skip
    for module in (backends, base):
        monkeypatch.setattr(module, "BACKENDS", tuple(fake))
    monkeypatch.setattr(lab, "Cuda", SlabGpu)


def pair(**values):
    """Return the same lab on one GPU and on three."""
    common = {"backend": "gpu_cupy", "ny": 61, "nx": 44, "preset": "noise"} | values
    return Diffusion(**common), Diffusion(devices="cuda:0-2", **common)


def same(one, three, **look):
    """Check that both have equal frames and fields."""
    first, second = one.frame(**look), three.frame(**look)
    for name in ("field", "laplacian"):
        np.testing.assert_array_equal(second.rasters[name].levels, first.rasters[name].levels)
        assert second.rasters[name].extent == first.rasters[name].extent
    np.testing.assert_array_equal(second.curves["profile"].y, first.curves["profile"].y)
    for name, value in first.facts.items():
        assert second.facts[name] == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True), name
    np.testing.assert_array_equal(three.field(), one.field())


@pytest.mark.parametrize("edges", EDGES)
def test_pictures_and_fields_equal_those_of_one_gpu(gpus, edges):
    one, three = pair(edges=edges)
    for each in (one, three):
        each.advance(21)
    assert three.device.name == "cuda:0-2"
    for view, pixels in ((None, (9, 9)), (None, (61, 44)), ((3, 17, 30, 45), (7, 7)), ((0, 20, 44, 21), (50, 50))):
        same(one, three, view=view, pixels=pixels)
    for each in (one, three):
        each.update(section="vertical", edges="periodic")
        each.act("paint", points=[(5.0, 15.0), (30.0, 44.0)], value=2.0, radius=4.0)
        each.advance(3)
    same(one, three, pixels=(13, 13))
    np.testing.assert_array_equal(three.laplacian(), one.laplacian())


def test_a_field_moves_to_several_gpus_and_back(gpus):
    one, moved = Diffusion(backend="gpu_cupy", ny=48, nx=30), Diffusion(backend="cpu_numpy", ny=48, nx=30)
    moved.update(backend="gpu_cupy", devices="cuda:0-1")
    moved.advance(5)
    moved.update(devices="cuda:2,0")
    assert moved.device.name == "cuda:2,0"
    moved.advance(5)
    moved.update(devices="")
    for _ in range(2):
        one.advance(5)
    np.testing.assert_array_equal(moved.field(), one.field())
    assert moved.steps == 10
    assert moved.device.name == "cuda:0"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"devices": "cuda:0-7"}, r"devices must name GPUs from 0 to 2, not 'cuda:0-7'"),
        (
            {"devices": "cuda:0-2", "ny": 23},
            r"devices 'cuda:0-2' do not fit: ny must be at least 24 on 3 devices, not 23",
        ),
        ({"devices": "cuda:1"}, r"devices must name at least 2 GPUs, not 'cuda:1'"),
        ({"devices": "all"}, r"devices must be a list of GPUs like cuda:0-3 or cuda:0,2, not 'all'"),
        ({"devices": "cuda:0-1", "variant": "racing"}, r"variant must be empty or one of T-step .*not 'racing'"),
    ],
)
def test_devices_that_do_not_fit_are_refused_without_a_change(gpus, values, words):
    made = Diffusion(backend="gpu_cupy", ny=64, nx=20)
    before = made.field()
    with pytest.raises(ValueError, match=words):
        made.update(**values)
    assert (made.devices, made.ny, made.variant) == ("", 64, "")
    np.testing.assert_array_equal(made.field(), before)


def test_other_backends_compute_on_one_device():
    made = Diffusion(backend="cpu_numpy", ny=8, nx=8, devices="cuda:0-3")
    assert made.advance(2).devices == 1
    assert made.device.name == "host"


def test_links_do_not_contain_the_number_of_gpus(gpus):
    made = Diffusion(backend="gpu_cupy", ny=48, nx=30, devices="cuda:0-1", r=0.1)
    made.advance(3)
    scene = scene_of_lab(Diffusion, made.values(), made.snapshot(), "field", Style(), None)
    assert scene.values["r"] == 0.1
    assert "devices" not in scene.values
