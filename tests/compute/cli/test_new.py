"""`fieldlab new`: the folder has a lab that runs, its own tests pass, and invalid names write nothing."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from compute.__main__ import BAD_INPUT, OK, main
from compute.cli.new_command import lab_files
from compute.lab import plugins
from compute.lab.plugins import VARIABLE
from compute.labs import lab_class
from tests.cuda_on_cpu import forget
from tests.sources import ROOT

HERE = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Forget the labs that a test makes known."""
    monkeypatch.setenv(VARIABLE, "")
    forget(plugins)
    yield
    forget(plugins)
    for name in [name for name in sys.modules if name.startswith(f"{plugins.PACKAGE}.heat_wave")]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path, capsys):
    """The folder of a new lab in another folder with a space in its name."""
    place = tmp_path / "my labs"
    place.mkdir()
    assert main(["new", "heat_wave", "--to", str(place)]) == OK
    return place / "heat_wave"


def test_the_new_lab_is_known_and_runs(folder, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(folder))
    kind = lab_class("heat_wave")
    assert (kind.__name__, kind.TITLE) == ("HeatWave", "Heat wave")
    assert kind.about().startswith("# Heat wave\n")
    assert [backend.name for backend in kind.backends()] == ["cpu_numpy", "cpu_numba"]
    with kind(ny=40, nx=30, dtype="float64", backend="cpu_numpy") as lab:
        before, mean = lab.field(), lab.frame().facts["mean"]
        lab.advance(20)
        assert np.abs(lab.field() - before).max() > 0.1
        assert lab.frame().facts["mean"] == pytest.approx(mean, rel=1e-12)  # every step conserves it


def test_the_tests_of_the_new_lab_pass(folder):
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(run, cwd=folder, env=HERE, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout


def test_the_printed_commands_name_the_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "tide"]) == OK
    first, *commands = capsys.readouterr().out.splitlines()
    assert first == f"wrote tide: {', '.join(sorted(path.name for path in (tmp_path / 'tide').iterdir()))}"
    assert [shlex.split(line, comments=True) for line in commands] == [
        ["fieldlab", "serve", "--lab", "tide"],
        [f"{VARIABLE}={(tmp_path / 'tide').resolve()}", "panel", "serve", "app"],
        ["(cd", "tide", "&&", "python", "-m", "pytest)"],
    ]


def test_the_names_of_the_template_are_replaced_everywhere():
    for name, text in lab_files("Tide2").items():
        assert not [word for word in ("new_lab", "NewLab", "New lab") if word in text], name
    assert "class Tide2(Lab):" in lab_files("Tide2")["lab.py"]


@pytest.mark.parametrize(
    "name", ["", "my-lab", "3d", "größe", "a b", "../up", "a__b", "_a", "a_", "a\n", "class", "none", "a" * 41]
)
def test_an_invalid_name_is_refused_with_its_bound(name, tmp_path, capsys):
    assert main(["new", name, "--to", str(tmp_path)]) == BAD_INPUT
    why = "a letter, then letters, digits and single _ between them, at most 40 in all, and no Python keyword"
    assert capsys.readouterr().err == f"fieldlab: NAME must be {why}, not {name!r}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["diffusion", "Mandelbrot", "lab"])
def test_the_name_of_a_known_lab_is_refused(name, tmp_path, capsys):
    assert main(["new", name, "--to", str(tmp_path)]) == BAD_INPUT
    assert "NAME must differ from lab, diffusion, mandelbrot, " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_never_changed(folder, capsys):
    (folder / "lab.py").write_text("mine", encoding="utf-8")
    assert main(["new", "heat_wave", "--to", str(folder.parent)]) == BAD_INPUT
    assert f"NAME must be that of a new folder, not 'heat_wave': {folder} exists" in capsys.readouterr().err
    assert (folder / "lab.py").read_text(encoding="utf-8") == "mine"
    (folder.parent / "gone").symlink_to("nowhere")
    assert main(["new", "gone", "--to", str(folder.parent)]) == BAD_INPUT


def test_an_unusable_place_is_refused(tmp_path, capsys):
    assert main(["new", "tide", "--to", str(tmp_path / "nowhere")]) == BAD_INPUT
    assert "--to must be an existing folder, not " in capsys.readouterr().err
    divided = tmp_path / f"a{os.pathsep}b"
    divided.mkdir()
    assert main(["new", "tide", "--to", str(divided)]) == BAD_INPUT
    assert f"--to must be a path without {os.pathsep!r}" in capsys.readouterr().err
    assert list(divided.iterdir()) == []


def test_the_folder_is_a_package_with_the_entry_point(folder, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=folder, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
        names = archive.namelist()
    code = "from compute.labs import lab_class; lab = lab_class('heat_wave')(ny=9); print(lab.PACKAGE, lab)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**HERE, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "installed")])},
    )  # fmt: skip
    assert done.stdout == "fieldlab_labs.heat_wave HeatWave(ny=9)\n"
    packed = {name.rpartition("/")[2] for name in names if name.startswith("fieldlab_labs/heat_wave/")}
    assert packed == {"README.md", "cpu_numba.py", "cpu_numpy.py", "lab.py"}
