"""Recorded numbers only: nothing is measured, and the records of one chip are shown with its name and date."""

from __future__ import annotations

import argparse
import re
from types import SimpleNamespace

import pytest

from app.readout import readout
from app.readout.comparison import Comparison
from app.readout.numbers import VARIABLE, Numbers, asked_chip, kept_chip
from app.readout.readout import Readout, recorded_figures
from compute.cli import serve_options
from compute.labs.diffusion import Diffusion
from compute.labs.mandelbrot import Mandelbrot
from compute.measure.records import Recorded, chip_key, chip_names
from tests.app.readout.test_readout import TIMING, Roof, session


def figure(machine, backend, rate, **others):
    """Return a recorded figure of 512 x 512 cells."""
    values = {"lab": "diffusion", "date": "2026-11-21", "variant": "one-step", "dtype": "float32", "case": "zero-flux"}
    return Recorded(**{**values, **others}, machine=machine, backend=backend, ny=512, nx=512,
                    step=512**2 / rate, rate=rate, q1=512**2 / rate, q3=512**2 / rate)  # fmt: skip


FIGURES = (
    figure("NVIDIA H200", "gpu_cupy", 2.5e11),
    figure("NVIDIA H200", "cpu_numba", 1e10),
    figure("NVIDIA H100", "gpu_cupy", 1.5e11, date="2026-11-26"),
)
NAMES = chip_names(FIGURES)


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """Use these records, and fail if anything is measured."""
    monkeypatch.setattr(readout, "recorded_figures", lambda: FIGURES)

    def start(*_args, **_options):
        pytest.fail("a measurement was started")

    monkeypatch.setattr(Roof, "start", start)
    monkeypatch.setattr(readout, "machine_roofs", Roof)
    for name in ("tick", "follow", "record_live"):
        monkeypatch.setattr(Comparison, name, start)


def shown(made):
    """Return the text of the column after a tick and a painted frame."""
    made.details.unfold()
    made.on_painted(TIMING)
    made.tick()
    return re.sub(r"<[^>]*>", " ", f"{made._text.object} {made._details.object}")


@pytest.mark.parametrize(
    ("chip", "said", "absent"),
    [
        ("nvidia-h200", ("25", "NVIDIA H200, 2026-11-21", "Nothing is measured now", "CPU of NVIDIA H200"), "H100"),
        ("nvidia-h100", ("150", "NVIDIA H100, 2026-11-26", "Nothing is measured now"), "H200"),
    ],
)
def test_only_the_records_of_the_chip_are_shown_with_their_date(chip, said, absent):
    made = Readout(session(Diffusion, backend="cpu_numba", ny=512, nx=512), Numbers(NAMES, chip))
    words = shown(made)
    assert all(each in words for each in said)
    assert absent not in words
    assert "This computer" not in words
    assert not made.again.visible
    assert not made._plot.visible
    assert made.shown.empty
    assert "recorded" in made.headline  # of the bar at the bottom
    made.close()


def test_a_lab_without_a_record_of_the_chip_says_so():
    made = Readout(session(Mandelbrot), Numbers(NAMES, "nvidia-h200"))
    assert "This lab has no record of NVIDIA H200" in shown(made)
    made.close()


def test_the_list_of_one_lab_sets_the_numbers_of_the_page(monkeypatch):
    numbers, ended = Numbers(NAMES), []
    monkeypatch.setattr(Comparison, "let_go", lambda _: ended.append("ended"))
    one, other = (Readout(session(Diffusion, ny=512, nx=512), numbers) for _ in range(2))
    assert one.again.visible
    one.source.value = "nvidia-h100"
    assert (numbers.chip, other.source.value, other.again.visible) == ("nvidia-h100", "nvidia-h100", False)
    assert len(ended) == 2  # the running measurements
    assert "NVIDIA H100, 2026-11-26" in shown(other)
    other.source.value = ""
    assert (one._chip, one.again.visible, one._plot.visible) == ("", True, True)
    with pytest.raises(pytest.fail.Exception, match="a measurement was started"):
        one.tick()
    one.close()
    other.close()


def asked(query):
    request = SimpleNamespace(arguments={"recorded": [query.encode()]} if query is not None else {})
    return asked_chip(SimpleNamespace(session_context=SimpleNamespace(request=request)), NAMES)


def test_the_address_has_precedence_over_the_server_s_option(monkeypatch):
    assert asked(None) == ""
    assert asked("nvidia-h100") == "nvidia-h100"
    monkeypatch.setenv(VARIABLE, "nvidia-h200")
    assert asked(None) == "nvidia-h200"
    assert asked("nvidia-h100") == "nvidia-h100"
    assert asked("none") == ""
    assert [kept_chip(chip) for chip in ("nvidia-h200", "nvidia-h100", "")] == ["", "nvidia-h100", "none"]
    with pytest.raises(ValueError, match="recorded must be one of none, nvidia-h100, nvidia-h200, not 'h300'"):
        asked("h300")


def test_the_server_s_option_names_a_chip_with_records(capsys):
    parser = argparse.ArgumentParser()
    serve_options.add(parser)
    chip = next(iter(chip_names(recorded_figures.__wrapped__())))
    assert serve_options.parse(parser, ["--recorded", chip]).recorded == chip
    with pytest.raises(SystemExit):
        serve_options.parse(parser, ["--recorded", "h300"])
    assert f"must be one of {chip}" in capsys.readouterr().err


def test_keys_of_chips_are_safe_in_an_address():
    assert chip_key("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    assert NAMES == {"nvidia-h100": "NVIDIA H100", "nvidia-h200": "NVIDIA H200"}
