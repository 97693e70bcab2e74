"""Folders for temporary data: their owners, and clean-up after a killed process."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from compute.export.jobs import FILE, Job, JobQueue
from compute.machine import scratch
from tests.waiting import until

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


def test_a_folder_is_removed_with_its_process(temporary):
    process, folder = another()
    assert list(temporary.iterdir()) == [folder]
    with process:
        process.stdin.close()  # input() raises
    assert list(temporary.iterdir()) == []


def test_only_folders_of_killed_processes_are_removed_at_the_next_start(temporary):
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


def test_a_lent_folder_is_removed_after_an_error(temporary):
    with suppress(ZeroDivisionError), scratch.lent("parts") as folder:
        (folder / "a").write_text("a")
        raise ZeroDivisionError
    assert list(temporary.iterdir()) == []
    with pytest.raises(ValueError, match="'two words'"):
        scratch.folder("two words")


def linger(report):
    """Leave a folder behind when killed."""
    report(0.5, str(scratch.folder("parts")))
    threading.Event().wait()


def test_a_cancelled_job_leaves_nothing(temporary):
    job = Job(linger, FILE, queue=JobQueue())  # its process uses the test's folder
    job.start()
    until(lambda: job.words)
    folder = Path(job.words)
    assert folder.is_dir()
    job.cancel()
    assert job.join(60)
    assert not folder.exists()
