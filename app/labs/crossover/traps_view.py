"""The traps: one at a time, with its wrong and its right program side by side, and what both see here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.code import STYLE as CODE
from app.labs.crossover.code import program
from app.readout_view import figure
from app.theme import stylesheet
from compute.labs.crossover.trap import Side, Trap, traps

STYLE = """
.seen { padding: 0 24px 12px; color: var(--ink); font-size: var(--body, 16px); }
.seen p { margin: 0; line-height: 1.4; } .seen .quiet { color: var(--muted); }
.seen td.num, .seen th.num { text-align: right; font-variant-numeric: tabular-nums; font-weight: 700; }
.seen .wrong { color: var(--bad); } .seen .right { color: var(--good); }
.seen code { display: inline-block; padding: 2px 8px; background: var(--ground); border-radius: 4px;
  font-size: var(--small, 14px); user-select: all; }
"""
TEXT = """
:host { padding: 0 24px; } p { font-size: var(--body, 16px); line-height: 1.45; margin: 0 0 8px; color: var(--ink); }
h1 { font-size: var(--title, 20px); margin: 8px 0; color: var(--ink); }
code { font-size: var(--body, 16px) !important; }
"""
NARROW = {"& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 10px", "lineHeight": 1.2}}
Numbers = Mapping[str, float]


class TrapsView:
    """Chooser, text, what was seen, programs. tried(trap) is called when both programs shall be run."""

    def __init__(self, tried: Callable[[Trap], object]) -> None:
        self._tried, self._results = tried, dict[str, tuple[Numbers | str, Numbers | str]]()
        names = {trap.title: trap.name for trap in traps()}
        self.chooser = pmui.Select(
            label="Trap", options=names, value=traps()[0].name, size="small", width=320, margin=(8, 8, 8, 24)
        )
        self.chooser.param.watch(lambda event: self.show(), "value")
        self.button = pmui.Button(label="Run both", icon="play_arrow", size="medium", margin=(8, 8), width=136)
        self.button.on_click(lambda event: self._try())
        self._about = pn.pane.Markdown("", stylesheets=[stylesheet(), TEXT], sizing_mode="stretch_width", margin=0)
        self._seen = pn.pane.HTML("", stylesheets=[stylesheet(), STYLE], sizing_mode="stretch_width", margin=0)
        self._code = pn.pane.HTML("", stylesheets=[stylesheet(), CODE], sizing_mode="stretch_width", margin=0)
        row = pn.Row(self.chooser, self.button, margin=0)
        self.panel = pn.Column(
            row, self._about, self._seen, self._code, scroll="y-auto", margin=0, sizing_mode="stretch_width"
        )
        self.show()

    @property
    def trap(self) -> Trap:
        """The one that is shown."""
        return next(trap for trap in traps() if trap.name == self.chooser.value)

    def fit(self, width: int, height: int) -> None:
        """Take that many px."""
        self.panel.height = height

    def show(self) -> None:
        """Write the trap that is chosen."""
        trap = self.trap
        self._about.object = trap.about
        sides = ((trap.wrong, "wrong"), (trap.right, "right"))
        texts = "".join(program(side, tone, f"{tone.capitalize()}: {side.backend.label}") for side, tone in sides)
        self._code.object = f"<div class='programs'>{texts}</div>"
        self._write()

    def answer(self, name: str, wrong: Numbers | str, right: Numbers | str) -> None:
        """Both programs of a trap have run: their numbers, or why there are none."""
        if self._results.get(name) != (wrong, right):
            self._results[name] = wrong, right
            self._write()

    def _try(self) -> None:
        self._seen.object = "<div class='seen'><p class='quiet'>Running both programs …</p></div>"
        self._tried(self.trap)

    def _write(self) -> None:
        trap = self.trap
        gone = next((side for side in (trap.wrong, trap.right) if side.missing), None)
        self.button.disabled = gone is not None
        self._seen.object = seen(trap, gone, self._results.get(trap.name))


def seen(trap: Trap, gone: Side | None, result: tuple[Numbers | str, Numbers | str] | None) -> str:
    """What both programs saw, as HTML; gone: the one that cannot run here."""
    if gone is not None:
        line = f" <code>{escape(gone.backend.install)}</code>" if gone.backend.install else ""
        words = f"<p class='quiet'>Cannot run here: {escape(gone.missing or '')}.{line}</p>"
        return f"<div class='seen'>{words}</div>"
    if result is None:
        about = "; ".join(trap.seen.values())
        return f"<div class='seen'><p class='quiet'>What is looked at: {escape(about)}.</p></div>"
    failed = [words for words in result if isinstance(words, str)]
    if failed:
        return f"<div class='seen'><p class='wrong'>{escape('; '.join(failed))}</p></div>"
    wrong, right = (side if not isinstance(side, str) else {} for side in result)
    rows = "".join(
        f"<tr><td>{escape(about)}</td><td class='num wrong'>{_number(wrong.get(key))}</td>"
        f"<td class='num right'>{_number(right.get(key))}</td></tr>"
        for key, about in trap.seen.items()
    )
    head = "<tr><th>seen here, now</th><th class='num'>wrong</th><th class='num'>right</th></tr>"
    return f"<div class='seen'><table>{head}{rows}</table></div>"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2e}" if 0 < abs(value) < 1e-2 else "nan" if value != value else figure(value)  # noqa: PLR0124
