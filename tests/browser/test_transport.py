"""The fast frame transport (app/static/frame_source.js): the same pixels as Bokeh's, and Bokeh's path if it fails."""

from __future__ import annotations

import re

import pytest

from tests.browser.lab_page import ALL_MODELS, FRAMES, LabPage

pytestmark = pytest.mark.extended

NAMES = ("field", "laplacian")
VIEW = "(name) => Bokeh.index.find_one(Bokeh.documents[0].get_model_by_name(`picture ${name}`))"
# All pixels of the canvas with picture and axes except the first row and column, which Bokeh clears by half, so that
# they become more opaque with each painting.
PIXELS = f"""(name) => {{
  const {{canvas, ctx}} = ({VIEW})(name).canvas_view.primary;
  const {{data}} = ctx.getImageData(1, 1, canvas.width - 1, canvas.height - 1);
  return Array.from(new Uint32Array(data.buffer)).join();
}}"""
# Let Bokeh alone colour the picture and paint the plot; return whether the pixels are equal.
SAME = f"""async (name) => {{
  const plot = ({VIEW})(name), pixels = {PIXELS}, before = pixels(name);
  const painter = [...plot.renderer_views.values()].find((view) => view.glyph?.image_data);
  const {{_set_data, _update_image}} = painter.glyph;
  delete painter.glyph._set_data;
  delete painter.glyph._update_image;
  await painter.set_data();
  plot.invalidate_painters();
  plot.paint();
  const same = pixels(name) == before;
  Object.assign(painter.glyph, {{_set_data, _update_image}});
  return same;
}}"""
# Count full paintings of the figures, and frames.
COUNT = f"""() => {{
  window.whole = window.shown = 0;
  for (const name of ['field', 'laplacian']) ({VIEW})(name).repainted.connect(() => window.whole += 1);
  {FRAMES}.properties.data.change.connect(() => window.shown += 1);
}}"""
TRANSPORT = f"""{ALL_MODELS}
  .map((model) => model.attributes.transport).filter((said) => said !== undefined).join()"""
# The values of the field around a position in cells, which is known to a tenth.
VALUES = f"""([x, y]) => {{
  const {{data}} = {FRAMES}, levels = data.field[0], [ny, nx] = levels.shape;
  const at = (x, y) => {{
    const i = Math.floor((x - data.x[0]) / data.dw[0] * nx), j = Math.floor((y - data.y[0]) / data.dh[0] * ny);
    return data.field_low[0] + levels[j * nx + i] / 254 * (data.field_high[0] - data.field_low[0]);
  }};
  return [-0.06, 0.06].flatMap((dx) => [-0.06, 0.06].map((dy) => at(x + dx, y + dy)));
}}"""
# Failures by the transport that the page then reports: a missing method that only a change of palette needs, and an
# error in the first frame received as a message.
WRONG = {
    "public: this release of BokehJS has no _update_image": """addEventListener('DOMContentLoaded', () => {
    if (window.Bokeh) delete Bokeh.Models.get('Image').prototype.default_view.prototype._update_image;
  })""",
    "public: Error: no memory": """CanvasRenderingContext2D.prototype.createImageData = () => {
        throw Error('no memory');
    }""",
}


@pytest.fixture(scope="module")
def opened(opened):
    opened.until(lambda: opened.page.evaluate(TRANSPORT) == "fast")
    return opened


def equals_bokehs(lab: LabPage) -> None:
    """Wait until each picture's pixels equal Bokeh's, once the paused lab is painted."""
    lab.page.mouse.move(0, 0)
    lab.transitions()
    lab.until(lambda: [lab.page.evaluate(SAME, name) for name in NAMES] == [True, True])


def step(lab: LabPage) -> None:
    """Step the paused lab and wait for the frame."""
    before = lab.field()["number"]
    lab.key("s")
    lab.until(lambda: lab.field()["number"] > before)


def test_only_the_inside_is_painted_and_every_pixel_equals_bokehs(lab):
    lab.page.evaluate(COUNT)
    # two figures; colour bars and the comparison's ticks sometimes repaint one in full, Bokeh does for each frame
    lab.until(lambda: lab.page.evaluate("window.shown > 10 && window.whole < window.shown"))
    lab.pause()
    step(lab)
    equals_bokehs(lab)


def test_another_palette_colours_the_present_frame(lab):
    lab.pause()
    step(lab)
    before = lab.page.evaluate(PIXELS, "field")
    number = lab.field()["number"]
    lab.group("Display")
    lab.choose("Palette of the field", "Viridis")
    lab.until(lambda: lab.page.evaluate(PIXELS, "field") != before)
    assert lab.field()["number"] == number  # no kernel has run
    equals_bokehs(lab)
    step(lab)
    equals_bokehs(lab)
    lab.choose("Palette of the field", "Inferno")


def test_another_scheme_or_type_size_is_shown_around_the_picture_too(lab):
    lab.toggle_theme()
    lab.key("p")
    lab.page.get_by_role("toolbar").get_by_role("button", name="Freeze").wait_for()
    lab.frames_on(3)
    lab.key(" ")  # presenter mode hides the status "Paused"
    lab.page.get_by_role("toolbar").get_by_role("button", name="Run", exact=True).wait_for()
    lab.at_rest()
    step(lab)
    equals_bokehs(lab)
    lab.key(" ")
    lab.key("p")
    lab.toggle_theme()


def test_hover_shows_the_latest_value(lab):
    lab.pause()
    box = lab.page.locator("canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 3
    tip = lab.page.locator(".bk-tooltip-content, .bk-tooltip").filter(has_text="value").first

    def newest():
        lab.page.mouse.move(x, y)
        lab.page.mouse.move(x + 1, y)
        numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", tip.inner_text())]
        return len(numbers) == 3 and any(
            numbers[2] == pytest.approx(one, rel=1e-4, abs=1e-6) for one in lab.page.evaluate(VALUES, numbers[:2])
        )

    for _ in range(2):
        step(lab)
        lab.until(newest)
        lab.page.mouse.move(0, 0)


@pytest.mark.parametrize("why", WRONG)
def test_frames_use_the_public_transport_if_the_fast_one_fails(page, server, why):
    messages = []
    page.on("console", lambda message: messages.append((message.type, message.text)))
    page.add_init_script(WRONG[why])
    lab = LabPage(page, server)
    lab.until(lambda: lab.page.evaluate(TRANSPORT) == why)
    before, pixels = lab.field()["number"], lab.page.evaluate(PIXELS, "field")
    lab.until(lambda: lab.field()["number"] > before + 5)
    lab.until(lambda: lab.page.evaluate(PIXELS, "field") != pixels)
    about = [(kind, text) for kind, text in messages if "Fieldlab" in text]
    assert [kind for kind, text in about] == ["info"]
    assert why.removeprefix("public: ") in about[0][1]
