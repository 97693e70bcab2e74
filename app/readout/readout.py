"""The right column: one factor, one sentence and the bars behind them; the rest is folded under "Details".

app.readout.comparison decides the subject and time of each comparison; `Readout.tick` calls it four times a second.
Details contains the samples, the shares of the roofs, the agreement of the results, recorded and cited figures, the
facts and the parts of the live picture, and the history of its times. With Details folded, the column of each lab fits
1440 x 900 px.
"""

from __future__ import annotations

import io
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf, isfinite, nan
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import holoviews as hv
import numpy as np
import panel as pn
import panel_material_ui as pmui
import param
from bokeh.models import BasicTicker
from panel.custom import JSComponent

from app.page.explain import explained, term
from app.page.theme import ASSETS, LIGHT, colours, keep_type, stylesheet
from app.readout import readout_html as html
from app.readout.comparison import Comparison
from app.readout.headline import Fastest, headline, recorded_headline
from app.readout.numbers import Numbers
from app.server.admission import session_limiter
from app.tab.curve_plots import bokeh_figure
from app.tab.lean_plots import rewrite
from app.tab.stream import ignore
from app.upstream.plot_pane import PlotPane
from compute.devices.backends import BACKENDS, backend
from compute.devices.devices import HOST
from compute.measure.benchmark import benchmark_of
from compute.measure.live_record import ShownTimings, as_csv, as_json, as_pyperf, as_trace
from compute.measure.machine_roofs import machine_roofs
from compute.measure.records import Recorded, chip_key, library
from compute.measure.rules import Chart, ComparisonRules, Fact
from compute.measure.statistics import Measurement, Spread, Window
from compute.measure.timing import Timing
from compute.measure.verdict import Verdict, shared_results

if TYPE_CHECKING:
    from app.tab.session import Session
    from compute.engine import LabHandle


REDRAW = 1.0  # seconds between two versions of the text, times `crowding`: flickering numbers are unreadable
AT_WORK = ("running", "paused")  # states of a session in which its comparison may measure


class Readout:
    """The right column of one session. `on_painted`, `tick` and `close` are called on the document's loop.

    A lab whose benchmark has no rules is not compared: the column then shows only the parts of a live frame.
    numbers: whether the page measures, or shows only records.
    """

    def __init__(self, session: Session, numbers: Numbers | None = None) -> None:
        self._session, self._numbers = session, numbers or Numbers()
        name, rules = session.lab.LAB, benchmark_of(session.lab).rules
        self._comparison = None
        if rules:
            known = [one.name for one in session.lab.backends()]
            self._comparison = Comparison(name, rules, self._open, shared_results(), backends=known)
        self._window = Window()
        self._fresh: list[float] = []  # seconds per step or in total, of the frames since the last tick
        self._setting: tuple[Any, ...] = ()
        self._drawn_at = -REDRAW
        self._state = ""
        self._hidden = False  # until the next tick
        self.headline = self.sentence = ""  # HTML, shown elsewhere while this column is closed
        self._stepwise = self._comparison is not None and self._comparison.rules.rate.step == "step"
        self.history = ComputeTimePlot() if self._stepwise else ComputeTimePlot("ms/frame", 1e-3)
        sheets = [stylesheet(), (ASSETS / "readout.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        self._details = pn.pane.HTML("", stylesheets=sheets, sizing_mode="stretch_width", margin=0)
        plot = PlotPane(self.history.figure, sizing_mode="stretch_width", margin=0)
        # A column, as Panel takes the visibility of a plot's pane from the plot when it becomes True again.
        self._plot = pn.Column(plot, margin=0, sizing_mode="stretch_width")
        self.source = pmui.Select(
            label="Numbers", options=self._numbers.options, value=self._numbers.chip, size="small", margin=(8, 0),
            sizing_mode="stretch_width", visible=self._comparison is not None and len(self._numbers.options) > 1,
        )  # fmt: skip
        self.source.param.watch(lambda event: self._numbers.param.update(chip=event.new), "value")
        self._watcher = self._numbers.param.watch(lambda event: session.later(self._switch), "chip")
        self.details = Fold(
            "Details", self.source, self._details, self._plot, unfolded=self._comparison is None,
            on_unfold=lambda: session.later(self._refresh),
        )  # fmt: skip
        self.again = again_button(self._measure_again)
        self._show_source()
        self.shown = ShownTimings(name, {}, "")  # the timings behind the text, for the export card
        self.saves = SaveButtons(TIMING_FORMATS, lambda: self.shown)
        self.panel = pn.Column(self._text, self.again, self.details, sizing_mode="stretch_width", margin=(8, 16))
        self._draw(None)

    # -- called by the page

    def on_painted(self, timing: Timing) -> None:
        """Record the timing of a painted frame, including its delivery."""
        if self._chip:
            return
        self._window.add(timing)
        if self._comparison:
            self._comparison.follow(self._session.confirmed)  # the values may have changed since the last tick
            self._comparison.record_live(timing)
        if not timing.first_call:
            self._fresh.append(timing.step_seconds if self._stepwise else timing.compute)

    def tick(self) -> None:
        """Advance comparison and history, and write the text every REDRAW seconds; called four times a second."""
        session, now = self._session, time.monotonic()
        self._hidden = False
        if session.latest is None or session.phase not in AT_WORK:
            return
        if self._chip:
            self._write(now)
            return
        machine_roofs().start()
        if self._comparison:
            self._comparison.follow(session.confirmed)  # values that the engine may still refuse are not compared
            self._comparison.tick()
        self._follow()
        self.history.add(now, Spread.of(self._fresh).median)
        if not session.playing:
            self.history.rest(now)
        self._fresh.clear()
        if self.details.unfolded:
            self.history.draw(now, self._kind)
        self._write(now)

    def _refresh(self) -> None:
        """Write the details, which are not updated while folded."""
        self.history.draw(time.monotonic(), self._kind)
        self._draw(self._comparison.verdict() if self._comparison and not self._chip else None)

    @property
    def _chip(self) -> str:
        """The chip whose records are shown; "" if this computer is measured, and for a lab that is not compared."""
        return self._numbers.chip if self._comparison else ""

    def _show_source(self) -> None:
        """Show the list of numbers and the parts that belong to the chosen ones."""
        self.source.value = self._numbers.chip
        self.again.visible = self._comparison is not None and not self._chip
        self._plot.visible = not self._chip

    def _switch(self) -> None:
        """Stop the measurements of this session, or begin to measure."""
        if self._chip and self._comparison:
            self._comparison.let_go()
        self._setting = ()  # clears history and window at the next measurement
        self._fresh.clear()
        self._show_source()
        self._drawn_at = -REDRAW
        self._write(time.monotonic())

    def _measure_again(self) -> None:
        """Discard the timings of these settings and take new ones."""
        if self._comparison:
            self._comparison.measure_again()
            self._window.clear()
            self._drawn_at = -REDRAW
            self._write(time.monotonic())

    def _continue(self) -> None:
        """Process a result that the first number depends on, and request the next measurement immediately."""
        if self._comparison and not self._chip and not self._hidden and self._session.phase in AT_WORK:
            self._comparison.tick()
            self._write(time.monotonic())

    def _write(self, now: float) -> None:
        """Write the text if the state of the verdict has changed, or if REDRAW has passed."""
        verdict = self._comparison.verdict() if self._comparison and not self._chip else None
        state = verdict.state if verdict else ""
        if state != self._state or now - self._drawn_at >= REDRAW * session_limiter().crowding:
            self._state, self._drawn_at = state, now
            self._draw(verdict)

    def on_event(self, event: Any) -> None:
        """Ignore engine events of the live lab: the comparison opens separate labs."""

    def set_theme(self, dark: bool) -> None:
        """Colour the history for the dark or the light scheme; the rest follows the page's CSS variables."""
        self.history.set_theme(dark)

    def hide(self) -> None:
        """Leave the current measurement to another session while the lab is hidden."""
        self._hidden = True
        if self._comparison:
            self._comparison.let_go()

    def close(self) -> None:
        """Stop the session's measurements."""
        self._numbers.param.unwatch(self._watcher)
        if self._comparison:
            self._comparison.close()

    # -- inside

    @property
    def _kind(self) -> str:
        return backend(self._session.values["backend"]).kind

    def _open(self, engine: str, values: dict[str, Any], on_event: Any) -> LabHandle:
        session = self._session

        def forward(event: Any) -> None:
            """Pass on an event of the measured lab, on its engine's thread."""
            on_event(event)
            if self._comparison is not None and self._comparison.for_first_estimate:
                session.later(self._continue)

        return session_limiter().engines.get(engine).open(session.lab.LAB, values, forward)

    def _follow(self) -> None:
        """Clear the history and the window when the measured settings have changed."""
        values = self._session.values
        names = self._comparison.rules.timed if self._comparison else ("ny", "nx", "dtype")
        setting = tuple(values.get(name) for name in ("backend", "variant", *names))
        if setting != self._setting:
            self._setting = setting
            self._window.clear()
            self._fresh.clear()
            self.history.clear()

    def _draw(self, verdict: Verdict | None) -> None:
        if self._chip:
            self._draw_records()
            return
        session, rules = self._session, self._comparison.rules if self._comparison else None
        self.shown = ShownTimings(
            session.lab.LAB, dict(session.values), session.engine, rules.rate if rules else None, verdict,
            self._window.timings, session.gate.rate,
        )  # fmt: skip
        self.saves.allow(not self.shown.empty)
        live = self._window.measurement()
        text, details = self._evidence(verdict, live)
        show_html(self._text, text)
        if self.details.unfolded:  # a folded pane is not sent
            head, gate = term("Parts of a live frame", html.INCLUDED), session.gate
            parts = html.parts(live, self._kind, gate.rate, gate.dropped, gate.latency)
            show_html(self._details, f"{details()}<h3>{head}</h3>{parts}")

    def _draw_records(self) -> None:
        """Write the records of the chosen chip for the session's values, and nothing that is measured here."""
        if self._comparison is None:
            return
        rules, values, chip = self._comparison.rules, self._session.confirmed, self._chip
        self.shown = ShownTimings(self._session.lab.LAB, {}, "")
        self.saves.allow(False)
        figures = [one for one in recorded_figures() if chip_key(one.machine) == chip and not one.cited]
        pair = rules.recorded_pair(values, figures)
        said = recorded_headline(rules, pair, self._numbers.names.get(chip, chip))
        self.headline, self.sentence = said.number, said.sentence
        drawing = rules.chart(values, figures)
        bars = "".join(html.recorded(one) for one in (pair.gpu, pair.cpu) if one) if pair else ""
        if drawing is not None and not drawing.additional:
            bars = html.chart(drawing, (), rules.rate.step)
        elif bars:
            bars = f"<h3>{rules.rate.spelled}, logarithmic</h3>{bars}"
        show_html(self._text, f"{said.number}{said.sentence}{bars}")
        if self.details.unfolded:
            more = html.others(rules.elsewhere(values, figures))
            show_html(self._details, f"<h3>Nearest record, and publications</h3>{more}" if more else "")

    def _roof(self, engine: str, dtype: str) -> float:
        """Return the roof for rates on `engine`: sampled with the ways if possible, otherwise measured at the start."""
        if self._comparison is None:
            return nan
        sampled = self._comparison.roof(engine, dtype)
        return sampled if isfinite(sampled) else machine_roofs().rate(engine, self._comparison.rules.rate.roof, dtype)

    def _live_rate(self, live_facts: Sequence[Fact], live: Measurement | None) -> float:
        """Return the rate of the live picture, from the lab's facts or its frames; nan if unknown, and for a GPU.

        A live GPU rate appears in no sentence without its comparison, nor does the rate of another backend that
        computes in place of the chosen one.
        """
        latest = self._session.latest
        if self._kind == "gpu" or (latest and latest.timing.backend != self._session.confirmed["backend"]):
            return nan
        rates = [fact.value for fact in live_facts if fact.kind == "rate" and not isinstance(fact.value, str)]
        if rates or live is None or live.step.n == 0:
            return rates[0] if rates else nan
        return live.cells_per_second

    def _evidence(self, verdict: Verdict | None, live: Measurement | None) -> tuple[str, Callable[[], str]]:
        """Return the headline with its bars as HTML, and a function that returns the details.

        Also sets `headline` and `sentence`.
        """
        if self._comparison is None:
            return "", str
        rules, values, latest = self._comparison.rules, self._session.confirmed, self._session.latest
        dtype, step = rules.dtype(values), rules.rate.step
        roofs = self._roofs(rules, values, dtype)
        live_facts = rules.facts(values, latest, roofs.rates[self._kind]) if latest else ()
        standings = verdict.standings if verdict else ()
        pair = rules.recorded_pair(values, recorded_figures())
        fastest = Fastest.of(
            verdict, self._live_rate(live_facts, live), lambda way: roofs.reached(way, rules.rate, dtype), roofs.held
        )
        said = headline(verdict, fastest, rules, pair, machine_roofs().waking)
        self.headline, self.sentence = said.number, said.sentence
        drawing = rules.chart(values, recorded_figures())
        if drawing is None or drawing.additional:
            bars = html.ways(standings) + (html.recorded(pair.gpu) if pair and fastest.gpu is None else "")
            bars = f"<h3>{rules.rate.spelled}, logarithmic</h3>{bars}"
        else:
            bars = html.chart(drawing, standings, step)
        text = f"{said.number}{said.sentence}{bars}"
        return text, partial(self._detail_blocks, rules, verdict, roofs, live_facts, drawing)

    def _detail_blocks(
        self, rules: ComparisonRules, verdict: Verdict | None, roofs: html.Roofs, live_facts: Sequence[Fact],
        drawing: Chart | None,
    ) -> str:  # fmt: skip
        """Return the details as HTML: agreement, times, first calls, other machines, facts of the live picture."""
        values, standings = self._session.confirmed, verdict.standings if verdict else ()
        dtype, step = rules.dtype(values), rules.rate.step
        blocks = [f"<h3>Results</h3>{html.agreement(verdict.agreement if verdict else None)}"]
        blocks += [f"<h3>Times</h3>{html.details(standings, rules.rate, dtype, roofs)}"] if standings else []
        blocks += [html.first_calls(standings)]
        if drawing is not None and drawing.additional:
            blocks += [html.chart(drawing, standings, step)]
        if elsewhere := rules.elsewhere(values, recorded_figures()):
            on_grid = "edges" in values
            here = html.ComputedCase(values["ny"], values["nx"], dtype, values["edges"]) if on_grid else None
            blocks += [f"<h3>Other machines, {rules.rate.spelled}</h3>{html.others(elsewhere, here)}"]
        if facts := html.facts(live_facts, rules.rate, roofs, self._kind):
            blocks += [f"<h3>Live picture</h3>{facts}"]
        return "".join(blocks)

    def _roofs(self, rules: ComparisonRules, values: Mapping[str, Any], dtype: str) -> html.Roofs:
        """Return the roofs and caches of the CPU and of the selected or best GPU."""
        gpus = (one for one in BACKENDS if one.kind == "gpu")
        gpu = max(gpus, key=lambda one: (one.name == values["backend"], one.ready, one.preference))
        names = {"cpu": HOST, "gpu": gpu.engine(values.get("device_index", 0))}
        rates = {kind: self._roof(name, dtype) for kind, name in names.items()}
        caches = {kind: machine_roofs().caches(name) for kind, name in names.items()}
        sampled = {kind: bool(self._comparison and isfinite(self._comparison.roof(name, dtype)))
                   for kind, name in names.items()}  # fmt: skip
        kept = {kind: "" if sampled[kind] else machine_roofs().kept for kind in names}
        return html.Roofs(rates, caches, rules.held(values), kept)


def show_html(pane: pn.pane.HTML, words: str) -> None:
    """Write HTML into a pane, unless it is unchanged."""
    text = explained(f"<div class='readout'>{words}</div>")
    if text != pane.object:
        pane.object = text


@cache
def recorded_figures() -> tuple[Recorded, ...]:
    """Return the figures in assets/timings, read once per process; a broken file is logged and left out."""
    figures, problems = library()
    for problem in problems:
        pn.state.log(problem, level="warning")
    return tuple(figures)


hv.extension("bokeh")

SPAN = 60.0  # seconds shown
MOST = 300  # points kept: four per second over SPAN, and a margin
HEIGHT = 112  # px
MOST_MEDIANS = 4.0  # height of the plot in medians: a rare outlier is cut off instead of flattening the rest
HEADROOM = 1.1


class ComputeTimePlot:
    """Plot of the compute time of a step or frame over the last SPAN seconds: one line in the colour of its device.

    label: of the axis; unit: seconds per unit of the axis.
    """

    def __init__(self, label: str = "µs/step", unit: float = 1e-6) -> None:
        self._unit = unit
        self._points: deque[tuple[float, float]] = deque(maxlen=MOST)
        self._drawn_at, self._new = -inf, False  # seconds; whether points were added since then
        curve = hv.Curve(([-SPAN, 0.0], [0.0, 1.0]), "live, seconds ago", label).opts(
            color=LIGHT["cpu"], line_width=2, toolbar=None, default_tools=[], show_grid=False
        )
        self.figure = bokeh_figure(curve)
        self._renderer = self.figure.renderers[0]
        self._source = self._renderer.data_source
        self._columns = self._renderer.glyph.x, self._renderer.glyph.y
        self._source.data = {column: np.empty(0) for column in self._columns}  # no line before the first frame
        self.set_theme(dark=False)
        self._lay_out()

    def _lay_out(self) -> None:
        plot = self.figure
        plot.update(sizing_mode="stretch_width", height=HEIGHT, output_backend="canvas", title=None)
        plot.update(min_border_right=8, min_border_top=8, outline_line_color=None)
        plot.toolbar.logo = None
        plot.x_range.update(start=-SPAN, end=0)
        for axis in (plot.xaxis[0], plot.yaxis[0]):
            axis.update(axis_label_text_font_style="normal", minor_tick_line_color=None)
            axis.ticker = BasicTicker(desired_num_ticks=3)
        keep_type(plot)

    def set_theme(self, dark: bool) -> None:
        """Use the colours of the dark or the light scheme from the next drawing on."""
        self._scheme = colours(dark)

    def add(self, moment: float, seconds: float) -> None:
        """Add a point: the median time (seconds) of the frames since the last one, at `moment` (seconds)."""
        if isfinite(seconds):
            self._points.append((moment, seconds / self._unit))
            self._new = True

    def rest(self, moment: float) -> None:
        """End the line while the lab is paused; the next point begins another line."""
        if self._points and isfinite(self._points[-1][1]):
            self._points.append((moment, nan))
            self._new = True

    def clear(self) -> None:
        """Remove all points, when the backend or grid has changed."""
        self._points.clear()
        self._new = True

    def draw(self, moment: float, kind: str) -> None:
        """Draw the line as of `moment` in the colour of `kind` ("cpu" or "gpu"); once per second without new points."""
        if not self._new and moment - self._drawn_at < REDRAW:
            return
        self._drawn_at, self._new = moment, False
        points = [(then - moment, value) for then, value in self._points if moment - then <= SPAN]
        x, y = np.array(points).reshape(-1, 2).T
        rewrite(self._source, {self._columns[0]: x, self._columns[1]: y})
        self._renderer.glyph.line_color = self._scheme[kind]
        known = y[np.isfinite(y)]
        if known.size:
            self.figure.y_range.update(
                start=0.0, end=min(float(known.max()), MOST_MEDIANS * float(np.median(known))) * HEADROOM
            )


FOLD_STYLE = """
button { display: block; width: 100%; min-height: 32px; padding: 4px 0; border: 0; background: none; cursor: pointer;
  text-align: left; font: 700 var(--small, 14px) Roboto, "Liberation Sans", Arial, sans-serif; color: var(--muted); }
button::after { content: ""; float: right; width: 8px; height: 8px; margin: 2px 6px 0 0; transform: rotate(45deg);
  border: solid currentColor; border-width: 0 2px 2px 0; }
button[aria-expanded=true]::after { margin-top: 7px; transform: rotate(-135deg); }
button:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
"""


class FoldHead(JSComponent):
    """A button that unfolds and folds the parts below it."""

    label = param.String(default="", doc="What it unfolds.")
    unfolded = param.Boolean(default=False, doc="Whether it is seen.")

    _esm = """
    export function render({ model }) {
      const head = document.createElement('button');
      head.type = 'button';
      head.textContent = model.label;
      const show = () => head.setAttribute('aria-expanded', String(model.unfolded));
      head.addEventListener('click', () => { model.unfolded = !model.unfolded; });
      model.on('unfolded', show);
      show();
      return head;
    }
    """
    _stylesheets: ClassVar[list[str]] = [FOLD_STYLE]


class Fold(pn.Column):
    """Parts of a column that a click on their head unfolds; unfolded: the initial state.

    on_unfold() is called each time the parts are unfolded, to update content that is not written while folded.
    """

    def __init__(
        self,
        label: str,
        *parts: Any,
        unfolded: bool = False,
        margin: Any = (4, 0, 0, 0),
        on_unfold: Callable[[], object] = ignore,
    ) -> None:
        head = FoldHead(label=label, unfolded=unfolded, margin=0, sizing_mode="stretch_width")
        body = pn.Column(*parts, visible=unfolded, margin=0, sizing_mode="stretch_width")
        super().__init__(head, body, margin=margin, sizing_mode="stretch_width")
        self._head, self._body, self._on_unfold = head, body, on_unfold
        self._head.param.watch(lambda event: self._fold(event.new), "unfolded")

    @property
    def unfolded(self) -> bool:
        """Whether the parts are visible."""
        return bool(self._head.unfolded)

    def unfold(self) -> None:
        """Show the parts."""
        self._head.unfolded = True

    def _fold(self, unfolded: bool) -> None:
        self._body.visible = unfolded
        if unfolded:
            self._on_unfold()


NARROW_TIP = ".MuiTooltip-tooltip { max-width: 136px !important; }"  # the width next to the button in the column


def again_button(press: Callable[[], object]) -> pmui.Button:
    """Return the button "Measure again"."""
    button = pmui.Button(
        label="Measure again", icon="refresh", variant="text", size="small", margin=(4, 0, 0, -4), sizing_mode=None,
        sx={"textTransform": "none"}, stylesheets=[NARROW_TIP],
        description="Measure again: discard the timings of these settings and take new ones",  # also its name
    )  # fmt: skip
    button.on_click(lambda _event: press())
    return button


SAVE_SX = {
    "minWidth": 0, "padding": "2px 6px", "fontSize": "0.875rem", "textTransform": "none",
    "& .MuiButton-startIcon": {"margin": "0 4px 0 0"},
}  # fmt: skip


@dataclass(frozen=True)
class TimingFormat:
    """One export format. suffix: of the file name; about: its purpose; make: return the text of the file.

    ready: return whether the data contain anything for this format.
    """

    label: str
    suffix: str
    about: str
    make: Callable[[Any], str]
    ready: Callable[[Any], bool] = lambda what: True


TIMING_FORMATS = (
    TimingFormat("CSV", ".csv", "table", as_csv),
    TimingFormat("JSON", ".json", "every sample", as_json),
    TimingFormat("pyperf", ".pyperf.json", "stats, compare_to", as_pyperf, attrgetter("timed")),
    TimingFormat("Trace", ".trace.json", "ui.perfetto.dev", as_trace, attrgetter("placed")),
)


class SaveButtons:
    """A row of buttons, one per format. what(): return a Shown, or another source with `lab` and `date`."""

    def __init__(self, formats: tuple[TimingFormat, ...], what: Callable[[], Any]) -> None:
        self._formats, self._what = formats, what
        self.buttons = {entry.label: self._button(entry) for entry in formats}
        self.panel = pn.Row(*self.buttons.values(), margin=(0, 8), sizing_mode="stretch_width")
        self.allow(False)

    def allow(self, something: bool) -> None:
        """Enable the buttons of formats that are ready if there is `something` to save; otherwise disable them."""
        for entry in self._formats:
            button, ready = self.buttons[entry.label], something and entry.ready(self._what())
            if button.disabled == ready:
                button.disabled = not ready

    def _button(self, entry: TimingFormat) -> pmui.FileDownload:
        button = pmui.FileDownload(
            label=entry.label, filename=f"timings{entry.suffix}", auto=True, embed=False, size="small", sx=SAVE_SX,
            margin=(4, 6, 4, 0), description=f"{entry.label}: {entry.about}",  # also its accessible name
        )  # fmt: skip
        button.variant = "outlined"  # as an argument above, it conflicts with an option of Panel's own button
        button.callback = partial(self._make, entry, button)
        return button

    def _make(self, entry: TimingFormat, button: pmui.FileDownload) -> io.BytesIO:
        what = self._what()
        button.filename = f"fieldlab-{what.lab}-{re.sub(r'[^0-9T]', '', what.date[:19])}{entry.suffix}"
        button.data = None  # an unchanged text would be no change, and download no file
        return io.BytesIO(entry.make(what).encode("utf-8"))
