"""The questions of a lab's README name existing controls, and its equation stands beside the picture."""

from __future__ import annotations

import re
from contextlib import closing
from types import SimpleNamespace

import panel as pn
import panel_material_ui as pmui
import pytest
from panel_material_ui.widgets.base import MaterialWidget

from app.labs.mandelbrot.places import PlaceText
from app.tab import lab_view
from app.tab.lab_view import parts_of
from compute.labs import LABS
from tests.direct import DirectSession

BOLD = re.compile(r"\*\*(.+?)\*\*")
EACH_LAB = pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)


def tab_of(lab, session):
    """Return (view, controls) of a session."""
    parts = parts_of(lab)
    view = parts.view(session, (1200, 800))
    return view, parts.controls(session, view, SimpleNamespace(tell=lambda *told: None))


def names_of_controls(lab):
    """Return the labels of the tab's widgets, the options of its button rows, and the lab's keys."""
    with closing(lab(backend="cpu_numpy")) as live:
        view, controls = tab_of(lab, DirectSession(live))
        widgets = [*controls.panel.select(MaterialWidget), *view.panel.select(MaterialWidget)]
    names = {widget.label for widget in widgets}
    for row in view.panel.select(pmui.RadioButtonGroup):
        names |= set(row.options)
    keys = " ".join(BOLD.findall(parts_of(lab).help)).split()
    return names | set(keys)


@EACH_LAB
def test_each_question_to_try_names_a_control_that_is_there(lab):
    known = names_of_controls(lab)
    questions = lab.about().split("**Questions to try.**")[1].split("\n\n")[1]
    for question in re.split(r"(?m)^\d\. ", questions)[1:]:
        named = BOLD.findall(" ".join(question.split()))
        assert named
        for name in named:
            assert any(one == name or one.startswith((f"{name} ", f"{name}  ")) for one in known), name


@pytest.mark.parametrize("lab", [one for one in LABS if one.LAB != "crossover"], ids=lambda lab: lab.LAB)
def test_the_equation_stands_beside_the_picture(lab):
    with closing(lab(backend="cpu_numpy")) as live:
        session = DirectSession(live)
        view, _ = tab_of(lab, session)
        live.advance(1)
        session.see()
        shown = [str(words._esm) for words in view.panel.select(PlaceText)]  # filled in by the browser
        if not shown:
            view.tick()
            shown = [str(pane.object) for pane in view.panel.select(pn.pane.HTML)]
    (equation,) = [one for one in shown if "<math" in one]
    assert "aria-label=" in equation.partition("<math")[2].partition(">")[0]


def test_the_right_column_lists_the_questions_of_a_lab_that_has_some():
    for lab in LABS:
        items = re.findall(r"<li>(.*?)</li>", lab_view.questions(lab), re.DOTALL)
        assert len(items) >= 4
        assert all(item.endswith("?") for item in items), items
    assert lab_view.questions(SimpleNamespace(about=lambda: "# Waves\n\n1. **The equation.** Text.\n")) == ""
