"""The notebook of a scene runs, and restores the state bit for bit, whatever its values contain."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import nbformat
import numpy as np
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from msgspec import structs

from app.tab.restore import scene_of_lab
from compute.devices.backends import Backend
from compute.export import notebook_file
from compute.export.notebook_file import literal, notebook_of
from compute.export.scene import Scene, SceneError, Style
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.equations import Equations
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

HOSTILE = "''' \"\"\" \\ \u2028\x85 }]);raise SystemExit#'%pip?"


def scene(lab) -> Scene:
    """Return the scene of the lab as the export card does."""
    return scene_of_lab(type(lab), lab.values(), lab.snapshot(), "", Style(), None)


def programs(notebook: dict[str, Any]) -> list[str]:
    """Return the programs of the cells as Python, after a check of the whole notebook and its journey as JSON."""
    again = json.loads(json.dumps(notebook))
    nbformat.validate(nbformat.from_dict(again))
    return [
        TransformerManager().transform_cell("".join(cell["source"]))
        for cell in again["cells"]
        if cell["cell_type"] == "code"
    ]


def ran(notebook: dict[str, Any]) -> Any:
    """Run the cells; return the lab."""
    names: dict[str, Any] = {}
    for program in programs(notebook):
        exec(program, names)
    return names["lab"]


def used_field() -> Diffusion:
    """Return a lab with a history: strokes, changes, steps in between."""
    lab = Diffusion(backend="cpu_numpy", ny=24, nx=20, preset="noise", seed=5, edges="periodic", dtype="float64")
    lab.advance(7)
    lab.act("paint", points=[(3.0, 4.0), (9.0, 8.5)], value=2.5, radius=2)
    lab.advance(3)
    lab.update(r=0.05, edges="zero-flux")
    lab.advance(130)
    return lab


def typed() -> Equations:
    """Return equations with a slider that was moved."""
    lab = Equations(backend="cpu_numpy", text="gray_scott", ny=16, nx=16)
    lab.advance(5)
    lab.set(F=0.05)
    lab.advance(20)
    return lab


@pytest.mark.parametrize("make", [used_field, typed])
def test_the_notebook_repeats_a_history(make):
    with closing(make()) as lab, closing(ran(notebook_of(scene(lab)))) as again:
        assert (again.steps, again.values()) == (lab.steps, lab.values())
        assert np.array_equal(again.field(), lab.field())


def test_labs_that_end_are_finished():
    picture = Mandelbrot(backend="cpu_numpy", ny=20, nx=30, max_iterations=50, center=("-0.7436", "0.1318"), zoom="4e1")
    curve = LCurve(backend="cpu_numpy", problem="shaw", n=16, noise=1e-3, rule="gcv")
    with closing(picture), closing(curve):
        picture.counts()
        curve.solve()
        sized = scene(picture)
        with closing(ran(notebook_of(Scene(sized.lab, sized.values, (20, 30))))) as again:
            assert np.array_equal(again.counts(), picture.counts())
        with closing(ran(notebook_of(scene(curve)))) as again:
            assert again.curve().corners == curve.curve().corners
            assert np.array_equal(again.solution(1e-2), curve.solution(1e-2))


def test_a_sweep_is_written_but_measured_again():
    with closing(Crossover(backend="cpu_numpy", most=100, ways=["cpu_numpy"])) as lab:
        notebook = notebook_of(scene(lab))
        names: dict[str, Any] = {}
        for program in programs(notebook)[:2]:  # without the measurement
            exec(program, names)
        assert names["lab"].values() == lab.values()
        names["lab"].close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Diffusion(backend="cpu_numpy", ny=8, nx=8, preset="text", text=HOSTILE),
        lambda: Equations(backend="cpu_numpy", ny=8, nx=8, text=f"u_t = lap(u)\nu(0) = x\n# {HOSTILE!a}\n#%pip?"),
    ],
)
def test_hostile_text_stays_a_literal(make):
    with closing(make()) as lab:
        notebook = notebook_of(structs.replace(scene(lab), missing=f"{HOSTILE}\nraise SystemExit"))
        with closing(ran(notebook)) as again:
            assert again.text == lab.text
            assert np.array_equal(again.field(), lab.field())
    assert not any("raise" in "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": np.zeros(2)}])
def test_a_value_without_a_literal_is_refused(value):
    with pytest.raises(SceneError, match="cannot be written as a Python literal"):
        literal(value)


def test_a_gpu_state_runs_on_the_host_where_that_gpu_is_missing(monkeypatch):
    history = ({"step": 2, "set": {"backend": "gpu_numba", "r": 0.1}}, {"step": 3, "set": {"variant": "plain"}})
    made = Scene("diffusion", {"backend": "gpu_cupy", "variant": "tiled", "ny": 8, "nx": 8}, steps=4, history=history)
    monkeypatch.setattr(Backend, "missing", property(lambda self: "none" if self.kind == "gpu" else None))
    with closing(ran(notebook_of(made))) as lab:
        assert (lab.backend, lab.steps, lab.r) == ("cpu_numba", 4, 0.1)
    assert "gpu_cupy" in "".join(programs(notebook_of(made)))


def test_long_texts_are_written_on_several_lines():
    with closing(typed()) as lab:
        program = notebook_file._creation(scene(lab))
    assert max(map(len, program.splitlines())) <= notebook_file.WIDTH + 20
