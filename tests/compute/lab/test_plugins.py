"""Labs from outside this repository: required files, provided features, and isolation of a broken one.

tests/data/wave is such a lab, of files alone: the wave equation with NumPy and Numba kernels.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import pickle
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import param
import pytest
from bokeh.document import Document
from PIL import Image

from app.labs.plain.parts import PlainControls, PlainView, largest_scale, step_of
from app.page.notices import Notices
from app.page.widgets import number_format
from app.tab import lab_view
from app.tab.lab_tab import LabTab
from app.tab.restore import scene_in
from compute.__main__ import BAD_INPUT, OK, main
from compute.engine import Refused, Sampled, SnapshotTaken
from compute.export import render
from compute.export.link import packed, unpacked
from compute.export.scene import Scene, SceneError
from compute.lab import plugins
from compute.lab.lab import variants
from compute.lab.plugins import GROUP, VARIABLE
from compute.labs import LABS, lab_class, labs, outside
from compute.measure import records
from tests.compute.engine.faulty import Client, has_extensions, running
from tests.cuda_on_cpu import forget
from tests.direct import DirectSession
from tests.sources import ROOT

pytestmark = pytest.mark.extended

SMALL = {"ny": 24, "nx": 36, "dtype": "float64"}
MINIMAL = """
import numpy as np
from compute.lab.lab import Lab
class Mine(Lab):
    def begin(self): return {"u": np.zeros((4, 4))}
    def advance(self, steps=1):
        with self.stepping(steps) as done: self.kernels.step(self.arrays["u"], steps)
        return done.timing
    def frame(self, view=None, pixels=(512, 512)): return self.framed({"u": self.raster("u", view, pixels)}, {})
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Forget the folders named by commands, and clear the cache of found labs."""
    monkeypatch.setenv(VARIABLE, os.environ.get(VARIABLE, ""))
    forget(plugins)
    yield
    forget(plugins)
    for name in [name for name in sys.modules if name.startswith(plugins.PACKAGE) and ".wave" not in name]:
        del sys.modules[name]


def folder(place: Path, name: str = "mine", lab: str = MINIMAL, without: str = "") -> Path:
    """Create a folder with a lab."""
    made = place / name
    made.mkdir()
    files = {"lab.py": lab, "cpu_numpy.py": "def step(u, steps):\n    u += steps\n", "README.md": "# Mine\n\nMine.\n"}
    for file, text in files.items():
        if file != without:
            (made / file).write_text(text, encoding="utf-8")
    return made


# -- a lab by files alone


def test_parameters_advance_and_frame_are_sufficient_for_a_lab(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, os.path.relpath(folder(tmp_path)))
    lab = lab_class("mine")()
    assert (lab.LAB, lab.TITLE, lab.backend) == ("mine", "Mine", "cpu_numpy")  # its only backend
    lab.advance(3)
    again = lab_class("mine")()
    again.restore(lab.snapshot())
    assert again.field()[0, 0] == 3
    assert again.frame().facts["step"] == 3
    again.act("reset")
    assert again.frame().facts["step"] == 0
    assert again.predicted_bytes() > 0
    lab.load(np.full((4, 4), 2.0))
    assert lab.data()["u"][0, 0] == 2
    with pytest.raises(ValueError, match="array must be finite"):
        lab.load(np.full((4, 4), np.nan))
    lab.arrays["u"][0, 0] = np.nan
    lab.frame()
    assert not lab.status.healthy


def test_a_lab_may_define_actions_and_kernel_variants(tmp_path, monkeypatch):
    more = """
    def fill(self, value): self.load(np.full((4, 4), value))
    def reset(self): self.fill(5.0)
    @classmethod
    def actions(cls): return {**super().actions(), "fill": cls.fill}
"""
    chosen = MINIMAL.replace("    def begin", "    variant = param.String()\n    def begin").replace(
        "import", "import param\nimport", 1
    )
    place = folder(tmp_path, lab=chosen + more)
    with (place / "cpu_numpy.py").open("a", encoding="utf-8") as kernels:
        kernels.write("VARIANTS = {'plain': step, 'slow': step}\n")
    monkeypatch.setenv(VARIABLE, str(place))
    mine = lab_class("mine")
    assert variants(mine, "cpu_numpy") == ("plain", "slow")
    lab = mine()
    lab.act("reset")  # defined by the lab
    assert lab.field()[0, 0] == 5
    lab.act("fill", value=7.0)
    assert lab.field()[0, 0] == 7
    with pytest.raises(ValueError, match="action must be one of reset, fill, not 'load'"):
        lab.act("load", array=np.zeros((4, 4)))


def test_the_tab_has_sliders_for_parameters_and_shows_frames(wave):
    assert [lab.LAB for lab in labs()] == [*(lab.LAB for lab in LABS), "wave"]
    assert lab_view.labs_with_tabs() == (labs(), [])
    session = DirectSession(wave(**SMALL))
    stage, controls = PlainView(session, (900, 600)), PlainControls(session, None, Notices(Document()))
    assert {"courant", "damping", "edges", "mode_p", "mode_q", "ny", "nx"} <= set(controls._widgets)
    session.see()
    first = session.latest.rasters["displacement"].levels
    assert set(stage.pictures.plots) == {"displacement"}
    controls.transport.step()
    controls._widgets["damping"].value = 0.25
    assert session.live.damping == 0.25
    assert not np.array_equal(session.see().rasters["displacement"].levels, first)
    assert dict(session.latest.facts).keys() == {"step", "energy"}
    tab = LabTab(wave, Document(), (1280, 720))
    assert tab.session.values["courant"] == 0.5
    speed = tab.controls.transport.speed
    assert (tab.session.steps_per_frame, speed.labels[speed.values.index(speed.value)]) == (None, "maximum")
    speed.value = 5
    assert tab.session.steps_per_frame == 5
    speed.value = 0
    assert tab.session.steps_per_frame is None
    tab.close()


@pytest.mark.parametrize(
    ("step", "start", "shown"),
    [(0.005, 0.0, "0.000"), (0.0005, 0.01, "0.0000"), (1, 0, "0"), (2.5, 0, "0.0"), (1 / 300, 0.0, "0.00000"),
     (0.1, 0.05, "0.00"), (0.1, 1e-9, "0.00")],
)  # fmt: skip
def test_a_slider_has_enough_digits_for_its_steps(step, start, shown):
    assert number_format(step, start) == shown
    assert number_format(5e-9, 0.0).format == "%.3e"


def test_a_slider_has_the_step_of_its_parameter():
    number, whole = param.Number(0, bounds=(0, 1), step=0.03), param.Integer(0, bounds=(0, 9000), step=10)
    assert (step_of(number), step_of(whole)) == (0.03, 10)
    assert step_of(param.Number(0, bounds=(0, 1))) == 1 / 200
    assert step_of(param.Integer(0, bounds=(0, 9000))) == 0


@pytest.mark.parametrize(
    ("pictures", "room", "side", "margin", "scale"),
    [(2, (1000, 500), (100, 100), (0, 0), 5), (2, (500, 1000), (100, 100), (0, 0), 5),
     (2, (300, 620), (100, 100), (100, 10), 2), (3, (600, 390), (100, 100), (0, 0), 2)],
)  # fmt: skip
def test_pictures_are_arranged_in_the_rows_that_make_them_largest(pictures, room, side, margin, scale):
    assert largest_scale(pictures, room, side, margin) == scale


def test_an_engine_runs_an_external_lab(wave):
    lives = running()
    engine = next(lives)
    client = Client(engine, "wave", eager=True, **SMALL)
    first = client.wait_frame(lambda frame: True)
    assert has_extensions(engine)  # available to its kernels
    client.handle.step(5)
    later = client.wait_frame(lambda frame: frame.facts["step"] == 5)
    assert later.facts["energy"] == pytest.approx(first.facts["energy"], rel=1e-12)
    assert later.timing.compute > 0
    client.handle.update(courant=2.0)
    assert "courant" in client.wait(Refused).text
    client.handle.snapshot()
    assert client.wait(SnapshotTaken).snapshot["steps"] == 5
    client.handle.sample(3, 2)
    sampled = client.wait(Sampled).timings
    assert [timing.steps for timing in sampled] == [1, 3, 3]  # the first is the warm-up
    assert all(timing.compute > 0 for timing in sampled)
    next(lives, None)


@pytest.mark.parametrize("first", ["compute", "compute.process.tasks", "compute.engine"])
def test_a_pickled_lab_class_loads_in_a_process_that_imported_only(first, wave_folder, wave):
    code = f"import sys, pickle, {first}; print(pickle.loads(bytes.fromhex(sys.argv[1])).LAB)"
    known = {**os.environ, VARIABLE: str(wave_folder)}
    command = [sys.executable, "-c", code, pickle.dumps(wave).hex()]
    done = subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("wave\n", 0), done.stderr


def test_a_link_and_a_picture_reproduce_the_state(wave):
    lab = wave(**SMALL)
    lab.update(courant=0.3)
    lab.advance(20)
    lab.update(damping=0.5, backend="cpu_numpy")
    lab.advance(30)
    history = wave.HISTORY.of(wave, lab.values(), lab.snapshot())
    assert [entry["step"] for entry in history.entries] == [20]
    scene = Scene("wave", history.values, (24, 36), history.steps, history=history.entries)
    assert unpacked(packed(scene)).plain() == {**scene.plain(), "size": [1080, 1920]}
    with closing(render.Replay.of(scene)) as replay:
        replay.to(scene.steps)
        np.testing.assert_array_equal(replay.lab.field(), lab.field())
    picture = render.png(render.pixels(scene), json.dumps(scene.plain()))
    shown = render.pixels(scene, render.LiveState(lab.values(), lab.snapshot()))
    np.testing.assert_array_equal(render.read_png(picture), shown)
    assert scene_in(json.dumps(scene.plain())) == scene


def test_every_command_accepts_the_folder(wave_folder, tmp_path, capsys, monkeypatch):
    option = ["--lab", str(wave_folder)]
    assert main(["info", "--json", *option]) == OK
    listed = json.loads(capsys.readouterr().out)["labs"][-1]
    assert listed == {
        "name": "wave", "title": "Wave", "package": "fieldlab_labs.wave", "backends": ["cpu_numpy", "cpu_numba"]
    }  # fmt: skip
    monkeypatch.setenv(VARIABLE, "")
    small = ["--set", "ny=24", "--set", "nx=32", "--steps", "10"]
    for name, size in (("a.png", ["--size", "64x48"]), ("a.npz", [])):
        assert main(["render", "wave", *option, *small, *size, "--out", str(tmp_path / name)]) == OK
    with Image.open(tmp_path / "a.png") as opened:
        assert opened.size == (64, 48)
    assert np.load(tmp_path / "a.npz")["u"].shape[-2:] == (24, 32)
    film = ["--frames", "3", "--every", "2", "--workers", "1", "--out", str(tmp_path / "a.gif")]
    assert main(["render", "wave", *option, *small, "--size", "32x24", *film]) == OK  # in a separate process
    with Image.open(tmp_path / "a.gif") as opened:
        assert opened.n_frames == 3
    table = tmp_path / "a.csv"
    sweep = ["--vary", "damping=0,0.5", "--set", "ny=24", "--steps", "40", "--workers", "1", "--out", str(table)]
    assert main(["sweep", "wave", *option, *sweep]) == OK
    energies = [float(row["energy"]) for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines())]
    assert energies[1] < 0.5 * energies[0]

    assert main(["bench", "wave", *option, "--budget", "0.2", "--save", str(tmp_path / "wave.json")]) == OK
    printed = capsys.readouterr().out
    assert "Wave  float64" in printed
    assert "nan" not in printed
    assert "GB/s" not in printed.split("Wave  float64")[1]  # its bytes per step are unknown
    figures = records.recorded(records.load(tmp_path / "wave.json"))
    assert {figure.backend for figure in figures} == {"cpu_numpy", "cpu_numba"}

    def become(program, words):
        raise SystemExit(words)

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(SystemExit) as begun:
        main(["serve", *(own := ["--port", "5010", "--origin", "lab.example:5010"]), *option])
    assert begun.value.code[3:] == ["app.server.serve", *own]
    assert os.environ[VARIABLE] == str(wave_folder)


def test_links_and_files_cannot_name_a_folder(wave_folder, tmp_path):
    known = ", ".join(lab.LAB for lab in LABS)
    with pytest.raises(SceneError, match=f"lab must be one of {known}, not 'wave'"):
        unpacked(packed(Scene("wave", {})))
    for name in (str(wave_folder), "fieldlab_labs.wave", "../wave"):
        with pytest.raises(SceneError, match="lab must be one of"):
            scene_in(json.dumps(Scene(name, {}).plain()))
    (tmp_path / "a.json").write_text(json.dumps(Scene("wave", {}).plain()), encoding="utf-8")
    assert main(["render", str(tmp_path / "a.json"), "--out", str(tmp_path / "a.png")]) == BAD_INPUT


# -- invalid folders


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"without": "cpu_numpy.py"}, r"it has no cpu_numpy\.py \(the reference\)"),
        ({"without": "README.md"}, r"it has no README\.md"),
        ({"without": "lab.py"}, r"it has no lab\.py"),
        ({"name": "my-lab"}, "its name must be a Python name"),
        ({"name": "diffusion"}, "there is another lab called 'diffusion'"),
        ({"lab": "raise SystemExit(3)"}, "SystemExit: 3"),
        ({"lab": "def f(:"}, "SyntaxError"),
        ({"lab": "x = 1"}, r"lab\.py must define one subclass of Lab, not none"),
        ({"lab": MINIMAL + "class Other(Mine): pass"}, "must define one subclass of Lab, not Mine, Other"),
        ({"lab": "from compute.lab.lab import Lab\nclass Mine(Lab): pass"}, "Mine has no advance, no frame"),
        ({"lab": MINIMAL.replace("def begin", "LAB = '../up'\n    def begin")}, "LAB must be letters"),
        ({"lab": MINIMAL.replace("def begin", "resting = False\n    def begin")}, "Lab uses status instead"),
    ],
)
def test_an_invalid_folder_is_reported_and_the_built_in_labs_run(made, why, tmp_path, capsys, monkeypatch):
    path = folder(tmp_path, **made)
    assert main(["info", "--lab", str(path)]) == BAD_INPUT
    said = capsys.readouterr().err
    assert str(path) in said
    assert re.search(why, said), said
    monkeypatch.setenv(VARIABLE, str(path))
    assert labs() == LABS
    (problem,) = lab_view.labs_with_tabs()[1]
    assert problem.startswith(f"The lab {path.name} is not there: ")
    assert str(tmp_path) not in problem  # visitors need not know the path
    assert main(["info", "--json"]) == OK
    (printed,) = json.loads(capsys.readouterr().out)["problems"]
    assert str(path) in printed


def test_a_missing_or_duplicate_folder_is_refused(tmp_path, capsys):
    assert main(["info", "--lab", str(tmp_path / "nowhere")]) == BAD_INPUT
    assert "nowhere" in capsys.readouterr().err
    (tmp_path / "b").mkdir()
    both = [folder(tmp_path), folder(tmp_path / "b")]
    assert main(["info", "--lab", str(both[0]), "--lab", str(both[1])]) == BAD_INPUT
    assert "there is another folder called 'mine'" in capsys.readouterr().err
    assert main(["info", "--lab"]) == BAD_INPUT


def test_a_broken_view_removes_only_the_tab_of_its_lab(tmp_path, monkeypatch, caplog):
    path = folder(tmp_path)
    (path / "parts.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    with caplog.at_level(logging.CRITICAL):
        shown, problems = lab_view.labs_with_tabs()
    assert shown == LABS
    assert problems == ["The lab mine is not there: its parts.py: ZeroDivisionError: division by zero"]
    (path / "parts.py").write_text("from app.labs.plain.parts import PARTS", encoding="utf-8")
    assert [lab.LAB for lab in lab_view.labs_with_tabs()[0]][-1] == "mine"


# -- installed labs


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("outside_lab.mine.lab:Mine", ""),
        ("outside_lab.mine.lab:np", "it is no subclass of Lab"),
        ("outside_lab.nowhere:Mine", "ModuleNotFoundError"),
        ("compute.labs.diffusion:Diffusion", "there is another lab called 'diffusion'"),
    ],
)
def test_an_installed_package_provides_its_lab(target, why, tmp_path, monkeypatch):
    (tmp_path / "outside_lab").mkdir()
    folder(tmp_path / "outside_lab")
    metadata = tmp_path / "outside_lab-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-lab\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {target}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("outside_lab")]:
        monkeypatch.delitem(sys.modules, name)
    found = outside()
    if why:
        (problem,) = found.problems
        assert why in str(problem)
        assert target in str(problem)
    else:
        assert [lab.PACKAGE for lab in found.labs] == ["outside_lab.mine"]
        assert found.labs[0].about() == "# Mine\n\nMine.\n"
