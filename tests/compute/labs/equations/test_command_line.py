"""Numbers of a text on the command line, by their names: render, sweep, race and bench."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from compute.__main__ import BAD_INPUT, OK, main, parser_for
from compute.cli.race_command import race_of
from compute.export import commands
from compute.export.parameter_texts import axes_of, values_and_axes, values_of
from compute.export.scene import SceneError
from compute.labs.equations import Equations
from compute.labs.equations.presets import presets
from compute.measure.benchmark import benchmark_of
from compute.measure.commands import _plan
from tests.compute.export.test_sweep import read_csv
from tests.in_process import InProcess

SMALL = ["--set", "ny=16", "--set", "nx=16", "--set", "backend=cpu_numpy"]
OWN = "u_t = a*lap(u) + p2*u; p2 = 0.5 in [0, 1]; a = 0.1 in [0, 0.2]; dt = 1; u(0) = x"


@pytest.fixture
def here(monkeypatch):
    """Make frames and rows in this process."""
    monkeypatch.setattr(commands, "pool_for", lambda *_: InProcess())


def refused(arguments, capsys):
    assert main(arguments) == BAD_INPUT
    return capsys.readouterr().err


def test_a_number_is_named_as_in_the_text():
    assert values_of(Equations, ["F=0.03", "k=0.05"]) == {"p1": 0.03, "p2": 0.05}
    assert values_of(Equations, ["D=0.4", "text=heat"]) == {"p1": 0.4, "text": "heat"}
    assert values_of(Equations, ["a=0.1"], {"text": OWN}) == {"p2": 0.1}
    assert values_of(Equations, ["p2=0.1"]) == {"p2": 0.1}
    assert axes_of(Equations, ["F=0.03:0.05:3"]) == {"p1": (0.03, 0.04, 0.05)}


def test_a_number_is_known_if_all_varied_texts_have_it_at_the_same_place():
    texts = "text=heat,fisher_maze"
    assert values_and_axes(Equations, ["D=0.4"], [texts]) == ({"p1": 0.4}, {"text": ("heat", "fisher_maze")})
    with pytest.raises(SceneError, match=r"'r=0\.4' must be NAME=VALUE with a parameter of equations: D, backend"):
        values_and_axes(Equations, ["r=0.4"], [texts])


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["G=1"], "'G=1' must be NAME=VALUE with a parameter of equations: F, k, Du, Dv, backend, device_index"),
        (["F=much"], "F must be a finite number, not 'much'"),
        (["F=0.03", "F=0.04"], "F is set twice, to '0.03' and to '0.04'"),
        (["F=0.03", "p1=0.04"], "p1 is set twice, to '0.03' and to '0.04'"),
        (["text=u_t = (", "F=0.03"], "line 1, column 8"),
        ([f"text={OWN}", "p2=0.3"], "p2 is a parameter of equations, and names the number p1: rename that"),
    ],
)
def test_names_and_values_that_cannot_be_read_are_refused(texts, words):
    with pytest.raises(ValueError, match=r".") as refusal:
        values_of(Equations, texts)
    assert words in str(refusal.value)


def test_render_takes_numbers_of_the_text(tmp_path, capsys):
    path = tmp_path / "a.png"
    render = ["render", "equations", *SMALL, "--steps", "40", "--part", "show", "--out", str(path)]
    pictures = {}
    for feed in (0.02, 0.09):
        assert main([*render, "--set", f"F={feed}"]) == OK
        with Image.open(path) as made:
            pictures[feed] = np.asarray(made)[::68, ::68, 0]  # a pixel of each cell
    assert not np.array_equal(pictures[0.02], pictures[0.09])
    told = refused([*render, "--set", "F=0.2"], capsys)
    assert "F (p1) must be from 0 to 0.1, not 0.2" in told
    told = refused([*render, "--to", "G=0.2", "--out", str(tmp_path / "a.gif")], capsys)
    assert "'G=0.2' must be NAME=VALUE with a parameter of equations: F, k" in told


def test_a_sweep_over_a_number_has_a_column_of_its_name(tmp_path, here):
    path = tmp_path / "a.csv"
    sweep = ["sweep", "equations", *SMALL, "--steps", "10", "--out", str(path)]
    assert main([*sweep, "--vary", "F=0.02,0.04,0.2", "--set", "k=0.05"]) == OK
    rows = read_csv(path)
    assert [(row["F"], row["k"], row["status"]) for row in rows] == [
        ("0.02", "0.05", "made"), ("0.04", "0.05", "made"), ("0.2", "0.05", "refused"),
    ]  # fmt: skip
    assert rows[2]["why"] == "F (p1) must be from 0 to 0.1, not 0.2"
    for row in rows[:2]:
        with Equations(backend="cpu_numpy", ny=16, nx=16, p1=float(row["F"]), p2=0.05) as lab:
            lab.advance(10)
            assert float(row["integral"]) == pytest.approx(float(lab.field().sum()), rel=1e-5)


def test_a_race_and_a_bench_take_numbers_of_the_text(capsys):
    race = ["race", "equations", *SMALL[:4], "--steps", "10", "--backends", "cpu_numpy,cpu_numba", "--set", "F=0.03"]
    assert race_of(parser_for(race).parse_args(race)).values == {"ny": 16, "nx": 16, "p1": 0.03}
    assert "F (p1) must be from 0 to 0.1, not 0.3" in refused([*race[:-1], "F=0.3"], capsys)

    bench = ["bench", "equations", "--sizes", "16", "--texts", "gray_scott", "--dtypes", "float32"]
    chosen = parser_for(bench).parse_args([*bench, "--set", "F=0.03", "--set", "k=0.05"])
    (case,) = _plan(chosen, benchmark_of(Equations)).cases
    assert case.facts()["numbers"] == {"F": 0.03, "k": 0.05}
    assert "F = 0.03" in case.title
    with case.lab("cpu_numpy", "float32") as lab:
        assert lab.numbers == {"F": 0.03, "k": 0.05, "Du": 0.16, "Dv": 0.08}
        assert lab.text == presets()["gray_scott"].text


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("F=0.3", "F (p1) must be from 0 to 0.1, not 0.3"),
        ("F=nan", "F (p1) must be from 0 to 0.1, not nan"),
        ("G=1", "--set: gray_scott has no number 'G'; it has F, k, Du, Dv"),
        ("F", "--set: 'F' must be NAME=NUMBER, for example F=0.03"),
        ("F=0.03,F=0.04", "--set: F is given twice"),
    ],
)
def test_the_bench_refuses_numbers_by_name_and_bound(option, words, capsys):
    assert words in refused(["bench", "equations", "--texts", "gray_scott", "--set", option], capsys)
