"""The lab in a live engine: coarse to fine, a new view replaces the old one, long and deep views, refusals."""

from __future__ import annotations

import pytest

from compute.engine import EngineRestarted, FrameReady, LabClosed, Refused
from compute.labs.mandelbrot.views import VIEWS
from tests.compute.engine.faulty import Client

FAR = VIEWS["e113"]
ENDLESS = {"center": ("-0.5", "0"), "max_iterations": 10**7, "shortcuts": False, "zoom": "20"}


@pytest.fixture
def client(engine):
    client = Client(engine, "mandelbrot", eager=True, backend="cpu_numba", ny=64, nx=96)
    client.handle.set_view(None, (64, 96))
    client.handle.run()
    yield client
    client.handle.close()
    client.wait(LabClosed)


def finished(frame):
    return frame.facts["finished"] == 1


def test_a_new_view_replaces_an_endless_one(client):
    """The whole view is inside the set: 10^7 iterations a pixel would take minutes."""
    client.wait_frame(finished)
    client.handle.update(**ENDLESS)
    client.wait_frame(lambda frame: frame.facts["limit"] > 1000 and not finished(frame))
    client.handle.update(zoom="1", max_iterations=100, shortcuts=True)
    client.wait_frame(lambda frame: finished(frame) and frame.facts["limit"] == 100)
    assert client.of(EngineRestarted) == []


def test_a_deep_view_is_computed_and_kept_after_refused_values(client):
    client.wait_frame(finished)
    client.handle.update(center=FAR.center, zoom=FAR.zoom, max_iterations=FAR.max_iterations)
    waiting = client.wait_frame(lambda frame: frame.facts["reference"] > 0)
    assert (waiting.notes["zoom"], waiting.facts["stride"]) == ("1e0", 1)  # the last picture, under its own name
    last = client.wait_frame(lambda frame: finished(frame) and frame.facts["reference"] > 20_000)
    assert (last.notes["zoom"], last.notes["precision"]) == (FAR.zoom, "perturbation")
    client.handle.update(zoom="0")
    assert "zoom must be from 1e-2 to 1e2000, not 0" in client.wait(Refused).text
    client.handle.update(max_iterations=10**9)
    assert "max_iterations" in client.wait(Refused, 2).text
    client.handle.update(colouring="distance")
    frame = client.wait(FrameReady, len(client.frames) + 1).frame
    assert frame.facts["reference"] > 20_000
    assert (frame.notes["zoom"], frame.notes["center_re"]) == (FAR.zoom, FAR.center[0])


def test_a_finished_picture_sends_no_frames_until_a_value_changes(client):
    client.wait_frame(finished)
    client.barrier()
    shown = len(client.frames)
    client.barrier()
    assert len(client.frames) == shown
    client.handle.update(scale="linear")
    client.wait(FrameReady, shown + 1)
    client.barrier()
    assert len(client.frames) == shown + 1
    client.handle.step()
    client.wait(FrameReady, shown + 2)
