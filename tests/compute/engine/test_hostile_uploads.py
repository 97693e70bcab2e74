"""Hostile files on one page while another page's lab runs on the same engine, along the path that the page uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import ImageFile

from app.labs.diffusion.source import InitialField
from app.labs.l_curve.problem_controls import ProblemFiles
from compute.engine import EngineRestarted, FrameReady, Refused, Supervisor
from compute.export.jobs import JOBS
from compute.files.images import LoadedPicture
from compute.lab.undo import MOST_BYTES
from compute.labs import lab_class
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.problems.own import ArrayFile
from tests.browser.serving import slack
from tests.compute.engine.faulty import Client, running
from tests.compute.engine.test_faults import kill
from tests.hostile_files import ARRAYS, PICTURES, photograph, stored
from tests.waiting import until

MIB = 2**20
# s that a lab's frames may pause for another page's file, twice that on an idle machine (`slack`): decoded in the
# engine, each file took 5 s to minutes, and during other tests a single frame may take more than a second.
GAP = 1.0
NOTHING = lambda *anything: None  # noqa: E731


@pytest.fixture
def engine() -> Iterator[Supervisor]:
    yield from running(deadline=60.0)
    JOBS.end_idle()


class Watched(Client):
    """A running lab, and the times of its frames."""

    def __init__(self, engine: Supervisor) -> None:
        self.came = [time.monotonic()]
        super().__init__(engine, "diffusion", eager=True, backend="cpu_numba", ny=64, nx=64)
        self.handle.run()

    def hear(self, event: Any) -> None:
        if isinstance(event, FrameReady):
            self.came.append(time.monotonic())
        super().hear(event)

    def longest_gap(self, since: float) -> float:
        moments = [since, *(moment for moment in self.came if moment > since), time.monotonic()]
        return max(later - former for former, later in pairwise(moments))


class PageSession(SimpleNamespace):
    """A page's session for a lab on a real engine, with the members that a file field needs."""

    def __init__(self, client: Client, kind: str) -> None:
        super().__init__(lab=lab_class(kind), client=client)
        self.values = {name: self.lab.param[name].default for name in self.lab.param}

    def act(self, name: str, **arguments: Any) -> None:
        self.client.handle.act(name, **arguments)


def give(field: Any, data: bytes, turn: Callable[[], object]) -> str:
    """Load a file into a field, wait for the end of it, and return the field's text."""
    field.field._update_file("file", "application/octet-stream", data)
    until(lambda: (turn(), not field.field.label.startswith("Reading"))[1])
    return str(field.field.label)


def test_no_file_stops_another_page_s_lab(engine):
    """A progressive JPEG of 22 000 scans blocked the engine, and all of its labs, for minutes."""
    watched = Watched(engine)
    other = Client(engine, "diffusion", eager=True, backend="cpu_numba", ny=256, nx=256)
    watched.wait_frame(lambda frame: frame.facts["step"] > 0)
    source = InitialField(PageSession(other, "diffusion"), NOTHING)

    def turn() -> None:
        source.upload.tick()
        if other.frames:
            source.tick(other.frames[-1])
        for refused in other.of(Refused):
            source.on_event(refused)

    curve = Client(engine, "l_curve", eager=True, backend="cpu_numpy", problem="shaw", n=20)
    files = ProblemFiles(
        PageSession(curve, "l_curve"), lambda found: curve.handle.update(problem="own", options=dict(found)), NOTHING
    )
    files.show("own", pictured=False)

    def read() -> None:
        files.read()
        for refused in curve.of(Refused):
            files.complain(refused.text)
        if curve.frames:
            files.tick(curve.frames[-1])

    made = {name: make() for name, make in {**PICTURES, **ARRAYS}.items()}  # takes seconds in this process
    said = {}
    for name, data in made.items():
        begun = time.monotonic()
        field, each = (source.upload, turn) if name in PICTURES else (files.fields["matrix"], read)
        said[name] = give(field, data, each)
        gap = watched.longest_gap(begun)
        assert gap < GAP * slack(), f"{name}: no frame for {gap:.1f} s"
    taken = {name for name, words in said.items() if not words.startswith("Rejected")}
    assert taken == {"png: black", "jpeg: photograph"}
    for client in (watched, other, curve):
        client.close()


def memory(engine: Supervisor) -> int:
    return psutil.Process(engine.pid).memory_info().rss


def test_twenty_files_leave_an_engine_little_larger_and_closing_gives_it_back(engine):
    """50 million pixels each: 20 of them took 1.1 GB."""
    pictures = [LoadedPicture.read(photograph(2000 + n)) for n in range(3)]
    client = Client(engine, "diffusion", eager=True, backend="cpu_numba", ny=256, nx=256)
    client.handle.act("load_image", data=pictures[0])
    client.wait_frame(lambda frame: frame.notes["image"] == pictures[0].fingerprint)
    before = memory(engine)
    for n in range(20):
        levels = np.full((7071 // 4, 7071 // 4), n, np.uint8)
        client.handle.act("load_image", data=LoadedPicture(levels, 4, 7071, 7071, f"{n:016x}", bytes(250_000)))
        client.wait_frame(lambda frame, n=n: frame.notes["image"] == f"{n:016x}")
    client.barrier()
    grown = memory(engine) - before
    assert grown < MOST_BYTES + 100 * MIB
    client.close()
    until(lambda: memory(engine) - before < 80 * MIB, 60.0)  # memory is released after a delay


def test_a_picture_that_was_loaded_is_never_decoded_again(monkeypatch):
    """Neither for a restored state nor by undo, reset, another grid or another number type."""
    lab, twin = (lab_class("diffusion")(ny=32, nx=32, backend="cpu_numpy") for _ in range(2))
    lab.act("load_image", data=photograph(64))
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    twin.restore(lab.snapshot())
    for each in (lab, twin):
        each.advance(3)
        for act in ("reset", "checkpoint", "rollback"):
            each.act(act)
        each.update(ny=16, nx=24, dtype="float64")
        each.act("reset")
        each.update(preset="ring")
        each.act("undo")
    assert lab.frame().notes["image"] == twin.frame().notes["image"] != ""


def test_an_engine_that_restarts_has_the_picture_in_its_state(engine):
    picture = LoadedPicture.read(photograph(64))
    client = Client(engine, "diffusion", eager=True, backend="cpu_numpy", ny=32, nx=32)
    client.handle.act("load_image", data=picture)
    client.wait_frame(lambda frame: frame.notes["image"] == picture.fingerprint)
    client.barrier()
    before = client.handle.last_checkpoint
    client.handle.step(1)
    until(lambda: client.handle.last_checkpoint is not before)  # a state with the picture is kept
    kill(engine)
    client.wait(EngineRestarted)
    client.handle.act("reset")
    snapshot = client.snapshot()
    np.testing.assert_array_equal(snapshot["image"].levels, picture.levels)
    np.testing.assert_array_equal(snapshot["field"], picture.field(32, 32).astype(np.float32))


def test_an_engine_sends_references_to_loaded_data(engine):
    """Otherwise each answer would contain the whole matrix."""
    A = np.add.outer(np.arange(60.0), np.arange(40.0)) % 7 + np.eye(60, 40)
    file = ArrayFile.read(stored(np.savez, A=A, b=np.ones(60)), "matrix")
    client = Client(engine, "l_curve", eager=True, backend="cpu_numpy", problem="shaw", n=20)
    client.handle.update(problem="own", options={"matrix": file})
    client.wait_frame(lambda frame: frame.notes["problem"] == "own")
    client.handle.update(noise=0.1)
    until(lambda: client.handle.confirmed["noise"] == 0.1)
    assert client.handle.confirmed["options"]["matrix"] is file
    kill(engine)
    client.handle.update(noise=0.2)
    until(lambda: client.handle.confirmed["noise"] == 0.2)
    assert client.handle.confirmed["options"]["matrix"] is file
    last = client.wait_frame(lambda frame: frame.facts["noise"] > 0 and frame.notes["problem"] == "own")
    assert last.notes["files"] == LCurve(problem="own", options={"matrix": file}).frame().notes["files"]
    client.handle.update(problem="shaw", options={})
    until(lambda: client.handle.confirmed["options"] == {})


def test_a_picture_of_a_problem_is_loaded_and_replaced(engine):
    client = Client(engine, "l_curve", eager=True, backend="cpu_numpy", problem="blur", n=12)
    for side in (20, 30):
        picture = LoadedPicture.read(photograph(side))
        client.handle.update(options={"image": picture})
        client.wait_frame(lambda frame, side=side: frame.notes["kept"] == f"{side} {side} 0 0 {side} {side}")
        until(lambda picture=picture: client.handle.confirmed["options"].get("image") is picture)
