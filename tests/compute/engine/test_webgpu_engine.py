"""The engine on WebGPU: frames, moves to and from the host, a hanging shader, a lost device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from compute.devices.backends import backend, best_of_host
from compute.engine import EngineRestarted, Supervisor
from compute.labs.diffusion import Diffusion
from tests.compute.engine.faulty import Client, running
from tests.conftest import require

GOOD = {"ny": 60, "nx": 81, "backend": "gpu_wgpu", "r": 0.2}
HASTY = 5.0  # s without a sign of life after which an engine counts as hung


@pytest.fixture(scope="module")
def engine() -> Iterator[Supervisor]:
    with pytest.MonkeyPatch.context() as patch:
        require(backend("gpu_wgpu"), patch)
        yield from running("webgpu:0", deadline=HASTY)


def test_webgpu_streams_the_numbers_of_numpy(engine):
    client = Client(engine, "diffusion", eager=True, **GOOD)
    client.handle.pace(5)
    client.handle.run()
    client.wait_frame(lambda frame: frame.facts["step"] >= 50)
    client.handle.pause()
    taken = client.snapshot()
    truth = Diffusion(**GOOD | {"backend": "cpu_numpy"})
    truth.advance(taken["steps"])
    np.testing.assert_array_equal(taken["field"], truth.field())
    client.handle.close()


def test_a_view_that_needs_float64_continues_on_the_host_of_the_same_engine(engine):
    client = Client(engine, "mandelbrot", eager=True, backend="gpu_wgpu", ny=20, nx=30, max_iterations=200)
    client.handle.run()
    for values, computed_by in (({"zoom": "1"}, ""), ({"zoom": "1e12"}, best_of_host().label), ({"zoom": "2"}, "")):
        client.handle.update(**values)
        client.wait_frame(
            lambda frame, values=values, by=computed_by: (
                frame.notes["zoom"] == values["zoom"]
                and frame.notes["computed_by"] == by
                and frame.facts["finished"] == 1
            )
        )
    client.handle.close()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [pytest.param("hang_shader", "no sign of life", marks=pytest.mark.extended), ("lose_gpu", "was lost")],
)
def test_a_fault_of_the_gpu_costs_one_restart_and_all_labs_go_on(engine, fault, reason):
    if fault == "hang_shader" and backend("gpu_wgpu").ready:
        pytest.skip("a shader that never ends may stop the screen of this machine")
    bystander = Client(engine, "diffusion", eager=True, **GOOD)
    bystander.handle.run()
    bystander.wait_frame(lambda frame: frame.facts["step"] >= 3)
    culprit = Client(engine, "faulty", backend="gpu_wgpu")
    culprit.barrier()
    restarts = engine.restarts
    culprit.handle.act(fault)
    assert reason in bystander.wait(EngineRestarted).reason
    assert engine.restarts == restarts + 1
    number = bystander.frames[-1].number
    bystander.wait_frame(lambda frame: frame.number > number + 2)
    for client in (bystander, culprit):
        client.handle.close()
