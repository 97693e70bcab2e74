"""When a page's race begins, on a page that is not there. tests/browser/test_race.py has it in whole."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from app import race, readout
from app.explain import WORDS
from app.page import Page
from app.race import RaceTrack
from compute.export.jobs import RACE
from compute.export.scene import Style
from compute.export.shared_jobs import SharedJobs
from compute.labs.diffusion import Diffusion
from compute.measure import conditions
from compute.measure.records import Recorded
from compute.measure.statistics import Spread
from compute.race import LEGS, Lane, Race, Racer, RaceResult


@pytest.fixture
def page(monkeypatch):
    """One tab, whose lab cannot race: `page.told` is what was said of it, `page.waiting` what is to come."""

    def refuse(*_given):
        raise ValueError("there is one backend")

    monkeypatch.setattr(race, "default_racers", refuse)
    made = SimpleNamespace(told=[], waiting=[])
    made.document = SimpleNamespace(add_timeout_callback=lambda call, _ms: made.waiting.append(call))
    notices = SimpleNamespace(tell=lambda _kind, text: made.told.append(text))
    made.current = SimpleNamespace(drawn=False, notices=notices, session=SimpleNamespace(values={}, lab=Diffusion))
    return made


def test_a_press_before_the_plots_are_drawn_is_heard_once_they_are(page):
    track = RaceTrack(page)
    track.toggle()
    track.toggle()  # impatient
    assert (page.told, len(page.waiting)) == ([], 1)
    page.waiting.pop()()
    assert (page.told, len(page.waiting)) == ([], 1)  # still not
    page.current.drawn = True
    page.waiting.pop()()
    assert (page.told, page.waiting) == (["No race here: there is one backend."], [])


def test_it_is_forgotten_with_the_tab(page):
    track = RaceTrack(page)
    track.toggle()
    page.current = SimpleNamespace(drawn=True)
    page.waiting.pop()()
    assert (page.told, page.waiting) == ([], [])


@pytest.fixture(autouse=True)
def races(monkeypatch):
    """No race that another test has asked for."""
    monkeypatch.setattr(race, "RACES", SharedJobs(race.picture_bytes, race.KEPT, race.FRESH))


class Finished:
    """A job that has run a race at once."""

    over, state, part, words, text = True, "done", 1.0, "", ""

    def __init__(self, *_given, **_named):
        self.ended = time.monotonic()
        step = Spread(1e-3, 1e-3, 1e-3, LEGS)
        lanes = tuple(Lane(Racer(name), step, (0.0, 1.0)) for name in ("cpu_numpy", "cpu_numba"))
        levels = np.zeros((8, 8), np.uint8)
        self.result = RaceResult(lanes, LEGS, tuple(range(LEGS + 1)), (levels,) * (LEGS + 1), "8 × 8 cells")

    def start(self):
        """It is over already."""

    cancel = start


@pytest.fixture
def racing(page, monkeypatch):
    """The track of that page, whose tab can race now; `racing(steps)` runs one to its end and returns what it says."""
    monkeypatch.setattr(race, "Job", Finished)
    monkeypatch.setattr(race, "default_racers", lambda *_given: (Racer("cpu_numpy"), Racer("cpu_numba")))
    page.document.add_periodic_callback = lambda call, _ms: page.waiting.append(call) or call
    page.document.remove_periodic_callback = page.waiting.remove
    page.current.drawn, page.current.show = True, lambda shown: None
    page.current.session.latest = None
    page.current.controls = SimpleNamespace(style=lambda _part: Style())
    track = RaceTrack(page)

    def run():
        track.begin(LEGS)
        give_up_at = time.monotonic() + 60
        while page.waiting and time.monotonic() < give_up_at:
            page.waiting[0]()
            time.sleep(0.01)
        return track.card.content

    return run


def test_the_end_of_a_race_is_drawn_beside_the_loop_and_records_are_read_once(racing, monkeypatch):
    drawing, read, png = set(), [], race.png
    monkeypatch.setattr(race, "png", lambda *given: drawing.add(threading.get_ident()) or png(*given))
    for module in (race, readout):
        monkeypatch.setattr(module, "library", lambda: read.append(1) or ([], []), raising=False)
    readout.recorded_figures.cache_clear()
    for _ in range(2):
        assert len(racing()["pictures"]) == LEGS + 1
    readout.recorded_figures.cache_clear()
    assert drawing
    assert threading.get_ident() not in drawing
    assert len(read) == 1


def test_the_words_of_the_card_come_with_their_explanations(racing):
    told = racing()
    assert told["words"] == {word: WORDS[word] for word in ("recorded", "median", "noisy", "compute")}
    assert "markWords(body, model.content.words" in race.RaceCard._esm
    assert "export function markWords(" in race.RaceCard._esm


@pytest.mark.parametrize(("others", "said"), [(1.5, True), (0.1, False), (None, False)])
def test_a_race_beside_other_work_says_so(others, said, monkeypatch):
    monkeypatch.setattr(conditions.psutil, "cpu_count", lambda: 2)
    race_of_two = Race(Diffusion, {}, (Racer("cpu_numpy"), Racer("cpu_numba")), LEGS)
    told = list(race.notes(replace(Finished().result, others=others), race_of_two))
    words = "Other processes kept 1.5 of 2 CPU threads busy meanwhile: times may be longer than on an idle computer."
    assert (words in told, len(told)) == (said, 1 + said)


def test_pictures_that_cannot_be_drawn_are_told(racing, page, monkeypatch, caplog):
    def fail(*given):
        raise MemoryError("no room")

    monkeypatch.setattr(race, "png", fail)
    said = racing()
    assert said["failed"] == "its pictures could not be drawn: no room (this is an error of Fieldlab)"
    assert page.waiting == []
    assert "MemoryError" in caplog.text


class Queued:
    """A job that waits for its turn until told otherwise; `made` are all of them, `shown` what became of the lab."""

    part, words, text, before, over = 0.0, "", "", 3, False
    made: list[Queued]

    def __init__(self, task, lane, _client, keeps):
        self.lane, self.keeps, self.state, self.cancelled = lane, keeps, "waiting", False
        self.made.append(self)

    def start(self):
        """It has to wait."""

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def queued(page, racing, monkeypatch):
    """A page whose race waits: its track; `page.shown` is whether its lab was shown or rested, in turn."""
    page.shown = []
    page.current.show = page.shown.append
    monkeypatch.setattr(Queued, "made", [], raising=False)
    monkeypatch.setattr(race, "Job", Queued)
    track = RaceTrack(page)
    track.begin(LEGS)
    return track


def test_the_lab_goes_on_while_its_race_waits_for_its_turn_and_its_place_is_said(queued, page):
    (job,) = Queued.made
    assert (job.lane, job.keeps) == (RACE, True)
    assert queued.card.content["waiting"] == "Waiting: 3 races before this one"
    job.before = 1
    page.waiting[0]()
    assert queued.card.content["waiting"] == "Waiting: 1 race before this one"
    assert (page.shown, queued.rests) == ([], False)
    job.state = "running"
    page.waiting[0]()
    assert (queued.card.content["doing"], "waiting" in queued.card.content) == ("starting", False)
    page.waiting[0]()
    assert (page.shown, queued.rests) == ([False], True)
    queued.close()
    assert (page.shown, queued.rests) == ([False, True], False)


def test_a_race_that_is_closed_while_it_waits_leaves_the_lab_as_it_is(queued, page):
    queued.close()
    assert Queued.made[0].cancelled
    assert (page.shown, page.waiting) == ([], [])


def test_another_race_after_one_lets_the_lab_go_on_if_it_has_to_wait(queued, page):
    Queued.made[0].state = "running"
    page.waiting[0]()
    queued.begin(2 * LEGS)
    assert page.shown == [False]  # the turn of the first may be back at once
    page.waiting[0]()
    assert page.shown == [False, True]
    Queued.made[1].state = "running"
    page.waiting[0]()
    assert page.shown == [False, True, False]


@pytest.mark.parametrize(("state", "goes_on"), [("waiting", True), ("running", False)])
def test_a_browser_that_is_there_again_shows_the_lab_unless_a_race_runs(state, goes_on, queued, page):
    Queued.made[0].state = state
    page.waiting[0]()
    page.shown.clear()
    nobody = SimpleNamespace(show=id)
    back = SimpleNamespace(document=SimpleNamespace(session_context=None), system=nobody, audience=nobody,
                           current=page.current, race=queued)  # fmt: skip
    Page._show(back, True)
    assert page.shown == [goes_on]


def test_equal_races_of_several_pages_are_run_once(queued, page):
    other = RaceTrack(page)
    other.begin(LEGS)
    assert len(Queued.made) == 1
    queued.give_up()
    assert not Queued.made[0].cancelled
    other.begin(2 * LEGS)  # nobody waits for the first any more
    assert [job.cancelled for job in Queued.made] == [True, False]
    assert other.card.content["waiting"]


def test_who_presses_again_gets_a_new_measurement(racing, monkeypatch):
    made = []
    monkeypatch.setattr(race, "Job", lambda *given, **named: made.append(given) or Finished())
    for _ in range(2):
        assert racing()["lanes"]
    assert len(made) == 2


TWO = (Racer("cpu_numpy"), Racer("cpu_numba"))
RACED = Race(Diffusion, {"ny": 24, "nx": 32, "limits_field": (0.0, 1.0), "image": np.zeros(2000)}, TWO, LEGS)
WAS = Recorded("diffusion", "H200", "2026-11-21", "gpu_cupy", "T-step", 24, 32, "float32", "zero-flux", 1e-5, 5.76e7)


def test_the_key_of_a_race_is_that_of_equal_ones_alone():
    values = RACED.values
    turned = dict(reversed([*values.items()]), image=np.zeros(2000))
    assert race.race_key(RACED) == race.race_key(replace(RACED, values=turned))
    others = [
        replace(RACED, steps=2 * LEGS),
        replace(RACED, values={**values, "ny": 25}),
        replace(RACED, values={**values, "image": np.where(np.arange(2000) == 1000, 1.0, 0.0)}),  # its repr has "..."
        replace(RACED, racers=TWO[::-1]),
        replace(RACED, racers=(*TWO, Racer("gpu_cupy", "T-step", WAS))),
        replace(RACED, racers=(*TWO, Racer("gpu_cupy", "T-step", replace(WAS, step=2e-5)))),
    ]
    assert len({race.race_key(one) for one in (RACED, *others)}) == 1 + len(others)


def test_a_race_on_a_gpu_keeps_no_process(queued):
    on_one = SimpleNamespace(lab=Diffusion, racers=(Racer("cpu_numpy"), Racer("gpu_cupy")))
    assert not race.begun(on_one, 1).keeps
    recorded_one = SimpleNamespace(lab=Diffusion, racers=(*TWO, Racer("gpu_cupy", "T-step", WAS)))
    assert race.begun(recorded_one, 1).keeps
