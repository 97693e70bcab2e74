"""The search for a Chromium and its installation, with simulated machines instead of a real one."""

from __future__ import annotations

import pytest

from tests.browser import chromium


@pytest.fixture
def add(tmp_path):
    """Return add(name), which puts an executable file into the only folder of the PATH."""

    def add(name):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    return add


def test_the_environment_precedes_the_path_and_playwrights_build(add, tmp_path):
    environ, own = {"PATH": str(tmp_path)}, tmp_path / "own"
    assert chromium.find(environ, lambda: None) is None
    assert chromium.find(environ, lambda: own) == own
    installed, named = add("chromium"), add("named")
    assert chromium.find(environ, lambda: own) == installed
    assert chromium.find({**environ, "CHROMIUM": str(named)}, lambda: own) == named
    with pytest.raises(chromium.NoChromiumError, match="no-such"):
        chromium.find({**environ, "CHROMIUM": str(tmp_path / "no-such")}, lambda: own)


@pytest.mark.parametrize("works", ["playwright install", "apt-get --quiet --yes install", ""])
def test_playwright_is_tried_before_apt_and_a_failure_says_what_to_do(tmp_path, monkeypatch, works):
    ran = []
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "apt-get").touch(0o755)

    def run(command):
        ran.append(" ".join(command))
        return bool(works) and works in ran[-1]

    def look():
        return tmp_path if works and works in ran[-1] else None

    if works:
        assert chromium.install(run, look) == tmp_path
    else:
        with pytest.raises(chromium.NoChromiumError, match="apt-get install chromium-headless-shell"):
            chromium.install(run, look)
    assert "playwright install" in ran[0]
    assert all(line.startswith(("env ", "sudo --non-interactive env ")) for line in ran[1:])  # asks for no password
