"""The diffusion lab in Chromium: controls, painting, zoom, and robustness while it runs."""

from __future__ import annotations

from itertools import pairwise

from app.tab.lab_tab import SIDEBAR
from app.tab.stream import WIDEST
from tests.browser.lab_page import GROUPS, HIDE, OPENING, PAINTED

TOP = 8  # px above the picture inside its figure
PICTURE = "canvas"  # Bokeh figures draw on canvases; the first two are the field and the Laplacian


def test_frames_are_painted_and_counted_and_a_slider_acts_meanwhile(lab):
    step = lab.step()
    lab.frames_on(20)
    lab.until(lambda: lab.step() > step + 20)
    lab.unfold()
    rate = lab.page.locator(".readout .legend li").filter(has_text="frames/s")
    lab.until(lambda: rate.count() and float(rate.inner_text().split()[0]) > 0)
    lab.page.get_by_role("slider", name="r = D Δt / Δx²").first.focus()
    lab.page.keyboard.press("ArrowLeft")
    lab.until(lambda: lab.fact("r") == 0.195)
    assert "Running" in lab.status()
    lab.frames_on()
    lab.page.keyboard.press("ArrowRight")
    lab.until(lambda: lab.fact("r") == 0.2)


LISTEN = """() => {
  const source = Bokeh.documents[0].get_model_by_name('frames');
  window.shown = [];
  source.properties.data.change.connect(() => window.shown?.push(Array.from(source.data.field[0]).join()));
  document.addEventListener('keydown', () => { window.pressed = window.shown?.length; }, true);
}"""
LATEST = "window.pressed === undefined ? [] : window.shown.slice(window.pressed)"


def test_a_slider_takes_effect_in_the_next_frames(lab):
    """With r = 0 the field is constant: a frame that differs from its predecessor was computed before the change."""
    lab.choose("Initial field", "noise")
    lab.until(lambda: lab.step() > 20)
    lab.page.evaluate(LISTEN)
    lab.page.get_by_role("slider", name="r = D Δt / Δx²").first.focus()
    lab.page.keyboard.press("Home")
    lab.until(lambda: lab.fact("r") == 0)
    # As many frames as a slow machine paints; two equal ones show that the last frame with r > 0 has been received.
    frames = lab.until(lambda: len(f := lab.page.evaluate(LATEST)) > 6 and f[-1] == f[-2] and f)
    moving = sum(now != before for before, now in pairwise(frames))
    # frames in flight or prepared, and two in the 50 ms of Panel's slider throttle
    assert moving <= WIDEST + 1 + 2
    lab.page.evaluate("window.shown = null")  # recording a frame takes as long as painting it
    lab.ratio(0.2)
    lab.choose("Initial field", "hot spots")


def test_r_is_typed_with_the_keyboard_and_a_refused_number_moves_nothing(lab):
    field = lab.page.get_by_role("textbox", name="r", exact=True).first
    below = lab.page.get_by_label("Edges").first
    place = below.bounding_box()
    field.fill("0.26")
    field.press("Enter")
    lab.page.get_by_text("r must be from 0 to 0.25, not 0.26").first.wait_for()
    assert below.bounding_box() == place
    assert lab.fact("r") == 0.2
    field.fill("0.2437")
    field.press("Tab")  # leaving the field enters the number, too
    lab.until(lambda: lab.fact("r") == 0.2437)
    assert field.input_value() == "0.2437"
    lab.ratio(0.2)
    lab.until(lambda: field.input_value() == "0.2")


def test_a_hidden_tab_receives_no_frames_and_continues_when_it_is_visible(lab):
    lab.page.evaluate(HIDE, True)
    lab.still(lab.step)
    lab.page.evaluate(HIDE, False)
    lab.steps_on()


def test_keys_run_step_and_reset(lab):
    lab.pause()
    at = lab.step()
    lab.key("s")
    lab.until(lambda: lab.step() == at + 1)
    lab.key("r")
    lab.until(lambda: lab.step() == 0)
    assert "Paused" in lab.status()  # a paused lab stays paused
    lab.key(" ")
    lab.until(lambda: lab.step() > 20)


def middle(lab):
    """Return the page coordinates of the middle of the field."""
    box = lab.page.locator(PICTURE).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def on_the_section(lab):
    """Return the page coordinates of a point on the horizontal section line, 20 px right of its middle."""
    box = lab.page.locator(PICTURE).first.bounding_box()
    high = lab.page.evaluate("Bokeh.documents[0].get_model_by_name('picture field').inner_height")
    at = lab.page.evaluate("Bokeh.documents[0].get_model_by_name('section field').location")
    return box["x"] + box["width"] / 2 + 20, box["y"] + TOP + high * (1 - at / 512)


def drag_down(lab, x, y):
    """Drag downwards from (x, y), in steps that a slow page handles one by one.

    The first step is a drag at once, because Bokeh takes less than 5 px within 300 ms for a press.
    """
    for shift in (-10, -4, 0):
        lab.page.mouse.move(x + shift, y)
        lab.page.evaluate(PAINTED)  # Bokeh hits the line under the pointer when it paints
    lab.page.mouse.down()
    for shift in range(10, 60, 5):
        lab.page.mouse.move(x, y + shift)
        lab.page.evaluate(PAINTED)
    lab.page.mouse.up()


# The active drag tool of the field: none of Bokeh's while the pointer paints.
DRAGGED = "Bokeh.documents[0].get_model_by_name('picture field').toolbar.active_drag?.type ?? null"


def test_paint_and_erase_while_paused_and_while_running(lab):
    lab.group("Field")
    lab.pause()
    x, y = middle(lab)
    signs = {"Paint": 1, "Erase": -1}
    for mode, running in (("Paint", False), ("Erase", False), ("Paint", True)):
        lab.page.get_by_role("button", name=mode, exact=True).click()
        lab.until(lambda: lab.page.evaluate(DRAGGED) is None)
        if running:
            lab.key(" ")
            lab.steps_on(100)  # the painted heat has spread, so another stroke adds some
        before = lab.fact("heat")
        lab.page.mouse.move(x, y)
        lab.page.mouse.down()
        lab.page.mouse.move(x + 40, y, steps=4)
        lab.page.mouse.up()
        lab.until(lambda before=before, sign=signs[mode]: sign * (lab.fact("heat") - before) > 100)
    lab.page.get_by_role("button", name="Move", exact=True).click()
    lab.until(lambda: lab.page.evaluate(DRAGGED) is not None)


def model(lab, name, value):
    """Return a property of a model of the page."""
    return lab.page.evaluate(f"Bokeh.documents[0].get_model_by_name('{name}').{value}")


def test_a_stroke_from_the_section_line_paints_and_does_not_move_the_line(lab):
    lab.group("Field")
    lab.pause()
    lab.page.get_by_role("button", name="Paint", exact=True).click()
    lab.until(lambda: lab.page.evaluate(DRAGGED) is None)
    x, y = on_the_section(lab)
    before = lab.fact("heat")
    drag_down(lab, x, y)
    lab.until(lambda: lab.fact("heat") > before + 100)
    assert [model(lab, f"section {name}", "location") for name in ("field", "laplacian")] == [256, 256]
    lab.page.get_by_role("button", name="Move", exact=True).click()
    lab.until(lambda: lab.page.evaluate(DRAGGED) is not None)


SUMS = """() => { const {data} = Bokeh.documents[0].get_model_by_name('frames');
  const sum = (name) => Array.from(data[name][0]).reduce((all, one) => (31 * all + one) % 1000003, 7);
  return [sum('field'), sum('laplacian')]; }"""  # of the levels of both pictures


def test_a_second_run_is_chosen_painted_reloaded_and_turned_off(lab):
    def headings():
        return [each for each in lab.page.locator("h2").all_inner_texts() if " run: " in each]

    def pictures():
        return lab.still(lambda: lab.page.evaluate(SUMS), 0.5)

    lab.group("Field", "Physics")
    lab.pause_at_start()
    lab.choose("Compare with a second run", "r")
    lab.until(lambda: headings() == ["First run: r = 0.2", "Second run: r = 0.15"])
    first, second = pictures()
    assert first == second  # the same field in the same colours
    lab.page.get_by_role("button", name="Paint", exact=True).click()
    lab.until(lambda: lab.page.evaluate(DRAGGED) is None)
    drag_down(lab, *middle(lab))
    lab.until(lambda: first not in pictures())
    first, second = pictures()
    assert first == second  # the stroke is in both
    lab.key("s")
    lab.until(lambda: lab.step() == 1)
    first, second = pictures()
    assert first != second
    lab.until(lab._address_is_current)
    lab.page.reload()
    lab.until(lambda: headings() == ["First run: r = 0.2", "Second run: r = 0.15"], OPENING)
    lab.until(lambda: pictures() == [first, second])
    lab.choose("Compare with a second run", "Off")
    lab.until(lambda: headings() == [])
    lab.until(lambda: lab.page.get_by_role("figure", name="Picture: ∇²u").count() == 1)
    assert pictures()[0] == first


def test_backend_edges_and_size_change_while_it_runs(lab):
    seen = [lab.step()]
    for group, label, option in (("Compute", "Backend", "NumPy"), ("Physics", "Edges", "periodic")):
        lab.group(group)
        lab.choose(label, option)
        before = seen[-1]
        lab.until(lambda before=before: seen.append(lab.step()) or seen[-1] > before + 50)
    assert seen == sorted(seen)  # the field continues
    for cells in (1024, 512):
        lab.group("Compute")
        lab.choose("Grid [cells]", f"{cells} × {cells}")
        lab.until(lambda cells=cells: lab.field()["right"] == cells)
        lab.frames_on(3)
    assert "Running" in lab.status()


SCROLL_BAR = 15  # px of a classic scroll bar, as on Windows and Linux; a headless browser draws none


def test_a_scroll_bar_covers_no_button_of_the_side_bar(lab):
    lab.group("Field")
    redo = lab.page.locator("nav [aria-label^='Redo']").first
    box = redo.bounding_box()
    assert box["x"] + box["width"] <= SIDEBAR - SCROLL_BAR


def test_beyond_the_stability_limit_the_lab_blows_up_and_pauses_with_a_message(lab):
    lab.group("Physics")
    first = lab.settings()["Steps per frame"]
    assert not model(lab, "apart field", "visible")
    lab.key("r")  # the field of later steps is smooth, with little high-frequency content
    unstable = lab.page.get_by_text("See it blow up (r")
    for on in (True, False, True):
        unstable.click()
        lab.until(lambda on=on: (lab.fact("r") > 0.25) == on)
        lab.until(lambda on=on: (lab.field()["pixels"] == 32 * 32) == on)  # single cells
    lab.until(lambda: lab.field()["rough"] > 1.5)  # of 2: most cells have the other colour than their neighbours
    slider = lab.page.get_by_role("slider", name="Steps per frame").first
    slider.focus()
    lab.page.keyboard.press("End")
    lab.until(lambda: lab.fact("not finite") > 0)
    lab.until(lambda: "Paused" in lab.status())
    note = lab.page.get_by_text("Paused: the field holds values")
    note.wait_for()
    lab.key("0")  # the first cells without a number may be outside of the zoomed part
    lab.until(lambda: model(lab, "apart field", "visible"))  # magenta is in no palette, so the page shows its legend
    unstable.click()
    lab.until(lambda: lab.fact("r") <= 0.25)
    lab.key("r")
    note.wait_for(state="detached")  # the note is removed with its cause
    slider.focus()
    for key in ("Home", *("ArrowRight",) * 4):  # back to 20
        lab.page.keyboard.press(key)
    lab.until(lambda: lab.settings()["Steps per frame"] == first)
    lab.key(" ")
    lab.ratio(0.2)


def test_no_group_of_controls_makes_the_page_scroll(lab):
    for name in GROUPS:
        lab.group(name)
        lab.fits_the_window()


WHOLE = [0, 512, 0, 512]  # cells: the ranges of the axes that show the whole field
RANGES = """() => { const {x_range, y_range} = Bokeh.documents[0].get_model_by_name("picture field");
  return [x_range.start, x_range.end, y_range.start, y_range.end]; }"""


def zoom_by_wheel(lab, amount, times):
    """Turn the wheel over the middle of the field `times` times."""
    lab.page.mouse.move(*middle(lab))
    for _ in range(times):
        lab.page.mouse.wheel(0, amount)
        lab.page.evaluate(PAINTED)


def test_a_zoomed_field_is_shown_whole_again(lab):
    for way in ("0", "Home", "double click", "wheel"):
        assert lab.page.evaluate(RANGES) == WHOLE
        zoom_by_wheel(lab, -200, 4)
        lab.until(lambda: lab.field()["right"] < 512)
        if way == "double click":
            lab.page.mouse.dblclick(*middle(lab))
        elif way == "wheel":
            zoom_by_wheel(lab, 200, 9)  # it overshoots
        else:
            lab.key(way)
        lab.until(lambda: lab.page.evaluate(RANGES) == WHOLE)
        lab.until(lambda: lab.field()["right"] == 512)


def test_a_click_places_the_probe_and_the_section_line_can_be_dragged(lab):
    """The last test in this tab, because these changes cannot be undone by hand."""

    def placed():
        """Click, once the picture has its final size; return whether the probe was placed."""
        x, y = middle(lab)
        lab.page.mouse.click(x + 60, y + 60)
        return lab.still(lambda: model(lab, "probe point", "data.x[0]"), 0.5) > 300

    def dragged():
        """Drag the line from its present position; return whether it moved."""
        drag_down(lab, *on_the_section(lab))
        return lab.still(lambda: model(lab, "section field", "location"), 0.5) < 256 - 40

    lab.until(placed)
    assert model(lab, "section field", "location") == 256
    lab.until(dragged)  # a busy page may be laid out again between two reads
    lines = [f"section{halo} {name}" for name in ("field", "laplacian") for halo in ("", " halo")]
    lab.until(lambda: len({model(lab, line, "location") for line in lines}) == 1)
