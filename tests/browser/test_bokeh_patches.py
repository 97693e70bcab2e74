"""What app/static/bokeh_patches.js does for Panel's components, on a page that is shown."""

from __future__ import annotations

import pytest

from app.theme import stylesheet
from tests.browser.lab_page import LabPage

VIEW = """
  const view = await new Promise((found) => {
    const look = () => {
      const views = [];
      const walk = (view) => {
        views.push(view);
        for (const child of view.children_views()) walk(child);
      };
      Bokeh.index.roots.forEach(walk);
      const one = views.find((view) => view.model.data?.label == 'CSV');
      one ? found(one) : setTimeout(look, 50);
    };
    look();
  });
"""
# No message of the server can come before the microtasks are done: what it said last is drawn by then.
AT_ONCE = f"""async () => {{
  {VIEW}
  const button = (view.el.shadowRoot ?? view.el).querySelector('button'), drawn = [];
  for (const disabled of [true, false, true, false]) {{
    view.model.data.disabled = disabled;
    for (let i = 0; i < 100; i++) await null;
    drawn.push(button.disabled);
  }}
  return drawn;
}}"""
# A component is drawn for the first time, and the model changes before it can listen.
AT_BIRTH = f"""async () => {{
  {VIEW}
  const modules = await Promise.all(view._module_cache.values());
  const {{ React, createRoot }} = modules.map((module) => module.default).find((one) => one?.React && one.createRoot);
  const element = document.createElement('div');
  const Told = () => {{
    const [value] = fieldlab.shared(React, view, 'label');
    React.useLayoutEffect(() => {{ view.model.data.label = 'changed'; }}, []);
    return value;
  }};
  createRoot(element).render(React.createElement(Told));
  for (let i = 0; i < 600 && element.textContent != 'changed'; i++) await new Promise((done) => setTimeout(done, 100));
  const told = element.textContent;
  view.model.data.label = 'CSV';
  return told;
}}"""
# A component within another, and both are there at the same time.
TOGETHER = f"""async () => {{
  {VIEW}
  const laidOut = [], outer = view.parent, mount = view._on_mounted;
  view.invalidate_layout = () => laidOut.push('inner');
  outer.invalidate_layout = () => laidOut.push('outer');
  for (const one of [view, outer, view]) mount.call(one);
  for (let i = 0; i < 600 && !laidOut.length; i++) await new Promise((done) => setTimeout(done, 100));
  await new Promise((done) => setTimeout(done, 300));
  delete view.invalidate_layout;
  delete outer.invalidate_layout;
  return laidOut;
}}"""
ASKED = """() => {
  const { VisualProperties } = Bokeh.require('core/visuals/visual'), css = window.getComputedStyle;
  let asked = 0;
  window.getComputedStyle = (...given) => { asked += 1; return css(...given); };
  const answer = VisualProperties.prototype._get_css_value('line-color');
  window.getComputedStyle = css;
  return [answer, asked];
}"""


@pytest.fixture(scope="module")
def opened(lasting, server):
    lab = LabPage(lasting(), server)
    lab.page.get_by_text("CSV", exact=True).wait_for()
    lab.pause()
    return lab


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def test_a_value_is_drawn_before_the_next_can_come(lab):
    assert lab.page.evaluate(AT_ONCE) == [True, False, True, False]


def test_a_value_that_changes_while_it_is_drawn_first_is_shown_as_it_is(lab):
    assert lab.page.evaluate(AT_BIRTH) == "changed"


def test_components_within_each_other_are_laid_out_together_once(lab):
    assert lab.page.evaluate(TOGETHER) == ["outer"]


def test_plots_do_not_ask_for_styles_that_no_sheet_of_the_page_sets(lab):
    assert lab.page.evaluate(ASKED) == ["", 0]
    assert "--bk-" not in stylesheet()
