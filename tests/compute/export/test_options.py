"""Options and values of `fieldlab render` and `sweep`: an option without effect is refused by name."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import zarr
from PIL import Image

from compute.__main__ import BAD_INPUT, OK, main
from compute.export import commands
from compute.export.commands import OPTIONS, fitting_size
from compute.export.film_files import WEBP_TICK, ticks
from compute.export.formats import ARRAYS, FILMS, FORMATS, RENDERED, STILLS, TABLES, film_format
from compute.export.parameter_texts import axes_of, values_of
from compute.export.render_pool import Cluster
from compute.export.scene import SceneError
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from tests.compute.export.test_sweep import read_csv
from tests.in_process import InProcess

VALUES = {
    "size": ["64x64"], "palette": ["Inferno"], "part": ["laplacian"], "axes": [], "transparent": [], "steps": ["2"],
    "backend": ["cpu_numpy"], "to": ["r=0.1"], "frames": ["2"], "rate": ["12"], "every": ["3"], "easing": ["even"],
    "workers": ["1"], "scheduler": ["local"],
}  # fmt: skip
SMALL = ["--set", "ny=16", "--set", "nx=16"]


@pytest.fixture
def here(monkeypatch):
    """Make frames and rows in this process."""
    monkeypatch.setattr(commands, "pool_for", lambda *_: InProcess())


def refused(arguments, capsys):
    """Return the message with which a command is refused."""
    assert main(arguments) == BAD_INPUT
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return told.err


# -- options


def test_every_option_of_render_is_in_the_table_of_options():
    known = {option for one in FORMATS for option in one.options}
    assert known == set(OPTIONS) == set(VALUES)
    assert not any(one.options for one in TABLES)


@pytest.mark.parametrize("form", [*STILLS, *ARRAYS, *FILMS], ids=lambda form: form.name)
def test_an_option_that_a_format_does_not_have_is_refused_by_name(form, tmp_path, capsys):
    if form.ending not in RENDERED:
        pytest.skip("the command line does not write it")
    out = ["--out", str(tmp_path / f"a{form.ending}")]
    axes = ["--axes"] if form.name == "PNG with axes" else []
    others = [option for option in OPTIONS if option not in form.options]
    assert others or form in FILMS
    for option in others:
        told = refused(["render", "diffusion", *SMALL, *axes, f"--{option}", *VALUES[option], *out], capsys)
        assert f"--{option} has no effect on {form.name}, only on " in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mandelbrot", "--transparent", "--out", "a.png"], "--transparent has no effect on PNG, only on PNG w"),
        (["mandelbrot", "--steps", "3", "--out", "a.png"], "--steps has no effect on mandelbrot"),
        (["mandelbrot", "--set", "ny=64", "--set", "nx=64", "--out", "a.png"], "nx follows from the size of"),
        (["mandelbrot", "--set", "ny=64", "--size", "9x9", "--out", "a.npz"], "ny follows from the size of"),
        (["diffusion", *SMALL, "--size", "9x9", "--out", "a.npz"], "--size has no effect on NPZ"),
        (["diffusion", *SMALL, "--set", "ny=17", "--out", "a.png"], "ny is set twice, to '16' and to '17'"),
        (["diffusion", *SMALL, "--to", "r=0.1", "--to", "r=0.2", "--out", "a.gif"], "r is set twice"),
        (["diffusion", "--set", "backend=numpy", "--backend", "cpu_numpy", "--out", "a.png"], "backend is set twice"),
        (["diffusion", *SMALL, "--easing", "even", "--every", "2", "--out", "a.gif"], "--easing is the pace"),
        (["diffusion", *SMALL, "--workers", "2", "--every", "2", "--out", "a.gif"], "--workers has no effect with"),
        (["l_curve", "--set", "n=20", "--palette", "Inferno", "--out", "a.png"], "--palette has no effect on lines"),
        (["l_curve", "--set", "n=20", "--palette", "Inferno", "--out", "a.svg"], "--palette has no effect on lines"),
        (["diffusion", "--out", "a.bmp"], "a file must end in one of .png, .npz, .zarr, .svg, .pdf, .mp4"),
        (["diffusion", "--out", "a.jpg"], "not 'a.jpg'"),
        (["diffusion", "--out", "a.gif", "--rate", "60"], "at most 50 frames a second for .gif"),
        (["diffusion", *SMALL, "--out", "a.webp", "--rate", "240"], "at most 90 frames a second for .webp"),
    ],
)  # fmt: skip
def test_a_request_of_which_a_part_would_be_ignored_is_refused(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert says in refused(["render", *arguments], capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_refuses_what_it_would_ignore(tmp_path, capsys):
    out = ["--out", str(tmp_path / "a.csv")]
    assert "--steps has no effect on mandelbrot" in refused(
        ["sweep", "mandelbrot", "--vary", "ny=8,9", "--steps", "5", *out], capsys
    )
    assert "nx is set twice" in refused(
        ["sweep", "diffusion", "--vary", "ny=8,9", "--set", "nx=8", "--set", "nx=9", *out], capsys
    )


def test_workers_of_a_cluster_elsewhere_cannot_be_counted_here():
    with pytest.raises(SceneError, match="workers are the cluster's own at tcp://elsewhere:1, and cannot be 3"):
        Cluster("tcp://elsewhere:1", 3)
    with pytest.raises(SceneError, match="workers must be from 1 to 256, not -1"):
        Cluster("local", -1)


# -- the shape of a picture


def test_a_picture_has_the_shape_of_its_grid(tmp_path):
    path = tmp_path / "ring.png"
    ring = ["render", "diffusion", "--set", "preset=ring", "--steps", "0"]
    assert main([*ring, "--out", str(path)]) == OK
    with Image.open(path) as picture:
        assert picture.size == (1080, 1080)
        seen = np.asarray(picture)[..., 0]
    bright = np.argwhere(seen == seen[540, 540 - 297])  # within the ring, 0.55 of half the side
    height, width = np.ptp(bright, axis=0)
    assert abs(height - width) <= 2
    assert main([*ring, "--set", "ny=24", "--set", "nx=96", "--out", str(path)]) == OK
    with Image.open(path) as picture:
        assert picture.size == (1920, 480)


def test_a_size_that_would_distort_the_picture_is_refused(tmp_path, capsys):
    wide = ["render", "diffusion", *SMALL, "--steps", "0", "--size"]
    told = refused([*wide, "1920x1080", "--out", str(tmp_path / "a.png")], capsys)
    assert "--size 1920x1080 would distort the picture: within it, the picture's 16 x 16 cells have 1080x1080" in told
    refused([*wide, "64x32", "--frames", "2", "--every", "1", "--out", str(tmp_path / "a.gif")], capsys)
    assert list(tmp_path.iterdir()) == []
    assert main([*wide, "64x32", "--axes", "--out", str(tmp_path / "a.png")]) == OK  # a figure has margins
    assert main([*wide, "64x63", "--out", str(tmp_path / "a.png")]) == OK  # one pixel counts as rounding
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (64, 63)


def test_a_solution_of_a_picture_has_its_shape_and_lines_have_any(tmp_path):
    blur = ["render", "l_curve", "--set", "problem=blur", "--set", "n=12", "--set", "steps_at_most=5"]
    assert main([*blur, "--out", str(tmp_path / "a.png")]) == OK
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == (1080, 1080)
    assert main([*blur, "--part", "l-curve", "--size", "90x40", "--out", str(tmp_path / "b.png")]) == OK
    with Image.open(tmp_path / "b.png") as picture:
        assert picture.size == (90, 40)


@pytest.mark.parametrize(
    ("cells", "even", "size"),
    [
        ((512, 512), False, (1080, 1080)), ((100, 400), False, (480, 1920)), ((1, 16384), False, (1, 1920)),
        ((7, 9), False, (1080, 1389)), ((7, 9), True, (1080, 1388)), ((1, 16384), True, (2, 1920)),
    ],
)  # fmt: skip
def test_the_largest_size_of_a_shape(cells, even, size):
    assert fitting_size(*cells, (1080, 1920), even) == size


def test_axes_are_drawn_in_films_too(tmp_path, here):
    """They were reported as ignored."""
    film = ["render", "diffusion", *SMALL, "--size", "64x64", "--frames", "2", "--every", "3", "--rate", "10"]
    seen = []
    for axes in ([], ["--axes"]):
        assert main([*film, *axes, "--out", str(tmp_path / "a.gif")]) == OK
        with Image.open(tmp_path / "a.gif") as made:
            seen.append(np.asarray(made.convert("RGB")))
    assert (seen[1][0, 0] == 255).all()
    assert not (seen[0] == seen[1]).all()


def test_raw_results_without_a_change_are_one_moment(tmp_path):
    assert main(["render", "diffusion", *SMALL, "--steps", "1", "--out", str(tmp_path / "a.zarr")]) == OK
    assert zarr.open_group(str(tmp_path / "a.zarr"), mode="r")["field"].shape == (1, 16, 16)


def test_the_ticks_of_a_film_are_what_a_browser_shows():
    """Browsers show a frame of 10 ms or less for 100 ms."""
    for one in FILMS[2:]:
        shown = ticks(one.fastest, {".gif": 100, ".webp": WEBP_TICK}[one.ending])
        assert min(next(shown) for _ in range(1000)) * {".gif": 10, ".webp": 1}[one.ending] > 10
    with pytest.raises(SceneError, match="at most 90"):
        film_format(Path("a.webp")).require((8, 8), 91)


# -- values from texts


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LCurve, "lambdas=1e-6,1,50", (1e-6, 1, 50)),
        (LCurve, "lambdas=null", None),
        (LCurve, "lam=null", None),
        (LCurve, "rays=null", None),
        (Diffusion, "limits_field=null", None),
        (Diffusion, "limits_field=-1,1.5", (-1, 1.5)),
        (Diffusion, "limits_laplacian=0, 2", (0, 2)),
        (Diffusion, "text=null", "null"),
        (Mandelbrot, "pointer=0.25,0.5", (0.25, 0.5)),
        (Mandelbrot, "pointer=null", None),
        (Mandelbrot, "center=-0.75,1e-400", ("-0.75", "1e-400")),
        (Mandelbrot, "limits=1,10", (1, 10)),
        (Crossover, 'ways=["cpu_numba add","cpu_numpy add"]', ["cpu_numba add", "cpu_numpy add"]),
        (Crossover, "least=null", None),
    ],
)
def test_tuples_ranges_and_nothing_are_read(kind, text, value):
    (found,) = values_of(kind, [text]).values()
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, tuple):
        assert [isinstance(part, str) for part in found] == [isinstance(part, str) for part in value]


def test_a_whole_number_in_a_tuple_stays_whole():
    assert isinstance(values_of(LCurve, ["lambdas=1e-6,1,50"])["lambdas"][2], int)
    lab = LCurve(problem="shaw", n=16, **values_of(LCurve, ["lambdas=1e-6,1,50"]))
    assert lab.grid.size == 50
    lab.close()


@pytest.mark.parametrize("kind", [Diffusion, Mandelbrot, LCurve, Crossover])
def test_every_parameter_reads_its_own_default(kind):
    for name, parameter in kind.param.objects("existing").items():
        default = parameter.default
        if name == "name" or (default is None and not parameter.allow_None):
            continue
        if default is None:
            text = "null"
        elif isinstance(default, tuple):
            text = ",".join(map(str, default))
        else:
            text = default if isinstance(default, str) else json.dumps(default)
        assert values_of(kind, [f"{name}={text}"]) == {name: default}


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (LCurve, "lambdas=1,2", "lambdas must be 3 values separated by commas, not '1,2'"),
        (LCurve, "lambdas=1,2,many", "lambdas must be a finite number, not 'many'"),
        (Diffusion, "limits_field=0,inf", "limits_field must be a finite number, not 'inf'"),
        (Diffusion, "r=NaN", "r must be a finite number, not 'NaN'"),
        (Diffusion, "r=1e999", "r must be a finite number, not '1e999'"),
        (Diffusion, "ny=true", "ny must be a finite number, not 'true'"),
        (Diffusion, "unstable=maybe", "unstable must be a value such as false, not 'maybe'"),
        (Mandelbrot, "center=1", "center must be 2 values separated by commas, not '1'"),
    ],
)
def test_values_that_cannot_be_read_are_refused(kind, text, says):
    with pytest.raises(SceneError) as refusal:
        values_of(kind, [text])
    assert str(refusal.value) == says


def test_lambdas_can_be_rendered_and_swept(tmp_path, here):
    small = ["--set", "problem=shaw", "--set", "n=16"]
    path = tmp_path / "a.npz"
    assert main(["render", "l_curve", *small, "--set", "lambdas=1e-6,1,50", "--out", str(path)]) == OK
    with np.load(path) as kept:
        np.testing.assert_allclose(kept["lambdas"], np.geomspace(1e-6, 1, 50))
    path = tmp_path / "a.csv"
    assert main(["sweep", "l_curve", *small, "--vary", "lambdas=1e-6,1,5;1e-3,1,7;null", "--out", str(path)]) == OK
    rows = read_csv(path)
    assert [(each["lambdas"], each["status"]) for each in rows] == [
        ("[1e-06, 1, 5]", "made"), ("[0.001, 1, 7]", "made"), ("", "made"),
    ]  # fmt: skip


# -- sweeps


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("r=0.1,0.1", "r is varied over 0.1 twice"),
        ("r=0.1,0.10", "r is varied over 0.1 twice"),
        ("seed=1:3:5", "seed has only 3 whole numbers in '1:3:5', not 5"),
        ("backend=Numba,cpu_numba", "backend is varied over 'cpu_numba' twice"),
    ],
)
def test_a_repeated_value_is_refused(text, says):
    with pytest.raises(SceneError) as refusal:
        axes_of(Diffusion, [text])
    assert str(refusal.value) == says


def test_a_sweep_of_which_no_row_was_made_is_no_success(tmp_path, here, capsys):
    path = tmp_path / "a.csv"
    assert main(["sweep", "diffusion", "--vary", "ny=0,99999", "--steps", "1", "--out", str(path)]) == 1
    assert "no row could be made; the first: " in capsys.readouterr().err
    assert [each["status"] for each in read_csv(path)] == ["refused", "refused"]


def test_a_text_of_a_table_is_no_formula(tmp_path, here):
    path = tmp_path / "a.csv"
    formulas = ["=1+1", "+1+1", "-1+1", "@SUM(A1)"]
    sweep = ["sweep", "diffusion", *SMALL, "--vary", f"text={','.join(formulas)}", "--steps", "1", "--out", str(path)]
    assert main(sweep) == OK
    rows = read_csv(path)
    assert [each["text"] for each in rows] == [f"'{text}" for text in formulas]
    assert all(math.isfinite(float(each["minimum"])) for each in rows)
