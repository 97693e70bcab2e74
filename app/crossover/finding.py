"""The finding in words: which of two curves wins from which n on."""

from __future__ import annotations

from html import escape

from app.crossover.times import count
from compute.labs.crossover.crossing import Crossing
from compute.labs.crossover.finding import Finding


def words(finding: Finding) -> str:
    """The finding in a sentence, as HTML."""
    (fast, slow), found = finding.names, finding.crossing
    fast, slow = (f"<b class='{side.kind}'>{escape(said)}</b>" for side, said in zip(
        (finding.fast, finding.slow), (fast, slow), strict=True))  # fmt: skip
    if found is None:
        return f"{fast} and {slow}: not yet measured at two common n"
    if found.n is not None:
        return f"{fast} is faster than {slow} from n ≈ {about(found.n)} on"
    if found.always:
        return f"{fast} is faster than {slow} at every n"
    return f"{fast} is slower than {slow} at {'the largest' if found.times else 'every'} n"


def doubt(found: Crossing) -> str:
    """How sure it is, in words; empty if nothing speaks against it."""
    if found.n is None:
        return "" if found.sure else "within the quartiles it may be the other way"
    low = about(found.low) if found.low is not None else f"below {about(found.least)}"
    high = about(found.high) if found.high is not None else f"above {about(found.most)}"
    often = f"; the curves cross {found.times} times, this is the last" if found.times > 1 else ""
    return f"by the quartiles {low} to {high}{often}"


def about(n: float) -> str:
    """n to two figures: no crossing is known better."""
    return count(float(f"{n:.2g}"))
