"""Browser tests of the scripts of the fixes in app/upstream/; a test is skipped if FIELDLAB_FIXES disables its fix."""

from __future__ import annotations

import pytest

from app.upstream.fixes import chosen
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
LINK = """() => {
  const { ImportedStyleSheet } = Bokeh.require('models/dom/stylesheets');
  const sheet = new ImportedStyleSheet({ url: 'https://cdn.holoviz.org/panel/1.9.4/dist/css/loading.css' });
  return sheet.underlying().el.href;
}"""
# Create the view of an HTML pane, as a React component does before it renders the view, and show the pane.
UNDRAWN = """async () => {
  const { build_view } = Bokeh.require('core/build_views'), HTML = Bokeh.Models.get('panel.models.markup.HTML');
  const model = new HTML({ text: 'shown', visible: false });
  const view = await build_view(model, { parent: Bokeh.index.roots[0] });
  model.setv({ visible: true }, { sync: false });
  view.render();
  const shown = view.container.textContent;
  view.remove();
  return shown;
}"""
requested: list[str] = []  # the URLs of the page's requests


@pytest.fixture(scope="module")
def opened(lasting, server):
    page = lasting()
    page.on("request", lambda request: requested.append(request.url))
    lab = LabPage(page, server)
    lab.page.locator("button", has_text="Measure again").wait_for()
    lab.unfold()
    lab.pause()
    lab.until(lambda: not lab.page.get_by_text("Measuring").count(), OPENING)  # a measurement rewrites the column
    return lab


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def needs(fix):
    """Return a mark that skips a test without the fix of this name."""
    return pytest.mark.skipif(fix not in chosen(), reason=f"FIELDLAB_FIXES disables {fix}")


@needs("native_modules")
def test_components_are_requested_with_the_page_and_run_from_their_url(lab):
    """They are not run from a copy that the browser compiles again."""
    modules = [url for url in requested if "panel-material-ui.bundle.js" in url]
    assert len(modules) == 1
    first = next(index for index, url in enumerate(requested) if url.startswith("blob:"))  # Panel's modules, later
    assert requested.index(modules[0]) < first


@needs("local_styles")
def test_style_sheets_of_a_cdn_are_linked_to_the_server(lab, server):
    assert lab.page.evaluate(LINK) == f"http://localhost:{server.port}/static/extensions/panel/css/loading.css"


@needs("early_visibility")
def test_an_html_pane_may_be_shown_before_it_is_drawn(lab):
    assert lab.page.evaluate(UNDRAWN) == "shown"


@needs("react_state")
def test_a_value_is_drawn_before_the_next_message(lab):
    assert lab.page.evaluate(AT_ONCE) == [True, False, True, False]


@needs("react_state")
def test_a_value_that_changes_during_the_first_drawing_is_shown(lab):
    assert lab.page.evaluate(AT_BIRTH) == "changed"


@needs("press")
def test_a_drag_that_begins_after_a_pause_paints(lab):
    lab.group("Field")
    lab.page.get_by_role("button", name="Paint", exact=True).click()
    tool = "Bokeh.documents[0].get_model_by_name('picture field').toolbar.active_drag?.type ?? null"
    lab.until(lambda: lab.page.evaluate(tool) is None)
    before = lab.fact("heat")
    box = lab.page.locator("canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    lab.page.wait_for_timeout(700)  # ms: longer than a long press for Bokeh
    lab.page.mouse.move(x + 40, y, steps=4)
    lab.page.mouse.up()
    lab.until(lambda: lab.fact("heat") > before + 100)
