"""The notebooks in docs/notebooks run from top to bottom with the stated results; a lab displays itself in one.

A notebook runs as in Jupyter, cell by cell in one namespace, but without Jupyter: the test requests the picture of the
value of each cell's last line. Without the extra `notebook`, cells that need the canvas are skipped.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from anywidget import _util as anywidget_util
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image

from compute import LABS
from compute.export.scene import SceneError
from compute.lab.notebook import ANYWIDGET, NotebookStream, canvas_class, mimebundle
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


def shown(value: object) -> bool:
    """Return whether a notebook displays a picture of a value; a PNG is verified."""
    if hasattr(value, "_repr_mimebundle_"):
        bundle = value._repr_mimebundle_()
        if "image/png" in bundle:
            Image.open(io.BytesIO(bundle["image/png"])).verify()
        return "image/png" in bundle or "application/vnd.jupyter.widget-view+json" in bundle
    return False


def run(name: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], int, str]:
    """Run a notebook; return its final namespace, the number of pictures of labs, and its output."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    pictures = 0
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code" or ("canvas" in cell["metadata"].get("tags", ()) and not ANYWIDGET.installed):
            continue
        assert not cell["outputs"]  # outputs of one machine do not belong in the repository
        source = TransformerManager().transform_cell("".join(cell["source"]))  # "%pip" is no Python
        tree = ast.parse(source, f"{name}, cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{name}, cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"{name}, cell {number}", "eval"), names)
            pictures += shown(value)
    return names, pictures, capsys.readouterr().out


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    """Make matplotlib draw into memory."""
    monkeypatch.setitem(mpl.rcParams, "backend", "agg")


def test_the_diffusion_notebook_has_its_stated_results(capsys):
    names, pictures, out = run("diffusion", capsys)
    assert pictures >= 2
    assert abs(names["after"] / names["before"] - 1) < 1e-3  # zero-flux edges keep the heat; float32 rounds
    stable, beyond = (float(line.rpartition(" ")[2]) for line in out.splitlines() if line.startswith("r = "))
    assert stable < 10 < beyond
    assert {"cpu_numpy", "cpu_numba"} <= names["fields"].keys()
    assert all(np.allclose(field, names["fields"]["cpu_numpy"], atol=1e-4) for field in names["fields"].values())


def test_the_l_curve_notebook_has_its_stated_results(capsys):
    names, pictures, out = run("l_curve", capsys)
    assert pictures >= 1
    too_little, right, too_much = names["errors"].values()
    assert right < too_little
    assert right < too_much
    assert "curvature" in out
    # by the definition of the curve: a larger λ leaves a larger residual and a smaller solution
    assert (np.diff(names["curve"].residual_norms) > 0).all()
    assert (np.diff(names["curve"].solution_norms) < 0).all()


def test_the_mode_notebook_measures_the_exact_factors(capsys):
    names, pictures, _ = run("diffusion_modes", capsys)
    assert pictures == 2
    assert names["measured"] == pytest.approx(names["predicted"], rel=1e-10)
    assert names["error"] < 1e-10
    assert names["half_lives"][4] / names["half_lives"][8] == pytest.approx(4, rel=0.02)


def test_the_mandelbrot_notebook_counts_pixels_and_area(capsys):
    names, pictures, _ = run("mandelbrot", capsys)
    assert pictures == 1
    assert names["wrong"] == []
    assert names["counts"].max() == 200
    areas = list(names["areas"].values())
    assert areas == sorted(areas, reverse=True)
    assert areas[-1] == pytest.approx(1.5066, abs=0.02)  # T. Förstemann, 2012


def test_the_depth_notebook_shows_where_float32_fails(capsys):
    names, pictures, _ = run("mandelbrot_depth", capsys)
    assert pictures == 3
    single = [found["float32"] for found in names["wrong"].values()]
    assert single[0] < 0.05
    assert single[-1] > 0.3
    assert all(found["float64"] <= found["float32"] for found in names["wrong"].values())
    assert names["same"]["float32"] > 0.9 > names["same"]["float64"]  # blocks several pixels wide
    assert names["distinct"] > 20


def test_the_noise_notebook_judges_every_rule(capsys):
    names, pictures, _ = run("l_curve_noise", capsys)
    assert pictures == 1
    assert set(names["ratios"]) == set(LCurve.param["rule"].objects)
    assert all(min(found) >= 1 for found in names["ratios"].values())
    little, much = (np.median(lambdas) for lambdas in names["best_lambdas"].values())
    assert little < much


def test_the_crossover_notebook_times_right_results_only(capsys):
    names, pictures, out = run("crossover", capsys)
    assert pictures == 1
    assert {point.status for point in names["sweep"].points.values()} == {"measured"}
    assert "NumPy" in out.splitlines()[5]  # the finding
    assert all(start > 0 for start, _ in names["models"].values())


def test_the_recorded_gpu_notebook_finds_a_crossing_between_its_points(capsys):
    names, _, out = run("crossover_gpu", capsys)
    faster = names["gpu"] < names["cpu"]
    assert not faster[0]
    assert faster[-1]
    low, high = names["n"][names["at"]], names["n"][names["at"] + 1]
    assert low <= names["crossing"] <= high
    assert names["one"].machine in out


def test_the_equations_notebook_measures_the_speed_of_a_front(capsys):
    names, pictures, out = run("equations", capsys)
    assert pictures == 1
    for (diffusivity, rate), speed in names["speeds"].items():
        assert 0.9 < speed / (2 * np.sqrt(rate * diffusivity)) < 1.01
    assert "def " in out


def test_the_pattern_notebook_measures_the_width_of_stripes(capsys):
    names, pictures, _ = run("equations_patterns", capsys)
    assert pictures == 2
    assert names["wavenumber"] == pytest.approx(1, abs=0.15)
    assert names["amplitudes"][0.3] == pytest.approx(np.sqrt(2 * 0.3 / 3), rel=0.1)
    assert names["amplitudes"][-0.1] < 0.01


def test_every_lab_has_two_notebooks_that_the_documents_list():
    names = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    listed = (NOTEBOOKS / "index.md").read_text(encoding="utf-8")
    for lab in LABS:
        assert sum(name.startswith(lab.LAB) for name in names) == 2, lab.LAB
    for name in names:
        assert f"({name}.md)" in listed
        assert f"```{{notebook}} {name}" in (NOTEBOOKS / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def small():
    """A lab of 8 × 6 cells."""
    lab = Diffusion(backend="cpu_numpy", ny=6, nx=8)
    yield lab
    lab.close()


class Browser:
    """A client of a stream. frames: the received frames; `paint()` confirms the latest as painted."""

    def __init__(self, lab) -> None:
        self.frames, self.others = [], []
        self.stream = NotebookStream(lab, self.take)

    def take(self, message, buffers) -> None:
        (self.frames if "frame" in message else self.others).append((message, buffers))

    def paint(self) -> None:
        self.stream.hear({"painted": self.frames[-1][0]["frame"]})


def test_a_lab_advances_only_to_the_frame_that_was_painted(small):
    browser = Browser(small)
    browser.stream.hear({"ready": True})
    browser.stream.play(5)
    browser.paint()
    assert small.steps == 5
    for _ in range(3):  # a browser that repeats a confirmation, or confirms an old frame
        browser.stream.hear({"painted": browser.frames[-2][0]["frame"]})
    assert small.steps == 5
    browser.paint()
    assert small.steps == 10
    browser.stream.pause()
    browser.paint()
    assert small.steps == 10
    assert [frame["playing"] for frame, _ in browser.frames[-2:]] == [True, False]


def test_a_second_canvas_receives_the_newest_frame_and_colours(small):
    browser = Browser(small)
    browser.stream.hear({"ready": True})
    browser.stream.play(1)
    browser.paint()
    seen = small.steps
    browser.stream.hear({"ready": True})
    assert len(browser.others) == 2
    assert len(browser.others[-1][1][0]) == 3 * 257  # 255 levels, not finite, not computed
    assert small.steps == seen
    browser.paint()  # and the stream continues for the new canvas
    assert small.steps == seen + 1


def test_buttons_step_and_reset_and_invalid_messages_are_ignored(small):
    browser = Browser(small)
    browser.stream.hear({"do": "step"})
    assert small.steps == 1
    for message in ({"do": "close"}, {"painted": "1"}, {"painted": 99}, None, [], {"ready": 0}):
        browser.stream.hear(message)
    assert (small.steps, len(browser.frames)) == (1, 1)
    browser.stream.hear({"do": "reset"})
    assert small.steps == 0
    with pytest.raises(ValueError, match=r"steps must be from 0 to 100000, not -1"):
        browser.stream.play(-1)


def test_a_finished_lab_stops_playing():
    lab = LCurve(backend="cpu_numpy", problem="shaw", n=16, tolerance=1e-2)
    browser = Browser(lab)
    browser.stream.play(100)
    for _ in range(50):
        if not browser.stream.playing:
            break
        browser.paint()
    assert lab.status.resting
    assert not browser.stream.playing
    (frame, (picture,)) = browser.frames[-1]
    assert frame["kind"] == "png"
    assert Image.open(io.BytesIO(picture)).size == (frame["width"], frame["height"])
    lab.close()


def test_without_the_extra_a_still_picture_and_the_install_command_are_shown(small, monkeypatch):
    monkeypatch.setattr("compute.lab.notebook.ANYWIDGET", replace(ANYWIDGET, name="no_such_widget"))
    monkeypatch.setattr("compute.lab.notebook.canvas_class", canvas_class.__wrapped__)
    bundle = mimebundle(small)
    assert Image.open(io.BytesIO(bundle["image/png"])).size == (640, 480)
    assert "Diffusion" in bundle["text/plain"]
    assert small._display_().size == (640, 480)
    with pytest.raises(SceneError, match=r"pip install 'fieldlab\[notebook\]'"):
        small.play()


VIEW = "application/vnd.jupyter.widget-view+json"


class Cells:
    """The outputs of a notebook's cells as saved; each run adds the bundles that a cell displays."""

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance()
        self.shell.display_pub = self
        self.outputs: list[dict[str, Any]] = []
        self.metadata: list[dict[str, Any]] = []
        self._named: dict[str, int] = {}

    def publish(self, data, metadata=None, *, transient=None, update=False, **_) -> None:
        """Store an output, or replace an earlier one, as Jupyter does."""
        name = (transient or {}).get("display_id")
        if update:
            self.outputs[self._named[name]] = data
        else:
            self._named[name] = len(self.outputs)
            self.outputs.append(data)
            self.metadata.append(metadata or {})

    def clear_output(self, *_, **__) -> None:
        """Do nothing: the tests clear no output."""

    def run(self, value) -> dict[str, Any]:
        """Display the value of a cell's last line; return the cell's final output."""
        self.shell.display_formatter.format(value)
        return self.outputs[-1]


@pytest.fixture
def cells():
    """A notebook in IPython, without Jupyter."""
    made = Cells()
    yield made
    InteractiveShell.clear_instance()


def test_each_cell_keeps_the_state_that_it_showed(small, cells):
    before = cells.run(small)
    small.advance(50)
    after = cells.run(small)
    assert VIEW not in before
    assert VIEW not in after
    assert before["image/png"] != after["image/png"]


def test_a_cell_that_plays_keeps_a_picture_that_the_canvas_hides(small, cells):
    cells.run(small.play(1))
    picture, canvas = cells.outputs
    assert VIEW in canvas
    assert VIEW not in picture
    assert f'class="{small.canvas.mark}"' in picture["text/html"]
    assert Image.open(io.BytesIO(picture["image/png"])).size == (640, 480)
    assert picture["text/plain"] == str(small)


def test_the_kept_picture_follows_the_lab(small, cells, monkeypatch):
    cells.run(small.play(20))
    monkeypatch.setattr("compute.lab.notebook.KEPT", 0.0)
    begun = cells.outputs[0]["image/png"]
    assert ", step 20" in cells.outputs[0]["text/plain"]
    small.canvas._heard(None, {"painted": small.canvas.stream.sent}, ())
    assert cells.outputs[0]["image/png"] != begun
    assert ", step 40" in cells.outputs[0]["text/plain"]
    monkeypatch.setattr("compute.lab.notebook.KEPT", 1e9)
    small.canvas._heard(None, {"painted": small.canvas.stream.sent}, ())  # not yet due
    assert ", step 40" in cells.outputs[0]["text/plain"]
    small.canvas._heard(None, {"do": "pause"}, ())
    assert ", step 60" in cells.outputs[0]["text/plain"]
    assert VIEW in cells.outputs[1]  # its buttons still work
    small.canvas._heard(None, {"do": "step"}, ())
    assert ", step 80" in cells.outputs[0]["text/html"]
    data = small.canvas.still.removeprefix("data:image/png;base64,")
    assert base64.b64decode(data) == cells.outputs[0]["image/png"]


def test_a_canvas_becomes_text_below_a_picture_when_the_lab_stops(small, cells):
    cells.run(small)
    cells.run(small.play())
    small.advance(30)
    small.pause()
    first, picture, text = cells.outputs
    assert "text/html" not in picture
    assert picture["image/png"] != first["image/png"]
    assert text == {"text/plain": str(small)}
    cells.run(small.play())
    small.close()
    assert not any(VIEW in output for output in cells.outputs)
    assert ["image/png" in output for output in cells.outputs] == [True, True, False, True, False]


def test_marimo_shows_a_canvas_while_the_lab_plays_and_keeps_a_picture(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(vstack=list, Html=str))
    assert small._display_().size == (640, 480)
    picture, canvas = small.play()._display_()
    assert canvas is small.canvas
    assert f'<img class="{canvas.mark}" src="data:image/png;base64,' in picture
    assert small.pause()._display_().size == (640, 480)


def test_colab_receives_its_widget_manager(small, cells, monkeypatch):
    calls = []
    output = SimpleNamespace(
        enable_custom_widget_manager=lambda: calls.append(1), _widgets=SimpleNamespace(_installed_url="https://manager")
    )
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    anywidget_util.enable_custom_widget_manager_once.cache_clear()
    cells.run(small.play())
    assert calls == [1]
    assert cells.metadata[1][VIEW]["colab"]["custom_widget_manager"]["url"] == "https://manager"


def test_buttons_open_the_notebook_of_the_repository(tmp_path):
    buttons = runpy.run_path(str(NOTEBOOKS.parent / "conf.py"))["buttons"]
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nurls = { Repository = "https://github.com/someone/fieldlab/" }', encoding="utf-8")
    links = buttons("l_curve.ipynb", project)
    assert "https://colab.research.google.com/github/someone/fieldlab/blob/main/docs/notebooks/l_curve.ipynb" in links
    assert "https://mybinder.org/v2/gh/someone/fieldlab/main?urlpath=lab/tree/docs/notebooks/l_curve.ipynb" in links
    project.write_text('[project]\nurls = { Repository = "https://github.com/someone/fieldlab.git" }', encoding="utf-8")
    assert buttons("l_curve.ipynb", project) == links
    project.write_text("[project]\n", encoding="utf-8")
    assert buttons("l_curve.ipynb", project) == ""
