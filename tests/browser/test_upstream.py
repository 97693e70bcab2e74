"""Browser tests of the scripts of the fixes in app/upstream/."""

from __future__ import annotations

import pytest

from tests.browser.lab_page import OPENING, LabPage

VIEW = """
  const view = await new Promise((found) => {
    const look = () => {
      const views = [];
      const walk = (view) => {
        views.push(view);
        for (const child of view.children_views()) walk(child);
      };
      Bokeh.index.roots.forEach(walk);
      const one = views.find((view) => view.model.data?.label == 'Measure again');
      one ? found(one) : setTimeout(look, 50);
    };
    look();
  });
"""
# Server messages are processed after pending microtasks only, so each value must be drawn by then.
AT_ONCE = f"""async () => {{
  {VIEW}
  const button = (view.el.shadowRoot ?? view.el).querySelector('button'), drawn = [];
  for (const disabled of [true, false, true, false]) {{
    view.model.data.setv({{ disabled }}, {{ sync: false }});
    for (let i = 0; i < 100; i++) await null;
    drawn.push(button.disabled);
  }}
  return drawn;
}}"""
# Draw a component for the first time, and change the model before the component listens.
AT_BIRTH = f"""async () => {{
  {VIEW}
  const modules = await Promise.all(view._module_cache.values());
  const {{ React, createRoot }} = modules.map((module) => module.default).find((one) => one?.React && one.createRoot);
  const element = document.createElement('div');
  const Shown = () => {{
    const [value] = fieldlab.shared(React, view, 'label');
    React.useLayoutEffect(() => {{ view.model.data.setv({{ label: 'changed' }}, {{ sync: false }}); }}, []);
    return value;
  }};
  createRoot(element).render(React.createElement(Shown));
  for (let i = 0; i < 600 && element.textContent != 'changed'; i++) await new Promise((done) => setTimeout(done, 100));
  const shown = element.textContent;
  view.model.data.setv({{ label: 'Measure again' }}, {{ sync: false }});
  return shown;
}}"""


@pytest.fixture(scope="module")
def opened(lasting, server):
    lab = LabPage(lasting(), server)
    lab.page.locator("button", has_text="Measure again").wait_for()
    lab.unfold()
    lab.pause()
    lab.until(lambda: not lab.page.get_by_text("Measuring").count(), OPENING)  # a measurement rewrites the column
    return lab


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def test_a_value_is_drawn_before_the_next_message(lab):
    assert lab.page.evaluate(AT_ONCE) == [True, False, True, False]


def test_a_value_that_changes_during_the_first_drawing_is_shown(lab):
    assert lab.page.evaluate(AT_BIRTH) == "changed"
