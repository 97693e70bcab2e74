"""The WebGPU device on a GPU, or else on a software adapter: arrays, errors, clocks, exactness, the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from compute.devices import webgpu, webgpu_exactness, webgpu_probe
from compute.devices.backends import backend
from compute.devices.devices import DeviceLost
from compute.devices.webgpu import SOFTWARE, WebGpu
from compute.devices.webgpu_passes import PASSES, TimestampStopwatch, WebGpuError, WgpuArray
from compute.devices.wgsl import WgslError, WgslProgram, kernel, launch, program, unroll
from compute.lab.lab import OutOfMemory
from compute.labs.diffusion import Diffusion
from tests.conftest import require
from tests.sources import ROOT


@pytest.fixture
def device(monkeypatch):
    """The GPU of this machine, or a software adapter if there is none."""
    require(backend("gpu_wgpu"), monkeypatch)
    return WebGpu(0)


def test_a_software_adapter_is_missing_unless_it_is_requested_and_its_times_mean_nothing(monkeypatch):
    monkeypatch.setenv(SOFTWARE, "software")
    if missing := WebGpu.missing():
        pytest.skip(missing)
    assert "its times mean nothing" in WebGpu.simulated()
    monkeypatch.delenv(SOFTWARE)
    if all(each.info["adapter_type"] == "CPU" for each in webgpu._all_adapters()):
        assert "only the software adapter" in (WebGpu.missing() or "")
    assert WebGpu.simulated() == ""


def test_webgpu_can_be_switched_off(device, monkeypatch):
    monkeypatch.setenv(SOFTWARE, "off")
    assert (WebGpu.count(), WebGpu.missing()) == (0, "it is switched off (FIELDLAB_WEBGPU=off)")
    assert webgpu.listed() == ([], None)
    assert not backend("gpu_wgpu").ready


def test_parts_of_an_array_share_its_buffer(device):
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    array = device.upload(host)
    np.testing.assert_array_equal(device.download(array[1]), host[1])
    np.testing.assert_array_equal(device.download(array[1:2]), host[1:2])
    np.testing.assert_array_equal(device.download(array[1][2:3, 1:3]), host[1, 2:3, 1:3])
    device.write(np.full((3, 4), -1, np.float32), array[0])
    np.testing.assert_array_equal(device.download(array), np.concatenate([np.full((1, 3, 4), -1), host[1:]]))
    for key in (2, slice(0, 2, 2), (slice(0, 2), slice(0, 1)), (slice(0, 1), slice(0, 3, 2))):
        with pytest.raises(IndexError):
            (array if not isinstance(key, tuple) else array[0])[key]


@pytest.mark.parametrize("dtype", webgpu.STORED)
@pytest.mark.parametrize("shape", [(1,), (5,), (3, 7)], ids=str)
def test_arrays_of_any_length_come_back_as_written(device, shape, dtype):
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    np.testing.assert_array_equal(device.download(device.upload(host)), host)


def test_a_kernel_sees_the_length_of_an_array(device):
    """The buffer is longer: whole vectors."""
    code = """
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> result: array<u32>;
        @compute @workgroup_size(1) fn lengths() { result[0] = arrayLength(&x); result[1] = arrayLength(&result); }
    """
    x, result = device.allocate((5,), np.float32), device.allocate((3,), np.uint32)
    launch(program(code), "lengths", (1,), (x, result))
    assert device.download(result)[:2].tolist() == [5, 3]


def test_an_array_that_is_too_large_is_refused_and_the_device_goes_on(device):
    with pytest.raises(MemoryError, match="MiB in one array; WebGPU allows at most"):
        device.allocate((device.largest_array + 4,), np.uint8)
    with pytest.raises(TypeError, match=r"dtype must be one of float32.*not complex64"):
        device.allocate((1,), np.complex64)
    assert device.has_room(2**20)
    assert device.download(device.upload(np.ones(3, np.float32))).tolist() == [1, 1, 1]


def test_a_lab_that_does_not_fit_keeps_its_state(device, monkeypatch):
    lab = Diffusion(backend="gpu_wgpu", ny=64, nx=64)
    lab.advance(3)
    monkeypatch.setattr(device.gpu, "largest", 2**20)
    before = lab.field()
    with pytest.raises(OutOfMemory, match="needs memory that webgpu:0 does not have"):
        lab.update(ny=1024, nx=1024)
    assert (lab.ny, lab.nx, lab.steps) == (64, 64, 3)
    np.testing.assert_array_equal(lab.field(), before)
    lab.advance(1)
    lab.close()


def test_buffers_without_an_array_are_destroyed(device):
    u, out = (device.allocate((64, 64), np.float32) for _ in range(2))
    webgpu_probe.copy(u, out)
    device.synchronise()
    known = len(device.gpu.groups)
    del u, out
    device.synchronise()
    assert len(device.gpu.groups) == known - 1
    assert not device.gpu.retired


def test_a_stopwatch_times_the_launches_in_its_block(device):
    u, out = (device.allocate((2**20,), np.float32) for _ in range(2))
    for _ in range(2):
        with device.stopwatch() as watch:
            for _ in range(3):
                webgpu_probe.copy(u, out)
                device.download(out[:1])  # more than one submission in a block
    assert watch.seconds() > 0
    with device.stopwatch() as nothing:
        pass
    assert nothing.seconds() >= 0
    second = device.stopwatch()
    with device.stopwatch(), pytest.raises(RuntimeError, match="already runs"):
        second.__enter__()


def test_a_stopwatch_times_more_passes_than_fit_into_a_submission(device):
    u, out, landing = (device.allocate((2**12,), np.float32) for _ in range(3))
    if device.clock != "timestamps":
        pytest.skip("this device has no plausible timestamps")
    with TimestampStopwatch(device.gpu) as watch:
        for _ in range(2 * PASSES + 1):
            webgpu_probe.copy(u, out)
            device.gpu.copy(out, landing.storage.buffer)  # ends the pass
    assert [buffer.size // 16 for buffer in watch._stamps] == [PASSES, PASSES, 1]
    assert watch.seconds() > 0


def test_a_device_without_plausible_timestamps_uses_wall_time(device, monkeypatch):
    monkeypatch.setattr(device.gpu, "tick", None)
    webgpu._clock.cache_clear()
    try:
        device = WebGpu(0)
        assert device.describe()["clock"] == "wall time"
        u, out = (device.allocate((2**16,), np.float32) for _ in range(2))
        with device.stopwatch() as watch:
            webgpu_probe.copy(u, out)
        assert watch.seconds() > 0
    finally:
        webgpu._clock.cache_clear()


def test_a_source_that_does_not_compile_is_refused_with_the_log(device, tmp_path):
    path = tmp_path / "bad.wgsl"
    path.write_text("@compute @workgroup_size(1) fn one() { let x: f32 = 1u; }", encoding="utf-8")
    with pytest.raises(WgslError, match=r"(?s)bad\.wgsl.*f32"):
        kernel(device.gpu, WgslProgram(path, exact=0), "one")
    assert device.download(device.upload(np.ones(1, np.float32))).tolist() == [1]


def test_a_kernel_requires_its_numbers_and_whole_arrays(device):
    pairs, found = device.allocate((8, 2), np.float32), device.allocate((8, 6), np.float32)
    program = WgslProgram(webgpu_exactness.SOURCE)
    with pytest.raises(ValueError, match="needs 1 numbers, not 0"):
        launch(program, "arithmetic", (1,), (pairs, found))
    with pytest.raises(ValueError, match="whole arrays"):
        launch(program, "arithmetic", (1,), (pairs[1:], found), np.uint32(1))


def test_marked_loops_are_written_out():
    text = "f() {\n  /*unroll*/ for (var k = 0; k < 2; k++) { a[k] = b[k + 1]; { k; } }\n}"
    assert unroll(text) == "f() {\n  { a[0] = b[0 + 1]; { 0; } }\n  { a[1] = b[1 + 1]; { 1; } }\n}"


def test_products_and_differences_are_rounded_exactly_as_requested(device):
    shares = webgpu_exactness.exactness(device, 2)
    names = webgpu_exactness.SUM, webgpu_exactness.PRODUCT, "product and sum rounded separately"
    assert [shares[name] for name in names] == [1, 1, 1]
    assert WebGpu.exact(0)
    assert not WebGpu.exact(WebGpu.count())
    assert webgpu_exactness.exactness(device, 1)["product and sum rounded separately"] == 1


LOSE = """
import numpy as np
from compute.devices.devices import DeviceLost
from compute.devices.webgpu import WebGpu
from compute.engine.sending import context_lost

device = WebGpu(0)
array = device.upload(np.ones(4, np.float32))
device.gpu.device.destroy()
for use in (device.synchronise, lambda: device.download(array), lambda: device.allocate((1,), np.float32)):
    try:
        use()
    except DeviceLost as error:
        assert context_lost(error) and "was lost" in str(error)
    else:
        raise AssertionError("no error")
again = WebGpu(0)
print(again.download(again.upload(np.ones(2, np.float32))).tolist())
"""


def test_a_lost_device_is_reported_and_can_be_opened_anew(device):
    done = subprocess.run(
        [sys.executable, "-c", LOSE], capture_output=True, text=True, cwd=ROOT, env=os.environ, check=False
    )
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


def test_the_report_has_adapter_exactness_clock_and_rates(device):
    command = [sys.executable, "-m", "compute", "info", "--webgpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ, check=True)
    found = json.loads(done.stdout)
    assert found["adapter"]["adapter_type"] == device.gpu.adapter.info["adapter_type"]
    assert set(found["exactness"]) == {"0", "1", "2"}
    assert len(found["rates"]) == 3
    assert all(rate > 0 for rate in found["rates"].values())
    absent = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {SOFTWARE: ""}, check=False
    )
    assert absent.returncode == 2 or json.loads(absent.stdout)
    assert absent.returncode != 2 or "backend 'gpu_wgpu' is not available: " in absent.stderr


def test_an_error_of_webgpu_has_its_text_in_one_line(device, monkeypatch):
    monkeypatch.setattr(device.gpu, "largest", 2**50)
    with pytest.raises(WebGpuError, match=r"^WebGPU refused an operation: [^\n]*wgpuDeviceCreateBuffer[^\n]*$"):
        device.allocate((2**41,), np.uint8)


def test_the_probe_s_copy_copies_every_word(device):
    host = np.random.default_rng(0).random(100_003, np.float32)
    source, target = device.upload(host), device.allocate(host.shape, np.float32)
    webgpu_probe.copy(source, target)
    np.testing.assert_array_equal(device.download(target), host)
    assert isinstance(target, WgpuArray)


def test_lost_devices_end_the_engine_s_process():
    from compute.engine.sending import context_lost

    assert context_lost(DeviceLost("gone"))
    assert not context_lost(RuntimeError("refused"))
