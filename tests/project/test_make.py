"""The Makefile with fake programs for Python, pip and panel: its commands, when they run again, and refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import psutil
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


def test_serve_passes_no_origin_by_default(sandbox):
    assert sandbox.make("serve")[-1] == "python -m app.server.serve --address localhost --port 5006"


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


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_pins_install_again(sandbox, changed):
    sandbox.make("serve")
    assert installs(sandbox.make("serve", "-W", changed))


def test_a_requested_extra_is_installed(sandbox):
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


def test_tests_are_run_in_both_halves_and_all_are_two_runs(sandbox):
    first, second = "python -m tests.halves --apart -m not extended", "python -m tests.halves --apart -m extended"
    assert sandbox.make("test", "JOBS=3")[-1] == "python -m tests.halves --apart --jobs 3 -m not extended"
    assert [call for call in sandbox.make("test-all", "JOBS=") if "halves" in call] == [first, second]
    assert sandbox.make("test-extended", "JOBS=")[-1] == second
    calls = sandbox.make("test", "JOBS=")
    assert calls[-1] == first
    assert "python -m app.server.first_screens" in calls  # in parallel with mypy, and finished before the tests start
    assert calls.index("fieldlab info --roofs") > max(map(calls.index, ("python -m app.server.first_screens", "mypy ")))


HALF = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
    tests/browser*) echo browser; exit {browser};;
    *) nice; exit {others};;
esac
"""


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("browser", "others"), [(0, 0), (0, 2), (3, 0), (3, 2)])
def test_both_halves_run_to_the_end_and_a_failure_is_returned(tmp_path, capfd, browser, others, apart):
    half = tmp_path / "half"
    write_program(half, HALF.format(log=tmp_path / "log", browser=browser, others=others))
    more = ["--apart"] if apart else []
    assert halves.main(["--jobs", "3", *more, "-x"], [str(half)]) == (others or browser)
    calls = sorted((tmp_path / "log").read_text().splitlines())
    spread = "--dist loadfile --no-loadscope-reorder"  # the longest files first, in the order of conftest.py
    assert calls[0].startswith(f"--ignore tests/browser --numprocesses 3 {spread} --durations 20")
    assert calls[1].startswith(f"tests/browser --numprocesses 3 {spread}")
    assert all(call.endswith(" -x") for call in calls)
    said = capfd.readouterr().out
    beside = f"{min(19, os.nice(0) + halves.ASIDE)}\n== tests in the browser\nbrowser\n\n"
    assert said == (f"{os.nice(0)}\nbrowser\n" if apart else beside)


@pytest.mark.parametrize(("cores", "memory", "wanted"), [(2, 24, 3), (8, 64, 9), (8, 7, 3), (96, 500, 17), (1, 1, 1)])
def test_each_half_has_as_many_processes_as_the_machine_can_run(monkeypatch, cores, memory, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=memory * 2**30))
    assert halves.processes() == wanted


def test_no_test_is_named_by_the_bytes_of_a_file(request):
    """An archive's bytes contain the time of packing, and each worker of a run packs its own."""
    cases = [item for item in request.session.items if hasattr(item, "callspec")]
    files = {(item.nodeid, value) for item in cases for value in item.callspec.params.values() if _archive(value)}
    assert [name for name, data in files if repr(data[:4])[2:-1] in name] == []


def _archive(value):
    return isinstance(value, bytes) and value.startswith(b"PK")


def test_help_names_every_target():
    shown = run_make("help").stdout
    for target in ("serve", "test", "test-all", "lint", "types", "bench", "clean"):
        assert f"make {target}" in shown


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


def test_a_missing_python_is_refused(tmp_path):
    done = run_make("serve", f"VENV={tmp_path / 'venv'}", "PYTHON=no-such-python")
    assert done.returncode != 0
    assert "there is no no-such-python" in done.stderr


@pytest.mark.parametrize("name", ["run", "conditions"])
def test_ci_scripts_are_valid_and_executable(name):
    script = ROOT / ".ci" / name
    assert os.access(script, os.X_OK)
    done = subprocess.run([shutil.which("bash"), "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


TELL = """#!/bin/sh
echo "$LC_ALL|$TZ|${HOME-none}|$OPENBLAS_CORETYPE|$(umask)|$PWD|$(sed -n 's/^SigIgn:.//p' /proc/self/status)|$*"
exit 3
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads which signals are ignored from /proc")
def test_conditions_are_applied_and_a_failed_run_is_reported(tmp_path):
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "bin" / "python", TELL)
    wanted = ["zen", "locale+zone+homeless+umask+nohup", "space"]
    done = subprocess.run(
        [ROOT / ".ci" / "conditions", *wanted, "--", "-k", "lab"], env={**os.environ, "VENV": str(tmp_path)},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"red under {' '.join(wanted)}" in done.stderr
    zen, shell, space = (line.split("|") for line in done.stdout.splitlines())
    assert zen[3] == "Zen"
    assert shell[:3] == ["C", "Asia/Tokyo", "none"]
    assert shell[4:6] == ["0077", str(ROOT)]
    assert int(shell[6], 16) & 0b111 == 0b111  # SIGHUP, SIGINT, SIGQUIT
    assert " " in space[5]
    assert "ü" in space[5]
    assert zen[7] == shell[7] == space[7] == "-m pytest -k lab"
    unknown = subprocess.run([ROOT / ".ci" / "conditions", "rain"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "no condition is called rain: haswell" in unknown.stderr
