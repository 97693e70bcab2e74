"""Source code views: programs of one or two ways side by side, and traps, each with a wrong and a right program.

The text is exactly that of the file that runs, highlighted by Python's tokenizer.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Callable, Mapping
from html import escape

import panel as pn
import panel_material_ui as pmui

from app.labs.crossover.sweep_view_model import SweepViewModel
from app.page.theme import stylesheet
from app.page.widgets import set_options
from app.readout.readout_html import figure
from compute.labs.crossover.trap import Trap, TrapProgram, traps
from compute.ways.workload import ShownProgram, Way

CODE_STYLE = """
.programs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 16px;
  padding: 0 8px 16px 24px; align-items: start; }
.program { min-width: 0; border: 1px solid var(--line); border-radius: 6px; background: var(--paper);
  border-top: 4px solid var(--hue, var(--line)); }
.program.cpu { --hue: var(--cpu); } .program.gpu { --hue: var(--gpu); }
.program.wrong { --hue: var(--bad); } .program.right { --hue: var(--good); }
.program header { padding: 4px 12px 4px 16px; border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap;
  gap: 0 8px; align-items: baseline; justify-content: space-between; }
.program h3 { margin: 0; font-size: var(--body, 16px); color: var(--ink); white-space: nowrap; }
.program header code { color: var(--muted); font-size: var(--small, 14px); }
.program pre { margin: 0; padding: 8px 16px 16px; font: var(--small, 14px)/1.45 'Roboto Mono', 'Liberation Mono',
  Menlo, Consolas, monospace; color: var(--ink); overflow-x: auto; tab-size: 4; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.k { color: var(--accent); font-weight: 700; } .s { color: var(--good); } .n { color: var(--warn); }
.c { color: var(--muted); font-style: italic; } .d { font-weight: 700; }
"""
QUIET = {tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL}
KINDS = {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "n"}


def program_html(which: ShownProgram, kind: str, title: str = "") -> str:
    """Return one file as HTML.

    kind: "cpu", "gpu", "wrong" or "right", which determines the hue; title: heading next to the file name.
    """
    named = f"<h3>{escape(title)}</h3>" if title else ""
    head = f"<header>{named}<code>{escape(which.name)}</code></header>"
    return f"<article class='program {kind}'>{head}<pre>{highlighted(which.source)}</pre></article>"


def highlighted(source: str) -> str:
    """Return highlighted Python as HTML; its text content equals `source`."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    out, done, before = [], 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in QUIET:
            continue
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        out.append(escape(source[done:start]))
        kind = _kind(token, before)
        text = escape(source[start:end])
        out.append(f"<span class='{kind}'>{text}</span>" if kind else text)
        done, before = end, token.string
    return "".join([*out, escape(source[done:])])


def _kind(token: tokenize.TokenInfo, before: str) -> str:
    if token.type == tokenize.NAME:
        return "k" if keyword.iskeyword(token.string) else "d" if before in ("def", "class") else ""
    return KINDS.get(token.type, "")


NONE = "none"
CHOOSER = 56  # px of height of a row of drop-downs
BOTH = 592  # px of width for two drop-downs side by side
SIZE = {"size": "small", "width": 264, "sizing_mode": "fixed", "margin": (8, 8, 8, 24)}


class ProgramsView:
    """Two drop-downs and the selected programs below. A tap on a line of the plot selects its program first."""

    def __init__(self, model: SweepViewModel) -> None:
        self._model = model
        self.first = pmui.Select(label="Program", **SIZE)
        self.second = pmui.Select(label="Compare with", **SIZE)
        self._text = pn.pane.HTML("", stylesheets=[stylesheet(), CODE_STYLE], sizing_mode="stretch_width", margin=0)
        self._scroll = pn.Column(self._text, scroll="y-auto", margin=0, sizing_mode="stretch_width")
        row = pn.Row(self.first, self.second, margin=0, styles={"flex-wrap": "wrap"})
        self.panel = pn.Column(row, self._scroll, margin=0, sizing_mode="stretch_width")
        self._shown: tuple[str, ...] = ()
        for field in (self.first, self.second):
            field.param.watch(lambda event: self._chosen(), "value")

    def resize(self, width: int, height: int) -> None:
        """Set the size in px."""
        self._scroll.height = max(120, height - CHOOSER * (1 if width >= BOTH else 2))

    def show_program(self, way: str) -> None:
        """Show the program of `way` first, followed by the previous first one."""
        code = self._model.choice.code
        if not code or code[0] != way:
            self._model.choice.code = (way, *code[:1])
        self.show()

    def show(self) -> None:
        """Update the options and show the selected programs; by default the first way of each device."""
        ways = {way.label: way.name for way in self._model.ways}
        code = tuple(way for way in self._model.choice.code if way in ways.values()) or self._default()
        self._model.choice.code = code
        set_options(self.first, ways, code[0])
        set_options(self.second, {NONE: "", **ways}, code[1] if len(code) > 1 else "")
        self._write()

    def _default(self) -> tuple[str, ...]:
        """Return the first way on each device."""
        ways = self._model.ways
        kinds = {way.kind: way.name for way in reversed(ways)}
        return tuple(kinds[name] for name in ("cpu", "gpu") if name in kinds)

    def _chosen(self) -> None:
        self._model.choice.code = tuple(name for name in (self.first.value, self.second.value) if name)
        self._write()

    def _write(self) -> None:
        code = (self._model.workload.name, *self._model.choice.code)
        if code != self._shown:
            self._shown = code
            ways = {way.name: way for way in self._model.ways}
            texts = "".join(_article(ways[name]) for name in self._model.choice.code if name in ways)
            self._text.object = f"<div class='programs'>{texts}</div>"


def _article(way: Way) -> str:
    return program_html(way, way.kind)


TRAP_STYLE = """
.seen { padding: 0 24px 12px; color: var(--ink); font-size: var(--body, 16px); }
.seen p { margin: 0; line-height: 1.4; } .seen .quiet { color: var(--muted); }
.seen td.num, .seen th.num { text-align: right; font-variant-numeric: tabular-nums; font-weight: 700; }
.seen .wrong { color: var(--bad); } .seen .right { color: var(--good); }
.seen code { display: inline-block; padding: 2px 8px; background: var(--ground); border-radius: 4px;
  font-size: var(--small, 14px); user-select: all; }
"""
ABOUT_STYLE = """
:host { padding: 0 24px; } p { font-size: var(--body, 16px); line-height: 1.45; margin: 0 0 8px; color: var(--ink); }
h1 { font-size: var(--title, 20px); margin: 8px 0; color: var(--ink); }
code { font-size: var(--body, 16px) !important; }
"""
Numbers = Mapping[str, float]


class TrapsView:
    """Drop-down of traps, text, results and both programs. run(trap) is called to run both programs."""

    def __init__(self, run: Callable[[Trap], object]) -> None:
        self._run_trap, self._results = run, dict[str, tuple[Numbers | str, Numbers | str]]()
        self._barred = ""  # why no program may run
        names = {trap.title: trap.name for trap in traps()}
        self.chooser = pmui.Select(
            label="Trap", options=names, value=traps()[0].name, size="small", width=320, margin=(8, 8, 8, 24)
        )
        self.chooser.param.watch(lambda event: self.show(), "value")
        self.button = pmui.Button(label="Run both", icon="play_arrow", size="medium", margin=(8, 8), width=136)
        self.button.on_click(lambda event: self._run())
        self._about = pn.pane.Markdown(
            "", stylesheets=[stylesheet(), ABOUT_STYLE], sizing_mode="stretch_width", margin=0
        )
        self._seen = pn.pane.HTML("", stylesheets=[stylesheet(), TRAP_STYLE], sizing_mode="stretch_width", margin=0)
        self._code = pn.pane.HTML("", stylesheets=[stylesheet(), CODE_STYLE], sizing_mode="stretch_width", margin=0)
        row = pn.Row(self.chooser, self.button, margin=0)
        self.panel = pn.Column(
            row, self._about, self._seen, self._code, scroll="y-auto", margin=0, sizing_mode="stretch_width"
        )
        self.show()

    @property
    def trap(self) -> Trap:
        """The selected trap."""
        return next(trap for trap in traps() if trap.name == self.chooser.value)

    def resize(self, width: int, height: int) -> None:
        """Set the size in px."""
        self.panel.height = height

    def show(self) -> None:
        """Show the selected trap."""
        trap = self.trap
        self._about.object = trap.about
        sides = ((trap.wrong, "wrong"), (trap.right, "right"))
        texts = "".join(program_html(side, tone, f"{tone.capitalize()}: {side.backend.label}") for side, tone in sides)
        self._code.object = f"<div class='programs'>{texts}</div>"
        self._write()

    def show_result(self, name: str, wrong: Numbers | str, right: Numbers | str) -> None:
        """Show the results of both programs of a trap: their numbers, or an error message."""
        if self._results.get(name) != (wrong, right):
            self._results[name] = wrong, right
            self._write()

    def bar(self, why: str) -> None:
        """Run no program, and show why; "" allows programs again."""
        self._barred = why
        self._write()

    def _run(self) -> None:
        self._seen.object = "<div class='seen'><p class='quiet'>Running both programs …</p></div>"
        self._run_trap(self.trap)

    def _write(self) -> None:
        trap = self.trap
        gone = next((side for side in (trap.wrong, trap.right) if side.missing), None)
        self.button.disabled = gone is not None or bool(self._barred)
        self._seen.object = trap_result(trap, gone, self._results.get(trap.name), self._barred)


def trap_result(
    trap: Trap, gone: TrapProgram | None, result: tuple[Numbers | str, Numbers | str] | None, barred: str = ""
) -> str:
    """Return the results of both programs as HTML.

    gone: the program that cannot run here, if any; barred: why no program may run, "" if they may.
    """
    if gone is not None:
        line = f" <code>{escape(gone.backend.install)}</code>" if gone.backend.install else ""
        words = f"<p class='quiet'>Cannot run here: {escape(gone.missing or '')}.{line}</p>"
        return f"<div class='seen'>{words}</div>"
    if result is None:
        words = barred or f"Measured: {'; '.join(trap.seen.values())}."
        return f"<div class='seen'><p class='quiet'>{escape(words)}</p></div>"
    failed = [words for words in result if isinstance(words, str)]
    if failed:
        return f"<div class='seen'><p class='wrong'>{escape('; '.join(failed))}</p></div>"
    wrong, right = (side if not isinstance(side, str) else {} for side in result)
    rows = "".join(
        f"<tr><td>{escape(about)}</td><td class='num wrong'>{_number(wrong.get(key))}</td>"
        f"<td class='num right'>{_number(right.get(key))}</td></tr>"
        for key, about in trap.seen.items()
    )
    head = "<tr><th>measured now</th><th class='num'>wrong</th><th class='num'>right</th></tr>"
    return f"<div class='seen'><table>{head}{rows}</table></div>"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2e}" if 0 < abs(value) < 1e-2 else "nan" if value != value else figure(value)  # noqa: PLR0124
