"""Pictures and films on disk: read by other libraries, interrupted, resumed, and made by workers that die."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import signal
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import psutil
import pytest
import zarr
from PIL import Image, ImageSequence

from compute.__main__ import main
from compute.export import benchmark, commands, render, render_pool
from compute.export.film import Film, Key, frame
from compute.export.film_renderer import FilmRenderer
from compute.export.render_pool import ANY_PORT, Cluster, LocalPool, WorkerLost
from compute.export.scene import Scene, SceneError
from compute.export.sweep import ParameterSweep, TableMaker
from compute.labs.diffusion import Diffusion
from compute.labs.mandelbrot import Mandelbrot
from compute.process import tasks
from tests.compute.export import chores
from tests.in_process import InProcess

pytestmark = pytest.mark.extended

SCENE = Scene("mandelbrot", {"colouring": "smooth", "max_iterations": 200}, (36, 64))
KEYS = (
    Key(0, {"zoom": "1", "center": ("-0.75", "0")}),
    Key(1, {"zoom": "1e3", "center": ("-0.7436", "0.1318")}),
)
FILM = Film(SCENE, 9, 12.0, KEYS)


@pytest.fixture(scope="module")
def frames():
    """Return the film's frames, made in this process one after the other."""
    return [frame(FILM.plain(), number)[1] for number in range(FILM.frames)]


def test_a_film_whose_last_frame_is_too_far_is_refused_before_the_first():
    scene = Scene("diffusion", {"ny": 8, "nx": 8})
    with pytest.raises(SceneError, match="steps must be from 0 to 10000000, not 14900000"):
        Film(scene, frames=150, every=100_000).check()
    Film(scene, frames=101, every=100_000).check()
    FILM.check()


def test_a_picture_is_that_of_the_lab_and_can_be_made_again_from_its_file(tmp_path, capsys):
    first, again = tmp_path / "a.png", tmp_path / "again.png"
    arguments = ["--set", "zoom=4e1", "--set", "center=-0.7436,0.1318", "--set", "max_iterations=300"]
    look = ["--size", "51x37", "--palette", "Inferno"]
    assert main(["render", "mandelbrot", "--out", str(first), *look, *arguments]) == 0
    assert "wrote" in capsys.readouterr().err
    with Image.open(first) as picture:
        assert picture.size == (51, 37)
        seen = np.asarray(picture)
    lab = Mandelbrot(zoom="4e1", center=("-0.7436", "0.1318"), max_iterations=300, ny=37, nx=51)
    inside = lab.counts()[::-1] == 300
    np.testing.assert_array_equal((seen == 0).all(axis=2), inside)
    assert main(["render", str(first), "--out", str(again)]) == 0
    with Image.open(again) as picture:
        np.testing.assert_array_equal(np.asarray(picture), seen)
    beside = json.loads(Path(f"{first}.json").read_text(encoding="utf-8"))
    assert beside["values"]["zoom"] == "4e1"
    assert "fieldlab render mandelbrot" in beside["made"]["command"]
    assert main(["render", f"{first}.json", "--out", str(again), "--size", "20x20"]) == 0
    with Image.open(again) as picture:
        assert picture.size == (20, 20)


def test_cells_that_become_larger_stay_sharp():
    picture = render.fitted(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), (4, 6))
    assert (picture[:2, :3] == [0, 1, 2]).all()
    assert (picture[2:, 3:] == [9, 10, 11]).all()
    row = np.uint8([[grey] * 3 for grey in (0, 100, 200, 100, 50, 150)])
    means = render.fitted(np.stack([row, row]), (4, 3))  # taller and narrower
    assert (means == np.uint8([[[grey] * 3 for grey in (50, 150, 100)]] * 4)).all()


@pytest.mark.parametrize("ending", ["mp4", "webm", "gif", "webp"])
def test_a_film_has_its_frames_its_size_and_its_plan(ending, tmp_path):
    path = tmp_path / f"zoom.{ending}"
    FilmRenderer(FILM, path, "the command").run(InProcess())
    if ending in {"mp4", "webm"}:
        with av.open(str(path)) as video:
            stream = video.streams.video[0]
            assert float(stream.average_rate) == pytest.approx(12)
            seen = [picture.to_ndarray(format="rgb24") for picture in video.decode(stream)]
            plan = next(text for name, text in video.metadata.items() if name.lower() == "comment")
        assert json.loads(plan) == json.loads(json.dumps(FILM.plain()))
    else:
        with Image.open(path) as film:
            seen = [np.asarray(picture.convert("RGB")) for picture in ImageSequence.Iterator(film)]
    assert [picture.shape for picture in seen] == [(36, 64, 3)] * 9
    first, last = (np.abs(seen[number] - render.pixels(FILM.at(8)).astype(float)).mean() for number in (0, 8))
    assert last < 12  # compressed, and in all but GIF the resolution of colours is halved
    assert first > 2 * last
    beside = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
    assert (beside["frames"], beside["made"]["command"]) == (9, "the command")
    assert not path.with_name(f"{path.name}.frames").exists()


def test_what_was_stopped_goes_on_where_it_was(tmp_path, frames):
    path, whole, second = tmp_path / "zoom.gif", tmp_path / "whole.gif", InProcess()
    with pytest.raises(KeyboardInterrupt):
        FilmRenderer(FILM, path).run(InProcess(stop=5))
    assert not path.exists()
    with pytest.raises(SceneError, match="frames of another plan"):
        FilmRenderer(Film(SCENE, 8, 12.0, KEYS), path).run(InProcess())
    FilmRenderer(FILM, path).run(second)
    assert second.made == [5, 6, 7, 8]
    FilmRenderer(FILM, whole).run(InProcess())
    assert path.read_bytes() == whole.read_bytes()


class Crossing(InProcess):
    """A pool that starts the same work a second time while it runs."""

    def __init__(self, again):
        super().__init__()
        self.again, self.said = again, ""

    def make(self, work, numbers):
        for made in super().make(work, numbers):
            if not self.said:
                with pytest.raises(SceneError) as refused:
                    self.again()
                self.said = str(refused.value)
            yield made


SWEEP = ParameterSweep("mandelbrot", {"nx": 9}, {"ny": (9, 12, 15)})
MAKERS = [
    (lambda path: FilmRenderer(FILM, path), "zoom.gif", "frames"),
    (lambda path: TableMaker(SWEEP, path), "set.csv", "rows"),
]


@pytest.mark.parametrize(("maker", "name", "what"), MAKERS)
def test_a_file_begun_twice_is_made_once(maker, name, what, tmp_path):
    path, second = tmp_path / name, InProcess()
    crossing = Crossing(lambda: maker(path).run(second))
    maker(path).run(crossing)
    assert second.made == []
    assert crossing.said.startswith(f"another run is making the {what} in {tmp_path / name}.{what}: wait until it ends")
    assert sorted(made.name for made in tmp_path.iterdir()) == [name, f"{name}.json"]
    maker(path).run(second)
    assert len(second.made) == maker(path).parts.count


@pytest.mark.parametrize(("maker", "name", "what"), MAKERS)
def test_parts_of_an_unknown_plan_are_not_taken(maker, name, what, tmp_path):
    path, folder, second = tmp_path / name, tmp_path / f"{name}.{what}", InProcess()
    with pytest.raises(KeyboardInterrupt):
        maker(path).run(InProcess(stop=1))
    part, plan = sorted(folder.iterdir())
    assert (part.stem, plan.name) == ("000000", "plan.json")
    plan.unlink()
    with pytest.raises(SceneError, match=f"{name}.{what} holds {what} of an unknown plan; take another name, or"):
        maker(path).run(second)
    assert second.made == []
    assert list(folder.iterdir()) == [part]
    part.unlink()
    maker(path).run(second)
    assert len(second.made) == maker(path).parts.count


def test_a_folder_that_went_while_its_lock_was_awaited_is_made_anew(tmp_path, monkeypatch):
    """The previous run has just ended, and removed its folder."""
    if (flock := getattr(render_pool.fcntl, "flock", None)) is None:
        pytest.skip("this system has no such locks")
    gone = []

    def slow(lock, how):
        if not gone:
            gone.append(shutil.rmtree(tmp_path / "zoom.gif.frames"))
        flock(lock, how)

    monkeypatch.setattr(render_pool.fcntl, "flock", slow)
    FilmRenderer(FILM, tmp_path / "zoom.gif").run(InProcess())
    assert gone
    assert sorted(made.name for made in tmp_path.iterdir()) == ["zoom.gif", "zoom.gif.json"]


def test_a_film_is_made_without_locks(tmp_path, monkeypatch):
    def none(lock, how):
        raise OSError(errno.ENOLCK, "No locks available")

    if render_pool.fcntl is not None:
        monkeypatch.setattr(render_pool.fcntl, "flock", none)
    FilmRenderer(FILM, tmp_path / "zoom.gif").run(InProcess())
    monkeypatch.setattr(render_pool, "fcntl", None)  # as on Windows
    FilmRenderer(FILM, tmp_path / "zoom.gif").run(InProcess())
    assert sorted(made.name for made in tmp_path.iterdir()) == ["zoom.gif", "zoom.gif.json"]


def test_a_film_of_a_field_is_a_field_that_goes_on():
    film = Film(Scene("diffusion", {"ny": 24, "nx": 31}, (24, 31), steps=4), 4, every=50)
    made = dict(LocalPool(1).make(film, range(4)))
    lab = Diffusion(ny=24, nx=31)
    for number in range(4):
        lab.advance(50 if number else 4)
        truth = render.current_pixels(lab, film.at(number))
        assert made[number] == render.png(truth)
    lab.close()


def test_raw_results_are_read_back_by_others(tmp_path):
    path = tmp_path / "set.npz"
    size = ["--size", "31x22", "--set", "max_iterations=100"]
    assert main(["render", "mandelbrot", "--out", str(path), *size]) == 0
    with np.load(path) as kept:
        np.testing.assert_array_equal(kept["counts"], Mandelbrot(ny=22, nx=31, max_iterations=100).counts())
        assert json.loads(str(kept["fieldlab"]))["values"] == {"max_iterations": 100}
    path = tmp_path / "heat.zarr"
    grid = ["--set", "ny=20", "--set", "nx=33"]
    arguments = [*grid, "--frames", "3", "--steps", "5", "--every", "10"]
    for _ in range(2):  # an older file is replaced
        assert main(["render", "diffusion", "--out", str(path), *arguments]) == 0
    group = zarr.open_group(str(path), mode="r")
    assert group["field"].shape == (3, 20, 33)
    assert group.attrs["fieldlab"]["every"] == 10
    lab = Diffusion(ny=20, nx=33)
    lab.advance(25)
    np.testing.assert_array_equal(group["field"][2], lab.field())
    np.testing.assert_array_equal(group["laplacian"][2], lab.laplacian())
    lab.close()


def signal_a_worker(words, sign):
    """Send a signal to one computing process below this one, whose command line contains `words`."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # the process is ending
            command = " ".join(process.cmdline())
            if words in command and "resource_tracker" not in command:
                os.kill(process.pid, sign)
                return
    raise AssertionError("no worker runs")


def made_with_a_fault(pool, words="compute.process", sign=signal.SIGKILL):
    """Return the film's frames as made by a pool, one of whose workers receives a signal after the first frame."""
    made = {}
    for number, data in pool.make(FILM, range(FILM.frames)):
        if not made:
            signal_a_worker(words, sign)
        made[number] = data
    return [made[number] for number in range(FILM.frames)]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_that_die_or_are_stopped_are_replaced_and_the_frames_are_the_same(sign, frames, monkeypatch):
    monkeypatch.setattr(tasks, "QUIET", 0.0)
    monkeypatch.setattr(tasks, "STOPPED", 1.0)
    assert made_with_a_fault(LocalPool(2), sign=sign) == frames


def test_a_dask_cluster_makes_the_same_frames_also_when_a_worker_dies(frames):
    assert made_with_a_fault(Cluster("local", 2), "multiprocessing") == frames


def test_a_scheduler_elsewhere_that_gives_up_at_once_does_not_end_the_film(frames):
    """The limit of failures is a setting of the scheduler, and this scheduler allows no lost worker."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        local = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ANY_PORT}
        here = distributed.LocalCluster(**local)
    with here:
        assert made_with_a_fault(Cluster(here.scheduler_address), "multiprocessing") == frames


class Parts:
    """Two parts that are made by a task of chores."""

    count, sequential = 2, False

    def __init__(self, task):
        self.task = task

    def plain(self):
        return {}


def test_frames_that_kill_every_worker_are_given_up():
    with pytest.raises(WorkerLost, match="3 times in a row"):
        list(LocalPool(1).make(Parts(chores.die), [0, 1]))


def test_what_a_worker_raises_is_raised():
    with pytest.raises(SceneError, match="there is no frame 1"):
        list(LocalPool(1).make(Parts(chores.refuse_part), [1]))


class Killed(Exception):
    """The error of Dask for a task that has lost one worker more than `allowed_failures`."""

    allowed_failures = 1


class LosingClient:
    """A Dask client whose workers all die."""

    def __init__(self):
        self.submitted, self.waiting = 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def scheduler_info(self, n_workers):
        return {"workers": [1]}

    def submit(self, *_, pure):
        def result():
            raise Killed

        self.submitted += 1
        return SimpleNamespace(key=f"part-{self.submitted}", result=result)

    def as_completed(self, futures):
        self.waiting, self.add = futures, futures.append
        return self

    def __iter__(self):
        while self.waiting:
            yield self.waiting.pop(0)


def test_a_frame_that_ends_every_worker_of_a_cluster_is_given_up(monkeypatch):
    client, cluster = LosingClient(), Cluster("tcp://elsewhere:1")
    monkeypatch.setattr(cluster, "_client", lambda: client)
    monkeypatch.setattr(cluster, "_dask", SimpleNamespace(KilledWorker=Killed, as_completed=client.as_completed))
    with pytest.raises(WorkerLost, match="part 0 took 6 workers with it"):
        list(cluster.make(FILM, [0]))
    assert client.submitted == 3  # two workers each


@pytest.fixture
def dragged(tmp_path):
    """Return the file of a picture that was saved after changes of r and the backend, and a brush stroke."""
    history = (
        {"step": 5, "set": {"r": 0.05}}, {"step": 6, "do": "paint", "with": STROKE},
        {"step": 8, "set": {"r": 0.1, "backend": "cpu_numba", "variant": "one-step"}},
    )  # fmt: skip
    values = {"ny": 24, "nx": 24, "backend": "cpu_numpy", "r": 0.2}
    scene = Scene("diffusion", values, (24, 24), 12, history=history)
    (tmp_path / "heat.json").write_text(json.dumps(scene.plain()), encoding="utf-8")
    return tmp_path / "heat.json"


STROKE = {"points": [[3, 4]], "radius": 2, "value": 1}


def film_from(path, *arguments):
    """Return the film that `fieldlab render` makes of a file and these arguments."""
    parser = argparse.ArgumentParser()
    commands.add_render(parser.add_subparsers())
    return commands._film(parser.parse_args(["render", str(path), "--out", "a.webp", *arguments]))


def ended(scene):
    """Return the lab's values at the end of `scene`."""
    with closing(render.Replay.of(scene)) as replay:
        replay.to(scene.steps)
        return replay.lab.values()


@pytest.mark.parametrize(
    ("arguments", "wanted", "left"),
    [
        ([], {"r": 0.1, "backend": "cpu_numba", "variant": "one-step"}, 3),
        (["--set", "r=0.24"], {"r": 0.24, "backend": "cpu_numba", "variant": "one-step"}, 2),
        (["--backend", "cpu_numpy"], {"r": 0.1, "backend": "cpu_numpy", "variant": ""}, 3),
        (["--set", "backend=cpu_numpy", "--set", "r=0.24"], {"r": 0.24, "backend": "cpu_numpy", "variant": ""}, 1),
    ],
)
def test_what_is_asked_for_holds_to_the_end_whatever_the_file_did_on_its_way(dragged, arguments, wanted, left):
    scene = film_from(dragged, *arguments).scene
    assert ended(scene).items() >= wanted.items()
    assert len(scene.history) == left
    assert {"step": 6, "do": "paint", "with": STROKE} in scene.history


def test_a_film_from_a_file_leads_from_the_value_that_its_picture_had(dragged):
    film = film_from(dragged, "--to", "r=0.2", "--frames", "3", "--easing", "even")
    assert [ended(film.at(number))["r"] for number in range(3)] == pytest.approx([0.1, 0.15, 0.2])
    film = film_from(dragged, "--to", "r=0.2", "--steps", "6", "--frames", "2")
    assert [ended(film.at(number))["r"] for number in range(2)] == [0.05, 0.2]
    film = film_from(dragged, "--set", "r=0.12", "--to", "r=0.2", "--frames", "2")
    assert [ended(film.at(number))["r"] for number in range(2)] == [0.12, 0.2]


def test_an_estimate_of_the_missing_frames_is_printed_on_a_terminal_before_a_film_starts(tmp_path, capsys, monkeypatch):
    pools = [InProcess(stop=2), LocalPool(1)]
    monkeypatch.setattr(commands, "_pool", lambda *_: pools.pop(0))
    arguments = ["--set", "max_iterations=50", "--to", "zoom=1e3", "--size", "32x18", "--frames", "24"]
    command = ["render", "mandelbrot", "--out", str(tmp_path / "zoom.gif"), *arguments]
    assert main(command) == 130
    capsys.readouterr()
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich assume a terminal
    monkeypatch.setattr(FilmRenderer, "run", lambda *_: None)
    assert main(command) == 0
    told = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    told = " ".join(told.split())  # the terminal's width breaks lines, and a busy machine prints a longer sentence
    words = r"24 frames, 2 of them exist already: about \d+ (s|min)\b.* and [\d.]+ MB, estimated from 6 frames"
    assert re.search(words, told), told


def test_each_gpu_is_one_worker_s_and_only_those_that_may_be_used(monkeypatch):
    monkeypatch.setattr("compute.machine.machine.nvidia", lambda: ([{"name": "a GPU", "memory": 1}] * 4, "580"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (LocalPool(gpu=True).gpus, LocalPool(gpu=True).workers) == (("0", "1", "2", "3"), 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-7f, 2")
    assert (LocalPool(gpu=True).gpus, LocalPool(gpu=True).workers) == (("GPU-7f", "2"), 2)
    trial = benchmark.Trial(Scene("mandelbrot", {"max_iterations": 20}, (4, 4)))
    seen = {json.loads(data)[1] for _, data in LocalPool(3, gpu=True).make(trial, range(40))}
    assert seen <= {"GPU-7f", "2"}
    assert not LocalPool(3).gpus
