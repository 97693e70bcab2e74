"""A user's file on the page: a workload that exists only in the environment of the user's command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.server import serve
from compute import __main__ as command
from compute.export.link import unpacked
from compute.labs.crossover.lab import Crossover
from compute.own import commands
from compute.own.code_files import files_of_workload
from compute.ways import catalogue
from compute.ways.opened import opened
from compute.ways.runner import WorkloadRunner

ROOT = Path(__file__).parents[3]
BLUR = Path(__file__).parent / "files" / "blur.py"


@pytest.fixture
def named(monkeypatch):
    """Return the workload of a file named as by the command, after clearing the cache of workloads."""
    monkeypatch.setenv(catalogue.OWN_FILE, str(BLUR))
    catalogue.workloads.cache_clear()
    yield catalogue.workload("own_blur")
    monkeypatch.undo()
    catalogue.workloads.cache_clear()


def test_ways_of_a_file_are_compared_like_any_others_and_shown_with_what_they_need(named):
    assert catalogue.workloads()[0] is named
    case = named.case(10, "float32")
    inputs = case.inputs(0)
    with WorkloadRunner(named.way("cpu_numba"), case, inputs) as runner:
        assert runner.check(case.reference(inputs)).difference <= case.tolerance
    source = named.way("cpu_numpy").source
    assert source.startswith("import numpy as np\n")
    assert '@way("cpu_numpy", reference=True)\ndef blur(image):' in source
    assert "WEIGHTS = np.array" in source  # the function needs it
    assert "blur_loops" not in source  # another way needs it
    assert named.about.startswith("    ")  # a block of code in Markdown, unchanged


def test_the_code_panel_shows_the_file_and_its_sources(named):
    shown = {file.key: file for file in files_of_workload(named)}
    assert {file.path.name for file in shown.values()} == {"blur.py", "blur.cu"}
    source = next(file for file in shown.values() if file.path.suffix == ".cu")
    assert source.made == "cuda"
    assert dict(source.defines)


@pytest.mark.parametrize("first", ["compute.own.code_tasks", "compute.own", "compute.labs", "compute.export.tasks"])
def test_every_process_knows_the_file_whatever_it_imports_first(first):
    """A job first imports the module of its task, which the file itself may import, too."""
    code = f"import {first}\nfrom compute.ways.catalogue import workload\nprint(workload('own_blur').title)"
    environment = {**os.environ, catalogue.OWN_FILE: str(BLUR)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "Yours: blur.py\n", done.stderr


def test_without_that_environment_no_link_can_name_it():
    assert "own_blur" not in [each.name for each in catalogue.workloads()]
    with pytest.raises(ValueError, match="workload"):
        Crossover(backend="cpu_numba", workload="own_blur")


def test_a_file_that_cannot_be_opened_leaves_the_page_as_it_is(tmp_path, caplog):
    bad = tmp_path / "bad.py"
    bad.write_text("raise SystemError('no')\n")
    assert opened(bad) == []
    assert "bad.py cannot be opened" in caplog.text


def test_open_becomes_a_server_for_this_machine_alone(monkeypatch, tmp_path):
    done = []
    monkeypatch.setattr(commands.os, "execv", lambda program, arguments: done.append(arguments))
    monkeypatch.setenv(catalogue.OWN_FILE, "")
    file = tmp_path / "add.py"
    file.write_text(
        "from compute.own import way, workload\n"
        "@workload(sizes=(1, 9), dtypes=('float64',))\ndef inputs(n, dtype, rng): return rng.random(n)\n"
        "@way('cpu_numpy')\ndef add(x): return x + 1\n"
    )
    assert command.main(["try", str(file), "--check", "--open", "--port", "5999"]) == 0
    (arguments,) = done
    options = serve._parser().parse_args(arguments[4:])
    assert (options.address, options.port, options.origin, options.browser) == ("localhost", 5999, [], True)
    scene = unpacked(options.show.removeprefix("?scene="))
    assert (scene.lab, scene.values) == ("crossover", {"workload": "own_add", "dtype": "float64"})
    assert commands.os.environ[catalogue.OWN_FILE] == str(file)


def test_a_missing_file_opens_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(commands.os, "execv", lambda *_: pytest.fail("a server was started"))
    assert command.main(["try", str(tmp_path / "none.py"), "--open"]) == 2
    assert command.main(["try", str(BLUR), "--open", "--watch"]) == 2
