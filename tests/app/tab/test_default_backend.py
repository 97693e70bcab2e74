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
from compute.devices.backends import BACKENDS, Backend, backend, preferred
from compute.devices.devices import Host
from compute.devices.gpu_devices import Cuda
from compute.export.link import packed, unpacked
from compute.export.scene import Scene
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.measure.verdict import Variant, pairing

ALL = [b.name for b in BACKENDS]
CPU, GPU = ["cpu_numpy", "cpu_numba"], ["gpu_wgpu", "gpu_numba", "gpu_cupy"]


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
        (ALL, "gpu_cupy"), ([*CPU, "gpu_numba"], "gpu_numba"), ([*CPU, "gpu_wgpu"], "gpu_wgpu"), (CPU, "cpu_numba"),
        (["cpu_numpy"], "cpu_numpy"),
    ],
)
def test_the_best_that_is_ready_is_taken(ready, names, best):
    ready(names)
    assert preferred().name == best
    assert preferred(reversed(BACKENDS)).name == best


def test_readiness_is_asked_of_the_device():
    here, gone = Backend("gpu_cupy", "cuda", Ready, (), ""), Backend("gpu_cupy", "cuda", Ready, ("no_such",), "")
    host = Backend("cpu_numba", "host", Host, (), "")
    assert preferred([host, here]) is here
    assert preferred([host, gone]) is host
    with pytest.raises(ValueError, match="is ready here"):
        preferred([gone])


def test_a_simulated_gpu_is_none(ready, monkeypatch):
    ready([*CPU, "gpu_numba", "gpu_cupy"])
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert preferred().name == "cpu_numba"


@pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.LAB)
@pytest.mark.parametrize(("names", "best", "engine"), [(ALL, "gpu_cupy", "cuda:0"), (CPU, "cpu_numba", "host")])
def test_every_lab_s_page_opens_on_it(ready, kind, names, best, engine):
    ready(names)
    opened = session(kind)
    assert (opened.values["backend"], opened.engine) == (best, engine)
    assert kind.param["backend"].default == "cpu_numba"  # in a notebook, or in a file that names no backend


def test_a_page_on_webgpu_opens_and_moves_in_a_number_type_that_it_has(ready):
    ready([*CPU, "gpu_wgpu"])
    opened = session(Diffusion, backend="cpu_numba", dtype="float64")
    controls = ComputeControls(opened)
    assert controls.dtype.disabled_options == []
    controls.backend.value = "gpu_wgpu"
    assert (opened.values["backend"], opened.values["dtype"]) == ("gpu_wgpu", "float32")
    assert (controls.dtype.disabled_options, controls.dtype.helper_text) == (["float64"], "WebGPU has no float64")
    controls.backend.value = "cpu_numba"
    assert (controls.dtype.disabled_options, controls.dtype.helper_text) == ([], "")


def test_the_page_says_with_what_it_opens(ready):
    ready(ALL)
    machine = ComputeControls(session(Diffusion))
    assert machine.backend.value == "gpu_cupy"
    assert machine.backend.helper_text == "Fastest backend on this computer: CUDA C (default)"
    ready(CPU)
    helper = ComputeControls(session(Diffusion)).backend.helper_text
    assert helper == "Fastest backend on this computer: Numba (default)"


def test_what_goes_back_to_the_host_goes_to_what_is_ready_there(ready):
    for names in (["cpu_numpy"], ["cpu_numpy", *GPU]):  # without Numba, and with GPUs, which are not the host
        ready(names)
        assert host_values(Diffusion, {"backend": "gpu_cupy"}) == {"backend": "cpu_numpy"}


@pytest.mark.parametrize("selected", ALL)
def test_the_readout_races_all_that_are_ready(ready, selected):
    """The GPU is compared with the CPU, whichever of them computes the picture; the other backends follow."""
    ready(ALL)
    challenger, opponent, everybody = pairing({"backend": selected})
    assert challenger == Variant(selected if selected in GPU else "gpu_cupy")
    assert opponent == Variant("cpu_numba")
    assert everybody[:2] == [challenger, opponent]
    assert sorted(one.backend for one in everybody) == sorted(ALL)


def ticks(opened, changed):
    model = SweepViewModel(opened)
    runner = SimpleNamespace(change=lambda **values: changed.update(values))
    return WayControls(opened, model, runner)


def test_the_crossover_ticks_the_ways_of_the_gpu_that_is_there(ready):
    ready(ALL)
    ways = ticks(session(Crossover), {})
    assert {"cpu_numpy", "cpu_numba", "gpu_cupy", "gpu_cupy_kernel", "gpu_numba"} <= set(ways.chosen)
    ready(CPU)
    ways = ticks(session(Crossover), {})
    assert not [name for name in ways.chosen if name.startswith(("gpu_cupy", "gpu_numba"))]


def test_a_way_to_the_gpu_is_ticked_in_a_lab_that_is_open_on_the_host(ready):
    """From a link that names the host: the lab moves to where that way can run."""
    ready(ALL)
    opened, changed = session(Crossover, backend="cpu_numba", ways=["cpu_numpy"]), {}
    ways = ticks(opened, changed)
    ways._switch("gpu_cupy", True)
    assert changed == {"ways": ["cpu_numpy", "gpu_cupy"], "backend": "gpu_cupy"}
    changed.clear()
    ways._switch("cpu_numba", True)
    assert changed == {"ways": ["cpu_numba", "cpu_numpy"]}


@pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.LAB)
@pytest.mark.parametrize("name", ["cpu_numba", "cpu_numpy", "gpu_cupy"])
def test_a_link_says_the_backend_whatever_the_page_opens_with(kind, name):
    values = {parameter: kind.param[parameter].default for parameter in kind.param if parameter != "name"}
    told = kind.HISTORY.of(kind, values | {"backend": name}).values
    assert told["backend"] == name
    assert unpacked(packed(Scene(kind.LAB, told))).values["backend"] == name
    assert backend(name) in kind.backends()
