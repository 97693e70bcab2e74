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
  const Told = () => {{
    const [value] = fieldlab.shared(React, view, 'label');
    React.useLayoutEffect(() => {{ view.model.data.setv({{ label: 'changed' }}, {{ sync: false }}); }}, []);
    return value;
  }};
  createRoot(element).render(React.createElement(Told));
  for (let i = 0; i < 600 && element.textContent != 'changed'; i++) await new Promise((done) => setTimeout(done, 100));
  const told = element.textContent;
  view.model.data.setv({{ label: 'Measure again' }}, {{ sync: false }});
  return told;
}}"""
# Wait until the lab has requested no layout for 400 ms.
QUIET = """
  let page = view, asked = 0;
  while (page.parent) page = page.parent;
  page.compute_layout = () => asked++;
  for (let before = -1; before != asked;) {
    before = asked;
    await new Promise((next) => setTimeout(next, 1500));
  }
  delete page.compute_layout;
"""
# A nested component: mount, redraw and resize both at the same time.
TOGETHER = f"""async () => {{
  {VIEW} {QUIET}
  const done = [], outer = view.parent, mount = view._on_mounted;
  view.update_layout = () => done.push('inner styled');
  outer.update_layout = () => done.push('outer styled');
  page.compute_layout = () => done.push('page laid out');
  for (const one of [view, outer, view]) mount.call(one);
  for (const one of [view, outer, page]) one._after_resize();
  const now = done.length;
  for (let i = 0; i < 600 && !done.includes('page laid out'); i++) await new Promise((next) => setTimeout(next, 100));
  await new Promise((next) => setTimeout(next, 300));
  for (const one of [view, outer]) delete one.update_layout;
  delete page.compute_layout;
  return [now, done];
}}"""
# One message with six sizes: return [layouts during it, layouts 50 ms later, changes of size]; then restore the sizes.
SIX = f"""async () => {{
  {VIEW} {QUIET}
  let times = 0;
  const lay = page.compute_layout, there = Bokeh.documents[0];
  const plots = Array.from(there._all_models.values()).filter((model) => model.type == 'Figure').slice(0, 3);
  const say = (more) => there.apply_json_patch({{events: plots.flatMap((model) => ['min_border_top', 'min_border_right']
    .map((attr) => ({{kind: 'ModelChanged', model: {{id: model.id}}, attr, new: (model[attr] ?? 5) + more}})))}});
  page.compute_layout = function () {{ times += 1; lay.call(this); }};
  const before = plots.map((model) => model.min_border_top ?? 5);
  say(3);
  const now = times;
  await new Promise((next) => setTimeout(next, 50));
  const counted = [now, times, plots.map((model, at) => model.min_border_top - before[at])];
  say(-3);
  delete page.compute_layout;
  return counted;
}}"""


PLOT = """
  const plots = [];
  const walk = (view) => {
    if (view.model.type == 'Figure') plots.push(view);
    for (const child of view.children_views()) walk(child);
  };
  Bokeh.index.roots.forEach(walk);
  const plot = plots.find((plot) => plot.is_displayed);
"""
# The number of layouts so far: right after resizing a component, right after resizing a plot, and after a deferred
# layout.
SIZES = f"""async () => {{
  {VIEW} {QUIET} {PLOT}
  let times = 0;
  page.compute_layout = () => times++;
  const soon = async () => {{
    await new Promise((next) => setTimeout(next));
    await new Promise((next) => setTimeout(next));
    return times;
  }};
  for (let i = 0; i < 5; i++) view._after_resize();
  const component = await soon();
  plot._after_resize();
  const both = await soon();
  for (let i = 0; i < 5; i++) view._after_resize();
  for (let i = 0; i < 600 && times == both; i++) await new Promise((next) => setTimeout(next, 100));
  delete page.compute_layout;
  return [component, both, times];
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


def test_a_value_is_drawn_before_the_next_can_come(lab):
    assert lab.page.evaluate(AT_ONCE) == [True, False, True, False]


def test_a_value_that_changes_while_it_is_drawn_first_is_shown_as_it_is(lab):
    assert lab.page.evaluate(AT_BIRTH) == "changed"


def test_components_within_each_other_are_laid_out_together_once(lab):
    assert lab.page.evaluate(TOGETHER) == [0, ["outer styled", "page laid out"]]


def test_sizes_of_components_are_collected_and_a_plot_does_not_wait(lab):
    assert lab.page.evaluate(SIZES) == [0, 1, 2]


def test_a_message_with_many_sizes_lays_the_page_out_once(lab):
    assert lab.page.evaluate(SIX) == [0, 1, [3, 3, 3]]
