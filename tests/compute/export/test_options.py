"""Options and values of `fieldlab render` and `sweep`: an option without effect is refused by name."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from compute.__main__ import BAD_INPUT, OK, main
from compute.export import commands
from compute.export.commands import OPTIONS, fitting_size
from compute.export.film_files import WEBP_TICK, ticks
from compute.export.formats import ARRAYS, FILMS, FORMATS, RENDERED, STILLS, TABLES, film_format
from compute.export.parameter_texts import axes_of, values_of
from compute.export.render_pool import Cluster
from compute.export.scene import SceneError
from compute.export.sweep import MOST_ROWS
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


REFUSED = {
    "render chess --out a.png": "lab must be one of",
    "render missing.json --out a.png": "missing.json is not there",
    "render cat.png --out a.png": "does not say how it was made",
    "render mandelbrot --out a.xyz": "must end in one of .png, .npz, .zarr, .svg, .pdf, .mp4",
    "render mandelbrot --out a.png --set zoom": "must be NAME=VALUE",
    "render mandelbrot --out a.png --set sheep=3": "must be NAME=VALUE",
    "render mandelbrot --out a.png --set zoom=0": "zoom must be from",
    "render mandelbrot --out a.png --size 10": "no size such as",
    "render mandelbrot --out a.png --size 99999x99999": "size must be 1 to",
    "render mandelbrot --out a.mp4 --size 31x20": "must be even",
    "render mandelbrot --out a.mp4 --frames 0": "frames must be from 1",
    "render mandelbrot --out a.gif --workers 0": "workers must be from 1",
    "render mandelbrot --out a.gif --scheduler tcp://127.0.0.1:9": "no Dask scheduler answers",
    "render mandelbrot --out a.png --transparent": "--transparent has no effect on PNG, only on PNG w",
    "render mandelbrot --out a.png --steps 3": "--steps has no effect on mandelbrot",
    "render mandelbrot --out a.png --set ny=64 --set nx=64": "nx follows from the size of",
    "render diffusion --out a.png --steps -3": "steps must be from 0",
    "render diffusion --out a.png --backend cpu_abacus": "cpu_abacus",
    "render diffusion --out a.npz --size 9x9": "--size has no effect on NPZ",
    "render diffusion --out a.png --set ny=16 --set ny=17": "ny is set twice, to '16' and to '17'",
    "render diffusion --out a.png --set backend=numpy --backend cpu_numpy": "backend is set twice",
    "render diffusion --out a.gif --easing even --every 2": "--easing is the pace",
    "render diffusion --out a.gif --workers 2 --every 2": "--workers has no effect with",
    "render diffusion --out a.webp --rate 240": "at most 90 frames a second for .webp",
    "render l_curve --out a.png --set n=20 --part chess": "part must be one of",
    "render l_curve --out a.png --set n=20 --palette Inferno": "--palette has no effect on lines",
    "sweep diffusion --out a.csv": "--vary",
    "sweep diffusion --out a.csv --vary sheep=1,2": "must be NAME=VALUE with a parameter of diffusion",
    "sweep diffusion --out a.csv --vary r=0.1,,0.2": "r must be values separated by commas",
    "sweep diffusion --out a.csv --vary r=0.1,much": "r must be a finite number, not",
    "sweep diffusion --out a.csv --vary r=0:0.2:x3": "r by equal factors must be above 0",
    "sweep diffusion --out a.csv --vary r=0:0.2:1": "r must be 2 to 10000 values, not 1",
    "sweep diffusion --out a.csv --vary r=0.1,0.2 --set r=0.2": "r can be set or varied, not both",
    "sweep diffusion --out a.csv --vary ny=8,9 --set nx=8 --set nx=9": "nx is set twice",
    "sweep diffusion --out a.csv --vary ny=1:9999:9999 --vary nx=1:9999:9999": f"1 to {MOST_ROWS} combinations, not 99",
    "sweep diffusion --out a.csv --vary backend=Numba,Fortran": "backend must be one of cpu_numpy (NumPy), cpu_numba",
    "sweep diffusion --out a.xlsx --vary r=0.1,0.2": "a table must end in one of .csv, .parquet",
    "sweep diffusion --out a.csv --vary r=0.1,0.2 --workers 0": "workers must be from 1",
    "sweep mandelbrot --out a.csv --vary ny=8,9 --steps 5": "--steps has no effect on mandelbrot",
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_bad_request_is_refused_in_words_and_writes_nothing(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("compute.export.render_pool.PATIENCE", "1s")
    Image.new("RGB", (4, 4)).save("cat.png")
    assert REFUSED[command] in refused(command.split(), capsys)
    assert [path.name for path in tmp_path.iterdir() if not path.is_dir()] == ["cat.png"]


def test_workers_of_a_cluster_elsewhere_cannot_be_counted_here():
    with pytest.raises(SceneError, match="workers are the cluster's own at tcp://elsewhere:1, and cannot be 3"):
        Cluster("tcp://elsewhere:1", 3)
    with pytest.raises(SceneError, match="workers must be from 1 to 256, not -1"):
        Cluster("local", -1)


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
        ((512, 512), False, (1080, 1080)), ((1, 16384), False, (1, 1920)),
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


def test_the_ticks_of_a_film_are_what_a_browser_shows():
    """Browsers show a frame of 10 ms or less for 100 ms."""
    for one in FILMS[2:]:
        shown = ticks(one.fastest, {".gif": 100, ".webp": WEBP_TICK}[one.ending])
        assert min(next(shown) for _ in range(1000)) * {".gif": 10, ".webp": 1}[one.ending] > 10
    with pytest.raises(SceneError, match="at most 90"):
        film_format(Path("a.webp")).require((8, 8), 91)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (LCurve, "lambdas=1e-6,1,50", (1e-6, 1, 50)),
        (LCurve, "lambdas=null", None),
        (Diffusion, "limits_field=-1, 1.5", (-1, 1.5)),
        (Diffusion, "text=null", "null"),
        (Mandelbrot, "center=-0.75,1e-400", ("-0.75", "1e-400")),
        (Crossover, 'ways=["cpu_numba add","cpu_numpy add"]', ["cpu_numba add", "cpu_numpy add"]),
    ],
)
def test_tuples_ranges_and_nothing_are_read(kind, text, value):
    (found,) = values_of(kind, [text]).values()
    assert repr(found) == repr(value)  # a whole number stays whole, a text a text


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


@pytest.mark.parametrize(
    ("text", "says"),
    [
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
