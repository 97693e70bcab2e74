"""The race of one page: the work of the shown lab on two to four lanes, computed in a separate process, then replayed.

A race covers a number of steps or, in a lab whose work ends, a whole result: the picture of the view, the curve.

Races of all pages run one at a time. The lab pauses while its race runs, so that the racers have the computer to
themselves; it continues while the race waits for its turn. Equal races that are requested at the same time run once.
compute/measure/race.py defines the racers and the clocks that count; race.js replays the lanes at their true
relative speed.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.page import explain
from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.widgets import Card, card_script
from app.readout.readout import recorded_figures
from app.readout.readout_html import times
from app.tab.open_lab import OpenLab
from compute.devices.backends import kind_of
from compute.export.jobs import RACE, Job, internal_error
from compute.export.render_pool import on_gpu
from compute.export.scene import Style, coloured
from compute.export.shared_jobs import SharedJob, SharedJobs
from compute.lab.lab import Lab
from compute.lab.two_runs import alone
from compute.measure.benchmark import benchmark_of
from compute.measure.conditions import cpu_warnings
from compute.measure.race import (
    FEWEST_LANES,
    MOST_LANES,
    Lane,
    Race,
    RaceError,
    Racer,
    RaceResult,
    default_racers,
    most_steps,
    possible_racers,
    racers_named,
    run_race,
    steps_to,
    time_words,
)
from compute.measure.rates import spaced

log = logging.getLogger(__name__)

Box = tuple[float, float, float, float]

FRESH = 20.0  # s during which another page that requests the same race receives the finished result
KEPT = 2**24  # bytes of results that no page shows: about ten results
TICK = 250  # ms between two updates of the progress
PLACED = ("backend", "variant", "device_index", "devices")  # values that select the device; the racers set them
STEPS = (0, 100, 1000, 10_000)  # offered by the card; 0: a number that runs for a few seconds
TIMES = (20.0, 100.0, 200.0, 1000.0)  # simulated times that the card offers, in the lab's unit
LIVE = "what is shown"  # the default work of a lab that ends
NOTE = (
    "The lanes of this computer took turns, leg by leg, and raced against their own clocks: the compute time of their "
    "steps. The animation is a replay at their true relative speed."
)
WHOLE = (
    "The lanes of this computer took turns. A time is the median of whole runs, taken as the command fieldlab bench "
    "takes it: {timed}. Between start and finish a lane is drawn at an even pace. The animation is a replay."
)
DISTURBED = "{others} meanwhile: times may be longer than on an idle computer."
ELSEWHERE = "No recorded run matches these settings; {machine}, {date}, took {seconds} for other work: {words}."
NO_MEASUREMENTS = "the page shows recorded numbers only; “Numbers” under Details switches back"
RECORDED = "The hatched lane was run on {machine} on {date}; its pictures were computed here ahead of time."
EXPLAINED = ("recorded", "median", "noisy", "compute")  # words of app/page/explain.py that the card contains
SIDE, MARGIN = 256, 16  # px of a drawn curve, and around it
CURVE = "#1493a0"  # its colour, visible on white and on dark ground
STYLE = Path(__file__).with_name("race.css").read_text(encoding="utf-8")
DRAWING = ThreadPoolExecutor(1, thread_name_prefix="race")  # drawing the pictures of a race takes tenths of a second


class RaceCard(Card):
    """The card with the race over the page, drawn by race.js."""

    _esm = card_script(Path(__file__).with_name("race.js"), "explain.js")

    def __init__(self, received: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(received, width=0, height=0, stylesheets=[STYLE])


@dataclass
class OpenRace:
    """A race that is waiting, running or finished.

    rests: whether the lab of `tab` is paused, from the race's turn until the race is closed; pictures: for the browser,
    from the start of drawing; possible: all possible racers; finish: the chosen finish line, a simulated time or the
    target of a whole result, 0 for none; shown: the lab's own target; answer: number of the request that the
    card answers, by which it resets check boxes that were ticked but not raced; refused: why the last request cannot be
    run.
    """

    tab: OpenLab
    race: Race
    work: str
    shared: SharedJob
    ticking: Any
    rests: bool = False
    pictures: Future[list[str]] | None = None
    possible: tuple[Racer, ...] = ()
    finish: float = 0.0
    shown: float = 0.0
    answer: int = 0
    refused: str = ""

    @property
    def job(self) -> Job:
        """The job that runs the race."""
        return self.shared.job


class RaceTrack(Feature):
    """Runs the races of one page."""

    name, order, key = "race", 20, "shift+r"
    symbol, tip = "sports_score", "Race: the same work, side by side (Shift+R)"
    help = (HelpRow(60, "**Shift+R**", "a race: the same work on NumPy, Numba and a GPU, side by side"),)

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self._run: OpenRace | None = None
        self._awaited: OpenLab | None = None  # the tab whose race begins when its plots are drawn
        self._chosen: dict[str, tuple[str, ...]] = {}  # keys of the chosen lanes, by the name of the lab
        self._answers = 0
        self.card = RaceCard(self.receive)
        self.parts = (self.card,)

    @property
    def open(self) -> bool:
        """Whether a race is shown."""
        return self._run is not None

    @property
    def rests(self) -> bool:
        """Whether the shown lab is paused for a race."""
        return self._run is not None and self._run.rests

    def toggle(self) -> None:
        """Start the default race of the shown lab, or close the current race."""
        if self.open:
            self.close()
        else:
            self.begin(0)

    def begin(self, steps: int, work: str = LIVE, finish: float = 0.0, lanes: Sequence[str] = ()) -> None:
        """Race over `steps`, or for a whole result of `work` in a lab that ends.

        steps: 0 for a number that runs for a few seconds; finish: see OpenRace; lanes: keys of the racers, also for
        later races, () for those chosen before. If the race is impossible, a message says so. If the lab's plots are
        not drawn so far, the race begins when they are.
        """
        tab = self.page.current
        if tab is None:
            return
        if not tab.drawn:
            self._later(tab, partial(self.begin, steps, work, finish, lanes))
            return
        if tab.controls.only_recorded:
            self._refuse(tab, NO_MEASUREMENTS)
            return
        values = {name: value for name, value in alone(tab.session.values).items() if name not in PLACED}
        lab = tab.session.lab
        values |= works(lab).get(work, {})
        shown = values.get(reached(lab), 0.0)
        if finish and lab.ENDS:
            values[reached(lab)] = finish
        try:
            racers, possible = self._racers(lab, values, lanes)
            time = 0.0 if lab.ENDS else finish
            race = Race(lab, values, racers, steps_to(lab, values, time) if time else steps, time)
        except ValueError as error:
            self._refuse(tab, str(error))
            return
        if lanes:
            self._chosen[lab.LAB] = tuple(racer.key for racer in racers)
        # The card keeps its content until the new race replaces it, so that its buttons keep the focus.
        ended = self._end()
        shared = RACES.ask(race_key(race), partial(begun, race, id(self)), self)
        ticking = self.page.document.add_periodic_callback(self._tick, TICK)
        self._run = OpenRace(
            tab, race, work, shared, ticking, rests=ended is not None and ended.rests, possible=possible, finish=finish,
            shown=shown, answer=self._next_answer(),
        )  # fmt: skip
        # A paused lab stays paused for one more tick, in which the previous race releases its turn.
        if not self._run.rests:
            self._rest(self._run)
        self._show(self._run)

    def _next_answer(self) -> int:
        self._answers += 1
        return self._answers

    def _refuse(self, tab: OpenLab, why: str) -> None:
        """Show why this tab's lab cannot race; on the card if a race of the tab is open, which then stays unchanged."""
        run = self._run
        if run is None or run.tab is not tab:
            self.close()
            tab.notices.tell("info", f"No race here: {why}.")
            return
        run.refused, run.answer = f"Another race cannot be run: {why}. This one stays.", self._next_answer()
        self._show(run)

    def _racers(
        self, lab: type[Lab], values: dict[str, Any], lanes: Sequence[str]
    ) -> tuple[tuple[Racer, ...], tuple[Racer, ...]]:
        """Return (racers, possible racers).

        The racers are `lanes` if given; otherwise the lanes that were chosen on this page, if enough of them are
        possible; otherwise the default racers. RaceError for lanes that are not possible.
        """
        figures = recorded_figures()
        possible = possible_racers(lab, values, figures)
        if lanes:
            return racers_named(lanes, possible), possible
        racers = default_racers(lab, values, figures)
        chosen = tuple(racer for racer in possible if racer.key in self._chosen.get(lab.LAB, ()))
        return (chosen if can_race(chosen) else racers), possible

    def _later(self, tab: OpenLab, begin: Callable[[], None]) -> None:
        """Try again after TICK, unless another tab or a race is shown by then."""
        if self._awaited is not tab:
            self._awaited = tab
            self.page.document.add_timeout_callback(partial(self._again, tab, begin), TICK)

    def _again(self, tab: OpenLab, begin: Callable[[], None]) -> None:
        self._awaited = None
        if tab is self.page.current and not self.open:
            begin()

    def close(self) -> None:
        """Close the race and resume the lab; no effect without a race."""
        run = self._end()
        if run is None:
            return
        if run.rests and run.tab is self.page.current:
            run.tab.show(True)
        self.card.content = {}

    def _end(self) -> OpenRace | None:
        """End the race, if any, and return it. A paused lab stays paused, and the card stays."""
        run, self._run = self._run, None
        if run is not None:
            RACES.leave(run.shared, self)
            self._stop(run)
        return run

    def left(self) -> None:
        """Close the race of a lab that is about to be hidden."""
        self.close()

    def ended(self) -> None:
        """Leave the race when the page closes."""
        if self._run is not None:
            RACES.leave(self._run.shared, self)

    def _stop(self, run: OpenRace) -> None:
        if run.ticking is not None:
            self.page.document.remove_periodic_callback(run.ticking)
            run.ticking = None

    def receive(self, data: dict[str, Any]) -> None:
        """Handle a message from the browser, which is untrusted."""
        match data:
            case {"steps": int(steps)} if steps in STEPS and self._run and not self._run.race.lab.ENDS:
                self.begin(steps)
            case {"work": str(work)} if self._run and work in works(self._run.race.lab):
                self.begin(0, work, self._run.finish)
            case {"lanes": [*lanes], "finish": int() | float() as finish} if self._run:
                self._choose(self._run, lanes, finish)
            case {"do": "close"}:
                self.close()

    def _choose(self, run: OpenRace, lanes: list[Any], finish: float) -> None:
        """Race with these lanes and this finish line, if the card offers them."""
        if not 0 < len(lanes) <= MOST_LANES or not all(isinstance(lane, str) for lane in lanes):
            return
        lab = run.race.lab
        if isinstance(finish, bool) or finish not in (0, *(value for value, _ in finishes(run))):
            return
        try:
            racers = racers_named(lanes, run.possible)
        except RaceError:
            return
        if can_race(racers):
            steps = 0 if lab.ENDS or finish or run.finish else run.race.steps
            self.begin(steps, run.work, finish, [racer.key for racer in racers])

    def _tick(self) -> None:
        if self._run is not None:
            self._rest(self._run)
            self._show(self._run)

    def _rest(self, run: OpenRace) -> None:
        """Pause the lab once the race has its turn, and resume it while the race waits for one."""
        rests = run.job.state != "waiting"
        if rests != run.rests:
            run.rests = rests
            run.tab.show(not rests)

    def _show(self, run: OpenRace) -> None:
        """Show the progress or the result of the race."""
        job = run.job
        said: dict[str, Any]
        if job.state == "waiting":
            said = {"waiting": waiting_words(job.before)}
        elif not job.over:
            said = {"part": job.part, "doing": job.words or "starting"}
        elif job.state == "done":
            if run.pictures is None:
                run.pictures = DRAWING.submit(drawn, job.result, shown_style(run.tab), run.race.lab.APART)
            if run.pictures.done():
                self._stop(run)
                said = finished(job.result, run.pictures, run.race)
            else:
                said = {"part": 1.0, "doing": "drawing the pictures"}
        else:
            self._stop(run)
            said = {"failed": job.text or "it was ended"}
        title = f"{run.race.lab.TITLE}: {run.race.words}"
        shown = {"title": title, "choices": choices(run), "setup": setup(run)}
        self.card.content = {**shown, "answer": run.answer, "refused": run.refused, **said}


def picture_bytes(result: RaceResult) -> int:
    """Return the size of a result in bytes."""
    return sum(picture.nbytes for picture in result.pictures) + sum(curve.nbytes for curve in result.curves)


RACES = SharedJobs(picture_bytes, KEPT, FRESH)  # of all pages


def race_key(race: Race) -> str:
    """Return a text that is equal for equal races only."""
    asked = race.lab.LAB, dict(race.values), [asdict(racer) for racer in race.racers], race.steps
    text = json.dumps(asked, sort_keys=True, default=lambda value: pickle.dumps(value).hex())
    return sha256(text.encode()).hexdigest()


def begun(race: Race, client: int) -> Job:
    """Start the job that runs a race. client: number of its first client, for the order of the queue."""
    gpu = on_gpu(race.lab, [racer.backend for racer in race.racers if racer.record is None])
    job = Job(partial(run_race, race), RACE, client, keeps=not gpu)  # a kept process would keep the GPU's memory
    job.start()
    return job


def waiting_words(before: int) -> str:
    """Return the status of a waiting race with `before` races in front of it."""
    return f"Waiting: {before} race{'s' * (before != 1)} before this one" if before else "Waiting for its turn"


def works(lab: type[Lab]) -> dict[str, dict[str, Any]]:
    """Return the works that a race can have in a lab that ends, as values of the lab by name; {} for other labs."""
    return {LIVE: {}} | {name: dict(values) for name, values in benchmark_of(lab).raced.items()} if lab.ENDS else {}


def choices(run: OpenRace) -> list[dict[str, Any]]:
    """Return the buttons of permitted races: label, message, and True for the current race."""
    offered = works(run.race.lab)
    words: list[tuple[str, dict[str, Any], bool]]
    if offered:
        words = [(name, {"work": name}, name == run.work) for name in offered if len(offered) > 1]
    else:
        most = most_steps(run.race.lab, run.race.values)
        words = [
            (f"{spaced(steps)} steps" if steps else "a few seconds",
             {"steps": steps}, steps == run.race.steps and not run.finish)
            for steps in STEPS
            if steps <= most
        ]  # fmt: skip
    return [{"words": each, "message": message, "on": on} for each, message, on in words]


def reached(lab: type[Lab]) -> str:
    """Return the parameter that sets the target of a whole result; "" for a lab without one."""
    return benchmark_of(lab).reached[0]


def finishes(run: OpenRace) -> list[tuple[float, str]]:
    """Return the finish lines that can be chosen instead of steps: (simulated time or target of a result, label)."""
    lab, values = run.race.lab, run.race.values
    if lab.ENDS:
        return [(value, f"{value:g}") for value in benchmark_of(lab).reached[1]]
    found = []
    for time in TIMES:
        try:
            found.append(
                (time, f"simulated time t = {time_words(lab, time)}: {spaced(steps_to(lab, values, time))} steps")
            )
        except RaceError:  # too many steps, or a lab without simulated time
            continue
    return found


def setup(run: OpenRace) -> dict[str, Any]:
    """Return the options of lanes and finish lines for the browser."""
    lab, racing = run.race.lab, {racer.key for racer in run.race.racers}
    lanes = [
        {"key": racer.key, "words": f"{racer.record.machine}, recorded" if racer.record else racer.name,
         "on": racer.key in racing, "recorded": racer.record is not None}
        for racer in run.possible
    ]  # fmt: skip
    lines, name = finishes(run), reached(lab)
    usual = f"as in the lab, {run.shown:g}" if name else "steps, as chosen above"
    label = lab.param[name].label if name else "Finish"
    options = [{"value": value, "words": words, "on": value == run.finish} for value, words in ((0.0, usual), *lines)]
    finish = {"label": label, "options": options} if lines else None
    return {"lanes": lanes, "fewest": FEWEST_LANES, "most": MOST_LANES, "finish": finish}


def can_race(racers: Sequence[Racer]) -> bool:
    """Return True if the racers can form a race: a permitted number, at least one of them on this computer."""
    return FEWEST_LANES <= len(racers) <= MOST_LANES and any(racer.record is None for racer in racers)


def shown_style(tab: OpenLab) -> Style:
    """Return the style in which a tab shows its picture."""
    return tab.controls.style(next(iter(tab.session.latest.rasters), "") if tab.session.latest else "")


def drawn(result: RaceResult, style: Style, apart: tuple[int, int, int]) -> list[str]:
    """Return the pictures or curves of a result as data URLs. Safe on any thread."""
    box = curve_box(result.curves[-1]) if result.curves else None
    pictures = [png(levels, style, apart) for levels in result.pictures]
    return pictures + [curve_svg(curve, box) for curve in result.curves if box]


def finished(result: RaceResult, pictures: Future[list[str]], race: Race) -> dict[str, Any]:
    """Return the browser's content of a finished race, or an error if its pictures could not be drawn."""
    if error := pictures.exception():
        log.error("the pictures of a race", exc_info=error)
        return {"failed": internal_error(f"its pictures could not be drawn: {error}")}
    return result_content(result, pictures.result(), race)


def result_content(result: RaceResult, pictures: list[str], race: Race) -> dict[str, Any]:
    """Return the data that the browser replays."""
    return {
        "steps": result.steps,
        "unit": result.unit,
        "marks": list(result.marks),
        "pictures": pictures,
        "lanes": [lane_content(lane, result) for lane in result.lanes],
        "note": " ".join(notes(result, race)),
        "words": {word: explain.WORDS[word] for word in EXPLAINED},
    }


def notes(result: RaceResult, race: Race) -> Iterator[str]:
    """Yield notes on a result: why it ended early, the clock, other load, excluded lanes, recorded lanes."""
    if result.ended:
        yield result.ended
    yield WHOLE.format(timed=result.timed) if result.timed else NOTE
    for words in cpu_warnings(result.others):
        yield DISTURBED.format(others=words[0].upper() + words[1:])
    if result.left_out:
        yield f"Left out: {'; '.join(result.left_out)}."
    records = [lane.racer.record for lane in result.lanes if lane.racer.record]
    for record in records:
        yield RECORDED.format(machine=record.machine, date=record.date)
    rules = benchmark_of(race.lab).rules
    pair = rules.recorded_pair(race.given, recorded_figures()) if rules and result.timed and not records else None
    if pair is not None:
        gpu = pair.gpu
        yield ELSEWHERE.format(machine=gpu.machine, date=gpu.date, seconds=seconds(gpu.step), words=pair.words)


def lane_content(lane: Lane, result: RaceResult) -> dict[str, Any]:
    """Return one lane for the browser."""
    record, step, typical = lane.racer.record, lane.step, result.speed_up(lane)
    place = result.ranks.index(lane) + 1 if lane.right else 0
    if result.timed:
        runs = f"median of {step.n} runs, " if step.n else ""
        details = [f"{runs}{seconds(step.q1)} to {seconds(step.q3)}"]
    else:
        details = [f"{seconds(step.median)} a step, {seconds(step.q1)} to {seconds(step.q3)}"]
    if place > 1 and result.timed:
        ends = f", {times(typical.low)} to {times(typical.high)}" if typical.bounded else ""
        details.append(f"{times(result.behind(lane))} × the winner's time{ends}")
    elif place > 1:
        details += [
            f"{times(result.behind(lane))} × the winner's time",
            f"a typical step {times(typical.ratio)} ×"
            + (f", {times(typical.low)} to {times(typical.high)}" if typical.bounded else ""),
        ]
    if lane is result.compared_with:
        details.append(f"the others are compared with its {'curve' if result.curves else 'picture'}")
    if lane.agreement:
        what = "curve" if result.curves else "picture"
        details.append(
            f"{what} agrees, {lane.agreement.said}" if lane.right else f"not right, {lane.agreement.said}: out"
        )
    return {
        "name": f"{record.machine}, {lane.racer.name}" if record else lane.racer.name,
        "kind": kind_of(lane.racer.backend),
        "recorded": record is not None,
        "clock": list(lane.clock),
        "place": place,
        "time": seconds(lane.seconds),
        "details": details,
    }


def seconds(value: float) -> str:
    """Return a time with three digits, in s, ms or µs."""
    scales = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
    factor, unit = next((scale for scale in scales if value * scale[0] >= 1), scales[-1])
    return f"{value * factor:.3g} {unit}"


def png(levels: NDArray[np.uint8], style: Style, apart: tuple[int, int, int]) -> str:
    """Return a picture of levels as a data URL; non-finite cells have the colour `apart`."""
    file = io.BytesIO()
    Image.fromarray(coloured(levels, style, apart)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def curve_box(curve: NDArray[np.float64]) -> Box:
    """Return (left, width, bottom, height) of a whole curve, in decades of both norms."""
    decades = np.log10(np.maximum(curve, np.finfo(np.float64).tiny))
    low, high = decades.min(axis=(0, 2)), decades.max(axis=(0, 2))
    room = np.maximum(high - low, 1e-3)
    return float(low[0]), float(room[0]), float(low[1]), float(room[1])


def curve_svg(curve: NDArray[np.float64], box: Box) -> str:
    """Return a drawing of an L-curve's ribbon, (lower, upper) of both norms, as a data URL."""
    left, width, bottom, height = box
    lines = ""
    if np.isfinite(curve).all():
        decades = np.log10(np.maximum(curve, np.finfo(np.float64).tiny))
        x = MARGIN + (SIDE - 2 * MARGIN) * (decades[:, 0] - left) / width
        y = SIDE - MARGIN - (SIDE - 2 * MARGIN) * (decades[:, 1] - bottom) / height
        x, y = np.clip(x, -SIDE, 2 * SIDE), np.clip(y, -SIDE, 2 * SIDE)  # clips bounds that are still far apart
        around = [*zip(x[0], y[0], strict=True), *reversed([*zip(x[1], y[1], strict=True)])]
        ribbon = " ".join(f"{a:.1f},{b:.1f}" for a, b in around)
        known = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[1], y[0], strict=True))
        lines = f"<polygon points='{ribbon}' fill='{CURVE}' opacity='0.3'/>"
        lines += f"<polyline points='{known}' fill='none' stroke='{CURVE}' stroke-width='5' stroke-linejoin='round'/>"
    text = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {SIDE} {SIDE}'>{lines}</svg>"
    return f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"
