"""Why a way is slower than the one it was expected to beat, where the figures themselves tell."""

from __future__ import annotations

from math import isfinite

from compute.comparison.contest import Verdict

LAUNCHING = 0.5  # part of the device's time that launching takes, from which that is the reason
WAKING = 0.3  # part of a step that starting the threads takes, from which that is the reason


def why_slower(verdict: Verdict, waking: float) -> str:
    """The reason in words, as far as it was measured; empty if the challenger is not slower, or nothing tells why.

    waking: seconds that it takes to start all threads once, nan if not known.
    """
    speed = verdict.speed_up
    if speed is None or speed.ratio >= 1 or verdict.opponent is None:
        return ""
    challenger = verdict.challenger
    (standing,) = (one for one in verdict.standings if one.contestant == challenger)
    measurement = standing.measurement
    if measurement is None:
        return ""
    launch, compute = measurement.parts.get("launch", 0.0), measurement.parts.get("compute", 0.0)
    if challenger.kind == "gpu":
        if isfinite(launch) and launch >= LAUNCHING * compute > 0:
            return f"launching takes {_percent(launch / compute)} of its time: too small for a GPU"
        return ""
    share = waking / measurement.step.median
    if challenger.threads > max(1, verdict.opponent.threads) and share >= WAKING:
        return f"too small for {challenger.threads} threads: starting them takes {_percent(share)} of a step"
    return ""


def _percent(share: float) -> str:
    return "all" if share >= 1 else f"{100 * share:.0f} %"
