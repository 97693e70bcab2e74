"""The side bar of the L-curve lab: growth of the curve, choice of λ, and the assembly of all groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import inf, isnan
from operator import neg
from typing import Any

import numpy as np
import panel as pn
import panel_material_ui as pmui

from app.labs.l_curve.labels import RULE_NUMBERS
from app.labs.l_curve.problem_controls import ProblemControls
from app.labs.l_curve.view import LCurveView
from app.page.notices import Notices
from app.page.typed_slider import WIDE, TypedList, corner, read_number, with_corner
from app.page.widgets import FULL, NumberField, ValueWidgets, icon, range_words, show_refusal
from app.tab.controls import (
    REDO,
    UNDO,
    BarButton,
    ComputeControls,
    Controls,
    Dial,
    Undo,
    accordion,
    column,
    list_dial,
    run_button,
    slider_dial,
)
from app.tab.session import Session
from app.upstream.document_changes import changed_together
from compute.cli import settings
from compute.engine import messages
from compute.lab.frames import Frame
from compute.labs.l_curve.lab import FEWEST as FEWEST_LAMBDAS
from compute.labs.l_curve.lab import MOST as MOST_LAMBDAS
from compute.labs.l_curve.lab import require_lambda, require_range
from compute.labs.l_curve.rules import RULES

TEMPI: dict[str, float | None] = {  # steps per second (negative) or per frame (positive); None: as many as fit
    "2 steps/s": -2,
    "5 steps/s": -5,
    "10 steps/s": -10,
    "1 step per frame": 1,
    "2 steps per frame": 2,
    "5 steps per frame": 5,
    "20 steps per frame": 20,
    "100 steps per frame": 100,
    "maximum": None,
}
MOST_PER_FRAME = 100_000  # steps of a typed speed
SLOWEST, SWIFTEST = 0.1, 20  # steps/s of a typed speed
FEWEST = 16  # steps before a frame while a slider is dragged
SMALL = 250_000  # entries of A for which a whole curve is computed quickly
ROOM = 104  # px, width of the field of λ
TIGHTER = 10.0  # factor by which `further` reduces the ribbon width
FINEST = 1e-12  # minimum ribbon width
MORE = 2  # factor by which `further` raises a reached limit of steps


class GrowthControls:
    """Run, step, restart, further, undo, and the speed of growth.

    rest(seconds) sets the view's pause after each frame; went_further() is called when `further` has changed the
    tolerance or the limit of steps; undo() restores the previous problem. While a slider is dragged (`rush`), the curve
    of a small problem is shown when it is almost complete.
    """

    def __init__(
        self,
        session: Session,
        rest: Callable[[float], None],
        went_further: Callable[[], object],
        undo: Callable[[], object],
    ) -> None:
        self.session, self._rest, self._went_further = session, rest, went_further
        self._rushing = False
        self.run = run_button(session, self.toggle)
        buttons = [
            icon("skip_next", "One step (S)", self.step, align="center"),
            icon("replay", "Restart (R)", self.again, align="center"),
            icon("fast_forward", "Further: narrower ribbons, or more steps (F)", self.further, align="center"),
        ]
        self.undo = Undo(undo)
        buttons.append(self.undo.button)
        self.tempo = pmui.DiscreteSlider(label="Growth", options=TEMPI, value=1, size="small", **FULL)
        self.tempo.param.watch(lambda event: self.grow(), "value")
        self.typed_tempo = TypedList(self.tempo, tempo_order, read_tempo, tempo_words, WIDE)
        buttons_row = pn.Row(self.run, *buttons, margin=0, sizing_mode="stretch_width")
        self.panel = pn.Column(buttons_row, self.typed_tempo.panel, margin=(8, 0, 0, 0))

    def toggle(self) -> None:
        """Run or pause."""
        self.session.play(not self.session.playing)

    def step(self) -> None:
        """Compute one step and pause."""
        self.session.step()

    def again(self) -> None:
        """Restart the curve from its first step."""
        self.grow()
        self.session.act("reset")
        self.session.play(True)

    def grow(self) -> None:
        """Show the next curve step by step, at the slider's speed."""
        self._rushing = False
        tempo = self.tempo.value
        slow = tempo is not None and tempo < 0
        self._rest(-1 / tempo if slow else 0.0)
        self.session.pace(1 if slow else None if tempo is None else int(tempo))

    def rush(self) -> None:
        """Show the next curve, which follows a slider, when it is almost complete; a slow one while it grows.

        The next curve takes about as many steps as the current one, so the frame does not wait for its rules.
        """
        if not self._rushing:
            self._rushing = True
            frame = self.session.latest
            small = frame is not None and frame.facts["entries"] <= SMALL
            self._rest(0.0)
            self.session.pace(max(FEWEST, int(frame.facts["steps"])) if small and frame is not None else None)

    def further(self) -> None:
        """Continue with ribbons ten times narrower, or, at the limit of steps, with twice as many steps."""
        values, frame = self.session.values, self.session.latest
        at_limit = frame is not None and frame.facts["steps"] >= frame.facts["limit"] and not frame.facts["exhausted"]
        if at_limit:
            most = self.session.lab.param["steps_at_most"].bounds[1]
            self.session.change(steps_at_most=min(most, MORE * values["steps_at_most"]))
        else:
            self.session.change(tolerance=max(FINEST, values["tolerance"] / TIGHTER))
        self._went_further()
        self.grow()
        self.session.play(True)


def tempo_order(tempo: float | None) -> float:
    """Return a number that grows with the speed."""
    return inf if tempo is None else -1 / tempo if tempo < 0 else tempo


def tempo_words(tempo: float) -> str:
    """Return the label of a speed."""
    if tempo < 0:
        return f"{-tempo:g} steps/s"
    return f"{tempo:g} step{'' if tempo == 1 else 's'} per frame"


def read_tempo(text: str) -> float:
    """Return a typed speed: "7", "7 steps per frame", "7/s" or "7 steps/s". Raise ValueError for other texts."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?) *(?:steps?)? *(/ *s|per frame)?", text, re.ASCII)
    number = float(found[1]) if found else 0.0
    slow = found is not None and (found[2] or "").startswith("/")
    if slow and SLOWEST <= number <= SWIFTEST:
        return -number
    if not slow and 1 <= number <= MOST_PER_FRAME and number.is_integer():
        return number
    bounds = f"a whole number from 1 to {MOST_PER_FRAME} (steps per frame) or {SLOWEST} to {SWIFTEST} steps/s"
    raise ValueError(f"Growth must be {bounds}, not {text[:40]!r}")


TOLERANCES = {f"1e-{n}": 10.0**-n for n in range(1, 13)}
MANUAL = "manual"
ALONG = "λ along the curve"
KEEP = "Keep for comparison (N)"


class LambdaControls(ValueWidgets):
    """The group "Choice of λ": by a rule or manually; range of the curve; tolerance and limit of steps."""

    def __init__(self, session: Session, lab_view: LCurveView) -> None:
        super().__init__(session)
        self.lab_view = lab_view
        rules = {f"{RULE_NUMBERS[name]}  {rule.title}": name for name, rule in RULES.items()}
        self.rule = pmui.Select(
            label="λ selection", options={**rules, MANUAL: ""}, value=session.values["rule"], size="small", **FULL
        )
        self.rule.param.watch(lambda event: self._by_rule(event.new), "value")
        self.squared = pmui.Switch(label="Show α = λ²", value=False, **FULL)
        self.squared.param.watch(lambda event: session.later(self._count), "value")
        self.slide = pmui.FloatSlider(
            label=ALONG, start=-6.0, end=2.0, step=0.01, value=0.0, value_label="–", size="small", **FULL
        )
        self._position = self.slide.value
        self._number: float | None = None  # λ or α in the field
        self._kept = False  # whether a solution is kept for comparison
        self.slide.param.watch(lambda event: self._slid(event.new), "value")
        self.keep = pmui.Switch(label=KEEP, value=False, **FULL)
        self.keep.param.watch(lambda event: session.later(lambda: self._keep(event.new)), "value")
        self.lam = NumberField("λ", None, self._by_hand, digits=6, accepted=lambda: "above 0", **corner(ROOM))
        self.tolerance = pmui.DiscreteSlider(
            label="Target ribbon width", options=TOLERANCES, value=TOLERANCES["1e-4"], size="small", **FULL
        )
        read = partial(read_number, self.tolerance.label, bounds=self.parameter("tolerance").bounds)
        self._width = TypedList(self.tolerance, neg, read)
        self._width.show(session.values["tolerance"])
        self.tolerance.param.watch(lambda event: self._reach(event.new), "value")
        hint = settings.bound_words("iterations", self.parameter("steps_at_most").bounds[1])
        self.most = NumberField(
            "Maximum steps",
            session.values["steps_at_most"],
            self._limit,
            whole=True,
            helper_text=hint,
            accepted=lambda: range_words(self.parameter("steps_at_most").bounds),
        )
        self.panel = column(
            self.rule, with_corner(self.slide, self.lam.panel, ROOM), self.keep, self.squared, *self._range(),
            self._width.panel, self.most.panel,
        )  # fmt: skip

    # -- one λ

    def _by_rule(self, rule: str) -> None:
        if rule and (rule != self.session.values["rule"] or self.session.values["lam"] is not None):
            self.lab_view.take_rule(rule)

    def _by_hand(self, value: float) -> None:
        self.lab_view.pick(require_lambda(self.lab_view.notation.back(value) if value > 0 else value))

    def _slid(self, position: float) -> None:
        """Handle a slider move by the user; moves by `tick` are ignored."""
        if position != self._position:
            self._position = position
            lam = 10.0**position
            with changed_together(self.session.document):
                self.lab_view.pick(lam)
                self.slide.value_label = self.lab_view.notation.words(lam)

    def tick(self, frame: Frame) -> None:
        """Move the slider to the current λ within the latest curve; reset the switch of a discarded kept solution."""
        if self._kept and self.lab_view.linked_plots.solution.kept is None:  # the problem has changed
            self.keep.value = False
        self._say_missing(frame)
        grid, lam = frame.curves["width"].x, self.session.values["lam"] or frame.facts["lam"]
        if not (len(grid) > 1 and lam > 0):
            return
        if (number := self.lab_view.notation.of(lam)) != self._number:
            self._number = number
            if not self.lam.panel.error_state:  # an error stays until the user chooses λ, or its rule
                self.lam.show(number)
        low, high = (round(float(np.log10(end)), 2) for end in (grid[0], grid[-1]))
        position, words = min(max(round(float(np.log10(lam)), 2), low), high), self.lab_view.notation.words(lam)
        slide = self.slide
        if (low, high) != (slide.start, slide.end):
            self._position = position
            slide.param.update(start=low, end=high, value=position, value_label=words)
        elif words != slide.value_label:
            self._position = position
            slide.param.update(value=position, value_label=words)

    def _say_missing(self, frame: Frame) -> None:
        """Show below the drop-down that the rule yields no λ, and which λ is used instead."""
        values, facts = self.session.values, frame.facts
        missing = values["lam"] is None and facts["finished"] and isnan(facts[values["rule"]])
        words = "This rule gives no λ: the middle of the range is shown." if missing else ""
        if words != self.rule.helper_text:
            self.rule.helper_text = words

    def _keep(self, kept: bool) -> None:
        self._kept, words = kept, self.lab_view.keep(kept)
        self.keep.label = f"Comparison: {words}" if words else KEEP

    def show_picked(self, lam: float | None) -> None:
        """Show the picked λ, or with None that the rule's λ is used again."""
        self.rule.value = self.session.values["rule"] if lam is None else ""
        self._number = None if lam is None else self.lab_view.notation.of(lam)
        self.lam.show(self._number)

    def _count(self) -> None:
        """Write λ or α in every label."""
        self.slide.label = ALONG.replace("λ", "α") if self.squared.value else ALONG
        self.lab_view.set_notation(self.squared.value)
        self.lam.panel.label = self.lab_view.notation.label
        self.show_picked(self.session.values["lam"])
        self._show_range()

    # -- range of the curve

    def _range(self) -> list[Any]:
        self.automatic = pmui.Switch(label="Automatic range of λ", value=True, **FULL)
        self.automatic.param.watch(lambda event: self._toggle(event.new), "value")
        half: dict[str, Any] = {"width": 112, "sizing_mode": "fixed"}
        above = partial(str, "above 0")
        self.low = NumberField("from", None, lambda value: self._between(0, value), accepted=above, **half)
        self.high = NumberField("to", None, lambda value: self._between(1, value), accepted=above, **half)
        self.count = NumberField(
            "Number of λ", None, lambda value: self._between(2, value), whole=True,
            accepted=lambda: range_words((FEWEST_LAMBDAS, MOST_LAMBDAS)),
        )  # fmt: skip
        ends = pn.Row(self.low.panel, self.high.panel, margin=0)
        self._ends = pn.Column(ends, self.count.panel, margin=0, visible=False, sizing_mode="stretch_width")
        return [self.automatic, self._ends]

    def _toggle(self, automatic: bool) -> None:
        self._ends.visible = not automatic
        if automatic:
            self.session.change(lambdas=None)
        elif self.session.values["lambdas"] is None and self.session.latest is not None:
            grid = self.session.latest.curves["width"].x
            self.session.change(lambdas=(float(f"{grid[0]:.4g}"), float(f"{grid[-1]:.4g}"), len(grid)))
        self._show_range()

    def _between(self, place: int, value: float) -> None:
        given = list(self.session.values["lambdas"] or (0.0, 0.0, 0))
        given[place] = value if place == 2 or value <= 0 else self.lab_view.notation.back(value)
        require_range(tuple(given))
        self.session.change(lambdas=tuple(given))

    def _show_range(self) -> None:
        given = self.session.values["lambdas"]
        if given is not None:
            notation = self.lab_view.notation
            for field, value in zip((self.low, self.high, self.count), (*map(notation.of, given[:2]), given[2]),
                                    strict=True):  # fmt: skip
                field.show(value)

    # -- accuracy

    def _limit(self, steps: int) -> None:
        low, high = self.parameter("steps_at_most").bounds
        if not low <= steps <= high:
            raise ValueError(f"steps_at_most must be from {low} to {high}, not {steps}")
        settings.require("iterations", steps)
        self.session.change(steps_at_most=steps)

    def _reach(self, tolerance: float) -> None:
        if not self._following:
            self.session.change(tolerance=tolerance)

    def refresh(self) -> None:
        """Show the session's tolerance and limit of steps."""
        with self._quiet():
            self._width.show(self.session.values["tolerance"])
        self.most.show(self.session.values["steps_at_most"])

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        self.refresh()
        if "lambdas" in values:
            self.automatic.value = values["lambdas"] is None
            self._show_range()
        if "lam" in values or "rule" in values:
            self.show_picked(self.session.values["lam"])

    def refused(self, text: str) -> bool:
        """Show the engine's refusal of a value next to its field; return False if none of these fields is affected."""
        return show_refusal(text, {"lam": self.lam, "lambdas": self.low, "steps_at_most": self.most})


class LCurveControls(Controls):
    """The controls of the L-curve lab, bound to one session."""

    def __init__(self, session: Session, lab_view: LCurveView, notices: Notices) -> None:
        super().__init__(session)
        self.lab_view = lab_view
        self.lambda_choice = LambdaControls(session, lab_view)
        self.growth = growth = GrowthControls(session, lab_view.set_rest, self.lambda_choice.refresh, undo=self._undo)
        self.use_speed(growth.typed_tempo)
        self.keep_display(alpha=self.lambda_choice.squared)
        self.problem = ProblemControls(session, growth.grow, growth.rush, self.lambda_choice.show_values)
        self.problem.problem.param.watch(lambda event: self._veil(), "value")
        self.compute = ComputeControls(session)
        groups = {
            "Problem": self.problem.panel,
            "Choice of λ": self.lambda_choice.panel,
            "Compute": column(*self.compute.items, self.compute.dtype, self.switch("reorthogonalise")),
        }
        self.panel = column(growth.panel, accordion(groups, opened=(0, 1)))
        lab_view.picked.subscribe(self.lambda_choice.show_picked)
        self.keys = {
            UNDO: growth.undo.press,
            REDO: growth.undo.press,  # undo has one level and undoes itself
            " ": growth.toggle,
            "s": growth.step,
            "r": growth.again,
            "f": growth.further,
            "a": self._square,
            "n": self._flip_kept,
            "c": lambda: lab_view.take_rule(session.values["rule"]),
        }

    def _undo(self) -> None:
        """Restore the previous problem."""
        self.problem.undo()

    def acts(self) -> list[BarButton]:
        """Return the buttons Run and Step, and one that restarts the curve."""
        return [*super().acts()[:2], ("r", "Restart", "Restart the curve")]

    def dials(self) -> list[Dial]:
        """Return the dials for λ along the curve and for the speed of growth."""
        slide = self.lambda_choice.slide
        return [slider_dial(slide, lambda _: str(slide.value_label)), list_dial(self.growth.tempo)]

    def _flip_kept(self) -> None:
        self.lambda_choice.keep.value = not self.lambda_choice.keep.value

    def _square(self) -> None:
        self.lambda_choice.squared.value = not self.lambda_choice.squared.value

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        for part in (self.problem, self.lambda_choice, self.compute):
            part.show_values(values)

    def landmark(self) -> object:
        """Return the problem: changing it adds an entry to the browser's history."""
        return self.session.values["problem"]

    def tick(self) -> None:
        """Show the latest frame's files, and cover plots of another problem; called a few times a second."""
        self.problem.uploads.read()
        if self.session.latest is not None:
            self.problem.tick(self.session.latest)
            self.lambda_choice.tick(self.session.latest)
            self._veil()
            self.growth.undo.offer(self.problem.undoable)

    def _veil(self) -> None:
        frame = self.session.latest
        self.lab_view.cover(self.problem.veil(frame) if frame is not None else "")

    def close(self) -> None:
        """Stop reading files."""
        self.problem.uploads.close()

    def on_event(self, event: Any) -> bool:
        """Show an engine event next to the affected field; return False if no field here is affected."""
        if isinstance(event, messages.Refused):
            return self.problem.refused(event.text) or self.lambda_choice.refused(event.text)
        return False
