"""The curves that the lab compares, measured here or recorded, and the finding of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compute.lab.frames import Frame, freeze
from compute.labs.crossover import picture
from compute.measure.records import BEFORE
from compute.measure.statistics import LOW_CLOCK
from compute.ways import recorded
from compute.ways.catalogue import workload
from compute.ways.finding import TimeCurve, compare, sides
from compute.ways.workload import Way, Workload


def measured_curves(of: Workload, drawn: Mapping[str, picture.ShownWay], moving: bool = False) -> list[TimeCurve]:
    """Return the curves of a frame. drawn: its ways; moving: add the transfer times, and drop points without one."""
    found = []
    for way in of.ways():
        if way.name in drawn and (series := drawn[way.name].series(moving)):
            noisy = frozenset(spot.n for spot in drawn[way.name].points if spot.noisy)
            bound = frozenset(spot.n for spot in drawn[way.name].points if spot.launch_bound)
            low = frozenset(spot.n for spot in drawn[way.name].points if spot.low_clock)
            found.append(TimeCurve(way, series, noisy, launch_bound=bound, low_clock=low))
    return found


def recorded_curves(
    of: Workload, drawn: Mapping[str, picture.ShownWay], dtype: str, settings: Mapping[str, Any], evict: bool,
    sizes: tuple[int, int], every: bool = False,
) -> list[TimeCurve]:  # fmt: skip
    """Return recorded curves of the same dtype, settings and cache state within `sizes`.

    By default only ways that cannot be measured here; with `every`, all ways. If one way of a device and machine is
    older than its kernel, all ways of that device and machine are left out: the new kernel may be the fastest.
    """
    ways = {way.name: way for way in of.ways() if every or _absent(way, drawn)}
    known = recorded.comparable_curves(of.name, dtype, settings, evict, sizes)
    kinds = {way.name: way.kind for way in of.ways()}
    older = {(kinds[c.way], c.machine) for c in known if c.outdated}
    return [
        TimeCurve(
            ways[c.way], c.series, c.noisy, c.machine, c.date, rates=c.rates, roof=c.roof,
            low_clock=frozenset(n for n, part in c.parts.items() if part.clock_rate < LOW_CLOCK),
        )
        for c in known if c.way in ways and (kinds[c.way], c.machine) not in older
    ]  # fmt: skip


def newest_run(
    of: Workload, dtype: str, settings: Mapping[str, Any], evict: bool, sizes: tuple[int, int]
) -> list[TimeCurve]:
    """Return all recorded CPU and GPU curves of the machine with the latest GPU curve; empty if none has a GPU.

    They are shown while this computer has no measurements, since recorded GPU curves alone would have no opponent.
    """
    known = [line for line in recorded_curves(of, {}, dtype, settings, evict, sizes, every=True) if line.series]
    machine = next((line.machine for line in known if line.kind == "gpu"), None)
    return [line for line in known if line.machine == machine]


def outdated_lines(
    of: Workload, dtype: str, settings: Mapping[str, Any], evict: bool, sizes: tuple[int, int]
) -> list[str]:
    """Return a text for each recorded way that `recorded_curves` leaves out as older than its kernel."""
    known = recorded.comparable_curves(of.name, dtype, settings, evict, sizes)
    return [f"{c.label} on {c.machine}: {BEFORE}, not compared" for c in known if c.outdated]


def _absent(way: Way, drawn: Mapping[str, picture.ShownWay]) -> bool:
    return bool(way.missing) or (way.name in drawn and drawn[way.name].status == "missing")


def with_finding(frame: Frame) -> Frame:
    """Add the finding to the frame's notes: "slow" and "fast", names of ways, and "crossing", the sentence."""
    found = compare(*sides(measured_curves(workload(frame.notes["workload"]), picture.ways_of(frame))))
    if not found.n:
        return frame
    ways = {"slow": found.slow.lines[0].way.name, "fast": found.fast.lines[0].way.name}
    return replace(frame, notes=freeze({**frame.notes, **ways, "crossing": found.sentence}))
