"""What app/static/bokeh_patches.js does for Panel's components, on a page that is shown."""

from __future__ import annotations

import pytest

from app.theme import stylesheet
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
# No message of the server can come before the microtasks are done: what it said last is drawn by then.
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
# A component is drawn for the first time, and the model changes before it can listen.
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
# Waits until the page has had all the layouts that the lab itself has asked for.
QUIET = """
  let page = view, asked = 0;
  while (page.parent) page = page.parent;
  page.compute_layout = () => asked++;
  for (let before = -1; before != asked;) {
    before = asked;
    await new Promise((next) => setTimeout(next, 400));
  }
  delete page.compute_layout;
"""
# A component within another: both are there, are drawn again and have another size at the same time.
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
# One message with six sizes: [times that the page is laid out by it and right after it, the sizes], then as it was.
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
# A plot whose labels grow, then shrink: [times that the page was laid out, px by which the plot's left edge has moved].
WIDER = f"""async () => {{
  {VIEW} {QUIET}
  let times = 0;
  const plots = [];
  const walk = (view) => {{
    if (view.model.type == 'Figure') plots.push(view);
    for (const child of view.children_views()) walk(child);
  }};
  Bokeh.index.roots.forEach(walk);
  const plot = plots.find((plot) => plot.axis_views.length && plot.is_displayed);
  const axis = plot.axis_views.find((axis) => axis.panel.side == 'left'), standoff = axis.model.major_label_standoff;
  const left = () => plot.frame.bbox.left;
  page.compute_layout = () => times++;
  const before = left();
  const wait = async (moved) => {{
    for (let i = 0; i < 600 && left() != before + moved; i++) await new Promise((next) => setTimeout(next, 100));
    return left() - before;
  }};
  axis.model.major_label_standoff = standoff + 40;
  const there = await wait(40);
  axis.model.major_label_standoff = standoff;
  const back = await wait(0);
  delete page.compute_layout;
  return [times, there, back];
}}"""
# [times that styles were asked for by a plot's axes in one script, times in the next].
TYPE_SIZE = f"""async () => {{
  {VIEW}
  const plots = [];
  const walk = (view) => {{
    if (view.model.type == 'Figure') plots.push(view);
    for (const child of view.children_views()) walk(child);
  }};
  Bokeh.index.roots.forEach(walk);
  const css = window.getComputedStyle, counts = [];
  let asked = 0;
  window.getComputedStyle = (...given) => {{ asked += 1; return css(...given); }};
  for (let script = 0; script < 2; script++) {{
    await new Promise((next) => setTimeout(next));
    asked = 0;
    const sizes = Array.from({{ length: 10 }}, () => plots[0].base_font_size);
    counts.push(asked, new Set(sizes).size, sizes[0] > 0);
  }}
  window.getComputedStyle = css;
  return counts;
}}"""
ASKED = """() => {
  const { VisualProperties } = Bokeh.require('core/visuals/visual'), css = window.getComputedStyle;
  let asked = 0;
  window.getComputedStyle = (...given) => { asked += 1; return css(...given); };
  const answer = VisualProperties.prototype._get_css_value('line-color');
  window.getComputedStyle = css;
  return [answer, asked];
}"""


PLOT = """
  const plots = [];
  const walk = (view) => {
    if (view.model.type == 'Figure') plots.push(view);
    for (const child of view.children_views()) walk(child);
  };
  Bokeh.index.roots.forEach(walk);
  const plot = plots.find((plot) => plot.is_displayed);
"""
# Times that the page was laid out: right after a component has got another size, and right after a plot has, too.
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
# Whether a plot that needs a layout asked for it: while it has no place, and once it has one.
NO_PLACE = f"""async () => {{
  {VIEW} {PLOT}
  const asked = [];
  let parent = plot;
  while (parent.parent?.layout != null) parent = parent.parent;
  parent.measure_layout = () => asked.push(plot.is_displayed);
  for (const place of [false, true]) {{
    plot._is_displayed = place;
    plot._needs_layout = true;
    plot._invalidate_layout_if_needed();
  }}
  delete parent.measure_layout;
  return asked;
}}"""
# Whether a kind of component was made that the page has, one that it has not, and no more than a page needs.
KINDS = """() => {
  const names = Bokeh.documents[0].resolver.names;
  return [names.includes('Page1'), names.includes('ChatAreaInput1'), names.length < 60];
}"""


@pytest.fixture(scope="module")
def opened(lasting, server):
    lab = LabPage(lasting(), server)
    lab.page.locator("button", has_text="Measure again").wait_for()
    lab.unfold()
    lab.pause()
    lab.until(lambda: not lab.page.get_by_text("Measuring").count(), OPENING)  # which writes the column anew
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


def test_a_plot_without_a_place_is_not_laid_out(lab):
    assert lab.page.evaluate(NO_PLACE) == [True]


def test_kinds_of_components_are_made_when_they_are_needed(lab):
    assert lab.page.evaluate(KINDS) == [True, False, True]


def test_a_message_with_many_sizes_lays_the_page_out_once(lab):
    assert lab.page.evaluate(SIX) == [0, 1, [3, 3, 3]]


def test_a_plot_that_needs_room_for_its_labels_takes_it_without_the_page(lab):
    assert lab.page.evaluate(WIDER) == [0, 40, 0]


def test_the_type_size_of_a_plot_is_asked_for_once_a_script(lab):
    assert lab.page.evaluate(TYPE_SIZE) == [1, 1, True] * 2


def test_plots_do_not_ask_for_styles_that_no_sheet_of_the_page_sets(lab):
    assert lab.page.evaluate(ASKED) == ["", 0]
    assert "--bk-" not in stylesheet()
