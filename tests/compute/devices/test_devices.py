"""Devices and backends: which are available, and the messages about missing ones."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import numpy as np
import pytest

from compute.devices import devices
from compute.devices.backends import BACKENDS, CUDA_INSTALL, WEBGPU_INSTALL, Backend, BackendUnavailable, backend
from compute.devices.devices import Host, NoDevice, device_numbers, devices_name
from compute.devices.gpu_devices import Cuda, NumbaCuda
from compute.devices.webgpu import WebGpu


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (1024, 4)], ids=str)
def test_uploaded_arrays_are_downloaded_as_copies(any_backend, dtype, shape):
    device = any_backend.open_device()
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    array = device.upload(host)
    back = device.download(array)
    np.testing.assert_array_equal(back, host)
    assert back.dtype == dtype
    back[...] = 0
    np.testing.assert_array_equal(device.download(array), host)  # the copy belongs to the caller


def test_a_stopwatch_times_its_block(monkeypatch):
    clock = iter([3.0, 3.5])
    monkeypatch.setattr(devices, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with Host().stopwatch() as watch:
        pass
    assert (watch.seconds(), watch.launch) == (0.5, 0)


def test_a_device_describes_itself(any_backend):
    device = any_backend.open_device()
    assert device.describe()["name"]
    assert device.free_bytes() > 2**20
    assert device.kind == ("cpu" if any_backend.device == "host" else "gpu")


def test_an_unknown_device_number_is_refused(any_backend):
    with pytest.raises(ValueError, match=r"device_index must be .*not 63"):
        any_backend.open_device(63)


@pytest.mark.parametrize("package", ["surely_not_installed", "no.such.parent"])
def test_a_package_that_is_not_installed_is_named(package):
    absent = Backend("gpu_none", "cuda", Cuda, (package,), "None", installed_by=CUDA_INSTALL)
    assert absent.missing == f"the package {package} is not installed"
    assert "fieldlab[cuda" in absent.install
    with pytest.raises(BackendUnavailable, match=rf"{package} is not installed.*pip install"):
        absent.open_device()


def test_numba_cuda_with_an_incompatible_numpy_says_so(monkeypatch):
    monkeypatch.delattr(np, "row_stack", raising=False)
    assert "needs numpy below 2.5" in (NumbaCuda.missing() or "")


@pytest.fixture
def cupy(monkeypatch):
    """CuPy on a machine with a GPU, CUDA 13.0 and its driver."""
    versions = {"driverGetVersion": lambda: 13000, "runtimeGetVersion": lambda: 13000}
    compiler = SimpleNamespace(getVersion=lambda: (13, 0))
    cuda = SimpleNamespace(is_available=lambda: True, runtime=SimpleNamespace(**versions), nvrtc=compiler)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    assert Cuda.missing() is None
    return cuda


def test_a_driver_older_than_the_toolkit_shows_both_versions(cupy):
    cupy.runtime.driverGetVersion = lambda: 12040
    assert "CUDA 12.4" in Cuda.missing()
    assert "CUDA 13.0" in Cuda.missing()


def test_a_missing_compiler_is_reported_before_the_first_kernel(cupy):
    def absent():
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    cupy.nvrtc.getVersion = absent
    assert "cannot load NVRTC" in Cuda.missing()
    assert "libnvrtc.so.13" in Cuda.missing()


def test_an_absent_numba_cuda_is_distinguished_from_an_absent_gpu(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(pytest.importorskip("numba.cuda"), "is_available", lambda: False)
    monkeypatch.setattr(devices, "version", lambda name: "1.0")
    assert NumbaCuda.missing().startswith("numba-cuda finds no")
    monkeypatch.setattr(devices, "version", absent)
    assert NumbaCuda.missing().startswith("numba-cuda is not installed; Numba finds no")


def test_backends_are_found_by_name():
    assert [b.name for b in BACKENDS] == ["cpu_numpy", "cpu_numba", "gpu_wgpu", "gpu_numba", "gpu_cupy"]
    assert backend("gpu_cupy").device == "cuda"
    with pytest.raises(ValueError, match=r"backend must be one of cpu_numpy.*not 'fortran'"):
        backend("fortran")


def test_an_install_command_is_shown_unless_only_the_device_is_missing(monkeypatch):
    for each in BACKENDS:
        assert bool(each.install) == (each.missing is not None and not isinstance(each.missing, NoDevice))
        assert each.kind == "gpu" or not each.missing
    monkeypatch.setattr(WebGpu, "missing", staticmethod(lambda: NoDevice("no GPU here")))
    no_adapter = Backend("gpu_none", "webgpu", WebGpu, (), "None", installed_by=WEBGPU_INSTALL)
    assert (no_adapter.missing, no_adapter.install) == ("no GPU here", "")
    with pytest.raises(BackendUnavailable, match=r"^backend 'gpu_none' is not available: no GPU here\.$"):
        no_adapter.require()


# -- several GPUs by name


@pytest.mark.parametrize(
    ("text", "numbers", "name"),
    [
        ("cuda:0", (0,), "cuda:0"),
        ("cuda:0-3", (0, 1, 2, 3), "cuda:0-3"),
        ("cuda:0,2", (0, 2), "cuda:0,2"),
        ("cuda:0,1,2-3,6", (0, 1, 2, 3, 6), "cuda:0-3,6"),
        ("cuda:3,1", (3, 1), "cuda:3,1"),
    ],
)
def test_a_list_of_gpus_is_parsed_and_formatted(text, numbers, name):
    assert device_numbers(text) == numbers
    assert devices_name(numbers) == name


@pytest.mark.parametrize(
    "text", ["", "cuda:", "cuda:a", "cuda:1-", "cuda:0,0", "cuda:3-1", "cuda:64", "0-3", "cuda:" + "0," * 999]
)
def test_an_invalid_list_is_refused_by_name(text):
    with pytest.raises(ValueError, match="devices"):
        device_numbers(text)
