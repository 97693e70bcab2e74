"""The search for a Chromium, with simulated machines instead of a real one."""

from __future__ import annotations

import pytest

from tests.browser import chromium


@pytest.fixture
def bin_folder(tmp_path):
    """A PATH that contains only files added by the test."""

    def add(name):
        path = tmp_path / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    return add


def nowhere():
    return None


@pytest.mark.parametrize("name", chromium.NAMES)
def test_every_usual_name_is_found_on_the_path(bin_folder, tmp_path, name):
    path = bin_folder(name)
    assert chromium.find({"PATH": str(tmp_path)}, nowhere) == path


def test_the_environment_comes_first(bin_folder, tmp_path):
    bin_folder("chromium")
    mine = bin_folder("mine")
    assert chromium.find({"PATH": str(tmp_path), "CHROMIUM": str(mine)}, nowhere) == mine


def test_a_wrong_name_in_the_environment_is_not_passed_over(bin_folder, tmp_path):
    bin_folder("chromium")
    with pytest.raises(chromium.NoChromiumError, match="no-such"):
        chromium.find({"PATH": str(tmp_path), "CHROMIUM": str(tmp_path / "no-such")}, nowhere)


def test_playwrights_own_comes_last(tmp_path):
    own = tmp_path / "chrome"
    assert chromium.find({"PATH": str(tmp_path)}, lambda: own) == own
    assert chromium.find({"PATH": str(tmp_path)}, nowhere) is None


class Machine:
    """A machine on which only commands that contain `works` succeed, and then install a Chromium."""

    def __init__(self, works, path):
        self.works, self.path, self.ran = works, path, []

    def run(self, command):
        self.ran.append(" ".join(command))
        return bool(self.works) and self.works in self.ran[-1]

    def look(self):
        return self.path if self.works and self.works in self.ran[-1] else None


def test_playwright_is_tried_first(tmp_path):
    machine = Machine("playwright install", tmp_path)
    assert chromium.install(machine.run, machine.look) == tmp_path
    assert len(machine.ran) == 1


def test_apt_follows_where_playwright_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda name: f"/usr/bin/{name}")
    machine = Machine("apt-get --quiet --yes install", tmp_path)
    assert chromium.install(machine.run, machine.look) == tmp_path
    assert [line for line in machine.ran if "playwright" in line] == machine.ran[:1]


@pytest.mark.parametrize(("user", "prefix"), [(0, "env "), (1000, "sudo --non-interactive env ")])
def test_apt_asks_for_no_password(monkeypatch, user, prefix):
    monkeypatch.setattr(chromium.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(chromium.os, "geteuid", lambda: user)
    machine = Machine("", None)
    assert not chromium.apt(machine.run)
    assert all(line.startswith(prefix) for line in machine.ran)


def test_a_machine_without_either_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda _name: None)
    machine = Machine("", None)
    with pytest.raises(chromium.NoChromiumError, match="apt-get install chromium-headless-shell"):
        chromium.install(machine.run, machine.look)


def test_a_command_that_does_not_exist_is_a_no(capsys):
    assert not chromium.runs(["no-such-program-here"])
    assert "no-such-program-here" in capsys.readouterr().out
