"""Links, pictures, films, numbers, tables and records of the first edition open with the same results."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from PIL import Image, ImageSequence

from app.tab.restore import scene_in
from compute.__main__ import OK, main
from compute.export import render
from compute.export.link import packed, unpacked
from compute.labs import lab_class
from compute.measure import records

WRITTEN = Path(__file__).parents[2] / "data" / "first_edition"
LINKS = json.loads((WRITTEN / "links.json").read_text(encoding="utf-8"))
PARAMETERS = json.loads((WRITTEN / "parameters.json").read_text(encoding="utf-8"))
OPTIONS = json.loads((WRITTEN / "options.json").read_text(encoding="utf-8"))
PICTURES = ("painted", "laplacian", "deep", "seahorse")
TAKEN = ("_ms", "first_call")  # columns of times, which depend on the machine


def plain(value):
    """Return the value after a round trip through JSON."""
    return json.loads(json.dumps(value, default=str))


def require_alike(found, wanted):
    """Require equal pictures, except single pixels between two levels: their rounding depends on the machine."""
    assert found.shape == wanted.shape
    assert np.ptp(wanted) > 100  # the picture is not empty
    apart = np.abs(found.astype(int) - wanted.astype(int)).max(axis=-1)
    assert np.mean(apart > 0) <= 0.01
    assert apart.max() <= 16  # a level or two, in the steepest part of a palette


def pixels_of(path):
    with Image.open(path) as opened:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(opened)]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_means_what_it_meant(name):
    scene = unpacked(LINKS[name]["link"])
    assert scene == structs.replace(scene_in(json.dumps(LINKS[name]["scene"])), size=scene.size, look=scene.look)
    said = LINKS[name]["scene"]
    assert structs.asdict(scene.colours) == said["look"]  # a link leaves out the default
    assert plain({**scene.values}) == said["values"]
    assert plain(scene.history) == said["history"]
    assert (scene.lab, scene.steps, scene.part) == (said["lab"], said["steps"], said["part"])
    structs.replace(scene, values={**scene.values, "backend": "cpu_numpy"}).check()  # whatever backend made it
    assert unpacked(packed(scene)) == scene


def test_whatever_a_link_or_a_file_leaves_out_is_what_it_was():
    for of, parameters in PARAMETERS.items():
        for name, was in parameters.items():
            parameter = lab_class(of).param[name]
            assert plain(parameter.default) == was["default"], (of, name)
            if "bounds" in was:
                (low, high), (least, most) = was["bounds"], parameter.bounds
                assert least is None or (low is not None and least <= low), (of, name)
                assert most is None or (high is not None and high <= most), (of, name)
            if "choices" in was:
                assert set(was["choices"]) <= set(plain(list(parameter.objects))), (of, name)


@pytest.mark.parametrize("command", OPTIONS)
def test_a_command_takes_the_options_that_it_took(command, capsys):
    assert main([command, "--help"]) == OK
    said = capsys.readouterr().out
    assert [option for option in OPTIONS[command] if not re.search(rf"{option}\b", said)] == []


@pytest.mark.parametrize("backend", ["cpu_numpy", "cpu_numba"])
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_made_again_from_what_it_says_of_itself(name, backend):
    data = (WRITTEN / f"{name}.png").read_bytes()
    with Image.open(WRITTEN / f"{name}.png") as opened:
        scene = scene_in(opened.text[render.TEXT])
    assert scene.size == render.read_png(data).shape[:2]
    again = render.pixels(structs.replace(scene, values={**scene.values, "backend": backend}))
    require_alike(again, render.read_png(data))


@pytest.mark.parametrize("name", ["film", "dive"])
def test_a_film_is_made_again_from_the_file_beside_it(name, tmp_path):
    command = ["render", str(WRITTEN / f"{name}.gif.json"), "--workers", "1", "--out", str(tmp_path / "again.gif")]
    assert main(command) == OK
    found, wanted = pixels_of(tmp_path / "again.gif"), pixels_of(WRITTEN / f"{name}.gif")
    assert len(found) == len(wanted) >= 3
    for one, was in zip(found, wanted, strict=True):
        require_alike(one, was)
    assert not np.array_equal(wanted[0], wanted[-1])
    said = json.loads((WRITTEN / f"{name}.gif.json").read_text(encoding="utf-8"))
    assert scene_in(json.dumps(said)).lab == said["scene"]["lab"]  # a page on which it is dropped shows its first frame


@pytest.mark.parametrize("name", ["field", "shaw"])
def test_numbers_are_made_again_from_the_file_beside_them(name, tmp_path):
    assert main(["render", str(WRITTEN / f"{name}.npz.json"), "--out", str(tmp_path / "again.npz")]) == OK
    with np.load(WRITTEN / f"{name}.npz") as was, np.load(tmp_path / "again.npz") as found:
        assert found.files == was.files
        numbers = [array for array in was.files if was[array].dtype.kind == "f"]
        assert numbers
        for array in numbers:
            assert found[array].dtype == was[array].dtype
            np.testing.assert_allclose(found[array], was[array], rtol=1e-9, atol=1e-14)


def test_a_table_has_the_same_columns_and_results(tmp_path):
    vary = ["--vary", "r=0.05,0.2", "--vary", "dtype=float32,float64"]
    fixed = ["--set", "backend=cpu_numpy", "--set", "ny=24", "--set", "nx=32", "--steps", "50", "--workers", "1"]
    assert main(["sweep", "diffusion", *vary, *fixed, "--out", str(tmp_path / "again.csv")]) == OK
    was, found = (
        list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        for path in (WRITTEN / "sweep.csv", tmp_path / "again.csv")
    )
    assert len(found) == len(was) == 4
    for row, old in zip(found, was, strict=True):
        # The first edition counted the drift from the first frame, here the last one: 0. The sum of hot spots is 44.
        old["heat_drift"] = (float(old["heat"]) - 44) / 44
        assert [name for name in row if name in old] == list(old)  # in the old order, possibly with further columns
        for name in old:
            if not name.endswith(TAKEN):
                same = row[name] == old[name] or float(row[name]) == pytest.approx(float(old[name]), rel=1e-6, abs=1e-9)
                assert same, (name, row[name], old[name])


def test_a_record_is_read_and_compared_with(tmp_path, capsys):
    record = records.load(WRITTEN / "record.json")
    figures = records.recorded(record)
    assert len(figures) == len([one for one in record["results"] if one["status"] == "measured"]) == 4
    assert all(figure.step > 0 and lab_class(figure.lab) for figure in figures)
    small = ["--sizes", "64", "--backends", "cpu_numpy", "--dtypes", "float64", "--budget", "0.2"]
    assert main(["bench", "diffusion", *small, "--compare", str(WRITTEN / "record.json")]) == OK
    said = capsys.readouterr().out
    assert "Compared with" in said
    assert "commit then 8bea1ec052df" in said
