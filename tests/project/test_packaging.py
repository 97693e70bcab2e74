"""Contents of an installed Fieldlab, and whether the pins satisfy the version bounds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tomllib
import zipfile
from contextlib import closing, suppress
from urllib.request import urlopen

import psutil
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.browser.serving import free_port
from tests.sources import ROOT
from tests.waiting import until

pytestmark = pytest.mark.extended

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PINNED_EXTRAS = ("dev", "video", "data", "cluster", "cuda13")  # cuda12 contradicts cuda13


def requirements(*extras):
    """Return the core's requirements and those of some extras."""
    lines = PROJECT["dependencies"] + [line for extra in extras for line in EXTRAS[extra]]
    return [Requirement(line) for line in lines]


def constraints(text):
    """Return the requirements of a constraints file by package name, without blank lines and comments."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def version(requirement):
    """Return the version of a pin; fail if the requirement is not a pin."""
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", f"{requirement} pins nothing"
    assert "*" not in specifier.version, f"{requirement} pins nothing"
    return specifier.version


def unfit(required, pinned, python):
    """Return requirements without a pin or with a contradicting pin on one Python version."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    complaints = []
    for requirement in required:
        pins = pinned.get(canonicalize_name(requirement.name), [])
        pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment)]
        if [pin for pin in pins if requirement.specifier.contains(version(pin))] != pins or len(pins) != 1:
            complaints.append(f"{requirement} against {[str(pin) for pin in pins]} on Python {python}")
    return complaints


CONSTRAINTS = constraints((ROOT / "constraints.txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_satisfy_pyproject(python):
    assert unfit(requirements(*PINNED_EXTRAS), CONSTRAINTS, python) == []


@pytest.mark.parametrize("extra", ["cuda12", "cuda13"])
def test_cuda_extras_keep_numpy_that_numba_cuda_works_with(extra):
    numpy = [requirement for requirement in requirements(extra) if requirement.name == "numpy"]
    assert any(not requirement.specifier.contains("2.5.0") for requirement in numpy)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from this tree without network access."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("fieldlab-*.whl")
    return path


@pytest.fixture(scope="module")
def names(wheel):
    """The names of the wheel's files."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_has_every_source_that_the_tree_has(names):
    kinds = {".py", ".cu", ".cuh", ".txt", ".md", ".css", ".js", ".svg", ".json", ".html"}
    tree = [path for package in ("app", "compute") for path in (ROOT / package).rglob("*") if path.suffix in kinds]
    ours = [path for path in tree if "__pycache__" not in path.parts]  # the caches of kernels
    assert {path.relative_to(ROOT).as_posix() for path in ours} - names == set()
    assert any(name.endswith(".cu") for name in names)
    assert any(name.endswith("README.md") for name in names)


def test_wheel_has_the_assets_below_app(names):
    assets = [path for path in (ROOT / "assets").rglob("*") if path.is_file()]
    assert assets
    assert {f"app/_assets/{path.relative_to(ROOT / 'assets').as_posix()}" for path in assets} - names == set()


def test_wheel_has_nothing_else(names):
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("fieldlab-")} == {"app", "compute"}
    assert not [name for name in names if name.endswith((".pyc", ".nbi", ".nbc"))]


SERVE = "from app.server import serve; serve.compile_first = lambda: None; serve.main()"  # compiles into another cache


def test_the_installed_wheel_serves_from_an_empty_folder(wheel, tmp_path):
    """With a settings file; SIGTERM ends it with all its processes, and frees its port."""
    for name in ("installed", "empty"):
        (tmp_path / name).mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    port = free_port()
    (tmp_path / "course.toml").write_text(f'preset = "public"\nport = {port}\nsessions = 3\n', encoding="utf-8")
    command = [sys.executable, "-c", SERVE, "--settings", str(tmp_path / "course.toml")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    with (tmp_path / "log").open("wb") as log:
        own = {"cwd": tmp_path / "empty", "env": environment, "stdout": log, "stderr": subprocess.STDOUT}
        server = psutil.Popen(command, **own)
    family = []

    def logged():
        return (tmp_path / "log").read_text(encoding="utf-8")

    try:
        address = f"http://localhost:{port}"
        until(lambda: "Fieldlab: http" in logged() or server.poll() is not None, 300)
        assert server.poll() is None, logged()
        with urlopen(f"{address}/health", timeout=60) as answer:
            found = json.load(answer)
        assert (found["status"], found["pages"]["limit"]) == ("ok", 3)
        with urlopen(f"{address}/app", timeout=60) as answer:
            assert "Fieldlab" in answer.read().decode()
        family = server.children(recursive=True)
        assert family
        assert list((tmp_path / "empty").iterdir()) == []
        server.terminate()
        server.wait(60)
        assert psutil.wait_procs(family, timeout=60)[1] == []
        with closing(socket.socket()) as probe, pytest.raises(OSError, match="refused"):
            probe.connect(("127.0.0.1", port))
    finally:
        for process in [server, *family]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
