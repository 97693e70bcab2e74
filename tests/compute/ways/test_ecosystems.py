"""GPU arrays of PyTorch and JAX, with NumPy in place of the libraries: the names used, and their calls."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from compute.ways import ecosystems
from compute.ways.ecosystems import JaxCuda, TorchCuda


class Tensor(np.ndarray):
    """A NumPy array with the required methods of a tensor."""

    def copy_(self, other):
        self[...] = other

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


def torch(available=True):
    def empty(shape, dtype, device):
        assert device == "cuda:1"
        return np.empty(shape, dtype).view(Tensor)

    cuda = Mock()
    cuda.is_available.return_value = available
    cuda.device_count.return_value = 2
    cuda.mem_get_info.return_value = (30, 80)
    cuda.get_device_properties.return_value = SimpleNamespace(name="a GPU", total_memory=80)
    cuda.Event.return_value.elapsed_time.return_value = 2000.0  # ms
    return SimpleNamespace(cuda=cuda, empty=empty, from_numpy=lambda a: a.view(Tensor))


def jax(devices=2):
    memory = {"bytes_limit": 80, "bytes_in_use": 50}
    found = [SimpleNamespace(device_kind="a GPU", memory_stats=lambda: memory)] * devices
    waited = []

    class Array(np.ndarray):
        def block_until_ready(self):
            return self

    def get(kind):
        assert kind == "gpu"
        if not found:
            raise RuntimeError("no GPU backend")
        return found

    return SimpleNamespace(
        devices=get, config=SimpleNamespace(update=lambda name, value: waited.append(name)), waited=waited,
        device_put=lambda host, device: host.copy().view(Array), live_arrays=list, block_until_ready=waited.append,
    )  # fmt: skip


def test_tensors_come_and_go(monkeypatch):
    library = torch()
    monkeypatch.setitem(sys.modules, "torch", library)
    device = TorchCuda(1)
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    array = device.upload(host)
    assert isinstance(array, Tensor)
    np.testing.assert_array_equal(device.download(array), host)
    assert (device.name, device.free_bytes(), device.describe()) == ("cuda:1", 30, {"name": "a GPU", "memory": 80})
    with device.stopwatch() as stopwatch:
        pass
    assert stopwatch.seconds() == 2.0
    library.cuda.Event.assert_called_with(enable_timing=True)
    device.close()
    with pytest.raises(ValueError, match="device_index must be from 0 to 1, not 2"):
        TorchCuda(2)


def test_arrays_of_jax_come_and_go_and_are_waited_for(monkeypatch):
    library = jax()
    monkeypatch.setitem(sys.modules, "jax", library)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "")  # so that monkeypatch restores it
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE")
    device = JaxCuda(0)
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"  # leave the memory to others
    assert library.waited == ["jax_enable_x64"]
    host = np.arange(6.0)
    np.testing.assert_array_equal(device.download(device.upload(host)), host)
    np.testing.assert_array_equal(device.allocate((2,), np.float32), [0, 0])
    with pytest.raises(TypeError, match=r"a JAX array of \(2,\) cannot take \(6,\)"):
        device.write(host, device.allocate((2,), np.float32))
    with device.stopwatch() as stopwatch:
        pass
    assert stopwatch.seconds() >= stopwatch.launch > 0.0
    assert library.waited[-1] == []  # the live arrays
    assert (device.free_bytes(), device.describe()) == (30, {"name": "a GPU"})


def test_without_a_library_or_its_gpu_there_are_no_devices(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch(available=False))
    monkeypatch.setitem(sys.modules, "jax", jax(devices=0))
    assert (TorchCuda.count(), JaxCuda.count()) == (0, 0)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "jax", None)
    assert (TorchCuda.count(), JaxCuda.count()) == (0, 0)


def test_what_is_missing_is_found_without_an_import(monkeypatch):
    """The page checks it in the server, which must not open a GPU."""
    monkeypatch.setattr(ecosystems, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    monkeypatch.setattr(ecosystems, "_gpus", lambda: 0)
    assert TorchCuda.missing() == "PyTorch is installed but there is no NVIDIA GPU or driver"
    assert JaxCuda.missing() == "JAX is installed but there is no NVIDIA GPU or driver"
    monkeypatch.setattr(ecosystems, "_gpus", lambda: 1)
    monkeypatch.setattr(ecosystems, "installed_version", lambda name: "2.13.0+cpu")
    monkeypatch.setattr(ecosystems, "find_spec", lambda name: None)
    assert TorchCuda.missing() == "PyTorch is installed without CUDA"
    assert JaxCuda.missing() == "JAX is installed without its CUDA plugin"
    monkeypatch.setattr(ecosystems, "installed_version", lambda name: "2.13.0")
    monkeypatch.setattr(ecosystems, "find_spec", lambda name: name == "jax_cuda12_plugin")
    assert (TorchCuda.missing(), JaxCuda.missing()) == (None, None)
