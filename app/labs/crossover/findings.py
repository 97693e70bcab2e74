"""The findings of a sweep as HTML: the sentence above the plot, and the verdicts on claims of tutorials.

compute.labs.crossover.curves builds the sentence; this module adds the hue of each way's device and a legend of the
marks on the screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from html import escape, unescape
from math import inf, isfinite

from app.labs.crossover.labels import THIN, duration, rate
from app.labs.crossover.lessons import of_workload, why
from app.labs.crossover.sweep_view_model import SweepViewModel
from app.page.explain import explained, term
from app.readout.readout_html import slower, times
from compute.labs.crossover import picture
from compute.labs.crossover.claims import Conclusion
from compute.labs.crossover.picture import ShownWay
from compute.measure.machine_roofs import machine_roofs
from compute.measure.rates import FULL, spaced
from compute.measure.records import BEFORE
from compute.ways import recorded
from compute.ways.finding import Finding, TimeCurve
from compute.ways.roofline import Roof


def finding_html(finding: Finding) -> str:
    """Return the sentence as HTML, each way in the hue of its device."""
    return "".join(
        f"<b class='{kind}'>{escape(text)}</b>" if kind else escape(text) for text, kind in finding.pieces(spaced)
    )


SENTENCE_STYLE = """
.sentence { padding: 0 8px 0 24px; color: var(--ink); height: 100%; display: flex; flex-direction: column; gap: 4px; }
.sentence .cpu { --hue: var(--cpu); } .sentence .gpu { --hue: var(--gpu); }
.sentence .says { font-size: var(--title, 20px); line-height: 1.25; margin: 0; flex: none; }
.sentence.brief .says, .sentence .taught { font-size: var(--body, 16px); line-height: 1.25; margin: 0; flex: none; }
.sentence.brief .says { max-height: round(down, calc(100% - 8px), 1lh); overflow: hidden; }  /* whole lines */
.sentence .says b { color: var(--hue, inherit); }
.sentence .how { color: var(--muted); font-size: var(--small, 14px); line-height: 1.4; margin: 0; flex: 1 1 0;
  min-height: 0; overflow: hidden auto; scrollbar-width: thin; }
.sentence .how span { margin-right: 12px; } .sentence .how .term { margin-right: 0; }
.sentence .how span:has(i) { white-space: nowrap; }
.sentence .how .bad { color: var(--bad); font-weight: 700; }
.sentence i { display: inline-block; width: 12px; height: 12px; margin-right: 6px; box-sizing: border-box;
  border-radius: 50%; vertical-align: -1px; background: var(--muted); }
.sentence i.recorded { background: var(--paper); border: 2.5px solid var(--muted); }
.sentence i.noisy { opacity: 0.45; }
.sentence i.cited { border-radius: 0; border: 1px solid var(--muted);
  background: repeating-linear-gradient(135deg, var(--muted) 0 2px, transparent 2px 5px); }
.sentence .bar { height: 4px; background: var(--line); border-radius: 2px; overflow: hidden; flex: none; }
.sentence .bar u { display: block; height: 100%; background: var(--accent); }
"""
WITHOUT_TIME = ("disagrees", "failed")
NOT_EVERYWHERE = ("skipped", "failed")


def sentence_html(model: SweepViewModel, running: bool, lesson: str | None = None, said: bool = True) -> str:
    """Return the header of a view as HTML: finding, lesson of the workload, progress, legend of the marks.

    running: whether a measurement is running; lesson: HTML of another view, shown instead of all these; said: whether
    to include the finding, which the bar of presenter mode shows as well.
    """
    if lesson is not None:
        words = f"<p class='says'>{lesson}</p>"
    else:
        taught = " ".join(filter(None, (why(shown_finding(model)), of_workload(model.workload.about))))
        words = f"<p class='says'>{headline(model, running)}</p>" if said else ""
        words += f"<p class='taught'>{escape(taught)}</p>" if taught else ""
        words += f"<p class='how'>{_status_line(model, running)}</p>"
    kind = "sentence" if lesson is None else "sentence brief"
    return explained(f"<div class='{kind}'>{_progress_bar(model, running)}{words}</div>")


def shown_finding(model: SweepViewModel) -> Finding:
    """Return the finding of this computer; before the first measurement here, the recorded one."""
    return model.finding if model.finding.n or _measured_here(model) else model.elsewhere


def _measured_here(model: SweepViewModel) -> bool:
    return any(line.series for line in model.lines if not line.machine)


def headline(model: SweepViewModel, running: bool) -> str:
    """Return the finding as HTML."""
    finding, title = shown_finding(model), f"<b>{escape(model.workload.title)}</b>"
    if finding.n:
        return finding_html(finding)
    return f"{title}: no crossover yet" if running or _measured_here(model) else f"{title}: not measured yet"


def _progress_bar(model: SweepViewModel, running: bool) -> str:
    done = model.frame.facts.get("progress", 0.0) if model.frame else 0.0
    shown = 0.0 if done >= 1 and not running else done
    part = f"<u style='width:{100 * shown:.1f}%'></u>"
    return f"<div class='bar' role='progressbar' aria-label='Done' aria-valuenow='{100 * done:.0f}'>{part}</div>"


def _status_line(model: SweepViewModel, running: bool) -> str:
    """Return the legend, the current activity, the finding's uncertainty, and the ways without a time, with reasons."""
    items = _marks(model)
    doing = model.frame.notes.get("doing", "") if model.frame and running else ""
    said = model.finding.uncertainty(spaced)
    items += [f"<span>{_thousands(words)}</span>" for words in (doing, said) if words]
    items += [why for line in model.measured.values() if (why := _without_time(line))]
    return " ".join(items)


def both_times(model: SweepViewModel) -> str:
    """Compare both times at the largest n, if one of them was recorded; return HTML, "" otherwise.

    If the faster way exceeds a measured roof of the slower one's device, the text states that rate.
    """
    finding = model.finding if model.finding.n else model.elsewhere
    if finding.ratio is None or not finding.place:
        return ""
    fast, slow, n = finding.fast.lines[0], finding.slow.lines[0], finding.n
    took = [f"{_where(line)} {duration(line.series[n].median)} ({escape(line.label)})" for line in (slow, fast)]
    said = f"n = {spaced(n)}: {'; '.join(took)}: "
    if slower(finding.ratio):
        why = finding.reason_slower(spaced) or "its limit is not measured"
        return f"{said}{times(1 / finding.ratio.ratio)}× slower: {escape(why)}"
    roof = slow.roof if slow.machine else _roof_here(model, slow)
    why = _rate_out_of_reach(fast, n, slow, _unbeaten(model, slow, roof), roof)
    return f"{said}{times(finding.ratio.ratio)}× as fast{f'; {why}' if why else ''}"


def _where(line: TimeCurve) -> str:
    """Return where a line was measured."""
    return f"{escape(line.machine)}, recorded," if line.machine else "this computer"


def _roof_here(model: SweepViewModel, line: TimeCurve) -> Roof | None:
    """Return the roof of the device of a line that is measured here, None if unknown.

    Before the sweep has measured its roofs at its end, the memory bandwidth measured earlier by this program is used.
    """
    if known := picture.roofs_of(model.frame).get(line.way.backend.device) if model.frame else None:
        return known
    copies = machine_roofs().rate(_device(line))
    return Roof(_device(line), "", copies, inf) if isfinite(copies) else None


def _unbeaten(model: SweepViewModel, line: TimeCurve, roof: Roof | None) -> Roof | None:
    """Return the roof without the limits that a way of the same device and record exceeded."""
    if roof is None:
        return None
    moved = computed = 0.0
    if line.machine:
        moved, computed = recorded.largest_rates(line.machine, line.date, line.kind, roof.dtype)
    elif model.frame is not None:
        spots = [(way, spot) for way in model.measured.values() for spot in way.points if spot.percent > FULL]
        moved = inf if any(way.device == line.way.backend.device for way, _ in spots) else 0.0
    return replace(
        roof,
        bandwidth=inf if moved > roof.bandwidth else roof.bandwidth,
        flops=inf if computed > roof.flops else roof.flops,
    )


def _device(line: TimeCurve) -> str:
    """Return the device of this computer on which a line is measured."""
    return line.way.backend.engine()


def _rate_out_of_reach(fast: TimeCurve, n: int, slow: TimeCurve, roof: Roof | None, whole: Roof | None) -> str:
    """Describe a rate of the faster way above the measured limit of the slower one's device; return "" without one.

    Only the roof that limits this work on the slower device counts: memory if the work does fewer operations per byte
    than the ridge of that device (`whole`: its roof including exceeded limits), else arithmetic. The measured copy rate
    does not apply to data in a cache of that device, which is faster: if a cache is large enough, memory is
    not mentioned. A record does not contain cache sizes, and a call may reuse its data, so the text states the
    measurement and no reason.
    """
    if roof is None or n not in fast.rates:
        return ""
    moved, computed = fast.rates[n]
    device = "processor" if slow.kind == "cpu" else "GPU"
    device_name = f"the {device} {'there' if slow.machine else 'of this computer'}"
    caches = () if slow.machine else machine_roofs().caches(_device(slow))
    held = any(moved * fast.series[n].median <= one.size for one in caches)
    known = [
        (moved, inf if held else roof.bandwidth, "moves", "copies {} at most from memory to memory", "B/s"),
        (computed, roof.flops, "does", "does {} at most in fused multiply-adds", "FLOP/s"),
    ]
    by_memory = whole is not None and computed * whole.bandwidth <= moved * whole.flops
    reached, most, done, does, unit = known[0 if by_memory else 1]
    if reached <= most:
        return ""
    return f"it {done} {rate(reached, unit)}, and {device_name} {does.format(rate(most, unit))}"


def _marks(model: SweepViewModel) -> list[str]:
    """Return the legend of the marks on the screen."""
    here = [line for line in model.lines if line.series and not line.machine]
    items = ["<span><i></i>measured here</span>"] if here else []
    items += ["<span><i class='noisy'></i>noisy</span>"] if any(line.noisy for line in here) else []
    places = dict.fromkeys(line.place for line in model.lines if line.place)
    items += [f"<span><i class='recorded'></i>{escape(place)}</span>" for place in places]
    items += [f"<span>{escape(words)}</span>" for words in model.outdated]
    if other := model.recorded_dtypes:
        items.append(f"<span>recorded curves are of {escape(' and '.join(other))}</span>")
    if model.cited:
        items.append("<span><i class='cited'></i>cited</span>")
    return items


def _without_time(line: ShownWay) -> str:
    """Describe a way without a time, at all or at some n, with the reason as explanation; return "" if all exist."""
    if line.status in WITHOUT_TIME:
        said = f"{escape(line.label)} {line.status}: no time"
        return f"<span class='bad'>{_why(said, line.reason)}</span>"
    gone = [spot for spot in line.points if spot.status in NOT_EVERYWHERE]
    if not gone:
        return ""
    said = f"{escape(line.label)} {gone[0].status} at n = {spaced(gone[0].n)}{' and more' if len(gone) > 1 else ''}"
    return f"<span>{_why(said, gone[0].reason)}</span>"


def _why(said: str, reason: str) -> str:
    """Return trusted HTML with the reason as its explanation, shown on hover and focus and read by screen readers."""
    return term(said, f"{unescape(said)}: {reason}") if reason else said


def _thousands(words: str) -> str:
    """Return text as HTML, with thin spaces as thousands separators in place of the commas of the command line."""
    return re.sub(r"(?<=\d),(?=\d{3})", THIN, escape(words))


VERDICT_STYLE = """
.held { padding: 0 24px 24px; display: grid; gap: 12px; color: var(--ink); font-size: var(--body, 16px); }
.held article { border: 1px solid var(--line); border-radius: 6px; background: var(--paper); padding: 12px 16px; }
.held header { display: flex; justify-content: space-between; gap: 16px; align-items: baseline; }
.held h3 { margin: 0; font-size: var(--body, 16px); }
.held .verdict { font-weight: 700; white-space: nowrap; }
.held .holds { color: var(--good); } .held .fails { color: var(--bad); } .held .open { color: var(--muted); }
.held .claim { margin: 4px 0 8px; line-height: 1.4; }
.held dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 0; line-height: 1.4; }
.held dt { color: var(--muted); } .held dd { margin: 0; }
.held .place { color: var(--muted); font-size: var(--small, 14px); }
.held i { display: inline-block; width: 14px; height: 14px; margin-right: 8px; box-sizing: border-box;
  vertical-align: -2px; border: 1.5px solid var(--muted); }
.held i.cited { background: repeating-linear-gradient(135deg, var(--muted) 0 2px, transparent 2px 6px); }
.held i.recorded { border: 2.5px solid var(--gpu); border-radius: 50%; }
"""
VERDICT_TONES = {"holds": "holds", "does not hold": "fails"}


def verdicts(found: Iterable[Conclusion]) -> str:
    """Return a card for each claim as HTML: the claim, the result measured here, and the verdict."""
    return f"<div class='held'>{''.join(_verdict(conclusion) for conclusion in found)}</div>"


def _verdict(conclusion: Conclusion) -> str:
    tone = VERDICT_TONES.get(conclusion.verdict, "open")
    head = f"<h3>{escape(conclusion.title)}</h3><span class='verdict {tone}'>{escape(conclusion.verdict)}</span>"
    machine, date = conclusion.where
    place = f"<div class='place'>recorded on {escape(machine)}, {escape(date)}</div>" if machine else ""
    cited = f"<dt><i class='cited'></i>cited</dt><dd>{escape(conclusion.cited)}</dd>"
    said = _thousands(conclusion.ours) or (BEFORE if conclusion.outdated else "")
    ours = f"<dt><i class='recorded'></i>ours</dt><dd>{said}{place}</dd>" if said else ""
    claim = f"<p class='claim'>{escape(conclusion.claim)}</p>"
    return f"<article><header>{head}</header>{claim}<dl>{cited}{ours}</dl></article>"
