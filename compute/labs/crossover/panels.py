"""The plots of the crossover lab, for files: time against n with the crossing, and the roofline."""

from __future__ import annotations

from collections.abc import Mapping

from compute.frames import Frame
from compute.labs.crossover import picture, recorded
from compute.labs.crossover.catalogue import Workload, workload
from compute.labs.crossover.cited import fitting
from compute.panels import Foreign, Line, Mark, Panel

DEVICES = {"host": "cpu", "cuda": "gpu"}


def panels(frame: Frame) -> Mapping[str, Panel]:
    """Time against n; the roofline too, once something is measured that computes."""
    found = {"time": _time(frame)}
    ways = [line for line in picture.lines(frame).values() if any(spot.flops > 0 for spot in line.points)]
    return found | ({"roofline": _roofline(frame, ways)} if ways else {})


def _title(frame: Frame, what: str) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in picture.settings(frame).items())
    chosen = _workload(frame).title + (f" ({settings})" if settings else "")
    return f"{what}: {chosen}, {frame.notes['dtype']}"


def _workload(frame: Frame) -> Workload:
    return workload(frame.notes["workload"])


def _time(frame: Frame) -> Panel:
    drawn = [line for line in picture.lines(frame).values() if line.series()]
    curves = tuple(
        Line(f"{w.way} median", w.label, "marked", bars=(f"{w.way} q1", f"{w.way} q3"), device=DEVICES[w.device])
        for w in drawn
    )
    elsewhere, note = _elsewhere(frame)
    return Panel(
        _title(frame, "Time of a call"), _workload(frame).axis, "time [s]", "xy", curves, tuple(_crossing(frame)),
        foreign=elsewhere, note=note,
    )  # fmt: skip


def _elsewhere(frame: Frame) -> tuple[tuple[Foreign, ...], str]:
    """As on the page: recorded curves of ways that cannot run here, and cited figures; and what says so."""
    of, dtype, drawn = _workload(frame), frame.notes["dtype"], picture.lines(frame)
    sizes = [spot.n for line in drawn.values() for spot in line.points]
    if not sizes:
        return (), ""
    extent = min(sizes), max(sizes)
    absent = {w.name: w for w in of.ways() if w.missing or (w.name in drawn and drawn[w.name].status == "missing")}
    known = recorded.alike(of.name, dtype, picture.settings(frame), frame.facts["evict"] > 0, extent)
    known = [curve for curve in known if curve.way in absent and curve.series]
    found = [_recorded(curve, DEVICES[absent[curve.way].backend.device]) for curve in known]
    figures = fitting(of.folder.CITED, dtype, extent)
    found += [Foreign(figure.name, (figure.n,), (figure.seconds,), cited=True) for figure in figures]
    places = dict.fromkeys(f"hollow: recorded on {curve.machine}, {curve.date}" for curve in known)
    cited = dict.fromkeys(f"hatched: cited from {figure.source}" for figure in figures)
    return tuple(found), "\n".join([*places, *cited])


def _recorded(curve: recorded.RecordedCurve, device: str) -> Foreign:
    n, spreads = tuple(map(float, curve.series)), curve.series.values()
    bars = tuple((spread.q1, spread.q3) for spread in spreads)
    return Foreign(f"{curve.label}, recorded", n, tuple(spread.median for spread in spreads), bars, device)


def _crossing(frame: Frame) -> list[Mark]:
    """Where the default pair crosses."""
    if "crossing" not in frame.notes:
        return []
    slow, fast = frame.notes["slow"], frame.notes["fast"]
    found = picture.crossing_of(frame, slow, fast)
    if found is None or found.n is None:
        return []
    of = _workload(frame)
    words = f"{of.way(fast).label} faster than {of.way(slow).label} from n ≈ {float(f'{found.n:.2g}'):,.0f} on"
    return [Mark(found.n, words, found.low or found.least, found.high or found.most)]


def _roofline(frame: Frame, ways: list[picture.Line]) -> Panel:
    """The largest n of each way is a point."""
    roofs = {f"roof {kind}": device for kind, device in DEVICES.items()}
    lines = [Line(name, frame.curves[name].label, device=roofs[name]) for name in roofs if name in frame.curves]
    for way in ways:
        n = max(way.series())
        words, device = f"{way.label}, n = {n:,}", DEVICES[way.device]
        lines.append(Line(f"{way.way} flops", words, "spot", f"{way.way} intensity", n, device=device))
    return Panel(_title(frame, "Roofline"), "operations a byte", "operations a second", "xy", tuple(lines))
