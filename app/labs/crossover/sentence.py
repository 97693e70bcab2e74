"""Above the plot: the finding in a sentence, how far the sweep is, and what the marks mean."""

from __future__ import annotations

from html import escape

from app.labs.crossover.finding import doubt, words
from app.labs.crossover.sight import Sight
from app.labs.crossover.times import count, duration
from compute.labs.crossover.picture import Line

STYLE = """
.sentence { padding: 0 8px 0 24px; color: var(--ink); height: 100%; display: flex; flex-direction: column; gap: 4px; }
.sentence .cpu { --hue: var(--cpu); } .sentence .gpu { --hue: var(--gpu); }
.sentence .says { font-size: var(--title, 20px); line-height: 1.25; margin: 0; }
.sentence .says b { color: var(--hue, inherit); }
.sentence .how { color: var(--muted); font-size: var(--small, 14px); line-height: 1.4; display: flex; flex-wrap: wrap;
  gap: 2px 16px; margin: 0; }
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


def sentence(sight: Sight, running: bool, brief: bool = False) -> str:
    """As HTML; running: whether something is being measured now; brief: the finding alone."""
    says = f"<p class='says'>{_finding(sight, running)}</p>"
    how = "" if brief else f"<p class='how'>{_how(sight, running)}</p>"
    return f"<div class='sentence'>{_bar(sight, running)}{says}{how}</div>"


def _finding(sight: Sight, running: bool) -> str:
    finding = sight.finding
    if finding.n:
        return words(finding)
    least, most = sight.sizes
    title = f"<b>{escape(sight.workload.title)}</b>"
    if running or any(line.series for line in sight.lines if not line.machine):
        return f"{title}: no crossover to say yet"
    budget = duration(float(sight.session.values["budget"]))
    return f"{title}: press Run for n = {count(least)} to {count(most)}, about {budget}"


def _bar(sight: Sight, running: bool) -> str:
    done = sight.frame.facts.get("progress", 0.0) if sight.frame else 0.0
    shown = 0.0 if done >= 1 and not running else done
    part = f"<u style='width:{100 * shown:.1f}%'></u>"
    return f"<div class='bar' role='progressbar' aria-valuenow='{100 * done:.0f}'>{part}</div>"


def _how(sight: Sight, running: bool) -> str:
    """What is being done; then the marks that are on the screen; then the ways that have no time, and why."""
    doing = sight.frame.notes.get("doing", "") if sight.frame and running else ""
    items = [f"<span>{escape(doing)}</span>"] if doing else []
    if said := doubt(sight.finding):
        items.append(f"<span>{escape(said)}</span>")
    here = [line for line in sight.lines if line.series and not line.machine]
    items += ["<span><i></i>measured here</span>"] if here else []
    items += ["<span><i class='noisy'></i>noisy</span>"] if any(line.noisy for line in here) else []
    places = dict.fromkeys(line.place for line in sight.lines if line.place)
    items += [f"<span><i class='recorded'></i>{escape(place)}</span>" for place in places]
    if other := sight.recorded_otherwise:
        items.append(f"<span>recorded curves are of {escape(' and '.join(other))}</span>")
    if sight.cited:
        items.append("<span><i class='cited'></i>cited</span>")
    items += [said for line in sight.measured.values() if (said := _lacking(line))]
    return "".join(items)


def _lacking(line: Line) -> str:
    """A way that has no time, at all or at some n, with the reason for who points at it; empty if it has them all."""
    if line.status in WITHOUT_TIME:
        said = f"{escape(line.label)} {line.status}: no time"
        return f"<span class='bad' title='{escape(line.reason)}'>{said}</span>"
    gone = [spot for spot in line.points if spot.status in NOT_EVERYWHERE]
    if not gone:
        return ""
    said = f"{escape(line.label)} {gone[0].status} at n = {count(gone[0].n)}{' and more' if len(gone) > 1 else ''}"
    return f"<span title='{escape(gone[0].reason)}'>{said}</span>"
