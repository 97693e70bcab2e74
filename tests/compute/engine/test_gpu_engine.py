"""The engine on a real GPU: frames, moves between backends, recovery after a kill and after a poisoned context."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from compute.devices.backends import backend
from compute.engine import EngineRestarted, Refused, Supervisor
from compute.labs.diffusion import Diffusion
from tests.compute.engine.faulty import Client, running

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(backend("gpu_cupy").missing), reason="gpu_cupy is missing here")]
GOOD = {"ny": 300, "nx": 400, "backend": "gpu_cupy", "r": 0.2}


SPARE = 0.1  # seconds until a ready engine has its spare process, as in a server
PREPARED = 4.0  # seconds in which the spare has imported its modules, and a snapshot of the field was stored


@pytest.fixture(scope="module")
def engine() -> Iterator[Supervisor]:
    yield from running("cuda:0", spare=SPARE)


def test_a_gpu_streams_what_the_cpu_computes(engine):
    client = Client(engine, "diffusion", eager=True, **GOOD)
    client.handle.pace(5)
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] >= 50, 60)
    client.handle.pause()
    taken = client.snapshot()
    truth = Diffusion(**GOOD | {"backend": "cpu_numpy", "dtype": "float64"})
    truth.advance(taken["steps"])
    assert np.linalg.norm(taken["field"] - truth.field()) <= 1e-6 * np.linalg.norm(truth.field())
    client.handle.close()


def test_a_killed_gpu_engine_goes_on_within_five_seconds(engine):
    client = Client(engine, "diffusion", eager=True, **GOOD)
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] >= 20, 60)
    time.sleep(PREPARED)
    before = client.frames[-1]
    os.kill(engine.pid or 0, signal.SIGKILL)
    killed = time.monotonic()
    client.wait(EngineRestarted)
    after = client.wait_frame(lambda frame: frame.number > before.number + 2)
    seconds = time.monotonic() - killed
    print(f"first frame after the kill: {seconds:.2f} s")
    assert seconds < 5
    assert after.facts["step"] > 1
    client.handle.close()


def test_an_illegal_access_costs_one_restart_and_no_frame_of_others(engine):
    """The illegal access poisons the context for every lab of the device; all continue in a new process."""
    bystander = Client(engine, "diffusion", eager=True, **GOOD)
    bystander.handle.run()
    bystander.wait_frame(lambda frame: frame.facts["step"] >= 5, 60)
    culprit = Client(engine, "faulty", backend="gpu_cupy")
    culprit.barrier()
    time.sleep(PREPARED)
    restarts, last = engine.restarts, bystander.frames[-1]
    culprit.handle.act("illegal_access")
    asked = time.monotonic()
    restarted = bystander.wait(EngineRestarted)
    said = time.monotonic() - asked
    assert engine.restarts == restarts + 1
    assert "illegal" in restarted.reason
    number = bystander.frames[-1].number
    again = bystander.wait_frame(lambda frame: frame.number > number)
    print(f"after the kernel was asked for: said after {said:.2f} s, next frame after {time.monotonic() - asked:.2f} s")
    assert time.monotonic() - asked < 5
    assert again.number > last.number
    assert again.facts["step"] > 5
    bystander.wait_frame(lambda frame: frame.number > number + 3)
    for client in (bystander, culprit):
        client.handle.close()


HIDDEN = """
import sys
from compute.labs.diffusion import Diffusion
lab = Diffusion(backend=sys.argv[1], ny=40, nx=50)
lab.advance(3)
lab.frame()
print(lab.steps)
"""


def test_the_kernels_need_none_of_the_toolkit_s_headers(tmp_path):
    """Fault 2: all paths to a toolkit lead to an empty folder, and no compiled kernel is cached.

    Numba-CUDA reads its libdevice there, which is not a header; NVRTC and its headers are part of CuPy.
    """
    hidden = {name: str(tmp_path) for name in ("CUDA_PATH", "CUDA_HOME", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")}
    command = [sys.executable, "-c", HIDDEN, "gpu_cupy"]
    done = subprocess.run(command, env=os.environ | hidden, capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr[-3000:]


TAKE = """
import sys, cupy
kept = []
for mib in (1024, 64, 4):
    try:
        while True:
            kept.append(cupy.cuda.runtime.malloc(mib << 20))
    except cupy.cuda.runtime.CUDARuntimeError:
        pass
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.mark.whole_gpu
def test_memory_that_another_process_takes_stops_nobody_who_has_his(engine):
    """Fault 6: running labs continue, new ones are refused with the bytes; once the memory is free again, labs open."""
    client = Client(engine, "diffusion", eager=True, **GOOD)
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] >= 20, 60)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", TAKE], **pipes) as thief:
        try:
            assert thief.stdout.readline() == "taken\n"
            number = client.frames[-1].number
            client.wait_frame(lambda frame: frame.number > number + 20, 60)
            large = Client(engine, "diffusion", **GOOD | {"ny": 8192, "nx": 8192})
            text = large.wait(Refused).text
            assert "GiB" in text
            assert not client.of(EngineRestarted)
        finally:
            thief.stdin.close()
            thief.wait(60)
    again = Client(engine, "diffusion", eager=True, **GOOD | {"ny": 8192, "nx": 8192})
    again.wait_frame(lambda frame: True, 60)
    for one in (client, again):
        one.handle.close()


def test_fifty_sessions_on_one_gpu_all_get_frames(engine):
    """Fault 18: every tenth lab is heavy, and none stands still meanwhile."""
    sizes = [2048 if number % 10 == 0 else 512 for number in range(50)]
    clients = [Client(engine, "diffusion", eager=True, **GOOD | {"ny": size, "nx": size}) for size in sizes]
    for client in clients:
        client.handle.run()
    for client in clients:
        client.wait_frame(lambda frame: frame.number > 3, 120)
    before = [client.frames[-1].number for client in clients]
    for client, number in zip(clients, before, strict=True):
        client.wait_frame(lambda frame, number=number: frame.number > number + 10, 120)
    for client in clients:
        client.handle.close()
