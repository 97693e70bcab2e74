"""The Makefile with a made-up Python, pip and panel: what is run, when again, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.sources import ROOT

RECORDER = '#!/bin/sh\necho "$(basename "$0") $*" >> "{log}"\n'


class Sandbox:
    """A VENV folder whose programs only note how they were called."""

    def __init__(self, folder):
        self.venv, self.log = folder / "venv", folder / "log"
        (self.venv / "bin").mkdir(parents=True)
        for name in ("python", "panel", "ruff", "mypy", "fieldlab"):
            write_program(self.venv / "bin" / name, RECORDER.format(log=self.log))

    def make(self, *arguments):
        """Run make; what the programs were called with since the last time."""
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
        ["make", "--no-print-directory", *arguments], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
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
    origins = "--allow-websocket-origin lecture:7777 --allow-websocket-origin localhost:7777"
    assert calls[-1] == f"panel serve app --address 0.0.0.0 --port 7777 {origins}"


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["PORT=7777"], "localhost:7777"),
        (["ADDRESS=0.0.0.0"], "localhost:5006"),
        (["ADDRESS=0.0.0.0", "ORIGIN=lecture:5006"], "lecture:5006"),
    ],
)
def test_serve_prints_an_address_that_can_be_opened(sandbox, arguments, address):
    done = run_make(f"VENV={sandbox.venv}", "serve", *arguments)
    assert f"Fieldlab: http://{address}/app" in done.stdout


def test_nothing_is_installed_twice(sandbox):
    assert installs(sandbox.make("serve"))
    assert not installs(sandbox.make("serve"))
    assert installs(sandbox.make("lint"))      # the development tools are more than serving needs
    assert not installs(sandbox.make("serve"))


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_pins_install_again(sandbox, changed):
    sandbox.make("serve")
    assert installs(sandbox.make("serve", "-W", changed))


def test_an_extra_is_installed_once_asked_for(sandbox):
    sandbox.make("serve")
    (install,) = installs(sandbox.make("serve", "EXTRAS=cuda13"))
    assert install.endswith("--editable .[video,cuda13]")
    assert "--constraint constraints.txt" in install


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


def test_all_tests_are_run_in_two_parts(sandbox):
    """Those in a browser by themselves, also after others have failed; either's failure is make's."""
    both = [
        "python -m pytest --numprocesses 3 --dist loadfile --ignore tests/browser",
        "python -m pytest tests/browser",
    ]
    assert [call for call in sandbox.make("test", "JOBS=3") if "pytest" in call] == both
    for part in both:
        fails = f'[ "$(basename "$0") $*" = "{part}" ] && exit 1 || exit 0'
        write_program(sandbox.venv / "bin" / "python", RECORDER.format(log=sandbox.log) + fails + "\n")
        sandbox.log.write_text("")
        assert run_make(f"VENV={sandbox.venv}", "test", "JOBS=3").returncode != 0
        assert [call for call in sandbox.log.read_text().splitlines() if "pytest" in call] == both


def test_help_names_every_target():
    shown = run_make("help").stdout
    for target in ("serve", "test", "lint", "types", "bench", "clean"):
        assert f"make {target}" in shown


REFUSALS = {
    "old": ('case "$2" in *version_info*) exit 1;; esac; echo "Python 3.9.2"', "needs Python 3.11 or newer"),
    "bare": ('case "$2" in *ensurepip*) exit 1;; esac', "apt-get install python3-venv"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_an_unfit_python_is_refused_in_words(tmp_path, kind):
    body, words = REFUSALS[kind]
    write_program(tmp_path / "python", f"#!/bin/sh\n{body}\n")
    done = run_make("serve", f"VENV={tmp_path / 'venv'}", f"PYTHON={tmp_path / 'python'}")
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_missing_python_is_refused_in_words(tmp_path):
    done = run_make("serve", f"VENV={tmp_path / 'venv'}", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "there is no no-such-python" in done.stderr


def test_ci_script_is_valid_and_executable():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    done = subprocess.run([shutil.which("bash"), "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
