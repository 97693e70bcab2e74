"""The race of one page: the lab that is shown, on two to four lanes, computed in a process of its own, then replayed.

The lab rests meanwhile, so that the racers have the computer for themselves. Who races, and whose clock counts, is said
in compute/race.py; static/race.js replays the lanes at their true relative speed.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bokeh.document import Document
from PIL import Image

from app.card import Card, card_script
from app.readout_html import times
from app.theme import ASSETS
from app.widgets import icon
from compute.export.jobs import STATE, Job
from compute.export.scene import Style, coloured
from compute.measure.records import library
from compute.race import Lane, Race, RaceResult, default_racers, run_race

if TYPE_CHECKING:
    from app.lab_tab import LabTab

TICK = 250  # ms between two looks at how far the race is
WORDS = "Race: the same steps, side by side (Shift+R)"
PLACED = ("backend", "variant", "device_index", "devices")  # values that say where a lab computes: the racers' own
STEPS = (0, 100, 1000, 10_000)  # that the card offers; 0: as many as take a few seconds
NOTE = (
    "The lanes of this computer took turns, leg by leg, and raced against their own clocks: the compute time of their "
    "steps. What is shown now is a replay at their true relative speed."
)
RECORDED = "The hatched lane was run on {machine} on {date}; its pictures were computed here ahead of time."
STYLE = (ASSETS / "race.css").read_text(encoding="utf-8")


class RacePage(Protocol):
    """What a race needs of the page."""

    document: Document
    current: LabTab | None


class RaceCard(Card):
    """The race over the page, as static/race.js draws it."""

    _esm = card_script("race.js")

    def __init__(self, told: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(told, width=0, height=0, stylesheets=[STYLE])


@dataclass
class Run:
    """A race that is under way, or over; the lab of `tab` rests until it is closed."""

    tab: LabTab
    race: Race
    job: Job
    ticking: Any


class RaceTrack:
    """Runs the races of one page. `button` belongs into its header, `card` into its body."""

    def __init__(self, page: RacePage) -> None:
        self._page = page
        self._run: Run | None = None
        self.card = RaceCard(self._told)
        self.button = icon("sports_score", WORDS, self.toggle, color="default", align="center")

    @property
    def open(self) -> bool:
        """Whether a race is shown."""
        return self._run is not None

    def toggle(self) -> None:
        """Begin the usual race of the lab that is shown, or end it."""
        if self.open:
            self.close()
        else:
            self.begin(0)

    def begin(self, steps: int) -> None:
        """Race over so many steps, 0 for as many as take a few seconds. What cannot race is told."""
        tab = self._page.current
        if tab is None or not tab.drawn:
            return
        self.close()
        values = {name: value for name, value in tab.session.values.items() if name not in PLACED}
        lab = tab.session.lab
        try:
            race = Race(lab, values, default_racers(lab, values, library()[0]), steps)
        except ValueError as error:
            tab.notices.tell("info", f"No race here: {error}.")
            return
        tab.show(False)
        job = Job(partial(run_race, race), STATE, client=self)
        self._run = Run(tab, race, job, self._page.document.add_periodic_callback(self._tick, TICK))
        job.start()
        self._tick()

    def close(self) -> None:
        """End the race, and let the lab go on. Harmless if there is none."""
        run, self._run = self._run, None
        if run is None:
            return
        run.job.cancel()
        self._stop(run)
        if run.tab is self._page.current:
            run.tab.show(True)
        self.card.content = {}

    def give_up(self) -> None:
        """The page is gone."""
        if self._run is not None:
            self._run.job.cancel()

    def _stop(self, run: Run) -> None:
        if run.ticking is not None:
            self._page.document.remove_periodic_callback(run.ticking)
            run.ticking = None

    def _told(self, data: dict[str, Any]) -> None:
        """A message of the browser, which may be anybody's."""
        match data:
            case {"steps": int(steps)} if steps in STEPS and self.open:
                self.begin(steps)
            case {"do": "close"}:
                self.close()

    def _tick(self) -> None:
        """Show how far it is, and what came of it."""
        run = self._run
        if run is None:
            return
        job = run.job
        if not job.over:
            said = {"part": job.part, "doing": job.words or "starting"}
        elif job.state == "done":
            self._stop(run)
            said = result_content(job.result, run.tab)
        else:
            self._stop(run)
            said = {"failed": job.text or "it was ended"}
        asked = {"title": f"{run.race.lab.TITLE}: {run.race.words}", "choices": list(STEPS), "asked": run.race.steps}
        self.card.content = {**asked, **said}


def result_content(result: RaceResult, tab: LabTab) -> dict[str, Any]:
    """Return what the browser needs of a result to replay it."""
    part = next(iter(tab.session.latest.rasters), "") if tab.session.latest else ""
    style = tab.controls.style(part)
    records = [lane.racer.record for lane in result.lanes if lane.racer.record]
    notes = [NOTE, *(RECORDED.format(machine=record.machine, date=record.date) for record in records)]
    return {
        "steps": result.steps,
        "marks": list(result.marks),
        "pictures": [png(levels, style) for levels in result.pictures],
        "lanes": [lane_content(lane, result) for lane in result.lanes],
        "note": " ".join(notes),
    }


def lane_content(lane: Lane, result: RaceResult) -> dict[str, Any]:
    """Return one lane as the browser shows it."""
    record, step, typical = lane.racer.record, lane.step, result.speed_up(lane)
    place = result.ranks.index(lane) + 1 if lane.right else 0
    details = [f"{seconds(step.median)} a step, {seconds(step.q1)} to {seconds(step.q3)}"]
    if place > 1:
        details += [
            f"{times(result.behind(lane))} × the winner's time",
            f"a typical step {times(typical.ratio)} ×, {times(typical.low)} to {times(typical.high)}",
        ]
    if lane is result.compared_with:
        details.append("the others are compared with its picture")
    if lane.agreement:
        details.append(
            f"picture agrees, {lane.agreement.said}" if lane.right else f"not right, {lane.agreement.said}: out"
        )
    return {
        "name": f"{record.machine}, {lane.racer.name}" if record else lane.racer.name,
        "kind": "gpu" if lane.racer.backend.startswith("gpu_") else "cpu",
        "recorded": record is not None,
        "clock": list(lane.clock),
        "place": place,
        "time": seconds(lane.seconds),
        "details": details,
    }


def seconds(value: float) -> str:
    """A time in three digits, in the unit that suits it."""
    scales = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
    factor, unit = next((scale for scale in scales if value * scale[0] >= 1), scales[-1])
    return f"{value * factor:.3g} {unit}"


def png(levels: Any, style: Style) -> str:
    """Return a picture of levels as an address that holds it."""
    file = io.BytesIO()
    Image.fromarray(coloured(levels, style)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
