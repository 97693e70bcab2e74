"""What tutorials claimed, what was measured here, and whether it held: a card for each claim."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from compute.labs.crossover.conclusions import Conclusion

STYLE = """
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
TONES = {"holds": "holds", "does not hold": "fails"}


def held(found: Iterable[Conclusion]) -> str:
    """The cards."""
    return f"<div class='held'>{''.join(_card(conclusion) for conclusion in found)}</div>"


def _card(conclusion: Conclusion) -> str:
    tone = TONES.get(conclusion.verdict, "open")
    head = f"<h3>{escape(conclusion.title)}</h3><span class='verdict {tone}'>{escape(conclusion.verdict)}</span>"
    machine, date = conclusion.where
    place = f"<div class='place'>recorded on {escape(machine)}, {escape(date)}</div>" if machine else ""
    cited = f"<dt><i class='cited'></i>cited</dt><dd>{escape(conclusion.cited)}</dd>"
    ours = f"<dt><i class='recorded'></i>ours</dt><dd>{escape(conclusion.ours)}{place}</dd>" if conclusion.ours else ""
    claim = f"<p class='claim'>{escape(conclusion.claim)}</p>"
    return f"<article><header>{head}</header>{claim}<dl>{cited}{ours}</dl></article>"
