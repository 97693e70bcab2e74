"""The Makefile with fake programs for Python, pip and panel: its commands, when they run again, and refusals."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests import halves
from tests.sources import ROOT

RECORDER = '#!/bin/sh\necho "$(basename "$0") $*" >> "{log}"\n'


class Sandbox:
    """A VENV folder whose programs only log their calls."""

    def __init__(self, folder):
        self.venv, self.log = folder / "venv", folder / "log"
        (self.venv / "bin").mkdir(parents=True)
        for name in ("python", "panel", "ruff", "mypy", "fieldlab"):
            write_program(self.venv / "bin" / name, RECORDER.format(log=self.log))

    def make(self, *arguments):
        """Run make; return the new calls."""
        self.log.write_text("")
        done = run_make(f"VENV={self.venv}", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.log.read_text().splitlines()


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def run_make(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def installs(calls):
    return [call for call in calls if " pip install " in call]


def test_serve_installs_with_the_constraints_and_passes_port_and_address(sandbox):
    calls = sandbox.make("serve", "PORT=7777", "ADDRESS=0.0.0.0", "ORIGIN=lecture:7777")
    (install,) = installs(calls)
    assert "--constraint constraints.txt" in install
    assert install.endswith("--editable .[video]")
    assert calls[-1] == "python -m app.server.serve --address 0.0.0.0 --port 7777 --origin lecture:7777"


def test_nothing_is_installed_twice(sandbox):
    assert installs(sandbox.make("serve"))
    assert not installs(sandbox.make("serve"))
    assert installs(sandbox.make("lint"))  # the development tools are not needed for serving
    assert not installs(sandbox.make("serve"))


@pytest.mark.parametrize("variable", ["", "1"])
def test_development_packages_are_compiled_on_import_if_bytecode_is_kept(sandbox, monkeypatch, variable):
    """Packages for a user are compiled at installation."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", variable)
    (serving,), (testing,) = installs(sandbox.make("serve")), installs(sandbox.make("lint"))
    assert "--no-compile" not in serving
    assert ("--no-compile" in testing) is (not variable)


@pytest.mark.parametrize("more", [("-W", "pyproject.toml"), ("-W", "constraints.txt"), ("EXTRAS=cuda13",)])
def test_changed_pins_and_another_extra_install_again(sandbox, more):
    sandbox.make("serve")
    (install,) = installs(sandbox.make("serve", *more))
    assert install.endswith(f"--editable .[video{',cuda13' if more[0] == 'EXTRAS=cuda13' else ''}]")


def test_cuda12_leaves_out_the_pins_of_cuda13(sandbox):
    (install,) = installs(sandbox.make("serve", "EXTRAS=cuda12"))
    used = install.split("--constraint ")[1].split()[0]
    pins = (ROOT / used).read_text()
    assert "numpy==" in pins
    assert "nvidia-" not in pins
    assert "cuda-toolkit" not in pins


def test_test_runs_lint_types_and_pytest_in_this_order(sandbox):
    calls = [call for call in sandbox.make("test", "ARGS=-k stream") if " pip " not in call]
    found = "python tests/browser/chromium.py --install"
    assert calls == ["ruff check .", "mypy ", found, "python -m pytest -k stream"]


def test_tests_are_run_in_both_halves_and_all_are_two_runs(sandbox):
    first, second = "python -m tests.halves --apart -m not extended", "python -m tests.halves --apart -m extended"
    assert sandbox.make("test", "JOBS=3")[-1] == "python -m tests.halves --apart --jobs 3 -m not extended"
    assert [call for call in sandbox.make("test-all", "JOBS=") if "halves" in call] == [first, second]
    assert sandbox.make("test-extended", "JOBS=")[-1] == second
    calls = sandbox.make("test", "JOBS=")
    assert calls[-1] == first
    assert "python -m app.server.first_screens" in calls  # in parallel with mypy, and finished before the tests start
    assert calls.index("fieldlab info --roofs") > max(map(calls.index, ("python -m app.server.first_screens", "mypy ")))


@pytest.mark.parametrize("more", [[], ["--apart"]])
@pytest.mark.parametrize(("browser", "others"), [(0, 0), (0, 2), (3, 0)])
def test_a_failure_in_either_half_of_the_tests_is_returned(tmp_path, browser, others, more):
    write_program(tmp_path / "half", f'#!/bin/sh\ncase "$*" in tests/browser*) exit {browser};; esac\nexit {others}\n')
    assert halves.main(["--jobs", "3", *more], [str(tmp_path / "half")]) == (others or browser)


def test_help_names_every_target_of_the_guides():
    guides = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(guide.read_text(encoding="utf-8") for guide in guides)
    words = re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", text, re.MULTILINE)
    words = sorted({one or other for one, other in words})
    shown = run_make("help").stdout
    assert {"serve", "test", "lint"} <= set(words)
    assert [target for target in words if f"make {target} " not in shown] == []


REFUSALS = {
    "old": ('case "$2" in *version_info*) exit 1;; esac; echo "Python 3.9.2"', "needs Python 3.11 or newer"),
    "bare": ('case "$2" in *ensurepip*) exit 1;; esac', "apt-get install python3-venv"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_an_unsuitable_python_is_refused(tmp_path, kind):
    body, words = REFUSALS[kind]
    write_program(tmp_path / "python", f"#!/bin/sh\n{body}\n")
    done = run_make("serve", f"VENV={tmp_path / 'venv'}", f"PYTHON={tmp_path / 'python'}")
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()
