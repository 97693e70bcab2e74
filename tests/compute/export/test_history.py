"""A live field is reproduced from its file bit for bit, whatever was done to it."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal

import numpy as np
import pytest
from PIL import Image

from compute.__main__ import main
from compute.engine import EngineRestarted
from compute.export import data_files, render
from compute.export.film import Film, film_of, frame_after
from compute.export.scene import Scene, SceneError, Style, read, scene_of
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from tests.compute.engine.faulty import Client, running
from tests.waiting import until

BASE = Scene("diffusion", {"ny": 12, "nx": 9}, (12, 9), 50)


def scene(lab, size=(24, 31), **more):
    """Return the scene that the page makes of a live lab, after a round trip through a file."""
    told = Diffusion.HISTORY.of(Diffusion, lab.values(), pickle.loads(pickle.dumps(lab.snapshot())))
    made = Scene("diffusion", told.values, size, told.steps, "", Style(), told.entries, told.missing, **more)
    return scene_of(read(json.dumps(made.plain())))


def require_reproduced(lab, made):
    """Require that a scene opens with the lab's state, values and history."""
    made.check()
    with render.opened_at(made) as again:
        assert again.field().dtype == lab.field().dtype
        np.testing.assert_array_equal(again.field(), lab.field())
        np.testing.assert_array_equal(again.laplacian(), lab.laplacian())
        assert again.steps == lab.steps
        for name in ("r", "edges", "dtype", "backend", "unstable"):
            assert getattr(again, name) == getattr(lab, name)
        told = Diffusion.HISTORY.of(Diffusion, again.values(), again.snapshot())
    assert (dict(told.values), list(told.entries)) == (dict(made.values), list(made.history))


def picture(side=40, kind="PNG", seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


def stroke(rng, lab):
    points = rng.uniform(0, min(lab.ny, lab.nx), (rng.integers(1, 5), 2))
    lab.act(
        "paint", points=[tuple(point) for point in points], value=float(rng.normal()), radius=float(rng.uniform(1, 6))
    )


ACTIONS = {
    "advance": lambda rng, lab: lab.advance(int(rng.integers(1, 90))),
    "drag": lambda rng, lab: [lab.update(r=float(r)) for r in rng.uniform(0, 0.25, 3)],
    "paint": stroke,
    "edges": lambda rng, lab: lab.update(edges=str(rng.choice(["periodic", "zero-flux", "zero-dirichlet"]))),
    "dtype": lambda rng, lab: lab.update(dtype=str(rng.choice(["float32", "float64"]))),
    "backend": lambda rng, lab: lab.update(backend=str(rng.choice(["cpu_numpy", "cpu_numba"]))),
    "unstable": lambda rng, lab: lab.update(unstable=not lab.unstable, r=0.2 if lab.unstable else 0.27),
    "checkpoint": lambda rng, lab: lab.act("checkpoint"),
    "rollback": lambda rng, lab: lab.act("rollback"),
    "image": lambda rng, lab: lab.act("load_image", data=picture(seed=int(rng.integers(9)))),
    "preset": lambda rng, lab: lab.update(preset=str(rng.choice(["ring", "noise", "single mode"]))),
    "elsewhere": lambda rng, lab: lab.restore(pickle.loads(pickle.dumps(lab.snapshot()))),
    "reset": lambda rng, lab: lab.act("reset"),
}
OFTEN = [6, 3, 3, 2, 1, 1, 1, 1, 1, 0.3, 0.3, 1, 0.3]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_was_done_to_a_field_is_told_by_its_file(seed):
    rng = np.random.default_rng(seed)
    shape = ((13, 29), (31, 8), (24, 31), (1, 17))[seed % 4]
    preset = ("hot spots", "single mode", "text")[seed % 3]
    lab = Diffusion(ny=shape[0], nx=shape[1], preset=preset, backend=("cpu_numba", "cpu_numpy")[seed % 2])
    lab.act("checkpoint")
    names = rng.choice(list(ACTIONS), 60, p=np.divide(OFTEN, sum(OFTEN)))
    for turn, name in enumerate(names):
        ACTIONS[name](rng, lab)
        if turn % 20 == 19:
            require_reproduced(lab, scene(lab))
    lab.close()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ["cpu_numpy", "cpu_numba"])
def test_the_slices_of_the_live_lab_are_of_no_account(backend, dtype, tmp_path):
    made, path = [], tmp_path / "field.npz"
    for slices in ((37, 3, 60, 48), (1, 39, 59, 1, 8, 40), (40, 60, 48)):
        lab = Diffusion(backend=backend, dtype=dtype, ny=21, nx=34, preset="single mode", edges="periodic")
        for count in slices:
            lab.advance(count)
            if lab.steps in {40, 100}:
                lab.update(r=lab.steps / 500)
        require_reproduced(lab, scene(lab))
        data_files.write_npz(scene(lab), path)
        np.testing.assert_array_equal(np.load(path)["field"], lab.field())
        made.append((lab.exact_mode.amplitude, render.png(render.pixels(scene(lab)))))
        lab.close()
    assert made == made[:1] * 3


def test_what_is_dragged_while_paused_counts_once_and_only_its_last_value():
    lab = Diffusion(ny=16, nx=16)
    for r in (0.1, 0.15, 0.21):
        lab.update(r=r)
    assert (dict(scene(lab).values), scene(lab).history) == (
        {"backend": "cpu_numba", "ny": 16, "nx": 16, "r": 0.21}, ())  # fmt: skip
    lab.advance(5)
    for r in (0.1, 0.15, 0.11):
        lab.update(r=r)
        lab.act("paint", points=[(3.0, 3.0)], value=1.0, radius=2.0)
    told = scene(lab)
    assert [entry.get("set", entry.get("do")) for entry in told.history] == ["paint"] * 3 + [{"r": 0.11}]
    assert {entry["step"] for entry in told.history} == {5}
    lab.update(backend="cpu_numpy")
    lab.act("paint", points=[(3.0, 3.0)], value=1.0, radius=2.0)  # with that backend's brush
    assert [entry.get("set", entry.get("do")) for entry in scene(lab).history][3:] == [
        {"backend": "cpu_numpy"},
        "paint",
        {"r": 0.11},
    ]


def test_edges_that_change_before_the_first_step_give_their_own_mode():
    lab = Diffusion(ny=9, nx=14, preset="single mode", edges="periodic")
    lab.act("checkpoint")
    lab.update(edges="zero-flux")
    lab.act("rollback")
    require_reproduced(lab, scene(lab))
    lab.advance(7)
    require_reproduced(lab, scene(lab))
    np.testing.assert_allclose(lab.exact(), lab.field(), atol=1e-5)
    lab = Diffusion(ny=9, nx=14, preset="single mode", edges="periodic")
    lab.act("paint", points=[(3.0, 3.0)], value=1.0, radius=2.0)  # fresh paint keeps the mode that it was painted on
    lab.update(edges="zero-dirichlet", r=0.1)
    require_reproduced(lab, scene(lab))
    assert scene(lab).values["r"] == 0.1


def test_a_checkpoint_keeps_what_was_and_not_what_comes():
    lab = Diffusion(ny=9, nx=14, preset="single mode")
    lab.advance(10)
    amplitude = lab.exact_mode.amplitude
    lab.act("checkpoint")
    lab.act("checkpoint")
    assert lab.snapshot()["saved"]["saved"] is None  # a single checkpoint, without its predecessors
    for _ in range(2):
        lab.advance(10)
        lab.act("rollback")
        assert (lab.steps, lab.exact_mode.amplitude) == (10, amplitude)


def test_a_photograph_is_told_in_grey_at_the_size_of_the_field():
    lab = Diffusion(ny=50, nx=61)
    data = picture(600)
    assert len(data) > 10**6
    lab.act("load_image", data=data)
    lab.advance(3)
    told = scene(lab)
    assert len(json.dumps(told.plain())) < 10_000
    require_reproduced(lab, told)


def test_what_a_file_cannot_hold_is_said_in_words(monkeypatch):
    lab = Diffusion(ny=1500, nx=1500)
    lab.act("load_image", data=picture(600))
    assert "too large for a file" in scene(lab).missing
    lab.act("reset")
    lab.update(preset="ring", ny=20, nx=20)
    assert scene(lab).missing == ""
    lab.load(np.ones((20, 20)))
    assert "given as an array" in scene(lab).missing
    lab.act("reset")
    monkeypatch.setattr("compute.lab.history.MOST_ENTRIES", 60)
    for k in range(62):
        lab.update(r=0.1 + 0.05 * (k % 2))
        lab.advance(1)
    told = scene(lab)
    assert "more happened" in told.missing
    assert (told.history, told.values["r"]) == ((), pytest.approx(0.15))
    lab.act("reset")
    long = [(1 / 3, 1 / 7)] * 1000
    for _ in range(15):
        lab.act("paint", points=long, value=1 / 3, radius=1.0)
    assert "500 kB" in scene(lab).missing


def test_the_command_line_says_what_a_file_does_not_hold(tmp_path, capsys):
    lab = Diffusion(ny=8, nx=8)
    lab.load(np.ones((8, 8)))
    (tmp_path / "a.json").write_text(json.dumps(scene(lab).plain()), encoding="utf-8")
    assert main(["render", str(tmp_path / "a.json"), "--out", str(tmp_path / "a.png")]) == 0
    assert "the file does not hold everything: the field was given as an array" in capsys.readouterr().err
    assert main(["render", "mandelbrot", "--every", "3", "--out", str(tmp_path / "a.gif")]) == 2
    assert "every is for a lab that never ends" in capsys.readouterr().err


def test_the_racing_kernel_is_not_promised(monkeypatch):
    monkeypatch.setitem(Diffusion(backend="cpu_numpy", ny=8, nx=8).kernels.VARIANTS, "racing", lambda *_: None)
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=8, variant="racing")
    lab.advance(3)
    lab.update(variant="")
    assert "racing" in scene(lab).missing


def test_a_file_that_is_lost_is_named_and_the_present_is_shown_all_the_same():
    matrix = np.diag(np.arange(1.0, 21.0))
    lab = LCurve(problem="own", options={"matrix": matrix, "rhs": np.ones(20)})
    told = LCurve.HISTORY.of(LCurve, lab.values(), lab.snapshot())
    assert told.missing == "uploaded data: Further options"
    kept = Scene("l_curve", told.values, missing=told.missing)
    with render.opened_at(kept, render.LiveState(lab.values(), lab.snapshot())) as shown:
        np.testing.assert_array_equal(shown.solve().residual_norms, lab.solve().residual_norms)
    told = Mandelbrot.HISTORY.of(Mandelbrot, Mandelbrot(ny=4, nx=4, zoom="2").values())
    assert told.values == {"backend": "cpu_numba", "ny": 4, "nx": 4, "zoom": "2"}


def test_the_present_is_what_is_on_the_screen(tmp_path):
    lab = Diffusion(ny=24, nx=31)
    lab.load(np.random.default_rng(3).random((24, 31)))
    lab.advance(5)
    lab.update(r=0.1, edges="periodic")
    made, present = scene(lab), render.LiveState(lab.values(), pickle.loads(pickle.dumps(lab.snapshot())))
    path = tmp_path / "now.npz"
    data_files.write_npz(made, path, present)
    np.testing.assert_array_equal(np.load(path)["field"], lab.field())
    np.testing.assert_array_equal(np.load(path)["laplacian"], lab.laplacian())
    np.testing.assert_array_equal(render.pixels(made, present), render.current_pixels(lab, made))


def test_a_part_of_the_field_is_shown_alone():
    lab = Diffusion(ny=24, nx=31)
    whole = render.current_pixels(lab, scene(lab))
    part = render.current_pixels(lab, scene(lab, (8, 10), view=(4.0, 6.0, 14.0, 14.0)))
    np.testing.assert_array_equal(part, whole[24 - 14 : 24 - 6, 4:14])


def test_a_film_goes_through_the_history():
    lab = Diffusion(ny=15, nx=22)
    seen = []
    for number in range(5):
        lab.update(r=0.05 * (number + 1) - 0.01)
        if number == 2:
            lab.act("paint", points=[(5.0, 5.0)], value=2.0, radius=3.0)
        seen.append(render.png(render.current_pixels(lab, Scene("diffusion", {}, (15, 22)))))
        lab.advance(10)
    told = scene(lab, (15, 22))
    film = film_of(
        read(json.dumps(Film(Scene("diffusion", told.values, (15, 22), history=told.history), 5, every=10).plain()))
    )
    assert [frame_after(film.plain(), number)[1] for number in range(5)] == seen


def test_the_way_there_can_be_watched():
    lab = Diffusion(ny=8, nx=8)
    lab.advance(100)
    lab.update(r=0.1)
    lab.advance(100)
    parts = []
    render.pixels(scene(lab), progress=parts.append)
    assert parts == sorted(parts)
    assert (len(parts), parts[-1]) == (4, 1.0)


@pytest.fixture
def engine():
    yield from running(deadline=10.0)


def test_an_engine_that_dies_does_not_lose_the_story(engine):
    """A running lab is dragged and painted on; its engine is killed; it continues, and is dragged again.

    Its second run is reproduced, too.
    """
    client = Client(engine, "diffusion", eager=True, ny=33, nx=21, second_run={"r": 0.21})
    client.handle.run()
    for part in range(6):
        client.handle.update(r=0.04 * (part + 1))
        client.handle.act("paint", points=[(3.0 * part, 5.0)], value=1.0 - part, radius=2.5)
        seen = len(client.frames)
        client.wait_frame(lambda frame, seen=seen: frame.number > seen + 2)
    until(lambda: client.handle.last_checkpoint)
    os.kill(engine.pid, signal.SIGKILL)
    client.wait(EngineRestarted)
    after = client.frames[-1].number
    client.handle.update(r=0.07, edges="periodic")
    client.wait_frame(lambda frame: frame.number > after + 3)
    client.handle.pause()
    snapshot = client.snapshot()
    told = Diffusion.HISTORY.of(Diffusion, {**Diffusion.param.values(), **client.handle.confirmed}, snapshot)
    assert told.missing == ""
    assert any(entry["step"] and "set" in entry for entry in told.entries)
    with render.opened_at(Scene("diffusion", told.values, (8, 8), told.steps, history=told.entries)) as lab:
        np.testing.assert_array_equal(lab.field(), snapshot["field"])
        np.testing.assert_array_equal(lab.second.field(), snapshot["second_run"]["field"])
        assert (lab.steps, lab.r, lab.edges) == (snapshot["steps"], 0.07, "periodic")


SET = {"step": 3, "set": {"r": 0.1}}
PAINT = {"step": 4, "do": "paint", "with": {"points": [[1.0, 2.0]], "value": 1.0, "radius": 2.0}}


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ({}, "history must be a list, not {}"),
        ([SET] * 5001, "history must be a list of length at most 5000"),
        ([SET | {"step": 3, "set": {"variant": "x" * 500_000}}], "at most 500,000 characters"),
        ([SET | {"step": 5}, PAINT], "entry 1: step must be a whole number from 5"),
        ([SET | {"step": True}], "entry 0: step must be"),
        ([SET | {"step": 10**8}], "entry 0: step must be"),
        ([SET | {"set": {}}], "it must be of"),
        ([SET | {"set": {"ny": 16384}}], "it must be of backend, device_index"),
        ([SET | {"set": [1]}], r"entry 0: set must be an object, not \[1\]"),
        ([SET | {"do": "paint"}], "entry 0: it has no entry 'set'"),
        ([[1, 2]], r"history\[0\] must be an object, not \[1, 2\]"),
        ([PAINT | {"do": "reset"}], "it must be of load_image, paint"),
        ([PAINT | {"do": ["paint"]}], "do must be a text, not .'paint'."),
        ([PAINT | {"with": {"points": [[1.0, 2.0]]}}], "paint needs points, radius, value"),
        ([PAINT | {"with": PAINT["with"] | {"points": [[1.0, float("nan")]]}}], "finite points"),
        ([PAINT | {"with": PAINT["with"] | {"points": [1.0, 2.0]}}], "finite points"),
        ([PAINT | {"with": PAINT["with"] | {"radius": 0}}], "radius must be"),
        ([PAINT | {"with": PAINT["with"] | {"value": "1"}}], "finite value"),
        ([{"step": 0, "do": "load_image", "with": {"data": "?"}}], "must be base64"),
        ([{"step": 0, "do": "load_image", "with": {"data": "QUJD"}}], "must be a PNG or JPEG"),
    ],
)
def test_a_history_that_is_none_is_refused_in_words(history, says):
    with pytest.raises(SceneError, match=says):
        scene_of(BASE.plain() | {"history": history})


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"r": 0.3}, "r must be at most|r' must be at most"),
        ({"edges": "open"}, "edges"),
        ({"dtype": "int8"}, "dtype"),
        ({"variant": "magic"}, "variant must be"),
        ({"r": "0.1"}, "r"),
    ],
)
def test_values_of_a_history_are_within_the_lab_s_bounds(values, says):
    made = scene_of(BASE.plain() | {"history": [{"step": 2, "set": values}]})
    with pytest.raises(ValueError, match=says):
        made.check()
    scene_of(BASE.plain() | {"history": [{"step": 2, "set": {"unstable": True, "r": 0.3}}, SET]}).check()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"view": [1, 2, 3]}, "view must be a list of length 4, not .1, 2, 3."),
        ({"view": [0, 0, float("nan"), 5]}, "x0 < x1"),
        ({"view": [0, 0, True, 5]}, r"view\[2\] must be a number, not True"),
        ({"missing": "x" * 301}, "missing must have at most 300"),
    ],
)
def test_an_invalid_view_or_note_is_refused_in_words(change, says):
    with pytest.raises(SceneError, match=says):
        scene_of(BASE.plain() | change)
