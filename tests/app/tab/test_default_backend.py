"""A page computes on a GPU if one is ready; without a page a lab computes on the host, and files name the backend.

A machine with a GPU is simulated by backends that report themselves as ready; these tests compute nothing on them.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.labs.crossover.controls import WayControls
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.tab.controls import ComputeControls
from app.tab.engine_faults import host_values
from app.tab.lab_view import first_values, parts_of
from app.tab.session import Session
from compute import LABS
from compute.devices.backends import BACKENDS, Backend, preferred
from compute.devices.devices import Host
from compute.devices.gpu_devices import Cuda
from compute.export.link import packed, unpacked
from compute.export.scene import Scene
from compute.lab.lab import values_on
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion

ALL = [b.name for b in BACKENDS]
ON_WEBGPU = [lab for lab in LABS if "gpu_wgpu" in {one.name for one in lab.backends()}]
CPU, GPU = ["cpu_numpy", "cpu_numba"], ["gpu_wgpu", "gpu_numba", "gpu_cupy"]
EACH_LAB = pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.LAB)


class Ready(Cuda):
    """A GPU that exists."""

    @staticmethod
    def missing():
        return None


@pytest.fixture
def ready(monkeypatch):
    """Return a function: ready(names) makes exactly these backends usable."""

    def play(names):
        monkeypatch.setattr(Backend, "missing", property(lambda one: None if one.name in names else "not there: faked"))
        monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)

    return play


def session(kind, **values):
    document = SimpleNamespace(add_next_tick_callback=lambda callback: None, session_context=None)
    return Session(kind, document, first_values(kind, parts_of(kind)) | values)


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (ALL, "gpu_cupy"),
        ([*CPU, "gpu_numba"], "gpu_numba"),
        ([*CPU, "gpu_wgpu"], "gpu_wgpu"),
        (CPU, "cpu_numba"),
        (["cpu_numpy"], "cpu_numpy"),
    ],
)
def test_the_best_that_is_ready_is_taken(ready, names, best):
    ready(names)
    assert preferred().name == best
    assert preferred(reversed(BACKENDS)).name == best


def test_a_backend_is_ready_if_its_device_and_packages_exist(ready, monkeypatch):
    here, gone = Backend("gpu_cupy", "cuda", Ready, (), ""), Backend("gpu_cupy", "cuda", Ready, ("no_such",), "")
    host = Backend("cpu_numba", "host", Host, (), "")
    assert preferred([host, here]) is here
    assert preferred([host, gone]) is host
    with pytest.raises(ValueError, match="is ready here"):
        preferred([gone])
    ready([*CPU, "gpu_numba", "gpu_cupy"])
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert preferred().name == "cpu_numba"  # a simulated GPU is none


@EACH_LAB
@pytest.mark.parametrize(("names", "best", "engine"), [(ALL, "gpu_cupy", "cuda:0"), (CPU, "cpu_numba", "host")])
def test_every_lab_s_page_opens_on_the_best_backend(ready, kind, names, best, engine):
    ready(names)
    opened = session(kind)
    assert (opened.values["backend"], opened.engine) == (best, engine)
    assert kind.param["backend"].default == "cpu_numba"  # in a notebook, or in a file that names no backend
    label = "CUDA C" if names == ALL else "Numba"
    assert ComputeControls(opened).backend.helper_text == f"Fastest backend on this computer: {label} (default)"


@pytest.mark.parametrize("kind", ON_WEBGPU, ids=lambda kind: kind.LAB)
def test_a_page_opens_on_webgpu_in_a_number_type_that_it_has(ready, kind):
    ready([*CPU, "gpu_wgpu"])
    opened = session(kind)
    assert (opened.values["backend"], opened.engine) == ("gpu_wgpu", "webgpu:0")
    assert opened.values.get("dtype", "float32") == "float32"


def test_a_page_on_webgpu_moves_in_a_number_type_that_it_has(ready):
    ready([*CPU, "gpu_wgpu"])
    opened = session(Diffusion, backend="cpu_numba", dtype="float64")
    controls = ComputeControls(opened)
    assert controls.dtype.disabled_options == []
    controls.backend.value = "gpu_wgpu"
    assert (opened.values["backend"], opened.values["dtype"]) == ("gpu_wgpu", "float32")
    assert (controls.dtype.disabled_options, controls.dtype.helper_text) == (["float64"], "WebGPU has no float64")
    controls.backend.value = "cpu_numba"
    assert (controls.dtype.disabled_options, controls.dtype.helper_text) == ([], "")


def test_a_lab_returns_to_a_backend_that_is_ready_on_the_host(ready):
    for names in (["cpu_numpy"], ["cpu_numpy", *GPU]):  # without Numba, and with GPUs, which are not the host
        ready(names)
        assert host_values(Diffusion, {"backend": "gpu_cupy"}) == {"backend": "cpu_numpy"}


def way_controls(opened, changed):
    """Return the controls of the ways; `changed` receives what they change."""
    return WayControls(opened, SweepViewModel(opened), SimpleNamespace(change=lambda **values: changed.update(values)))


def test_the_crossover_ticks_the_ways_of_the_gpu_that_is_there(ready):
    ready(ALL)
    ways = way_controls(session(Crossover), {})
    assert {"cpu_numpy", "cpu_numba", "gpu_cupy", "gpu_cupy_kernel", "gpu_numba"} <= set(ways.chosen)
    ready(CPU)
    ways = way_controls(session(Crossover), {})
    assert not [name for name in ways.chosen if name.startswith(("gpu_cupy", "gpu_numba"))]


def test_ticking_a_way_of_the_gpu_moves_a_lab_that_is_open_on_the_host(ready):
    """From a link that names the host."""
    ready(ALL)
    opened, changed = session(Crossover, backend="cpu_numba", ways=["cpu_numpy"]), {}
    ways = way_controls(opened, changed)
    ways._switch("gpu_cupy", True)
    assert changed == {"ways": ["cpu_numpy", "gpu_cupy"], "backend": "gpu_cupy"}
    changed.clear()
    ways._switch("cpu_numba", True)
    assert changed == {"ways": ["cpu_numba", "cpu_numpy"]}


@EACH_LAB
def test_a_link_names_the_backend_even_if_it_is_a_default(kind):
    values = {parameter: kind.param[parameter].default for parameter in kind.param if parameter != "name"}
    for name in ("cpu_numba", "cpu_numpy", "gpu_cupy"):
        stored = kind.HISTORY.of(kind, values | {"backend": name}).values
        assert unpacked(packed(Scene(kind.LAB, stored))).values["backend"] == name


@pytest.mark.parametrize(("gpus", "changes"), [(1, {"device_index": 0}), (2, {})])
def test_a_gpu_number_beyond_those_of_another_backend_becomes_0(monkeypatch, gpus, changes):
    monkeypatch.setattr(Cuda, "count", staticmethod(lambda: gpus))
    values = {"backend": "gpu_wgpu", "device_index": 1, "dtype": "float32"}
    assert values_on(Diffusion, "gpu_cupy", values) == {"backend": "gpu_cupy"} | changes
