"""A server without free file descriptors: its labs continue, new ones are refused, and no death is counted."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from compute.engine import Busy, EngineBroken, EngineRestarted, FrameReady, LabClosed, LabFailed, Refused, Supervisor
from compute.engine.messages import OPENING
from compute.engine.shared_memory import NO_DESCRIPTOR
from compute.engine.supervisor import SHORT_OF_MEMORY
from tests.compute.engine.faulty import PATIENCE, at_work, running
from tests.waiting import until

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[3]

SERVER = f"""
import json, os, resource, signal, threading, time
from compute.engine import EngineBroken, EnginePool, EngineRestarted, FrameReady, LabClosed, Refused
from tests.compute.engine.faulty import LABS, Client, at_work
pool = EnginePool(labs=LABS, spare=None)
engine = pool.get("host")
labs = at_work(engine, 2)
while not all(lab.handle.last_checkpoint for lab in labs):
    time.sleep(0.01)
highest = max(int(name) for name in os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken, full = [], threading.Event()
full.set()
def take():
    while full.is_set():
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            time.sleep(0.001)
thread = threading.Thread(target=take, daemon=True)
thread.start()
while len(taken) < 3 or time.sleep(0.3):
    time.sleep(0.01)
told = {{}}
new = Client(engine)
told["refused"] = new.wait(Refused).text, new.wait(Refused).change
new.wait(LabClosed)
for lab in labs:
    lab.wait(FrameReady, len(lab.frames) + 5)
told["restarts before"] = engine.restarts
os.kill(engine.pid, signal.SIGKILL)
while engine.pid is not None:
    time.sleep(0.01)
late = Client(engine)
told["refused later"] = late.wait(Refused).text
late.wait(LabClosed)
labs[1].handle.close()
labs[1].wait(LabClosed)
time.sleep(2.0)
told["while full"] = engine.state, engine.pid
full.clear()
thread.join()
for descriptor in taken:
    os.close(descriptor)
labs[0].wait(EngineRestarted, seconds={PATIENCE})
labs[0].wait(FrameReady, len(labs[0].frames) + 5)
told["then"] = engine.state, engine.restarts, len(labs[0].of(EngineBroken)), len(labs[0].of(Refused))
again = Client(engine, eager=True)
again.wait(FrameReady)
pool.close()
print(json.dumps(told))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the descriptors of a process are listed in /proc")
def test_labs_outlast_a_time_without_descriptors():
    done = subprocess.run(
        [sys.executable, "-c", SERVER], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert NO_DESCRIPTOR in told["refused"][0]
    assert told["refused"][1] == OPENING
    assert NO_DESCRIPTOR in told["refused later"]
    assert told["restarts before"] == 0
    assert told["while full"] == ["restarting", None]
    assert told["then"] == ["ready", 1, 0, 0]


@pytest.fixture
def engine() -> Iterator[Supervisor]:
    yield from running(deadline=60.0)


def test_any_other_reason_for_which_no_process_starts_counts(engine, monkeypatch):
    (client,) = at_work(engine)  # most probably computing at any moment
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/python")
        os.kill(engine.pid, signal.SIGKILL)
        assert "could not be started" in client.wait(EngineBroken).reason
    assert client.of(LabFailed) == []


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="shared memory is a file here")
def test_a_lab_whose_frames_have_no_memory_after_a_restart_waits_for_it(engine, monkeypatch):
    client, other = at_work(engine, 2)
    create, calls = os.memfd_create, count(1)

    def scarce(name):
        if next(calls) != 2:  # the second lab that is opened
            raise OSError(errno.EMFILE, "too many")
        return create(name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "memfd_create", scarce)
        os.kill(engine.pid, signal.SIGKILL)
        other.wait(EngineRestarted)
        until(lambda: SHORT_OF_MEMORY in [event.what for event in client.of(Busy)])
        other.wait(FrameReady, len(other.frames) + 5)
        assert client.of(EngineRestarted) == []
    client.wait(EngineRestarted)
    client.wait(FrameReady, len(client.frames) + 5)
    assert client.of(Refused) == client.of(LabClosed) == []
