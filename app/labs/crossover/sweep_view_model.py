"""What the tab knows: the curves measured here, those recorded elsewhere, and what they say of each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.labs.crossover.labels import way_styles
from app.labs.crossover.time_plot import TimePlotContent
from app.session import Session
from compute.frames import Frame
from compute.labs.crossover import picture, recorded
from compute.labs.crossover.catalogue import workload
from compute.labs.crossover.finding import (
    BEST_CPU,
    BEST_GPU,
    Finding,
    TimeCurve,
    compare,
    measured_curves,
    newest_run,
    outdated_lines,
    recorded_curves,
    sides,
)
from compute.labs.crossover.lab import extent
from compute.labs.crossover.workload import Cited, Way, Workload, fitting

RECORDED_SHOWN = ("absent", "all", "none")  # of the recorded curves: those of ways that cannot run here, all, or none


@dataclass
class DisplayChoice:
    """What is shown, beyond the lab's own values.

    fast, slow: keys of lines, or BEST_GPU and BEST_CPU; moving: whether moving the data counts; recorded: of
    RECORDED_SHOWN; cited: whether the figures of others are drawn; code: the ways whose programs are read, at most two.
    """

    fast: str = BEST_GPU
    slow: str = BEST_CPU
    moving: bool = False
    recorded: str = RECORDED_SHOWN[0]
    cited: bool = True
    code: tuple[str, ...] = ()


class SweepViewModel:
    """What the plots of one session show. `update` takes its newest frame in."""

    def __init__(self, session: Session) -> None:
        self.session, self.choice = session, DisplayChoice()
        self.frame: Frame | None = None
        self.measured: Mapping[str, picture.ShownWay] = {}
        self.lines: list[TimeCurve] = []
        self.finding: Finding = compare(*sides([]))

    @property
    def workload(self) -> Workload:
        """The workload that is chosen."""
        return workload(self.session.values["workload"])

    @property
    def ways(self) -> tuple[Way, ...]:
        """All ways to write the workload."""
        return self.workload.ways()

    @property
    def sizes(self) -> tuple[int, int]:
        """The least and the largest n that are asked for."""
        return extent(self.session.values)

    @property
    def settings(self) -> dict[str, Any]:
        """The workload's settings, defaults included."""
        chosen: Mapping[str, Any] = self.session.values["settings"]
        return {name: chosen.get(name, allowed[0]) for name, allowed in self.workload.settings.items()}

    def update(self, frame: Frame | None) -> None:
        """Take in a frame and all that was chosen since the last one; a frame of another workload counts as none."""
        values = self.session.values
        wanted = values["workload"], values["dtype"], self.settings
        notes = frame.notes if frame else {}
        fits = wanted == (notes.get("workload"), notes.get("dtype"), json.loads(notes.get("settings", "{}")))
        self.frame = frame if fits else None
        self.measured = picture.ways_of(frame) if fits and frame is not None else {}
        self.lines = [*self._here(), *self._recorded()]
        self.finding = compare(*sides([line for line in self.lines if line.series], self.choice.slow, self.choice.fast))

    def time_plot_content(self, cited: bool = True) -> TimePlotContent:
        """Return what the plot of time against n shows, with the figures of others if `cited`."""
        code, figures = self.choice.code, self.cited if cited else ()
        chosen = code[0] if code else ""
        lines = self.lines if self.choice.recorded == "none" else [*self.lines, *self._told_of()]
        return TimePlotContent(
            lines, way_styles(self.ways), figures, self.finding, self.sizes, chosen, self.workload.axis
        )

    @property
    def cited(self) -> Sequence[Cited]:
        """Figures of others for this dtype, and of those that do not say theirs, within the range of n."""
        if not self.choice.cited:
            return ()
        return fitting(self.workload.cited, self.session.values["dtype"], self.sizes)

    @property
    def elsewhere(self) -> Finding:
        """What the newest recorded run says by itself, for a page that has measured nothing yet."""
        return compare(*sides(self._newest_run()))

    @property
    def measured_sizes(self) -> list[int]:
        """Every n at which some way has a time here."""
        return sorted({spot.n for line in self.measured.values() for spot in line.points if spot.step is not None})

    @property
    def recorded_gpu(self) -> list[recorded.RecordedCurve]:
        """The curves of a recorded GPU, where none has a time here: for what is not drawn over n."""
        here = any(point.step for line in self.measured.values() if line.device != "host" for point in line.points)
        if here or self.choice.recorded == "none":
            return []
        values = self.session.values
        return recorded.newest_gpu(self.workload.name, values["dtype"], self.settings, values["evict"], self.sizes)

    @property
    def recorded_dtypes(self) -> list[str]:
        """The dtypes that there are recorded curves of, where there are none of the one that is chosen."""
        if self.choice.recorded == "none" or any(line.machine for line in self.lines):
            return []
        chosen = self.session.values["dtype"]
        known = {curve.dtype for curve in recorded.curves(self.workload.name) if curve.series}
        return sorted(known) if chosen not in known else []

    @property
    def outdated(self) -> list[str]:
        """The recorded ways that are not compared because they are older than their kernel, in words."""
        if self.choice.recorded == "none":
            return []
        values = self.session.values
        return outdated_lines(self.workload, values["dtype"], self.settings, values["evict"], self.sizes)

    # -- inside

    def _newest_run(self) -> list[TimeCurve]:
        """Every recorded curve of the machine that has the newest one of a GPU."""
        values = self.session.values
        return newest_run(self.workload, values["dtype"], self.settings, values["evict"], self.sizes)

    def _told_of(self) -> list[TimeCurve]:
        """The curves that `elsewhere` tells of and that are not shown anyway; none once something is measured here."""
        if any(line.series for line in self.lines if not line.machine):
            return []
        shown = {line.key for line in self.lines}
        return [line for line in self._newest_run() if line.key not in shown]

    def _here(self) -> list[TimeCurve]:
        moving = self.choice.moving and bool(self.session.values["split"])
        return measured_curves(self.workload, self.measured, moving)

    def _recorded(self) -> list[TimeCurve]:
        if self.choice.recorded == "none":
            return []
        values, every = self.session.values, self.choice.recorded == "all"
        return recorded_curves(
            self.workload, self.measured, values["dtype"], self.settings, values["evict"], self.sizes, every
        )  # fmt: skip
