"""Devices and backends: which are available, and the messages about missing ones."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from compute.devices import backends, gpu_devices
from compute.devices.backends import BACKENDS, Backend, BackendUnavailable, backend
from compute.devices.devices import Host, cpu_count, cpu_name
from compute.devices.gpu_devices import Cuda, NumbaCuda


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (1024, 4)], ids=str)
def test_what_goes_up_comes_down(any_backend, dtype, shape):
    device = any_backend.open_device()
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    array = device.upload(host)
    back = device.download(array)
    np.testing.assert_array_equal(back, host)
    assert back.dtype == dtype
    back[...] = 0
    np.testing.assert_array_equal(device.download(array), host)  # the copy belongs to the caller


def test_a_stopwatch_times_its_block():
    watch, start = Host().stopwatch(), time.perf_counter()
    with watch:
        time.sleep(0.02)
    time.sleep(0.02)
    assert 0.02 <= watch.seconds() <= time.perf_counter() - start - 0.02
    assert watch.launch == 0


def test_a_device_tells_what_it_is(any_backend):
    device = any_backend.open_device()
    assert device.describe()["name"]
    assert device.free_bytes() > 2**20
    assert device.kind == ("gpu" if any_backend.device == "cuda" else "cpu")


def test_a_device_that_is_not_there_is_named(any_backend):
    with pytest.raises(ValueError, match=r"device_index must be .*not 63"):
        any_backend.open_device(63)


def test_the_host_is_always_there():
    assert Host.missing() is None
    assert cpu_count() >= 1
    assert cpu_name()


def test_a_package_that_is_not_installed_is_named():
    absent = Backend("gpu_none", "cuda", Cuda, ("surely_not_installed",), "None")
    assert absent.missing == "the package surely_not_installed is not installed"
    assert "fieldlab[cuda" in absent.install
    with pytest.raises(BackendUnavailable, match=r"surely_not_installed is not installed.*pip install"):
        absent.open_device()


def test_numba_cuda_with_a_numpy_it_cannot_use_says_so(monkeypatch):
    monkeypatch.delattr(np, "row_stack", raising=False)
    assert "needs numpy below 2.5" in (NumbaCuda.missing() or "")


def test_a_driver_older_than_the_toolkit_shows_both_versions():
    class Runtime:
        driverGetVersion = staticmethod(lambda: 12040)  # noqa: N815 - CuPy's own names
        runtimeGetVersion = staticmethod(lambda: 13000)  # noqa: N815

    class Cupy:
        class cuda:  # noqa: N801
            runtime = Runtime

    text = gpu_devices._driver_too_old(Cupy)
    assert text is not None
    assert "CUDA 12.4" in text
    assert "CUDA 13.0" in text


def test_a_compiler_that_is_not_there_is_said_before_the_first_kernel_asks_for_it():
    def absent():
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    there = SimpleNamespace(cuda=SimpleNamespace(nvrtc=SimpleNamespace(getVersion=lambda: (13, 0))))
    assert gpu_devices._no_compiler(there) is None
    there.cuda.nvrtc.getVersion = absent
    assert "cannot load NVRTC" in gpu_devices._no_compiler(there)
    assert "libnvrtc.so.13" in gpu_devices._no_compiler(there)


def test_backends_are_found_by_name():
    assert [b.name for b in BACKENDS] == ["cpu_numpy", "cpu_numba", "gpu_numba", "gpu_cupy"]
    assert backend("gpu_cupy").device == "cuda"
    with pytest.raises(ValueError, match=r"backend must be one of cpu_numpy.*not 'fortran'"):
        backend("fortran")


def test_every_absent_backend_has_a_reason_and_a_line_to_install_it():
    for each in BACKENDS:
        assert bool(each.missing) == bool(each.install)
        assert each.device == "cuda" or not each.missing
    assert backends._installed("no.such.parent") is False
