"""The lab in a live engine: the curve grows and rests; the lab accepts new values and files, and refuses bad ones."""

from __future__ import annotations

import io

import numpy as np
import pytest

from compute.engine import EngineRestarted, LabClosed, Refused
from compute.labs.l_curve import LCurve
from tests.compute.engine.faulty import Client


@pytest.fixture
def client(engine):
    client = Client(engine, "l_curve", eager=True, backend="cpu_numba", problem="shaw", n=60, noise=1e-3)
    client.handle.run()
    yield client
    client.handle.close()
    client.wait(LabClosed)


def done(frame):
    """Return whether the curve and its rules are done; the periodogram is the last rule."""
    return frame.facts["done"] == 1 and frame.notes["ncp"] != "computed after the last step"


def test_the_curve_grows_and_comes_to_rest(client):
    last = client.wait_frame(done)
    steps = [frame.facts["steps"] for frame in client.frames]
    assert len(set(steps)) > 5
    assert steps == sorted(steps)
    alone = LCurve(problem="shaw", n=60, noise=1e-3)
    curve = alone.solve()
    np.testing.assert_allclose(last.curves["l-curve"].x, curve.residual_norms, rtol=1e-4)
    assert last.facts["curvature"] == pytest.approx(curve.corners["curvature"], rel=1e-3)
    client.barrier()
    shown = len(client.frames)
    client.barrier()
    assert len(client.frames) == shown


def test_values_and_files_are_applied_and_invalid_ones_change_nothing(client):
    client.wait_frame(done)
    client.handle.update(problem="own", options={"matrix": b"GIF89a\x01\x00"})
    assert "this file is none of these" in client.wait(Refused).text
    client.handle.update(problem="blur", n=10**6)
    assert "GiB" in client.wait(Refused, 2).text
    client.handle.update(lambdas=(0.01, 1.0, 37))
    frame = client.wait_frame(lambda frame: frame.curves["l-curve"].x.size == 37)
    assert (frame.facts["columns"], frame.curves["width"].x[0]) == (60, 0.01)
    buffer = io.BytesIO()
    np.savez(buffer, A=np.diag(np.geomspace(1, 1e-3, 17)), b=np.ones(17))
    client.handle.update(problem="own", options={"matrix": buffer.getvalue()})
    assert client.wait_frame(lambda frame: frame.facts["columns"] == 17 and done(frame)).facts["converged"] == 1
    client.handle.update(problem="paralleltomo", n=15)
    frame = client.wait_frame(lambda frame: "truth" in frame.rasters and done(frame))
    assert frame.rasters["solution"].levels.shape == (8, 8)
    assert client.of(EngineRestarted) == []
