"""The main area of the L-curve lab: the curve with its rules, the solution, and the views linked to them.

A λ that is picked anywhere goes through one stream, `PickedLambda`: every view marks it at once, and the lab is asked
for its solution.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from math import isfinite, nan
from typing import Any

import panel as pn

from app.bokeh_messages import changed_together
from app.lab_view import LabView, Size
from app.labs.l_curve.l_curve_plot import LCurvePlot
from app.labs.l_curve.labels import RULE_NUMBERS, LambdaNotation, short
from app.labs.l_curve.linked_plots import LinkedPlots
from app.labs.l_curve.linked_view import PickedLambda
from app.labs.l_curve.rule_markers import RuleList
from app.markup import filled
from app.session import Session
from app.theme import GRID, html_pane
from app.upstream.plot_pane import PlotPane
from compute.frames import Frame
from compute.labs.l_curve.rules import RULES

RULES_WIDE = {False: 232, True: 320}  # px of the list beside the curve; in presenter mode
SHARE = 0.56  # of the height that the curve takes
NARROW = 640  # px of width below which the list of rules has no room
TITLE_LINES = {1: 920, 2: 540, 3: 0}  # lines of text above the curve: px of width that they need
LOW = {False: 480, True: 600}  # px of height below which the linked views stand beside the curve
SIDE_SHARE, SIDE_MOST = 0.36, 520  # of the width, and px of it, that those take then
LEAST_BELOW = 150  # px of height of the rules, or of a linked view
GRID_STYLE = {
    "position": "relative", "display": "grid", "grid-template-columns": "max-content max-content",
    "grid-template-rows": "max-content max-content max-content max-content", "align-items": "start",
}  # fmt: skip
AREAS = "'title title' 'curve rules' 'chooser chooser' 'row row'"
LOW_AREAS = "'title title' 'curve row' 'curve rules' 'chooser chooser'"
TITLE_HIGH = {False: 32, True: 40}  # px of the line above it
LEAST = 200  # px of its height
CHOOSER = {False: 28, True: 36}  # px of the line that chooses the views
SAME = ("rows", "columns", "entries")  # of a frame: with these the axes stay as they are


class LCurveView(LabView):
    """The plots of one session, and their sizes in its window."""

    def __init__(self, session: Session, size: Size) -> None:
        super().__init__(session, size)
        self.notation = LambdaNotation()
        self._axes: tuple[Any, ...] = ()
        self._brief = False  # whether the line above the curve says the λ alone
        self.on_picked: Callable[[float | None], object] = lambda lam: None  # None: the rule's λ is taken again
        self.picked = PickedLambda()
        self.plot = LCurvePlot(session.document, self.pick)
        self.linked_plots = LinkedPlots(session.document, self.pick)
        self.rules = RuleList(self.take_rule, sizing_mode="fixed", styles={"grid-area": "rules"})
        self.plot.frames.serve(session)
        for subscriber in (self._ask, self.plot.mark, self.linked_plots.mark):  # the engine works while others mark it
            self.picked.add_subscriber(lambda lam, subscriber=subscriber: subscriber(lam))
        session.on_frame = self._show
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

    # -- sizes

    def arrange(self) -> None:
        """Give the curve its share of the room: the linked views stand below it, or in a low window at its right.

        A narrow window has no room for the list of rules, a low one none for a choice of views.
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
        self.linked_plots.row.visible = roomy or not self.drawn  # what is hidden is not drawn, but waited for
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
        """Height in px of the lines of text above the curve. Where they would leave it less than it needs, there is
        one, which says the λ and whose it is.
        """
        (width, height), high = self.size, TITLE_HIGH[self.presenter]
        lines = next(n for n, least in TITLE_LINES.items() if width >= least * (1 + 0.4 * self.presenter))
        self._brief = lines > 1 and height - lines * high - GRID < LEAST
        return high * (1 if self._brief else lines)

    @property
    def _low(self) -> bool:
        """Whether the window is too low for plots below the curve, and has room beside it."""
        return not self.alone and self.size[1] < LOW[self.presenter] and self.size[0] >= NARROW

    def apply_theme(self) -> None:
        """Colour all plots, and set their type."""
        self.plot.set_theme(self.dark, self.presenter)
        self.linked_plots.set_theme(self.dark, self.presenter)

    def set_notation(self, squared: bool) -> None:
        """Write α = λ² everywhere, or λ."""
        self.notation = LambdaNotation(squared)
        self.linked_plots.set_notation(self.notation)
        self.tick()
        self.linked_plots.mark(None)
        self._mark(self.session.latest)

    def cover(self, words: str) -> None:
        """Write `words` over all plots, which show a problem that is not the chosen one; "" takes them away."""
        html = filled("<div class='veil' role='status'>{words}</div>", words=words) if words else ""
        if html != self.veil.object:
            self.veil.param.update(object=html, visible=bool(words))

    # -- λ

    def pick(self, lam: float) -> None:
        """Mark λ in all views and ask for its solution."""
        with changed_together(self.session.document):
            self.picked.event(lam=lam)

    def _ask(self, lam: float | None) -> None:
        self.session.change(lam=lam)
        self.on_picked(lam)

    def take_rule(self, rule: str) -> None:
        """Show the λ of `rule` from now on."""
        self.session.change(rule=rule, lam=None)
        self.on_picked(None)

    def keep(self, kept: bool) -> str:
        """Keep the present solution beside those that follow, or no longer; returns its λ in words, "" for none."""
        self.linked_plots.keep(kept)
        frame = self.session.latest
        return self.notation.words(frame.facts["lam"]) if kept and frame is not None else ""

    # -- frames

    def _show(self, number: int, frame: Frame) -> None:
        axes = (self.session.values["problem"], frame.notes["files"], *(frame.facts[name] for name in SAME))
        if axes != self._axes:
            self._axes = axes
            self.plot.forget()
            self.linked_plots.forget()
        self.plot.show(frame)
        self.plot.mark_rules(rules_of(frame))
        self.linked_plots.show_solution(frame)
        self._mark(frame)
        self.plot.frames.skip(number)

    def set_rest(self, seconds: float) -> None:
        """Wait so long after each frame before the next one may come: a slow growth."""
        self.plot.frames.rest = seconds

    def _mark(self, frame: Frame | None) -> None:
        """Mark the λ of the solution that is shown: the one that was picked, else the rule's."""
        lam = self.session.values["lam"]
        if lam is None and frame is not None:
            lam = frame.facts["lam"]
        self.plot.mark(lam)
        self.linked_plots.mark(lam)

    def tick(self) -> None:
        """Show the newest frame in the views, the rules and the line of words, a few times a second."""
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
EQUATION = (
    "<math aria-label='x minimises the squared norm of A x minus b, plus lambda squared times that of x'>"
    f"<mi>x</mi><mo>=</mo><mi mathvariant='normal'>argmin</mi>{TIGHT}‖</mo>"
    f"<mi>A</mi><mi>x</mi><mo>−</mo><mi>b</mi>{TIGHT}‖²</mo><mo>+</mo>"
    f"<mi>λ²</mi>{TIGHT}‖</mo><mi>x</mi>{TIGHT}‖²</mo></math>"
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
    """Return the λ that is shown, whose it is, and the norms there, as HTML; brief: without those and the equation."""
    facts = frame.facts
    rule = next((name for name in RULES if RULES[name].title == frame.notes.get("shown")), "")
    whose = (
        f"rule {RULE_NUMBERS[rule]}: {RULES[rule].title}" if rule else frame.notes.get("shown", "").rpartition(": ")[2]
    )
    items = [f"<b class='lam'>{notation.words(facts['lam'])}</b> {escape(whose)}"]
    if brief:
        return f"<div class='chosen'><span>{items[0]}</span></div>"
    items += [f"‖Ax − b‖ <b>{short(facts['residual'])}</b>", f"‖x‖ <b>{short(facts['solution'])}</b>"]
    if isfinite(facts["error"]):
        items.append(f"error of x <b>{short(100 * facts['error'])} %</b>")
    items.append(EQUATION)
    return f"<div class='chosen'>{''.join(f'<span>{item}</span>' for item in items)}</div>"
