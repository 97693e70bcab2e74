"""Tables of many labs: read by other programs, and compared with labs that run here one by one."""

from __future__ import annotations

import csv
import json
import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compute.__main__ import main
from compute.export import commands, tasks
from compute.export.formats import table_format
from compute.export.parameter_texts import axes_of
from compute.export.scene import SceneError
from compute.export.sweep import ParameterSweep, TableMaker, row
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot
from tests.in_process import InProcess

HEAT = ParameterSweep("diffusion", {"nx": 21}, {"r": (0.05, 0.2), "ny": (8, 16, 99999)}, 30)
COMMAND = ["sweep", "diffusion", "--set", "nx=21", "--vary", "r=0.05,0.2", "--vary", "ny=8,16,99999", "--steps", "30"]


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def here(monkeypatch):
    """Make rows in this process."""
    monkeypatch.setattr(commands, "pool_for", lambda *_: InProcess())


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        (Diffusion, "r=0.05:0.25:5", (0.05, 0.1, 0.15, 0.2, 0.25)),
        (Diffusion, "ny=10:20:4", (10, 13, 17, 20)),
        (Diffusion, "ny=16:1024:x7", (16, 32, 64, 128, 256, 512, 1024)),
        (Diffusion, "edges=periodic, zero-flux", ("periodic", "zero-flux")),
        (Diffusion, "backend=Numba, cpu_numpy, cuda c", ("cpu_numba", "cpu_numpy", "gpu_cupy")),
        (Diffusion, "unstable=true,false", (True, False)),
        (Diffusion, "text=a:b:3", None),
        (LCurve, "noise=1e-4:1:x5", (1e-4, 1e-3, 1e-2, 0.1, 1.0)),
        (Mandelbrot, "zoom=1:1e30:x4", ("1", "10000000000", "1e+20", "1e+30")),
        (Mandelbrot, "center=-0.75,0;-1.4,1e-30", (("-0.75", "0"), ("-1.4", "1e-30"))),
    ],
)
def test_values_to_be_tried_are_a_list_or_a_range(kind, text, values):
    name = text.partition("=")[0]
    if values is None:
        with pytest.raises(SceneError, match="text must be a finite number, not 'a'"):
            axes_of(kind, [text])
    else:
        assert axes_of(kind, [text]) == {name: values}


def test_every_combination_is_a_row_with_the_facts_of_its_lab(tmp_path, here, capsys):
    path = tmp_path / "heat.csv"
    assert main([*COMMAND, "--out", str(path)]) == 0
    assert "6 rows, 4 made, 2 refused" in capsys.readouterr().err
    rows = read_csv(path)
    assert [(each["r"], each["ny"]) for each in rows] == list(product(("0.05", "0.2"), ("8", "16", "99999")))
    for each in rows:
        if each["ny"] == "99999":
            assert each["status"] == "refused"
            assert "ny' must be at most 16384, not 99999" in each["why"]
            assert each["maximum"] == each["compute_ms"] == ""
            continue
        lab = Diffusion(nx=21, ny=int(each["ny"]), r=float(each["r"]))
        lab.advance(30)
        field = lab.field()
        assert (float(each["minimum"]), float(each["maximum"])) == (field.min(), field.max())
        assert float(each["heat"]) == pytest.approx(field.sum(dtype=float), abs=1e-4)
        assert (each["step"], each["timed_steps"], each["status"], each["why"]) == ("30", "30", "made", "")
        assert 0 < float(each["compute_ms"]) <= float(each["wall_ms"])
        assert (each["first_call"], each["timed_during_sweep"]) == ("false", "true")
        assert each["r (result)"] == each["r"]
    beside = json.loads(path.with_name("heat.csv.json").read_text(encoding="utf-8"))
    assert (beside["axes"]["ny"], beside["values"], beside["steps"]) == ([8, 16, 99999], {"nx": 21}, 30)
    assert "measured during a sweep" in beside["timings"]
    assert "fieldlab sweep diffusion" in beside["made"]["command"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.csv", "heat.csv.json"]


def test_parquet_has_the_same_table_with_types(tmp_path, here):
    for name in ("heat.csv", "heat.parquet"):
        assert main([*COMMAND, "--vary", "unstable=true", "--out", str(tmp_path / name)]) == 0
    table = pq.read_table(tmp_path / "heat.parquet")
    kinds = {"r": "double", "ny": "int64", "unstable": "bool", "why": "string", "heat": "double"}
    assert {name: str(table.schema.field(name).type) for name in kinds} == kinds
    plain = read_csv(tmp_path / "heat.csv")
    assert table.column_names == list(plain[0])
    for name in ("r", "ny", "status", "why", "maximum", "heat"):
        for value, text in zip(table[name].to_pylist(), (each[name] for each in plain), strict=True):
            assert (text if isinstance(value, str) else type(value)(text) if text else None) == value
    assert json.loads(table.schema.metadata[b"fieldlab"])["axes"]["r"] == [0.05, 0.2]


def test_other_labs_are_swept_too(tmp_path, here):
    path = tmp_path / "noise.csv"
    grid = ["--set", "problem=shaw", "--set", "n=32", "--vary", "noise=1e-4:1e-2:x2"]
    assert main(["sweep", "l_curve", *grid, "--out", str(path)]) == 0
    for each in read_csv(path):
        lab = LCurve(problem="shaw", n=32, noise=float(each["noise"]))
        lab.solve()
        facts = lab.frame().facts
        assert len([name for name in facts if each.get(name) and math.isfinite(facts[name])]) > 3
        assert (each["problem"], float(each["steps"])) == ("shaw", facts["steps"])


def test_what_was_stopped_goes_on_and_others_rows_are_not_taken(tmp_path):
    path = tmp_path / "heat.csv"
    with pytest.raises(KeyboardInterrupt):
        TableMaker(HEAT, path).run(InProcess(stop=4))
    assert not path.exists()
    assert "4 of 6 rows are kept" in TableMaker(HEAT, path).parts.words
    with pytest.raises(SceneError, match="rows holds rows of another plan"):
        TableMaker(ParameterSweep("diffusion", {}, {"r": (0.1,)}, 30), path).run(InProcess())
    second = InProcess()
    assert TableMaker(HEAT, path).run(second) == {"made": 4, "refused": 2}
    assert second.made == [4, 5]
    assert len(read_csv(path)) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.csv", "heat.csv.json"]


def test_processes_make_the_same_rows(tmp_path):
    path = tmp_path / "heat.csv"
    assert main([*COMMAND, "--out", str(path), "--workers", "2"]) == 0
    for number, each in enumerate(read_csv(path)):
        facts = json.loads(row(HEAT.plain(), number)[1])["facts"]
        assert each["status"] == ("made" if facts else "refused")
        assert all(float(each["r (result)" if name == "r" else name]) == value for name, value in facts.items())


def test_a_row_that_fails_is_told_from_one_that_is_refused(tmp_path, here, monkeypatch, capsys):
    def broken(*_):
        raise ArithmeticError("the moon is in the way")

    monkeypatch.setattr(Diffusion, "data", broken)
    monkeypatch.setattr("compute.export.sweep._warm", lambda *_: None)
    monkeypatch.setattr(Diffusion, "frame", broken)
    assert main(["sweep", "diffusion", "--vary", "ny=8,0", "--out", str(tmp_path / "a.csv")]) == 1
    assert [(each["status"], each["why"][:8]) for each in read_csv(tmp_path / "a.csv")] == [
        ("failed", "the moon"),
        ("refused", "Integer "),
    ]
    assert "1 failed, 1 refused" in capsys.readouterr().err


def test_without_pyarrow_it_is_said_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main([*COMMAND, "--out", str(tmp_path / "a.parquet")]) == 2
    assert "Parquet needs the package pyarrow: pip install 'fieldlab[data]'" in capsys.readouterr().err


def test_columns_of_many_kinds_are_text(tmp_path):
    rows = [{"a": (1, 2), "b": True, "c": 1, "d": math.nan}, {"a": "x", "b": None, "c": 2.5, "e": 'ü, "ö"\n'}]
    for name in ("t.csv", "t.parquet"):
        table_format(tmp_path / name).write(tmp_path / name, rows, "{}")
    first, second = read_csv(tmp_path / "t.csv")
    assert first == {"a": "[1, 2]", "b": "true", "c": "1", "d": "nan", "e": ""}
    assert second == {"a": "x", "b": "", "c": "2.5", "d": "", "e": 'ü, "ö"\n'}
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.schema.types == [pa.string(), pa.bool_(), pa.float64(), pa.float64(), pa.string()]
    assert table["a"].to_pylist() == ["[1, 2]", "x"]
    assert np.isnan(table["d"][0].as_py())
    assert table["c"].to_pylist() == [1.0, 2.5]
    assert Path(tmp_path / "t.csv").read_bytes().count(b"\r") == 0


def heard(part, words):
    """Ignore progress."""


def test_a_table_of_which_no_row_could_be_made_is_no_success(tmp_path):
    sweep = ParameterSweep("diffusion", {}, {"ny": (0, 99999)}, 1)
    with pytest.raises(SceneError, match=r"none of its 2 rows could be made; the first: .*ny' must be at least 1"):
        tasks.table(sweep, tmp_path / "t.csv", heard)
    assert tasks.table(ParameterSweep("diffusion", {"nx": 9}, {"ny": (9, 99999)}, 1), tmp_path / "u.csv", heard) == {
        "made": 1, "refused": 1,
    }  # fmt: skip
