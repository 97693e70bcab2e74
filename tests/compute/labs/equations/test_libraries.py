"""Comparison with other libraries: the same fields, refused presets, rows of a bench and its records."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from compute.__main__ import BAD_INPUT, OK, main
from compute.labs.equations import Equations, benchmark, libraries
from compute.labs.equations.language import read
from compute.labs.equations.libraries import LIBRARIES, LibraryTarget, fill_ghosts, refusal
from compute.labs.equations.presets import presets
from compute.labs.equations.programs import program_of
from compute.labs.equations.reference import Reference
from compute.labs.equations.tree import Edge
from compute.measure import records
from compute.measure.agreement import relative_l2
from compute.measure.commands import DISAGREED
from compute.measure.target import StateTarget

BENCH = ["bench", "equations", "--sizes", "12", "--texts", "heat", "--backends", "cpu_numpy", "--dtypes", "float64"]
QUICK = [*BENCH, "--budget", "0.1", "--against"]
EDGES = {
    "periodic": Edge("periodic"), "zero-flux": Edge("zero-flux"), "fixed 0.3": Edge("fixed", 0.3),
}  # fmt: skip
TEXTS = {
    "heat": "u_t = D*lap(u); D = 0.2 in [0, 1]; u(0) = noise(1)",
    "gray_scott": presets()["gray_scott"].text,
}
needs_library = [
    pytest.param(name, marks=[
        pytest.mark.extended,  # they compile for seconds, py-pde for most of a minute
        pytest.mark.skipif(library.backend.missing is not None, reason=f"{library.backend.missing}"),
    ])
    for name, library in LIBRARIES.items()
]  # fmt: skip


class ByReference:
    """A library whose fields are those of the reference, or nearly so: ERROR is added to a cell."""

    ERROR = 0.0

    def __init__(self, program, start, numbers, dt):
        self._of = lambda arrays: Reference(program.system, *arrays["u"].shape, start=arrays, dt=dt)
        self.load(start)

    def load(self, start):
        self._now = self._of({name: array.copy() for name, array in start.items()})

    def advance(self, steps):
        self._now.advance(steps)
        self._now.arrays["u"][0, 0] += self.ERROR

    def fields(self):
        return {name: self._now.arrays[name] for name in ("u",)}


class Wrong(ByReference):
    ERROR = 1e-6


@pytest.fixture
def library(monkeypatch):
    """Register a class as the library `other`."""

    def register(solver):
        known = LIBRARIES["pystencils"]
        other = replace(known, backend=replace(known.backend, name="other", needs=()), kernel=solver)
        monkeypatch.setitem(libraries.LIBRARIES, "other", other)

    return register


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", needs_library)
def test_a_library_computes_the_fields_of_this_lab(name, text, edges):
    """On an odd grid in float64, twice from the start."""
    for dtype in LIBRARIES[name].backend.dtypes:
        lab = Equations(text=f"{TEXTS[text]}; edges: {edges}; dx = 0.9", ny=31, nx=45, dtype=dtype, time_step=0.7)
        target, ours = LibraryTarget(LIBRARIES[name], lab), StateTarget(lab)
        before = ours.result()
        for _ in range(2):
            target.begin(0)
            timing = target.advance(7)
            target.advance(3)
        ours.advance(10)
        tolerance = benchmark.TOLERANCE[dtype]
        assert relative_l2([target.result()], [ours.result()]) < tolerance < relative_l2([before], [ours.result()])
        assert (timing.steps, timing.cells, timing.backend) == (7, before.size, name)


@pytest.mark.parametrize("edges", EDGES)
def test_ghost_cells_continue_the_fields_by_their_edges(edges):
    """As the reference's ghost cells, which are tested against py-pde."""
    array = np.random.default_rng(3).random((5, 4))
    padded = np.pad(array, 1)
    fill_ghosts(padded, EDGES[edges])
    system = read(f"u_t = lap(u); edges: {edges}; dt = 0.1")
    laplacian = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * array
    step = Reference(system, 5, 4, start={"u": array}, dt=0.1)
    step.advance(1)
    np.testing.assert_allclose(array + 0.1 * laplacian, step.arrays["u"], atol=1e-14)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("heat", ""),
        ("gray_scott", ""),
        ("wave", "its scheme is symplectic, not euler"),
        ("fisher_maze", "it has a wall"),
        ("cahn_hilliard", "its equations contain mu"),
        ("burgers", "its scheme is rk3, not euler"),
    ],
)
def test_presets_outside_the_common_subset_are_refused(text, reason):
    assert refusal(program_of(presets()[text].text)) == reason


def test_texts_outside_the_common_subset_are_refused():
    edges = "u_t = lap(u); v_t = lap(v); u: fixed 1; v: zero-flux; dt = 0.1"
    assert refusal(program_of(edges)) == "its fields have different edges"
    assert refusal(program_of("u_t = lap(u) + u*dx(u)")) == "its equations contain dx(u)"
    assert refusal(program_of("u_t = lap(u^2)")) == "its equations contain lap(u^2)"


def test_a_library_is_a_row_of_the_bench_and_no_recorded_figure(library, capsys, tmp_path):
    library(ByReference)
    saved = tmp_path / "record.json"
    assert main([*QUICK, "other", "--save", str(saved)]) == OK
    assert "other C++" in capsys.readouterr().out
    record = records.load(saved)
    rows = {row["backend"]: row for row in record["results"]}
    assert list(rows) == ["other", "cpu_numpy"]
    assert rows["other"]["status"] == "measured"
    assert rows["other"]["n"] >= 6
    assert 0 < rows["other"]["first_call"] < 60
    (compared,) = (row["speed_up"] for row in rows.values() if "speed_up" in row)
    assert compared["low"] <= compared["ratio"] <= compared["high"]
    assert [figure.backend for figure in records.recorded(record)] == ["cpu_numpy"]


def test_a_library_with_other_fields_gets_no_time(library, capsys):
    library(Wrong)
    assert main([*QUICK, "other"]) == DISAGREED
    assert "results disagree, so no time  other C++" in capsys.readouterr().out


def test_a_refused_preset_is_timed_without_libraries_and_named(library, capsys):
    library(ByReference)
    command = [part.replace("heat", "wave") for part in QUICK]
    assert main([*command, "other"]) == OK
    shown = capsys.readouterr().out
    assert "wave is not compared with other: its scheme is symplectic, not euler" in shown
    assert "other C++" not in shown


def test_a_missing_or_unknown_library_is_reported_in_a_sentence(library, monkeypatch, capsys):
    library(ByReference)
    other = libraries.LIBRARIES["other"]
    absent = replace(other, backend=replace(other.backend, needs=("no_such_package",)))
    monkeypatch.setitem(libraries.LIBRARIES, "other", absent)
    assert main([*QUICK, "other"]) == BAD_INPUT
    reported = capsys.readouterr().err
    assert "--against: the package no_such_package is not installed; pip install pystencils py-cpuinfo" in reported
    assert main([*QUICK, "unknown"]) == BAD_INPUT
    assert "--against: must be some of py-pde, pystencils, other, not 'unknown'" in capsys.readouterr().err


def test_libraries_are_imported_only_when_requested():
    imported = "bool({'pde', 'sympy', 'pystencils'} & {*sys.modules})"
    script = f"import sys, compute.labs.equations.benchmark; sys.exit({imported})"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
