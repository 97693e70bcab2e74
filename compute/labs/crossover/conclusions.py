"""Whether the tutorials' conclusions hold on the machines that were measured: a verdict for each, from data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compute.labs.crossover import recorded
from compute.labs.crossover.catalogue import Workload, workloads
from compute.labs.crossover.claims import Claim, Verdict
from compute.labs.crossover.recorded import RecordedCurve


@dataclass(frozen=True)
class Conclusion:
    """One claim beside what was measured.

    cited: the tutorial's figure and its source; ours: in words, "" if not measured; where: (machine, date), ("", "") if
    not measured.
    """

    workload: str
    title: str
    claim: str
    cited: str
    ours: str
    verdict: Verdict
    where: tuple[str, str]


def conclusions(curves: Iterable[RecordedCurve] | None = None) -> list[Conclusion]:
    """Every claim of every workload; curves: those of assets/timings if None. The newest that say something count."""
    known = list(recorded.library() if curves is None else curves)
    return [_conclusion(w, claim, known) for w in workloads() for claim in claims(w)]


def claims(of: Workload) -> tuple[Claim, ...]:
    """What tutorials concluded from a workload."""
    found: tuple[Claim, ...] = getattr(of.folder, "CLAIMS", ())
    return found


def _conclusion(of: Workload, claim: Claim, known: list[RecordedCurve]) -> Conclusion:
    mine = [curve for curve in known if curve.workload == of.name]
    for machine, date, run in dict.fromkeys((curve.machine, curve.date, curve.run) for curve in mine):
        together = [curve for curve in mine if (curve.machine, curve.date, curve.run) == (machine, date, run)]
        if found := claim.test.judge(together):
            return Conclusion(of.name, of.title, claim.claim, claim.cited, found.ours, found.verdict, (machine, date))
    return Conclusion(of.name, of.title, claim.claim, claim.cited, "", "not measured yet", ("", ""))
