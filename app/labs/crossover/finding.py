"""The finding as HTML: the sentence that compute.labs.crossover.finding makes, each way in the hue of its device."""

from __future__ import annotations

from html import escape

from app.labs.crossover.times import count
from compute.labs.crossover.finding import Finding


def words(finding: Finding) -> str:
    """The sentence, as HTML."""
    return "".join(
        f"<b class='{kind}'>{escape(text)}</b>" if kind else escape(text) for text, kind in finding.pieces(count)
    )


def doubt(finding: Finding) -> str:
    """Where both were measured and how sure the sentence is, as plain text; empty while it says nothing."""
    return finding.doubt(count)
