"""Many steps per launch in WGSL: exchange by shuffles, and how a grid is cut."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from compute.devices.backends import backend
from compute.devices.webgpu_probe import subgroup_of
from compute.labs.diffusion import gpu_wgpu
from compute.labs.diffusion.gpu_wgpu import SIZES, Strips, strips_for
from compute.labs.diffusion.scheme import EDGES
from tests.conftest import require


@pytest.fixture
def shuffling(monkeypatch):
    """Return the device, on which workgroups of one subgroup compute many steps, however narrow their strips are."""
    device = require(backend("gpu_wgpu"), monkeypatch).open_device()
    threads = subgroup_of(device.gpu)
    assert threads in (4, 8, 16, 32, 64)
    monkeypatch.setattr(device.gpu, "subgroup", threads)
    monkeypatch.setattr(gpu_wgpu, "LEAST_SUBGROUP", 1)
    monkeypatch.setattr(gpu_wgpu, "SMALL", 0)
    wide = [strips for strips in SIZES if 4 * threads > 2 * strips.apron]
    monkeypatch.setattr(gpu_wgpu, "SIZES", tuple(wide))
    assert strips_for(threads, 1)[0].shuffles
    return device


@pytest.mark.parametrize("edges", EDGES)
def test_steps_by_shuffles_equal_single_steps(shuffling, edges):
    device = shuffling
    for shape in ((1, 1), (1, 9), (2, 3), (31, 70), (64, 257)):
        field = np.random.default_rng(0).standard_normal(shape, np.float32)
        results = []
        for step in (gpu_wgpu.one_step, gpu_wgpu.step):
            u, out = device.upload(field), device.allocate(shape, "float32")
            step(u, out, 0.23, edges, 23)
            results.append(device.download(out))
        np.testing.assert_array_equal(*results, err_msg=str(shape))


def test_a_cut_covers_the_grid():
    for subgroup, (ny, nx) in product((0, 32, 64), ((1, 1), (1, 10**6), (10**6, 1), (512, 512), (8192, 8192))):
        for strips in strips_for(subgroup, ny * nx):
            width = strips.threads * strips.columns - 2 * strips.apron
            count, groups, rows = strips.cut(ny, nx)
            assert width > 0
            assert (count - 1) * width < nx <= count * width
            assert (groups - 1) * rows < ny <= groups * rows


def test_strips_shuffle_only_where_all_subgroups_are_as_wide():
    assert not any(strips.shuffles for strips in strips_for(0, 10**6))
    assert not any(strips.shuffles for strips in strips_for(8, 10**6))
    assert all(strips.shuffles and strips.threads == 32 for strips in strips_for(32, 10**6))
    assert Strips(10).apron == 12
