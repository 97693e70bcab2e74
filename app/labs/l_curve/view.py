"""The main area of the L-curve lab: the curve with its rules, the solution, and the linked views.

A λ picked in any plot is marked in every view immediately, and its solution is requested from the lab.
"""

from __future__ import annotations

from html import escape
from math import isfinite, nan
from typing import Any

import panel as pn

from app.labs.l_curve.l_curve_plot import LCurvePlot
from app.labs.l_curve.labels import RULE_NUMBERS, LambdaNotation, short
from app.labs.l_curve.linked_plots import LinkedPlots
from app.labs.l_curve.rule_markers import RuleList
from app.page.markup import filled
from app.page.theme import GRID, html_pane
from app.tab.lab_view import LabView, Size
from app.tab.publisher import Publisher
from app.tab.session import Session
from app.upstream.document_changes import changed_together
from app.upstream.plot_pane import PlotPane
from compute.lab.frames import Frame
from compute.labs.l_curve.picture import penalised
from compute.labs.l_curve.rules import RULES

RULES_WIDE = {False: 232, True: 320}  # px of the list next to the curve, by presenter mode
SHARE = 0.56  # fraction of the height for the curve
NARROW = 640  # px of width below which the list of rules is hidden
TITLE_LINES = {1: 920, 2: 540, 3: 0}  # lines of text above the curve -> minimum width in px
LOW = {False: 480, True: 600}  # px of height below which the linked views are next to the curve
SIDE_SHARE, SIDE_MOST = 0.36, 520  # fraction of the width for these views, and its maximum in px
LEAST_BELOW = 150  # px, minimum height of the rules and of a linked view
GRID_STYLE = {
    "position": "relative", "display": "grid", "grid-template-columns": "max-content max-content",
    "grid-template-rows": "max-content max-content max-content max-content", "align-items": "start",
}  # fmt: skip
AREAS = "'title title' 'curve rules' 'chooser chooser' 'row row'"
LOW_AREAS = "'title title' 'curve row' 'curve rules' 'chooser chooser'"
TITLE_HIGH = {False: 32, True: 40}  # px of a line of text above the curve
LEAST = 200  # px, minimum height of the curve
CHOOSER = {False: 28, True: 36}  # px of the line that selects the views
SAME = ("rows", "columns", "entries")  # facts of a frame; the axes are reset if one changes


class LCurveView(LabView):
    """The plots of one session, and their layout."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.notation = LambdaNotation()
        self._axes: tuple[Any, ...] = ()
        self._brief = False  # whether the line above the curve contains λ only
        self.picked: Publisher[float | None] = Publisher()  # None: the rule's λ is used again
        self.plot = LCurvePlot(session.document, self.pick)
        self.linked_plots = LinkedPlots(session.document, self.pick)
        self.rules = RuleList(self.take_rule, sizing_mode="fixed", styles={"grid-area": "rules"})
        self.plot.frames.serve(session)
        session.frames.subscribe(self._show)
        self._build()

    def _build(self) -> None:
        self._areas = AREAS
        self.title = html_pane("", TITLE, styles={"grid-area": "title"}, sizing_mode="fixed")
        self._pane = PlotPane(self.plot.figure, margin=0, styles={"grid-area": "curve"})
        self.veil = html_pane("", VEIL, visible=False, styles=OVER, sizing_mode=None)
        chooser, row = self.linked_plots.chooser, self.linked_plots.row
        chooser.styles, row.styles = {"grid-area": "chooser"}, {"grid-area": "row"}
        parts = self.title, self._pane, self.rules, chooser, row, self.veil
        styles = {**GRID_STYLE, "grid-template-areas": AREAS}
        wide, high = self.size
        self.panel = pn.Column(
            *parts, margin=(GRID, 0, 0, 0), width=wide, height=high, sizing_mode="fixed", styles=styles
        )
        self.wait_for(self.plot.figure, *self.linked_plots.figures)
        self.arrange()

    # -- layout

    def arrange(self) -> None:
        """Divide the space: the linked views are below the curve, or to its right in a low window.

        A narrow window has no list of rules, a low one no selection of views.
        """
        width, height = self.size
        presenter, low, narrow = self.presenter, self._low, self.alone or width < NARROW
        title = self._title_height()
        self.panel.param.update(width=width, height=self.size[1])
        self.title.param.update(width=width, height=title)
        height -= title + GRID
        self.linked_plots.chooser.visible = choosing = not (low or narrow)
        if choosing:
            height -= CHOOSER[presenter]
        side = RULES_WIDE[presenter]
        if low:
            right = max(side, min(SIDE_MOST, round(SIDE_SHARE * width)))
            curve, below = (width - right - GRID, height), (right, max(LEAST_BELOW, height // 2))
            self.rules.visible = height - below[1] >= LEAST_BELOW
            if not self.rules.visible:
                below = (right, height)
            rules = right, height - below[1]
        else:
            self.rules.visible = not narrow
            high = max(LEAST, round(SHARE * height))
            if self.alone or height - high < LEAST_BELOW:
                high = max(LEAST, height)
            curve, below = (width - (side + GRID) * (not narrow), high), (width, height - high)
            rules = side, high
        self.plot.resize(*curve)
        self._pane.param.update(width=curve[0], height=curve[1])
        self.rules.param.update(width=rules[0], height=rules[1])
        roomy = below[1] >= LEAST_BELOW and not self.alone
        self.linked_plots.row.visible = roomy or not self.drawn  # hidden plots would block the first draw
        if not roomy:
            below = (below[0], LEAST_BELOW)
        self.linked_plots.row.param.update(width=below[0], height=below[1])
        self.linked_plots.resize(*below)
        areas = LOW_AREAS if low else AREAS
        if areas != self._areas:
            self._areas = areas
            self.panel.styles = {**GRID_STYLE, "grid-template-areas": areas}
        if self.session.latest is not None:
            self._say(self.session.latest)

    def _title_height(self) -> int:
        """Return the height in px of the lines of text above the curve.

        If they would leave the curve less than LEAST px, there is a single line with λ and its source.
        """
        (width, height), high = self.size, TITLE_HIGH[self.presenter]
        lines = next(n for n, least in TITLE_LINES.items() if width >= least * (1 + 0.4 * self.presenter))
        self._brief = lines > 1 and height - lines * high - GRID < LEAST
        return high * (1 if self._brief else lines)

    @property
    def _low(self) -> bool:
        """Whether the window is too low for plots below the curve and wide enough for plots to its right."""
        return not self.alone and self.size[1] < LOW[self.presenter] and self.size[0] >= NARROW

    def apply_theme(self) -> None:
        """Apply colours and fonts to all plots."""
        self.plot.set_theme(self.dark, self.presenter)
        self.linked_plots.set_theme(self.dark, self.presenter)

    def set_notation(self, squared: bool) -> None:
        """Use the notation α = λ², or λ, in all plots."""
        self.notation = LambdaNotation(squared)
        self.linked_plots.set_notation(self.notation)
        self.tick()
        self.linked_plots.mark(None)
        self._mark(self.session.latest)

    def cover(self, words: str) -> None:
        """Cover all plots with `words` if they do not show the selected problem; "" removes the cover."""
        html = filled("<div class='veil' role='status'>{words}</div>", words=words) if words else ""
        if html != self.veil.object:
            self.veil.param.update(object=html, visible=bool(words))

    # -- λ

    def pick(self, lam: float) -> None:
        """Mark λ in all views and request its solution."""
        with changed_together(self.session.document):
            self.session.change(lam=lam)  # first: the engine computes while the plots change
            self.picked.publish(lam)
            self.plot.mark(lam)
            self.linked_plots.mark(lam)

    def take_rule(self, rule: str) -> None:
        """Use the λ of `rule` from now on."""
        self.session.change(rule=rule, lam=None)
        self.picked.publish(None)

    def keep(self, kept: bool) -> str:
        """Keep the current solution for comparison, or discard it; return its λ as text, "" for none."""
        self.linked_plots.keep(kept)
        frame = self.session.latest
        return self.notation.words(frame.facts["lam"]) if kept and frame is not None else ""

    # -- frames

    def _show(self, frame: Frame) -> None:
        order, rows, columns, entries = (int(frame.facts[name]) for name in ("derivative", *SAME))
        problem = self.session.values["problem"], frame.notes["files"], rows + order, columns + order
        axes = (*problem, entries, order)
        if axes != self._axes:
            another_penalty = problem == self._axes[:-2] and order != self._axes[-1]
            self._axes = axes
            self.plot.forget()
            self.linked_plots.forget(kept=not another_penalty)
        self.plot.show(frame)
        self.plot.mark_rules(rules_of(frame))
        self.linked_plots.show_solution(frame)
        self._mark(frame)
        self.plot.frames.skip(frame.number)

    def set_rest(self, seconds: float) -> None:
        """Set the pause in s after each frame before the next is requested, for slow growth."""
        self.plot.frames.rest = seconds

    def _mark(self, frame: Frame | None) -> None:
        """Mark the λ of the visible solution: the picked one, else the rule's."""
        lam = self.session.values["lam"]
        if lam is None and frame is not None:
            lam = frame.facts["lam"]
        self.plot.mark(lam)
        self.linked_plots.mark(lam)

    def tick(self) -> None:
        """Show the latest frame in the views, the rules and the line of text, a few times a second."""
        frame = self.session.latest
        if frame is None:
            return
        self.linked_plots.show_views(frame, rules_of(frame))
        chosen = self.session.values["rule"] if self.session.values["lam"] is None else ""
        self.rules.show(frame.facts, frame.notes, chosen, self.notation)
        self._say(frame)

    def _say(self, frame: Frame) -> None:
        html = title(frame, self.notation, self._brief)
        if html != self.title.object:
            self.title.object = html


TIGHT = "<mo form='postfix' lspace='0' rspace='0'>"
SPOKEN = "x", "the first derivative of x", "the second derivative of x"
EQUATION = (
    "<math aria-label='x minimises the squared norm of A x minus b, plus lambda squared times that of {spoken}'>"
    f"<mi>x</mi><mo>=</mo><mi mathvariant='normal'>argmin</mi>{TIGHT}‖</mo>"
    f"<mi>A</mi><mi>x</mi><mo>−</mo><mi>b</mi>{TIGHT}‖²</mo><mo>+</mo>"
    f"<mi>λ²</mi>{TIGHT}‖</mo><mi>{{penalised}}</mi>{TIGHT}‖²</mo></math>"
)
TITLE = """
.chosen { display: flex; flex-wrap: wrap; column-gap: 24px; align-items: baseline; padding: 0 8px 0 24px;
  color: var(--muted); min-height: 32px; font-size: var(--small, 14px); white-space: nowrap; overflow: hidden; }
.chosen b { color: var(--ink); font-weight: 500; font-variant-numeric: tabular-nums; }
.chosen b.lam { font-size: var(--title, 20px); font-weight: 700; }
"""
OVER = {"position": "absolute", "left": "0", "top": "0", "width": "100%", "height": "100%", "z-index": "5"}
VEIL = """
.veil { position: absolute; inset: 0; background: var(--paper); color: var(--ink); font-size: var(--title, 20px);
  display: grid; place-items: center; text-align: center; padding: 0 15%; }
"""


def rules_of(frame: Frame) -> dict[str, float]:
    """Return rule -> its λ, nan for none."""
    return {name: frame.facts.get(name, nan) for name in RULES}


def title(frame: Frame, notation: LambdaNotation, brief: bool = False) -> str:
    """Return the current λ, its source, the norms and the equation as HTML; brief: only λ and its source."""
    facts = frame.facts
    rule = next((name for name in RULES if RULES[name].title == frame.notes.get("shown")), "")
    whose = (
        f"rule {RULE_NUMBERS[rule]}: {RULES[rule].title}" if rule else frame.notes.get("shown", "").rpartition(": ")[2]
    )
    items = [f"<b class='lam'>{notation.words(facts['lam'])}</b> {escape(whose)}"]
    if brief:
        return f"<div class='chosen'><span>{items[0]}</span></div>"
    of_x = penalised(facts["derivative"])
    items += [f"‖Ax − b‖ <b>{short(facts['residual'])}</b>", f"‖{of_x}‖ <b>{short(facts['solution'])}</b>"]
    if isfinite(facts["error"]):
        items.append(f"error of x <b>{short(100 * facts['error'])} %</b>")
    items.append(EQUATION.format(spoken=SPOKEN[int(facts["derivative"])], penalised=of_x))
    return f"<div class='chosen'>{''.join(f'<span>{item}</span>' for item in items)}</div>"
