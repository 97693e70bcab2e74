"""The numbers of the diffusion lab in the status bar."""

from __future__ import annotations

from compute.frames import Frame


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """(label, value, kind) of each; kind is "", "warn" or "bad"."""
    known = frame.facts
    r, limit = known["r"], known["limit"]
    kind = "bad" if r > limit else "warn" if r == limit else ""
    items = [
        ("step", f"{known['step']:,.0f}".replace(",", " "), ""),
        ("r", f"{r:.3f} of {limit:g}", kind),
        ("heat", f"{known['heat']:.5g}", ""),
        ("drift", f"{known['heat_drift']:+.1e}", ""),
    ]
    if "exact_error" in known:
        items.append(("error against exact", f"{known['exact_error']:.1e}", ""))
    if "racing_error" in known:
        items.append(("error of the race", f"{known['racing_error']:.1e}", "bad"))
    if known["nonfinite"]:
        items.append(("not finite", f"{known['nonfinite']:.0f} cells", "bad"))
    return items
