"""The plots of the crossover lab for exported files: time against n with the crossing, and the roofline."""

from __future__ import annotations

from collections.abc import Mapping

from compute.devices.backends import BACKENDS
from compute.devices.devices import device_kind
from compute.lab.frames import Frame
from compute.lab.panels import Foreign, Line, Mark, Panel
from compute.labs.crossover import curves, picture
from compute.ways import finding
from compute.ways.catalogue import workload
from compute.ways.workload import Workload, fitting


def panels(frame: Frame) -> Mapping[str, Panel]:
    """Return the plot of time against n, and the roofline if a measured way computes floating-point operations."""
    found = {"time": _time(frame)}
    ways = [line for line in picture.ways_of(frame).values() if any(spot.flops > 0 for spot in line.points)]
    return found | ({"roofline": _roofline(frame, ways)} if ways else {})


def _title(frame: Frame, what: str) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in picture.settings_of(frame).items())
    chosen = _workload(frame).title + (f" ({settings})" if settings else "")
    return f"{what}: {chosen}, {frame.notes['dtype']}"


def _workload(frame: Frame) -> Workload:
    return workload(frame.notes["workload"])


def _time(frame: Frame) -> Panel:
    """Return the plot of the page: measured curves, recorded curves of ways that cannot run here, and cited figures."""
    of, dtype, drawn = _workload(frame), frame.notes["dtype"], picture.ways_of(frame)
    own = tuple(
        Line(f"{w.way} median", w.label, "marked", bars=(f"{w.way} q1", f"{w.way} q3"), device=device_kind(w.device))
        for w in drawn.values() if w.series()
    )  # fmt: skip
    sizes = [spot.n for line in drawn.values() for spot in line.points]
    extent = min(sizes), max(sizes)
    work = of, dtype, picture.settings_of(frame), frame.facts["evict"] > 0, extent
    known = curves.recorded_curves(of, drawn, *work[1:]) if own else curves.newest_run(*work)
    known = [line for line in known if line.series]
    figures = fitting(of.cited, dtype, extent)
    foreign = [*map(_recorded, known), *(Foreign(c.name, (c.n,), (c.seconds,), cited=True) for c in figures)]
    note = [f"hollow: {line.place}" for line in known] + [f"hatched: cited from {c.source}" for c in figures]
    found = finding.compare(*finding.sides([*curves.measured_curves(of, drawn), *known]))
    return Panel(
        _title(frame, "Time of a call"), of.axis, "time [s]", "xy", own, tuple(_crossing(found)),
        foreign=tuple(foreign), note="\n".join(dict.fromkeys(note)),
    )  # fmt: skip


def _recorded(line: finding.TimeCurve) -> Foreign:
    n, spreads = tuple(map(float, line.series)), line.series.values()
    bars = tuple((spread.q1, spread.q3) for spread in spreads)
    return Foreign(f"{line.label}, recorded", n, tuple(spread.median for spread in spreads), bars, line.kind)


def _crossing(found: finding.Finding) -> list[Mark]:
    """Return a mark where the compared sides cross, with the sentence of the page."""
    crossing = found.crossing
    if crossing is None or crossing.n is None:
        return []
    return [Mark(crossing.n, found.sentence, crossing.low or crossing.least, crossing.high or crossing.most)]


def _roofline(frame: Frame, ways: list[picture.ShownWay]) -> Panel:
    """Return the roofline with the largest n of each way as a point."""
    roofs = {f"roof {kind}": device_kind(kind) for kind in dict.fromkeys(one.device for one in BACKENDS)}
    lines = [Line(name, frame.curves[name].label, device=roofs[name]) for name in roofs if name in frame.curves]
    for way in ways:
        n = max(way.series())
        words, device = f"{way.label}, n = {n:,}", device_kind(way.device)
        lines.append(Line(f"{way.way} flops", words, "spot", f"{way.way} intensity", n, device=device))
    return Panel(_title(frame, "Roofline"), "operations a byte", "operations a second", "xy", tuple(lines))
