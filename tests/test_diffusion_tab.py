"""The diffusion tab without a browser: what its curves and its words say of a lab's frames."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document

from app.diffusion.stage import DiffusionStage
from compute.labs.diffusion import Diffusion


class Probed:
    """A lab whose frames a stage shows, without an engine between them."""

    def __init__(self, **values):
        self.lab = Diffusion(**{"ny": 32, "nx": 32, "backend": "cpu_numpy", **values})
        gate = SimpleNamespace(acknowledge=lambda *heard: None)
        self.session = SimpleNamespace(
            document=Document(), gate=gate, values=self.lab.values(), latest=None, look=lambda view, pixels: None,
            change=self._change,
        )  # fmt: skip
        self.stage = DiffusionStage(self.session, (1200, 800))

    def _change(self, **values):
        self.session.values.update(values)
        self.lab.update(**values)

    def see(self):
        """A frame arrives, and the page's loop comes round."""
        self.session.latest = self.lab.frame()
        self.stage.tick()

    def run(self, *steps):
        """One frame after each of these numbers of steps."""
        for each in steps:
            self.lab.advance(each)
            self.see()

    def curve(self):
        """(steps, values) that the probe's plot draws."""
        return tuple(np.array(column).tolist() for column in self.stage.series.sources[0].data.values())


def begin_anew(tab):
    """Ways to another field, each with what it leaves the lab's step count at."""
    lab = tab.lab
    elsewhere = Diffusion(ny=32, nx=32, backend="cpu_numpy", preset="step")
    elsewhere.advance(60)
    lab.checkpoint()
    tab.run(10)
    return {
        "preset": lambda: lab.update(preset="single mode"),
        "reset": lab.reset,
        "restore": lambda: lab.restore(elsewhere.snapshot()),
        "rollback": lab.rollback,
        "load": lambda: lab.load(np.full((32, 32), 0.25)),
    }


@pytest.mark.parametrize("act", ["preset", "reset", "restore", "rollback", "load"])
@pytest.mark.parametrize("before", [0, 30])
def test_the_probe_curve_begins_anew_with_another_field(act, before):
    """Whatever step the new field has, no sample of the old one is joined to its own."""
    tab = Probed(preset="hot spots")
    tab.see()
    ways = begin_anew(tab)
    if before:
        tab.run(*[10] * (before // 10))
    ways[act]()
    at, field = tab.lab.steps, tab.lab.field()
    tab.see()
    assert tab.curve() == ([at], [pytest.approx(float(field[16, 16]))])
    tab.run(5, 5)
    assert tab.curve()[0] == [at, at + 5, at + 10]


def test_paused_a_new_preset_is_not_joined_to_the_old_one():
    """As it was seen: gaussian (1 in the middle), paused, then a mode that is 0 there at all times: no fall."""
    tab = Probed(preset="gaussian")
    tab.see()
    assert tab.curve()[1][0] > 0.9
    tab.lab.update(preset="single mode", mode_p=2, mode_q=1)
    tab.see()
    tab.run(20, 20)
    steps, values = tab.curve()
    assert steps == [0, 20, 40]
    middle = np.cos(np.pi * 2 * 16.5 / 32) * np.cos(np.pi * 16.5 / 32)  # of the cell at the probe
    assert abs(values[0] - middle) < 1e-6
    assert max(np.abs(np.diff(values))) < 0.1


def test_another_place_of_the_probe_begins_anew_and_no_old_frame_joins_it():
    """Paused, the newest frame is still of the old place until the next one comes."""
    tab = Probed(preset="gaussian")
    tab.see()
    tab.stage._probe(2.0, 2.0)
    tab.stage.tick()  # before the engine's next frame
    tab.see()
    assert tab.curve() == ([0], [pytest.approx(float(tab.lab.field()[2, 2]))])


def test_a_stroke_is_drawn_as_a_step_where_it_was_made():
    tab = Probed(preset="gaussian")
    tab.see()
    tab.run(10)
    untouched = float(tab.lab.field()[16, 16])
    for value in (0.5, 0.25, 0.0):  # a stroke of several frames, at the same step
        tab.lab.paint([(16.0, 16.0)], value, 3.0)
        tab.see()
    tab.run(10)
    steps, values = tab.curve()
    assert steps == [0, 10, 10, 20]
    assert values[1:3] == [pytest.approx(untouched), 0.0]


@pytest.mark.parametrize("values", [{"backend": "cpu_numba"}, {"dtype": "float64"}, {"r": 0.1, "edges": "periodic"}])
def test_one_run_goes_on_over_a_change_of_how_it_is_computed(values):
    tab = Probed(preset="gaussian")
    tab.see()
    tab.run(10)
    tab.lab.update(**values)
    tab.run(10)
    assert tab.curve()[0] == [0, 10, 20]


def test_a_new_grid_begins_anew():
    tab = Probed(preset="gaussian")
    tab.see()
    tab.run(10)
    tab.lab.update(ny=48, nx=48)
    tab.session.values.update(ny=48, nx=48)
    tab.stage.resized()
    tab.stage.tick()  # the newest frame is still of the old grid
    tab.run(10)
    assert tab.curve()[0] == [10]


def test_an_engine_that_died_goes_on_with_the_run_it_had():
    """The state that was kept is some steps older: samples after it are of a future that did not come about."""
    tab = Probed(preset="gaussian")
    tab.see()
    tab.run(10, 10)
    kept = tab.lab.snapshot()
    tab.run(10, 10)
    tab.lab = Diffusion(ny=32, nx=32, backend="cpu_numpy", preset="gaussian")
    tab.lab.restore(kept)
    tab.see()
    assert tab.curve()[0] == [0, 10, 20]
    tab.run(10)
    assert tab.curve()[0] == [0, 10, 20, 30]
