"""Full disks and interruptions: existing files are kept, and no partial file remains."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from compute.export import formats
from compute.export.film import Film, Key, frame
from compute.export.film_renderer import FilmRenderer
from compute.export.render_pool import LocalPool
from compute.export.scene import Scene
from compute.files.files import DiskFull, size, whole, whole_file
from tests.compute.export import chores
from tests.compute.export.test_jobs import alive
from tests.in_process import InProcess
from tests.waiting import until

pytestmark = pytest.mark.extended

FILM = Film(Scene("diffusion", {"ny": 120, "nx": 160}, (120, 160)), 8)
OLD = b"an older film"


def noise(count):
    """Return a film of `count` frames of small fields."""
    keys = Key(0, {"seed": 0}), Key(1, {"seed": 19})
    return Film(Scene("diffusion", {"ny": 36, "nx": 36, "preset": "noise"}, (36, 36)), count, keys=keys, easing="even")


@pytest.fixture
def path(tmp_path):
    """Return the path of an existing film with its .json file."""
    made = tmp_path / "heat.gif"
    made.write_bytes(OLD)
    made.with_name("heat.gif.json").write_bytes(OLD)
    return made


@pytest.fixture
def small_files():
    """Limit files to 5 kB: the kernel refuses the rest in the middle of a write."""
    frame(noise(20).plain(), 1)  # compile before: Numba writes its cache to the disk, too
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def require_unchanged(path):
    """Require the old film and its .json file, and no partial file."""
    assert path.read_bytes() == OLD == path.with_name(f"{path.name}.json").read_bytes()
    assert not [file for file in path.parent.rglob("*") if ".part" in file.name]


def full_at(monkeypatch, ending, count):
    """Simulate a full disk at the `count`-th file with this ending."""
    write = Path.write_bytes
    seen = []

    def written(self, data):
        seen.append(self)
        if self.suffix == ending and len(seen) == count:
            write(self, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", written)


def test_a_disk_that_is_full_in_the_middle_of_the_frames(path, monkeypatch):
    with monkeypatch.context() as patched:
        full_at(patched, ".png", 6)
        with pytest.raises(
            DiskFull, match=r"heat.gif is not finished: 000005.png cannot be written: the disk is full"
        ) as error:
            FilmRenderer(FILM, path).run(InProcess())
    one = len(frame(FILM.plain(), 0)[1])
    needed = float(re.search(r"3 more frames, about ([\d.]+) kB, and the file itself; 5 of 8", str(error.value))[1])
    assert needed == pytest.approx(3 * one / 1e3, rel=0.01)
    require_unchanged(path)
    assert FilmRenderer(FILM, path).missing() == [5, 6, 7]
    FilmRenderer(FILM, path).run(InProcess())
    alone = path.with_name("alone.gif")
    FilmRenderer(FILM, alone).run(InProcess())
    assert path.read_bytes() == alone.read_bytes()
    assert json.loads(path.with_name("heat.gif.json").read_text())["frames"] == 8


@pytest.mark.parametrize("ending", [one.ending for one in formats.FILMS])
def test_a_disk_that_is_full_in_the_middle_of_the_film(ending, path, small_files):
    path = path.rename(path.with_suffix(ending))
    path.with_name("heat.gif.json").rename(path.with_name(f"{path.name}.json"))
    noisy = FilmRenderer(noise(20), path)
    with pytest.raises(
        DiskFull,
        match=f"heat{ending} is not finished: .*cannot be written: .*Room is needed for the file itself; 20 of",
    ):
        noisy.run(InProcess())
    require_unchanged(path)
    assert noisy.missing() == []


def test_a_disk_that_is_full_beside_the_film_leaves_both_files_as_they_were(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(formats, "described", full)
        with pytest.raises(DiskFull, match=r"heat.gif.json cannot be written: the disk is full"):
            FilmRenderer(FILM, path).run(InProcess())
    require_unchanged(path)


def test_an_error_of_a_library_is_put_down_to_the_disk_only_if_that_is_full(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    with pytest.raises(RuntimeError, match="something else"), whole_file(path):
        raise RuntimeError("something else")

    def usage(folder):
        """Report a full disk until the partial file is deleted."""
        return SimpleNamespace(free=4096 if list(folder.glob("*.part")) else 10**9)

    monkeypatch.setattr("compute.files.files.shutil.disk_usage", usage)
    with pytest.raises(DiskFull, match=r"a.txt cannot be written: the disk is full, 4.1 kB are free"), whole(path):
        raise RuntimeError("encoder error -2")
    assert not list(tmp_path.iterdir())
    assert [size(n) for n in (12, 1200, 3.456e6, 2e10)] == ["12 bytes", "1.2 kB", "3.46 MB", "20 GB"]


SLOW = ["--set", "max_iterations=50000", "--set", "shortcuts=false", "--size", "320x180"]


BACKGROUND = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"]  # as nohup and a script's `&` start a program


@pytest.mark.parametrize(("before", "sign", "code"), [([], signal.SIGINT, 130), (BACKGROUND, signal.SIGTERM, 143)])
def test_a_film_that_is_stopped_ends_at_once_and_goes_on_later(before, sign, code, path):
    """Each frame takes seconds; the film is stopped as soon as one exists, without waiting for the next."""
    film = ["--to", "zoom=2", "--frames", "50", "--workers", "2"]
    command = [*before, sys.executable, "-m", "compute", "render", "mandelbrot", "--out", str(path), *SLOW, *film]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as started:
        frames = path.with_name("heat.gif.frames")
        until(lambda: list(frames.glob("*.png")))
        below = psutil.Process(started.pid).children(recursive=True)
        os.killpg(started.pid, sign) if sign == signal.SIGINT else started.send_signal(sign)  # Ctrl-C: to all
        said = started.communicate(timeout=300)[1]
    assert started.returncode == code
    kept = len(list(frames.glob("*.png")))
    assert re.search(rf"interrupted; {kept} of 50 frames are kept: the same command resumes there", said)
    assert "Traceback" not in said
    assert below
    assert not psutil.wait_procs(below, 120)[1]
    require_unchanged(path)


class Large:
    """Parts of 32 MB: sending one takes so long that the worker is ended during it."""

    count, sequential, task = 40, False, staticmethod(chores.large)

    def plain(self):
        return {}


def test_workers_that_are_ended_while_they_send_keep_nobody_waiting():
    parts = LocalPool(2).make(Large(), range(Large.count))
    assert len(next(parts)[1]) == 2**25
    closing = threading.Thread(target=parts.close, daemon=True)
    closing.start()
    closing.join(120)
    assert not closing.is_alive()


class Endless:
    """Parts that are never finished; each worker writes its process id to `folder`."""

    count, sequential, task = 2, False, staticmethod(chores.endless)

    def __init__(self, folder):
        self.folder = folder

    def plain(self):
        return {"folder": self.folder}


def test_workers_end_with_a_master_that_is_killed(tmp_path):
    code = f"""if True:
        from compute.export.render_pool import LocalPool
        from tests.compute.export.test_disk_full import Endless
        list(LocalPool(2).make(Endless({str(tmp_path)!r}), range(2)))
    """
    with subprocess.Popen([sys.executable, "-c", code]) as master:
        try:
            until(lambda: len(list(tmp_path.iterdir())) == 2)
            below = psutil.Process(master.pid).children()
        finally:
            master.kill()
    assert {str(process.pid) for process in below} == {path.name for path in tmp_path.iterdir()}
    until(lambda: not any(alive(process.pid) for process in below))
