"""Folders for temporary data: their owners, and clean-up after a killed process."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from compute.export.jobs import FILE, Job, JobQueue
from compute.machine import scratch

MAKE = "from compute.machine import scratch; print(scratch.folder('export'), flush=True); input()"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A separate folder for temporary files, also for child processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def another():
    """Start a process that creates a folder; return both."""
    process = subprocess.Popen([sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, Path(process.stdout.readline().strip())


def test_it_goes_with_its_process(temporary):
    process, folder = another()
    assert list(temporary.iterdir()) == [folder]
    with process:
        process.stdin.close()  # input() raises
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_at_the_next_start_and_nothing_else(temporary):
    mine = scratch.folder("export")
    living, kept = another()
    dead, lost = another()
    others = [temporary / name for name in ("fieldlab-export-elsewhere-1-abc", "fieldlab-export-notes")]
    for other in others:
        other.mkdir()
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert lost.is_dir()
    scratch.settle()
    assert not lost.exists()
    assert all(path.is_dir() for path in (mine, kept, *others))
    living.communicate("")
    scratch.clear(os.getpid())
    assert not mine.exists()


def test_the_folder_of_a_block_goes_after_it_whatever_happens(temporary):
    with suppress(ZeroDivisionError), scratch.lent("parts") as folder:
        (folder / "a").write_text("a")
        raise ZeroDivisionError
    assert list(temporary.iterdir()) == []


def test_a_kind_that_could_not_be_found_again_is_refused():
    with pytest.raises(ValueError, match="'two words'"):
        scratch.folder("two words")


def linger(tell):
    """Leave a folder behind when killed."""
    tell(0.5, str(scratch.folder("parts")))
    time.sleep(60)


def test_a_cancelled_job_leaves_nothing(temporary):
    job = Job(linger, FILE, queue=JobQueue())  # its process uses the test's folder
    job.start()
    end = time.monotonic() + 120
    while not job.words:
        assert time.monotonic() < end, job.text
        time.sleep(0.02)
    folder = Path(job.words)
    assert folder.is_dir()
    job.cancel()
    assert job.join(60)
    assert not folder.exists()
