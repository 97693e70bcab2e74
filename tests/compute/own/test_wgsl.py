"""Ways in WGSL in a user's file, checked on a software adapter, where their times do not count."""

from __future__ import annotations

import numpy as np
import pytest

from compute.devices.backends import ON_SOFTWARE, backend
from compute.devices.webgpu import WebGpu
from compute.own import FileRefused, wgsl_kernel
from compute.own.code_files import files_of_workload
from compute.own.report import lines
from compute.own.trial import UNWATCHED_WGSL, Options, try_file
from compute.ways.declaring import load
from compute.ways.opened import workload_of
from tests.conftest import require

OWN = '''
import numpy as np
from compute.own import way, wgsl_kernel, workload

@workload(sizes=(10, 2000), dtypes=("float32", "float64"))
def inputs(n, dtype, rng):
    return (rng.random(n, dtype=dtype),)

@way("cpu_numpy")
def scale(x):
    return 3 * x

kernel = wgsl_kernel("scale.wgsl", "scale", WIDTH=64)

@way("gpu_wgpu")
def scaled(x, out):
    kernel((-(-x.size // 64),), (x, out, np.float32(3)))

@way("gpu_wgpu_wrong")
def wrong(x, out):
    kernel((-(-x.size // 64),), (x, out, np.float32(2)))

CODE = """
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn broken() { x[0] = missing; }
"""
broken = wgsl_kernel(CODE, "broken")

@way("gpu_wgpu_broken")
def refused(x, out):
    broken((1,), (out,))

@way("gpu_wgpu_number")
def number(x, out):
    kernel((1,), (x, out, 3.0))
'''
SCALE = """
struct Numbers { factor: f32, zero: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
var<immediate> p: Numbers;

@compute @workgroup_size(WIDTH)
fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < arrayLength(&x)) { result[id.x] = p.factor * x[id.x]; }
}
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "scale.wgsl").write_text(SCALE)
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.mark.extended
@pytest.mark.parametrize("counts", [False, True])
def test_ways_of_gpu_wgpu_are_checked_and_timed_only_where_the_adapter_counts_as_a_gpu(own, monkeypatch, counts):
    require(backend("gpu_wgpu"), monkeypatch)
    if counts:
        monkeypatch.setattr(WebGpu, "simulated", staticmethod(lambda: ""))
    report = try_file(Options(own, budget=0.1, deadline=60.0, check_seconds=2.0, per_decade=1, roofs=False))
    assert report.refused == ""
    found = {one.way.name: one for one in report.ways}
    right = found["gpu_wgpu"]
    assert (right.status, right.text) == ("right", "")
    place = "here" if right.way.backend.ready else ON_SOFTWARE
    assert right.places[place][0].startswith("n = 1, 2, 3")
    assert UNWATCHED_WGSL in right.notes
    assert bool(right.series.get("float32")) == right.way.backend.ready
    assert "float64" not in right.series
    assert found["cpu_numpy"].series.keys() == {"float32", "float64"}
    assert found["gpu_wgpu_wrong"].kind == "differs"
    assert found["gpu_wgpu_broken"].kind == "compile"
    assert "missing" in found["gpu_wgpu_broken"].text
    assert "must be a NumPy scalar of 32 bits, not 3.0" in found["gpu_wgpu_number"].text
    if not right.way.backend.ready:
        assert "its times mean nothing" in "\n".join(lines(report))


def test_a_way_of_gpu_wgpu_is_left_out_in_float64(own):
    report = try_file(Options(own, dtypes=("float64",), check_seconds=1.0, timed=False))
    found = {one.way.name: one.sentence for one in report.ways}
    assert found["gpu_wgpu"] == "gpu_wgpu: not checked: WebGPU computes in float32 only."
    assert report.right


def test_the_code_view_shows_the_kernels_of_gpu_wgpu(own):
    _, *_, written, compiled = files_of_workload(workload_of(load(own)))
    assert written.label == "WebGPU: scale.wgsl"
    assert compiled.label == "WebGPU, as compiled, WIDTH 64: scale.wgsl"
    assert (written.backend.name, written.language, compiled.language) == ("gpu_wgpu", "wgsl", "wgsl")
    assert "workgroup_size(WIDTH)" in written.text
    assert "workgroup_size(64)" in compiled.text


def test_a_kernel_of_gpu_wgpu_refuses_other_arguments():
    with pytest.raises(FileRefused, match=r"there is no none\.wgsl next to the file"):
        wgsl_kernel("none.wgsl", "scale")
    kernel = wgsl_kernel(SCALE, "scale", WIDTH=64)
    with pytest.raises(TypeError, match="scale declares 2 arrays; its arguments are ndarray"):
        kernel((1,), (np.zeros(3),))
