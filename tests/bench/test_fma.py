"""The multiply-add roof: the chains compute what they say, nothing is optimised away, and no speed is asserted."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from compute.backends import BACKENDS, Backend, backend
from compute.bench import fma
from compute.bench.roof import Roof
from tests.cuda_on_cpu import Module, upload


def after(x, steps):
    """x -> x/2 + 1/4, `steps` times: its distance from 1/2 is halved each time."""
    return 0.5 + (x - 0.5) * 0.5**steps


@pytest.mark.parametrize("dtype", fma.DTYPES)
def test_the_gpu_kernel_runs_the_chains_it_is_counted_for(dtype):
    module = Module(fma.SOURCE, {"REAL": fma.REAL[dtype]})
    out = upload(np.zeros(8, dtype))
    real = np.dtype(dtype).type
    module.get_function("fma_chains")((2,), (4,), (out, real(0.5), real(0.25), np.int32(1)))
    starts = np.arange(4)[:, None] + np.arange(fma.CHAINS)
    expected = np.tile(after(starts, fma.UNROLLED).sum(axis=1), 2)
    np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", fma.DTYPES)
def test_the_host_s_loop_runs_its_chain_on_every_number(dtype):
    values = np.tile(np.arange(5, dtype=dtype), (3, 1))
    fma._chains(values, values.dtype.type(0.5), values.dtype.type(0.25), 2)
    np.testing.assert_allclose(values, np.tile(after(np.arange(5), 2 * fma.CHAIN), (3, 1)), rtol=1e-6)


def test_the_host_s_rate_is_measured_once(monkeypatch):
    monkeypatch.setattr(fma, "HOST_ROUNDS", 100)
    monkeypatch.setattr(fma, "_known", {})
    host = backend("cpu_numpy").open_device()
    found = fma.fma_rate(host, "float32")
    assert found.rate.n >= 3
    assert 1e7 < found.rate.median < 1e14
    assert fma.fma_rate(host, "float32") is found


def test_without_cupy_a_gpu_has_no_rate(monkeypatch):
    class Gpu:
        name, kind = "cuda:0", "gpu"

    monkeypatch.setattr(Backend, "missing", "not here")
    assert fma.fma_rate(Gpu(), "float32") is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", fma.DTYPES)
def test_a_gpu_s_rate_is_measured(dtype):
    absent = backend("gpu_cupy").missing
    if absent:
        pytest.skip(absent)
    found = fma.fma_rate(backend("gpu_cupy").open_device(), dtype)
    assert found.device == "cuda:0"
    assert found.rate.n >= 3


def test_a_child_tells_the_roofs_of_every_device_here():
    command = [sys.executable, "-m", "compute.bench.roof"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert found["host"].keys() == {"copy", "fma float32", "fma float64", "waking"}
    assert 0 < found["host"].pop("waking") < 1
    assert all(rate > 1e6 for rate in found["host"].values())
    if all(b.missing for b in BACKENDS if b.device == "cuda"):
        assert set(found) == {"host"}


def test_a_roof_that_is_not_known_is_no_number():
    roof = Roof()
    assert math.isnan(roof.rate("host"))
    roof._rates = {"host": {"copy": 3.0, "fma float32": 5.0}}
    assert roof.rate("host") == 3.0
    assert roof.rate("host", "fma", "float32") == 5.0
    assert math.isnan(roof.rate("host", "fma", "float64"))
    assert math.isnan(roof.rate("cuda:0", "fma", "float32"))
