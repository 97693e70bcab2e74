"""The parts of the L-curve tab that need no browser: positions on the screen, and texts."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import LinearAxis, Range1d
from hypothesis import given
from hypothesis import strategies as st

from app.labs.l_curve.controls import read_tempo, tempo_words
from app.labs.l_curve.l_curve_plot import CurvePath, LCurvePlot
from app.labs.l_curve.labels import RULE_HUES, RULE_NAMES, RULE_NUMBERS, LambdaNotation, short, short_reason
from app.labs.l_curve.linked_plots import LinkedPlots, SolutionPlots
from app.labs.l_curve.linked_view import VIEWS, LinkedPlot
from app.labs.l_curve.parts import facts
from app.labs.l_curve.problem_controls import GROUPS, noises, titles
from app.labs.l_curve.rule_markers import badge_places
from app.page.theme import DARK, LIGHT
from app.page.widgets import NumberField
from app.tab.curve_plots import LogWindow, decades, separate_labels
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.problems import NAMES
from compute.labs.l_curve.rules import RULES

places = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9).map(sorted)


def luminance(colour):
    """Relative luminance of "#rrggbb" (WCAG 2.2)."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# -- badges


@given(places, st.floats(1, 50))
def test_badges_keep_their_gap_and_order(wanted, gap):
    placed = separate_labels(wanted, gap)
    assert all(b - a >= gap * (1 - 1e-9) for a, b in pairwise(placed))
    assert np.mean(placed) == pytest.approx(np.mean(wanted), abs=1e-6)  # least squares keeps the mean


def test_badges_that_have_room_stay_where_they_are():
    assert separate_labels([0.0, 30.0, 100.0], 24.0) == [0.0, 30.0, 100.0]
    assert separate_labels([10.0, 10.0], 24.0) == [-2.0, 22.0]
    assert separate_labels([10.0, 10.0], 24.0, 100.0) == [12.0, 36.0]  # half a gap from the ends
    assert separate_labels([95.0, 95.0], 24.0, 100.0) == [64.0, 88.0]


def test_badges_stand_beside_a_curve_and_do_not_touch():
    curve = np.array([[10.0, 300.0], [20.0, 20.0], [400.0, 5.0]])  # an L: px, y upwards
    badges = badge_places([(20.0, 20.0), (20.0, 20.0), (21.0, 20.0), (200.0, 13.0)], curve, 24.0)
    for i, a in enumerate(badges):
        assert all(np.hypot(a[0] - b[0], a[1] - b[1]) >= 24 - 1e-6 for b in badges[:i])
        steps = np.linspace(0, 1, 200)[:, None]
        dense = np.concatenate([p + steps * (q - p) for p, q in pairwise(curve)])
        assert np.hypot(*(dense - a).T).min() > 12  # its radius
        assert a[0] > 10
        assert a[1] > 5


def test_badges_stand_below_a_curve_that_bends_the_other_way():
    crowd = np.linspace([9.0, 200.0], [10.0, 200.0], 300)  # hundreds of λ at the same point
    curve = np.concatenate([crowd, [[380.0, 195.0], [400.0, 5.0]]])  # the top edge is near
    badges = badge_places([(100.0, 199.0), (390.0, 100.0)], curve, 24.0)
    assert badges[0][1] < 199 - 12
    assert badges[1][0] < 390 - 12


# -- the curve as a path


def path():
    lam = np.linspace(-3, 0, 31)
    return CurvePath(lam, lam / 2, -lam)  # residual = λ^(1/2), solution = 1 / λ


def test_a_place_on_the_curve_is_its_own_lambda():
    for lam in (1e-3, 2e-3, 0.0316, 0.5, 1.0):
        x, y = path().at(lam)
        assert (x, y) == pytest.approx((lam**0.5, 1 / lam))
        assert path().nearest(x, y, (100.0, 70.0)) == pytest.approx(lam)


def test_a_place_beside_the_curve_is_the_foot_of_its_perpendicular_on_the_screen():
    scale = 120.0, 60.0
    direction = np.array([0.5 * scale[0], -1.0 * scale[1]])  # of the curve, in px per decade of λ
    normal = np.array([-direction[1], direction[0]]) / np.hypot(*direction)
    x, y = path().at(0.01)
    off = 40 * normal / scale
    assert path().nearest(x * 10 ** off[0], y * 10 ** off[1], scale) == pytest.approx(0.01)


def test_the_ends_of_the_curve_hold_what_lies_beyond():
    assert path().nearest(100.0, 1e-3, (50.0, 50.0)) == pytest.approx(1.0)
    assert path().at(1e9) == pytest.approx((1.0, 1.0))


# -- axes


def window():
    return LogWindow(Range1d(1, 10), LinearAxis(), 5)


def test_an_axis_grows_at_once_and_tightens_late():
    axis = window()
    assert axis.fit(np.array([1e-2, 1e2]))
    shown = axis.shown
    assert not axis.fit(np.array([3e-2, 3e1]))  # three quarters: unchanged
    assert axis.shown == shown
    assert axis.fit(np.array([1e-2, 1e3]))
    assert axis.shown[1] > 3
    assert axis.fit(np.array([1.0, 10.0]))
    assert axis.shown[0] > -1


def test_an_axis_keeps_its_models_whatever_it_shows():
    axis = LinearAxis()
    shown = LogWindow(Range1d(1, 10), axis, 5)
    ticker, formatter, code = axis.ticker, axis.formatter, axis.formatter.code
    assert ticker.ticks == [1.0, 10.0]
    shown.fit(np.array([2.0, 3.0]))  # 1.1 to 5.3: too short for powers of ten alone
    assert ticker.ticks == [2.0, 5.0]
    shown.fit(np.array([1e-4, 1e4]))
    shown.ticks(3)
    assert ticker.ticks == [1e-3, 1.0, 1e3]
    assert (axis.ticker, axis.formatter, axis.formatter.code) == (ticker, formatter, code)


def test_an_axis_shows_only_what_a_logarithm_can():
    axis = window()
    assert not axis.fit(np.array([0.0, -1.0, np.nan, np.inf]))
    axis.fit(np.array([0.0, np.nan, 1.0, 100.0]))
    low, high = axis.shown
    assert -0.2 < low < 0
    assert 2 < high < 2.2
    clipped = axis.clipped(np.array([0.0, np.inf, 10.0, -5.0]))
    assert np.isfinite(np.log10(clipped)).all()
    assert clipped[2] == 10.0


@pytest.mark.parametrize(("low", "high"), [(-16, 3), (-0.4, 0.2), (0.1, 0.9), (-2.3, 1.1)])
def test_every_axis_has_ticks_but_not_too_many(low, high):
    ticks = np.log10(decades(low, high, 4))
    assert 1 <= len(ticks) <= 6
    assert low <= ticks.min() <= ticks.max() <= high


# -- plots


@pytest.mark.parametrize("columns", [{}, {"x": [1.0]}, {"image": [0], "x": [1.0], "y": [2.0]}])
def test_columns_that_a_browser_has_written_are_written_over(columns):
    """Found by `make fuzz`: the page must still get its curve, and the log no exception per frame."""
    plot, lab = LCurvePlot(Document(), print), LCurve(backend="cpu_numpy")
    frame = lab.frame()
    plot.show(frame)
    right = [renderer.data_source.data for renderer in plot.figure.renderers]
    for renderer in plot.figure.renderers:
        renderer.data_source.data = columns
    plot.forget()
    plot.show(frame)
    plot.mark(None)
    for renderer, its in zip(plot.figure.renderers, right, strict=True):
        if renderer in {plot.line, plot.dots, plot.ring}:  # a ribbon is written only when it changes
            assert list(renderer.data_source.data) == list(its)
    lab.close()


# -- words


def test_numbers_are_short():
    assert [short(value) for value in (2.1e-3, 1.234e-7, 5e12, np.nan)] == ["0.0021", "1.23e-7", "5e12", "–"]


def test_alpha_is_the_square_of_lambda():
    assert LambdaNotation(squared=True).of(0.1) == pytest.approx(0.01)
    assert LambdaNotation(squared=True).back(0.01) == pytest.approx(0.1)
    assert LambdaNotation(squared=True).words(0.1) == "α = 0.01"
    assert LambdaNotation().words(0.1) == "λ = 0.1"


def test_every_rule_has_a_name_a_number_and_hues_that_can_be_read():
    assert RULE_NAMES.keys() == RULE_NUMBERS.keys() == RULES.keys()
    for dark, scheme in ((False, LIGHT), (True, DARK)):
        assert len(set(RULE_HUES[dark])) == len(RULES)
        assert all(contrast(hue, scheme["paper"]) >= 4.5 for hue in RULE_HUES[dark])  # the number in the badge: AA


def test_a_reason_is_told_in_brief():
    words = "no interior corner: the curvature has no positive maximum inside the range of λ"
    assert short_reason(words) == "no interior corner"
    assert short_reason("flat minimum: from λ = 1 to 100 it differs by less than 0.1 %") == "flat minimum"
    assert short_reason("") == "none"


def test_every_problem_can_be_chosen():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(NAMES)
    assert sorted(name for group in titles().values() for name in group.values()) == sorted(NAMES)


def test_levels_of_noise_are_logarithmic_steps_to_the_whole_of_b():
    levels = list(noises().values())
    assert levels[0] == 0.0
    assert levels[-1] == 1.0
    assert np.allclose(np.diff(np.log10(levels[1:])), np.log10(levels[-1] / levels[-2]))


@pytest.mark.parametrize(
    ("text", "tempo", "words"),
    [
        ("7", 7, "7 steps per frame"),
        ("1", 1, "1 step per frame"),
        ("3/s", -3, "3 steps/s"),
        ("0.5 steps/s", -0.5, "0.5 steps/s"),
        ("12 steps per frame", 12, "12 steps per frame"),
    ],
)
def test_a_typed_growth_is_steps_per_frame_or_per_second(text, tempo, words):
    assert (read_tempo(text), tempo_words(tempo)) == (tempo, words)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "100001", "0/s", "21/s", "fast", "", "1e3", "٣"])
def test_another_growth_is_refused_with_its_bounds(text):
    with pytest.raises(ValueError, match=r"Growth must be a whole number from 1 to 100000 .* 0.1 to 20 steps/s"):
        read_tempo(text)


# -- fields


def test_a_field_takes_numbers_and_says_what_is_wrong_with_others():
    taken = []

    def take(value):
        if value < 4:
            raise ValueError(f"n must be at least 4, not {value}")
        taken.append(value)

    field = NumberField("n", 200, take, whole=True)
    for text, words in (("many", "n must be a whole number, not 'many'"), ("7.5", "whole number"), ("2", "at least 4"),
                        ("inf", "whole number"), ("nan", "whole number"), ("", "whole number")):  # fmt: skip
        field.panel.value = text
        assert field.panel.error_state
        assert words in field.panel.helper_text
    field.panel.value = "1e2"
    assert taken == [100]
    assert not field.panel.error_state
    NumberField("Rays", 3, taken.append, optional=True).panel.value = ""
    assert taken == [100, None]


def test_a_field_keeps_the_text_that_is_being_typed_while_values_are_shown():
    """One field's entry shows the values of all fields of a group: it arrives while the user types into the next."""
    field = NumberField("n", 200, float)
    field.panel.param.update(value_input="30")
    field.show(200)
    field.show(100)  # another value
    assert (field.panel.value, field.panel.value_input) == ("200", "30")
    field.panel.value = "30"  # entered
    field.show(100)
    assert (field.panel.value, field.panel.value_input) == ("100", "100")
    field.panel.value = "many"
    field.show(100)  # the error is gone
    assert (field.panel.value, field.panel.value_input, field.panel.error_state) == ("100", "100", False)


# -- the parts of a frame


def test_the_views_and_the_status_bar_read_what_a_frame_holds():
    lab = LCurve(problem="heat", n=40, noise=1e-2, backend="cpu_numpy", tolerance=1e-3)
    while not lab.status.resting:
        lab.advance(8)
    frame = lab.frame()
    for view in VIEWS.values():
        assert view.lines(frame).keys() == view.curves.keys()
        assert set(view.rules) <= set(RULES)
    said = {label: text for label, text, _ in facts(frame)}
    assert said["λ"] == short(frame.facts["lam"])
    assert "of 0.001" in said["ribbon"] or said["ribbon"] == "exact"
    lab.close()


def test_another_lambda_sends_no_curve_again():
    """A finished curve is the same for every λ: only the solution's line and the ring change."""
    lab = LCurve(problem="heat", n=40, noise=1e-2, backend="cpu_numpy", tolerance=1e-3)
    while not lab.status.resting:
        lab.advance(8)
    document, solution, changed = Document(), SolutionPlots(), []
    curve, error = LCurvePlot(document, print), LinkedPlot("error", VIEWS["error"], document, print)
    for plot in (curve.figure, error.figure, solution.line.figure):
        document.add_root(plot)
    document.on_change(changed.append)
    for lam, sources in ((None, None), (None, set()), (0.1, {"picked", "l-curve solution line"})):
        lab.update(lam=lam)
        frame = lab.frame()
        changed.clear()
        curve.show(frame)
        error.show(frame)
        solution.show(frame, ["line"])
        curve.mark(frame.facts["lam"])
        sent = {event.model.name for event in changed if event.attr == "data"}
        assert sent == sources or sources is None
    lab.close()


def test_a_ribbon_that_stays_open_is_marked():
    known = {"width": 0.5, "tolerance": 1e-3, "done": 1.0, "exhausted": 0.0, "steps": 2000.0, "seconds": 0.0}
    known |= {"products": 0.0, "lam": 1.0, "derivative": 0.0, "residual": 1.0, "solution": 1.0}
    kinds = {label: kind for label, _, kind in facts(SimpleNamespace(facts=known))}
    assert kinds["ribbon"] == "warn"


def test_a_heading_that_is_short_says_the_whole_to_keyboard_and_screen_reader():
    captions = {"kept": SimpleNamespace(object="")}
    plots = SimpleNamespace(_captions=captions)
    LinkedPlots._say(plots, "kept", "Kept solution, λ = <2>", "λ = <2>")
    short = captions["kept"].object
    assert "tabindex='0'" in short
    assert "aria-label='Kept solution, λ = &lt;2&gt;'" in short
    assert ">λ = &lt;2&gt;<" in short
    LinkedPlots._say(plots, "kept", "Kept solution, λ = <2>")
    assert captions["kept"].object == "<h2>Kept solution, λ = &lt;2&gt;</h2>"
