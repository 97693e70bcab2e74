"""The headline of the start page is measured before a page is open, and the page finds it."""

from __future__ import annotations

from functools import partial

from app.readout.comparison import CALM, Comparison
from app.readout.first_headline import LONGEST, FirstHeadline
from app.tab.lab_view import first_values, parts_of
from compute.labs import LABS
from compute.labs.diffusion import Diffusion
from compute.measure.benchmark import benchmark_of
from compute.measure.verdict import ResultCache
from tests.comparing import Handle


class Hall:
    """A server that has just started, with a fake clock; asked: (engine, values) of each opened lab."""

    def __init__(self, kind=Handle):
        self.now, self.asked, self.results = 0.0, [], ResultCache()
        self.open = partial(kind, Diffusion, self.asked)
        self.first = FirstHeadline(Diffusion, self.open, self.results, lambda: self.now)

    def wait(self, seconds):
        end = self.now + seconds
        while self.now < end and not self.first.tick():
            self.now += 0.25


class Silent(Handle):
    """A lab that never answers."""

    def run(self, work):
        pass


def test_a_page_finds_the_headline_that_was_measured_before_it_opened():
    hall = Hall()
    hall.wait(LONGEST)
    assert hall.first.over
    asked = len(hall.asked)
    assert asked > 0
    known = [one.name for one in Diffusion.backends()]
    page = Comparison(Diffusion.LAB, benchmark_of(Diffusion).rules, hall.open, hall.results, lambda: hall.now, known)
    page.follow({**Diffusion.param.values(), **first_values(Diffusion, parts_of(Diffusion))})
    assert page.verdict().speed_up is not None
    hall.now += CALM
    assert hall.first.tick()
    assert len(hall.asked) == asked  # nothing more is measured


def test_a_page_measures_itself_if_an_engine_does_not_answer():
    hall = Hall(Silent)
    hall.wait(2 * LONGEST)
    assert hall.first.over
    assert LONGEST <= hall.now < LONGEST + 1
    page = Comparison(Diffusion.LAB, benchmark_of(Diffusion).rules, hall.open, hall.results, lambda: hall.now)
    page.follow(Diffusion.param.values())
    page.tick()
    assert len(hall.asked) == 2  # its claim was released


def test_the_first_lab_of_the_page_has_a_headline():
    assert benchmark_of(LABS[0]).rules is not None
