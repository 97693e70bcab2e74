"""Plots have names and text descriptions, which are rarely rewritten and never contain markup."""

from __future__ import annotations

from types import SimpleNamespace

import panel as pn
import pytest
from bokeh.document import Document

from app.tab.lab_tab import LabTab
from app.tab.plot_words import EVERY, NOTHING, PlotWords, numbers_html, table_html
from compute.lab.plot_text import NumberTable
from compute.labs import LABS
from compute.labs.diffusion import Diffusion


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_every_plot_of_a_tab_has_a_name_of_its_own(lab):
    tab = LabTab(lab, Document(), (1280, 720))
    panels = tab.lab_view.panel, tab.readout.panel
    plots = [pane.object for panel in panels for pane in panel.select(pn.pane.Bokeh)]
    names = [plot.html_attributes["aria-label"] for plot in plots]
    tab.close()
    assert len(names) == len(plots) > 0
    assert len(set(names)) == len(names)


@pytest.fixture
def frames():
    """Yield two frames of a small field."""
    lab = Diffusion(backend="cpu_numpy", ny=8, nx=8)
    first = lab.frame()
    lab.advance(5)
    yield first, lab.frame()
    lab.close()


def test_descriptions_are_rarely_rewritten_and_only_for_a_new_frame(frames):
    session, now = SimpleNamespace(lab=Diffusion, latest=None), [100.0]
    words = PlotWords(session, lambda: now[0])
    words.tick()
    assert words.panel.object == ""
    session.latest = frames[0]
    words.tick()
    first = words.panel.object
    assert "aria-live='polite'" in first
    assert "Field u: a picture of 8 × 8 pixels" in first
    session.latest = frames[1]
    now[0] += EVERY / 2
    words.tick()
    assert words.panel.object == first
    now[0] += EVERY / 2
    words.tick()
    assert words.panel.object != first


def test_a_table_has_headings_and_shows_its_cells_as_text(frames):
    html = table_html(NumberTable("<b>A</b>", ("x", "<i>"), (("1", "&"),), "some"))
    assert "<th scope='col'>&lt;i&gt;</th>" in html
    assert "<th scope='row'>1</th><td>&amp;</td>" in html
    assert "<b>A</b>" not in html
    assert numbers_html(Diffusion, frames[0]).count("<table") >= 3  # field, Laplacian, profile
    assert numbers_html(Diffusion, None) == NOTHING
