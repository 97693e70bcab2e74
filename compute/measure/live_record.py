"""The readout of a live lab as files: the displayed numbers and all of their samples."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any

from compute.devices.backends import backend
from compute.machine import machine
from compute.measure.conditions import provenance
from compute.measure.exports import UNITS, Series, pyperf_document, trace_document, write_trace
from compute.measure.rates import Rate
from compute.measure.report import INTERVAL, NO_INTERVAL
from compute.measure.statistics import Measurement
from compute.measure.timing import PARTS, Sample, Timing
from compute.measure.verdict import Standing, Verdict

SCHEMA = "fieldlab-live/1"  # not a record of `fieldlab bench`: never drawn as a recorded figure, nor compared with
COMMAND = "fieldlab, live in the page"
INCLUDED = (
    "A time is that between two events of a GPU around the kernels, wall time on the host; where it is "
    "launch-bound, that of launching them. Ways were sampled in small jobs next to the live picture, which shares "
    "their device."
)
LONGEST_TEXT = 200  # characters of a parameter


@dataclass(frozen=True)
class ShownTimings:
    """The content of the readout.

    lab, values: the lab and its parameters; engine: of the live picture; rate: the unit of its work, None if the lab
    defines none; verdict: the comparison, None without one; live: the timings of the latest frames.
    """

    lab: str
    values: Mapping[str, Any]
    engine: str
    rate: Rate | None = None
    verdict: Verdict | None = None
    live: tuple[Timing, ...] = ()
    frames_per_second: float = nan
    date: str = field(default_factory=machine.now)

    @property
    def empty(self) -> bool:
        """Whether the readout has no measurements."""
        return not self.live and not self._measured

    @property
    def timed(self) -> bool:
        """Whether any call but a first one was timed."""
        return any(seconds > 0 for series in self.series() for seconds in series.seconds)

    @property
    def placed(self) -> bool:
        """Whether any sample has spans, which record when it ran."""
        return any(sample.spans for series in self.series() for sample in series.samples)

    @property
    def _samples(self) -> int:
        """Number of warm samples, of the ways and of the live picture."""
        return sum(len(series.warm) for series in self.series())

    @property
    def _measured(self) -> list[Standing]:
        standings = self.verdict.standings if self.verdict else ()
        return [standing for standing in standings if standing.measurement is not None]

    def record(self) -> dict[str, Any]:
        """Return everything as plain values: times in seconds, rates per second, None for unmeasured numbers."""
        parameters = {name: _plain(value) for name, value in self.values.items()} | {"included": INCLUDED}
        rate = self.rate and {name: getattr(self.rate, name) for name in ("unit", "work", "step", "roof", "counted")}
        return {
            "schema": SCHEMA, "lab": self.lab, **provenance(COMMAND, self._samples), "date": self.date,
            "parameters": parameters, "rate": rate, "headline": self._headline(),
            "results": [self._entry(standing) for standing in self._measured], "live": self._live(),
        }  # fmt: skip

    def series(self) -> Iterator[Series]:
        """Yield the sampled ways, then the frames of the live picture."""
        step = self.rate.step if self.rate else "step"
        for standing in self._measured:
            way = standing.variant
            facts = {"backend": way.backend, "variant": way.name}
            name = f"{self.lab}, {way.label}"
            yield Series(name, self._engine(standing), step, tuple(map(_sample, standing.timings)), facts)
        if self.live:
            newest = self.live[-1]
            facts = {"backend": newest.backend, "variant": newest.variant}
            yield Series(f"{self.lab}, live frames", self.engine, step, tuple(map(_sample, self.live)), facts)

    def _engine(self, standing: Standing) -> str:
        return backend(standing.variant.backend).engine(self.values.get("device_index", 0))

    def _headline(self) -> dict[str, Any] | None:
        verdict = self.verdict
        if verdict is None:
            return None
        speed = verdict.speed_up
        ratio = speed and {
            "ratio": speed.ratio, "low": _finite(speed.low), "high": _finite(speed.high), "noisy": speed.noisy,
            "interval": INTERVAL if speed.bounded else NO_INTERVAL,
        }  # fmt: skip
        agreement = verdict.agreement.said if verdict.agreement else None
        return {"title": verdict.title, "state": verdict.state, "speed_up": ratio, "agreement": agreement}

    def _entry(self, standing: Standing) -> dict[str, Any]:
        way, agreement, work = standing.variant, standing.agreement, self.rate.work if self.rate else "cells"
        out: dict[str, Any] = {"what": "sampled", "backend": way.backend, "variant": way.name}
        out["device"] = self._engine(standing)
        if agreement is not None:
            out |= {"difference": _finite(agreement.difference), "tolerance": agreement.tolerance}
        return out | _spread(standing.measurement, work) | {"samples": _steps(standing.timings)}

    def _live(self) -> dict[str, Any] | None:
        if not self.live:
            return None
        whole, newest = Measurement.of(self.live), self.live[-1]
        out = {"what": "live frames", "backend": newest.backend, "variant": newest.variant, "device": self.engine}
        out |= _spread(whole, self.rate.work if self.rate else "cells")
        parts = {f"{name}_per_frame": _finite(whole.parts[name]) for name in PARTS}
        return out | parts | {"frames_per_second": _finite(self.frames_per_second), "samples": _steps(self.live)}


def as_json(shown: ShownTimings) -> str:
    """Return the record as JSON."""
    return json.dumps(shown.record(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(shown: ShownTimings) -> str:
    """Return CSV with a line for each way and one for the live frames, units in the column names."""
    record = shown.record()
    lines = [*record["results"], *([record["live"]] if record["live"] else [])]
    columns = [key for key in dict.fromkeys(key for line in lines for key in line) if key != "samples"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_column(name) for name in columns])
    for line in lines:
        writer.writerow(["" if line.get(name) is None else line[name] for name in columns])
    return out.getvalue()


def as_pyperf(shown: ShownTimings) -> str:
    """Return every sample in the format of `python -m pyperf`."""
    return json.dumps(pyperf_document(shown.series(), shown.record()), ensure_ascii=False, allow_nan=False)


def as_trace(shown: ShownTimings) -> str:
    """Return every sample and frame with its parts as a trace for Perfetto."""
    out = io.StringIO()
    write_trace(trace_document(shown.series(), shown.record()), out)
    return out.getvalue()


def _sample(timing: Timing) -> Sample:
    """Return the timing as a bench's Sample; it begins and ends with its spans, nan if none were recorded."""
    began = min((span.began for span in timing.spans), default=nan)
    ended = max((span.ended for span in timing.spans), default=nan)
    return Sample(began, ended, timing, timing.spans)


def _spread(measurement: Measurement | None, work: str) -> dict[str, Any]:
    if measurement is None:
        return {}
    step = measurement.step
    timed = {name: _finite(getattr(step, name)) for name in ("median", "q1", "q3")}
    timed |= {"median_low": _finite(step.low), "median_high": _finite(step.high)}
    rate = _finite(measurement.cells_per_second) if step.median > 0 else None
    first = {"first_call": _finite(measurement.first_call)}
    bound = {"launch_bound": measurement.launch_bound, "clock_rate": _finite(measurement.clock_rate)}
    return {**timed, "n": step.n, "noisy": measurement.noisy, **bound, **first, f"{work}_per_second": rate}


def _steps(timings: tuple[Timing, ...]) -> list[dict[str, Any]]:
    return [
        {"steps": timing.steps, "first_call": timing.first_call}
        | {name: _finite(getattr(timing, name)) for name in PARTS}
        for timing in timings
    ]


def _column(name: str) -> str:
    if name in UNITS:
        return UNITS[name]
    return f"{name}_s" if name.endswith("_per_frame") else name


def _plain(value: Any) -> Any:
    """Return a parameter as a JSON value; long texts and other objects are replaced by the name of their type."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if isinstance(value, str) and len(value) <= LONGEST_TEXT:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return f"({type(value).__name__}, not saved)"


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
