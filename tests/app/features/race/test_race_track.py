"""When a simulated page's race begins. tests/browser/test_race.py tests it on a real page."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from app.features.race import race
from app.features.race.race import RaceTrack
from app.labs.l_curve.controls import TOLERANCES
from app.page.page import Page
from compute.export.jobs import RACE
from compute.export.scene import Style
from compute.export.shared_jobs import SharedJobs
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.measure import conditions
from compute.measure.race import LEGS, Lane, Race, Racer, RaceResult
from compute.measure.records import Recorded
from compute.measure.statistics import Spread
from tests.waiting import until


@pytest.fixture
def page(monkeypatch):
    """Return a page with one tab and a lab that cannot race; `told`: notices, `waiting`: pending callbacks."""

    def refuse(*_given):
        raise ValueError("there is one backend")

    monkeypatch.setattr(race, "default_racers", refuse)
    made = SimpleNamespace(told=[], waiting=[])
    made.document = SimpleNamespace(add_timeout_callback=lambda call, _ms: made.waiting.append(call))
    notices = SimpleNamespace(tell=lambda _kind, text: made.told.append(text))
    session, controls = SimpleNamespace(values={}, lab=Diffusion), SimpleNamespace(only_recorded=False)
    made.current = SimpleNamespace(drawn=False, notices=notices, session=session, controls=controls)
    return made


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "left"])
def test_a_press_before_the_plots_are_drawn_is_heard_once_they_are(page, shown):
    """Unless its tab is left before."""
    track = RaceTrack(page)
    track.toggle()
    track.toggle()  # a second press
    assert (page.told, len(page.waiting)) == ([], 1)
    page.waiting.pop()()
    assert (page.told, len(page.waiting)) == ([], 1)  # the plots are still not drawn
    if shown:
        page.current.drawn = True
    else:
        page.current = SimpleNamespace(drawn=True)
    page.waiting.pop()()
    assert (page.told, page.waiting) == (["No race here: there is one backend."] * shown, [])


def test_a_page_with_recorded_numbers_only_does_not_race(page):
    page.current.drawn = page.current.controls.only_recorded = True
    RaceTrack(page).toggle()
    assert page.told == [f"No race here: {race.NO_MEASUREMENTS}."]


@pytest.fixture(autouse=True)
def races(monkeypatch):
    """Start without races requested by other tests."""
    monkeypatch.setattr(race, "RACES", SharedJobs(race.picture_bytes, race.KEPT, race.FRESH))


TWO = (Racer("cpu_numpy"), Racer("cpu_numba"))


class Finished:
    """A job that finishes its race on start."""

    over, state, part, words, text = True, "done", 1.0, "", ""

    def __init__(self, *_given, **_named):
        self.ended = time.monotonic()
        step = Spread(1e-3, 1e-3, 1e-3, LEGS)
        lanes = tuple(Lane(racer, step, (0.0, 1.0)) for racer in TWO)
        levels = np.zeros((8, 8), np.uint8)
        self.result = RaceResult(lanes, LEGS, tuple(range(LEGS + 1)), (levels,) * (LEGS + 1), "8 × 8 cells")

    def start(self):
        """Do nothing: the race has finished."""

    cancel = start


@pytest.fixture
def racing(page, monkeypatch):
    """Return a function that runs a race of that page, with a lab that can race, and returns the card's content."""
    monkeypatch.setattr(race, "Job", Finished)
    monkeypatch.setattr(race, "default_racers", lambda *_given: TWO)
    page.document.add_periodic_callback = lambda call, _ms: page.waiting.append(call) or call
    page.document.remove_periodic_callback = page.waiting.remove
    page.current.drawn, page.current.show = True, lambda shown: None
    page.current.session.latest = None
    page.current.controls.style = lambda _part: Style()
    track = RaceTrack(page)

    def ended():
        for call in page.waiting[:1]:
            call()
        return not page.waiting

    def run():
        track.begin(LEGS)
        until(ended)
        return track.card.content

    return run


def test_the_end_of_a_race_is_drawn_beside_the_loop(racing, monkeypatch):
    drawing, png = set(), race.png
    monkeypatch.setattr(race, "png", lambda *given: drawing.add(threading.get_ident()) or png(*given))
    assert len(racing()["pictures"]) == LEGS + 1
    assert drawing
    assert threading.get_ident() not in drawing


@pytest.mark.parametrize(("others", "said"), [(1.5, True), (0.1, False), (None, False)])
def test_notes_name_other_work_on_the_computer(others, said, monkeypatch):
    monkeypatch.setattr(conditions.psutil, "cpu_count", lambda: 2)
    notes = list(race.notes(replace(Finished().result, others=others), Race(Diffusion, {}, TWO, LEGS)))
    words = "Other processes kept 1.5 of 2 CPU threads busy meanwhile: times may be longer than on an idle computer."
    assert (words in notes, len(notes)) == (said, 1 + said)


def test_notes_begin_with_the_reason_for_an_early_end():
    ended = "Stopped at the limit of 5 steps with ribbons wider than 1e-12: allow more steps."
    assert next(race.notes(replace(Finished().result, ended=ended), Race(Diffusion, {}, TWO, LEGS))) == ended


def test_pictures_that_cannot_be_drawn_are_told(racing, page, monkeypatch, caplog):
    def fail(*given):
        raise MemoryError("no room")

    monkeypatch.setattr(race, "png", fail)
    said = racing()
    assert said["failed"] == "its pictures could not be drawn: no room (this is an error of Fieldlab)"
    assert page.waiting == []
    assert "MemoryError" in caplog.text


class Queued:
    """A job that is queued until its state is set; `made` lists all of them."""

    part, words, text, before, over = 0.0, "", "", 3, False
    made: list[Queued]

    def __init__(self, task, lane, _client, keeps):
        (self.race,) = task.args
        self.lane, self.keeps, self.state, self.cancelled = lane, keeps, "waiting", False
        self.made.append(self)

    def start(self):
        """Do nothing: the job is queued."""

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def queued(page, racing, monkeypatch):
    """Return the track of a queued race; `page.shown` records whether the page's lab was shown or paused."""
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
    assert page.shown == [False]  # the first race's turn may be free immediately
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
    back = SimpleNamespace(document=SimpleNamespace(session_context=None), current=page.current, features=[queued])
    Page._connected(back, True)
    assert page.shown == [goes_on]


def test_equal_races_of_several_pages_are_run_once(queued, page):
    other = RaceTrack(page)
    other.begin(LEGS)
    assert len(Queued.made) == 1
    queued.ended()
    assert not Queued.made[0].cancelled
    other.begin(2 * LEGS)  # no page waits for the first one now
    assert [job.cancelled for job in Queued.made] == [True, False]
    assert other.card.content["waiting"]


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


CHOSEN = {"lanes": ["cpu_numba", "cpu_numba:one-step"], "finish": 0}


def offered(track):
    """Return the keys of the lanes that the card offers: (all, those that race)."""
    lanes = track.card.content["setup"]["lanes"]
    return [one["key"] for one in lanes], [one["key"] for one in lanes if one["on"]]


def raced():
    """Return the latest race, and the keys of its racers."""
    latest = Queued.made[-1].race
    return latest, [racer.key for racer in latest.racers]


def test_lanes_are_chosen_among_those_that_can_race_and_remembered_while_the_page_is_open(queued):
    possible, racing = offered(queued)
    assert [possible[0], possible[1], possible[-1], racing] == ["cpu_numpy", "cpu_numba", "recorded", possible[:2]]
    queued.receive(CHOSEN)
    assert [job.cancelled for job in Queued.made] == [True, False]
    assert raced()[1] == offered(queued)[1] == CHOSEN["lanes"]
    assert raced()[0].steps == LEGS  # the finish line is kept
    queued.receive({"steps": 100})
    queued.close()
    queued.begin(0)
    assert raced()[1] == CHOSEN["lanes"]


def test_lanes_that_were_chosen_and_cannot_race_any_more_leave_the_usual_ones(queued, page):
    queued.receive({"lanes": ["cpu_numpy", "recorded"], "finish": 0})
    assert raced()[1] == ["cpu_numpy", "recorded"]
    page.current.session.values = {"ny": 48, "nx": 48}  # no record matches these values
    queued.begin(LEGS)
    assert raced()[1] == ["cpu_numpy", "cpu_numba"]
    page.current.session.values = {}
    queued.begin(LEGS)
    assert raced()[1] == ["cpu_numpy", "recorded"]


@pytest.mark.parametrize(
    ("lanes", "finish"),
    [
        (["cpu_numpy"], 0), (["cpu_numpy", "cpu_numpy"], 0), (["cpu_numpy", "nobody"], 0), (["recorded"], 0),
        (["cpu_numpy", None], 0), (["cpu_numpy"] * 5, 0), ("cpu_numpy", 0), (["cpu_numba", ["cpu_numpy"]], 0),
        (CHOSEN["lanes"], 3.5), (CHOSEN["lanes"], True), (CHOSEN["lanes"], float("nan")), (CHOSEN["lanes"], "200"),
    ],
)  # fmt: skip
def test_what_a_browser_may_say_of_lanes_is_checked(lanes, finish, queued):
    queued.receive({"lanes": lanes, "finish": finish})
    assert len(Queued.made) == 1
    assert offered(queued)[1] == ["cpu_numpy", "cpu_numba"]


def test_a_simulated_time_is_a_finish_line_and_says_its_steps(queued, page):
    page.current.session.values = {"r": 0.125}
    queued.receive(CHOSEN)
    options = {one["value"]: one["words"] for one in queued.card.content["setup"]["finish"]["options"]}
    assert options[200.0] == "simulated time t = 200 Δx²/D: 1\u202f600 steps"
    queued.receive(CHOSEN | {"finish": 200})
    assert (raced()[0].steps, raced()[0].time) == (1600, 200)
    assert "to t = 200 Δx²/D, 1\u202f600 steps" in queued.card.content["title"]
    assert not any(choice["on"] for choice in queued.card.content["choices"])
    assert race.race_key(replace(raced()[0], time=0.0)) == race.race_key(raced()[0])  # the same work serves both
    page.current.session.values = {"r": 0.0}  # no time passes
    queued.begin(LEGS)
    assert queued.card.content["setup"]["finish"] is None


def test_a_curve_is_raced_for_to_a_tolerance_of_those_that_the_lab_offers(queued, page):
    page.current.session = SimpleNamespace(values={"n": 200, "tolerance": 1e-4}, lab=LCurve, latest=None)
    queued.begin(0)
    finish = queued.card.content["setup"]["finish"]
    assert finish["label"] == LCurve.param["tolerance"].label
    assert [one["value"] for one in finish["options"]] == [0.0, *TOLERANCES.values()]
    for tolerance in (1e-6, 0):  # 0: the lab's own
        queued.receive({"lanes": ["cpu_numpy", "cpu_numba"], "finish": tolerance})
        assert raced()[0].values["tolerance"] == (tolerance or 1e-4)
        assert f"until its ribbons are {tolerance or 0.0001:g} wide" in queued.card.content["title"]
        usual = queued.card.content["setup"]["finish"]["options"][0]
        assert usual == {"value": 0.0, "words": "as in the lab, 0.0001", "on": not tolerance}


LARGE = {"ny": 16384, "nx": 16384}  # 2.7e8 cells: a race is limited to 3 725 steps
MANY = "simulated time t = 1000 Δx²/D: 5\u202f000 steps"


def test_a_finish_line_that_would_be_refused_is_not_offered(queued, page):
    def lines():
        content = queued.card.content
        steps = [choice["message"]["steps"] for choice in content["choices"]]
        return steps, {option["words"]: option["value"] for option in content["setup"]["finish"]["options"]}

    assert lines()[0] == [0, 100, 1000, 10_000]
    assert MANY in lines()[1]
    page.current.session.values = LARGE | {"backend": "cpu_numba"}
    queued.begin(0)
    steps, times = lines()
    assert steps == [0, 100, 1000]
    assert MANY not in times
    for step in steps:
        queued.receive({"steps": step})
        assert raced()[0].steps == step
    assert len(times) > 1
    for finish in times.values():
        queued.receive(CHOSEN | {"finish": finish})
        assert raced()[0].time == finish


@pytest.mark.parametrize(
    "asked", [{"steps": 10_000}, CHOSEN | {"finish": 1000}, {"lanes": ["cpu_numpy", "recorded"], "finish": 0}]
)
def test_a_race_that_is_refused_leaves_the_one_on_the_card_and_what_was_chosen(asked, queued, page):
    chosen = {"lanes": ["cpu_numpy", "cpu_numba:one-step"], "finish": 0}
    queued.receive(chosen)
    before, made = dict(queued.card.content), len(Queued.made)
    page.current.session.values = LARGE  # the lab continues while its race is queued, and users may change it
    queued.receive(asked)
    assert len(Queued.made) == made
    assert not Queued.made[-1].cancelled
    assert page.told == []
    now = dict(queued.card.content)
    assert now.pop("refused").startswith("Another race cannot be run: ")
    assert "This one stays." in queued.card.content["refused"]
    assert now.pop("answer") != before.pop("answer")  # so that its check boxes show the race on the card again
    assert before.pop("refused") == ""
    assert now == before
    page.waiting[0]()
    assert queued.card.content["refused"]  # until another race is requested
    page.current.session.values = {}
    queued.begin(LEGS)
    assert raced()[1] == chosen["lanes"]
    assert queued.card.content["refused"] == ""


def test_every_race_that_is_asked_for_is_another_answer(queued):
    answers = [queued.card.content["answer"]]
    for message in ({"steps": 100}, {"steps": 100}, CHOSEN, CHOSEN):
        queued.receive(message)
        answers.append(queued.card.content["answer"])
    assert len(set(answers)) == len(answers)
    queued.page.waiting[0]()
    assert queued.card.content["answer"] == answers[-1]
