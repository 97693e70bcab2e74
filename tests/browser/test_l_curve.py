"""The L-curve lab in Chromium: growing curves, picking λ, linked views, and files."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from PIL import Image

from compute.labs.l_curve.problems import make
from tests.browser.curve_page import FAST, CurvePage
from tests.browser.lab_page import OPENING

A_FILE = re.compile(r"A, or A and b|A: \S+|Rejected: \S+")  # the label before and after a file was chosen
B_FILE, PICTURE = re.compile(r"b \[.npy|b: \S+"), re.compile(r"Picture \[.png|Picture: \S+")
# Record the y of each curve from now on.
WATCH = """() => {
  const watched = Boolean(window.steps), source = Bokeh.documents[0].get_model_by_name('l-curve');
  window.steps = [];
  if (!watched) source.properties.data.change.connect(() => steps.push(Array.from(source.data.y)));
}"""


@pytest.fixture(scope="module")
def opened(lasting, server):
    return CurvePage(lasting(), server)


@pytest.fixture
def freely(lab):
    """Let the page paint at the full frame rate, as outside tests."""
    every = lab.page.evaluate("window.paintEvery")
    lab.page.evaluate("window.paintEvery = 0")
    yield
    lab.page.evaluate(f"window.paintEvery = {every}")


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@pytest.mark.usefixtures("freely")
def test_the_curve_moves_while_it_is_solved(lab):
    for tempo in ("2 steps per frame", "1 step per frame", "1 step per frame"):  # a stalling browser paints few frames
        lab.grow(tempo)
        lab.page.evaluate(WATCH)
        lab.key("r")
        lab.until(lambda: lab.page.evaluate("window.steps.length"))
        lab.solved()
        curves = [y for y in lab.page.evaluate("window.steps") if len(y) == 200]
        if len({tuple(y) for y in curves}) > 10:
            break
    assert len({tuple(y) for y in curves}) > 10  # this many frames
    lowest = np.array([y[0] for y in curves])  # |x| at the lowest λ, a lower bound that increases with each step
    rising = np.diff(lowest[np.argmin(lowest) :]) >= -1e-9 * lowest.max()
    assert rising.all()
    assert lowest[-1] > 10 * lowest.min()


def norm_is_drawn(lab):
    """Return whether the drawn solution has the norm of its point on the curve."""
    state = lab.state()
    return np.linalg.norm(state["solution"]) == pytest.approx(state["ring"][1], rel=0.02)


@pytest.mark.usefixtures("freely")
def test_a_click_and_a_drag_on_the_curve_pick_lambda_and_show_its_solution(lab):
    lab.page.mouse.move(*lab.at(0.2))
    lab.page.mouse.down()
    lab.page.mouse.up()
    lab.until(lambda: "manual" in lab.lam())
    lab.until(lambda: norm_is_drawn(lab))
    lab.page.mouse.down()
    for part in (0.4, 0.6, 0.78):
        before = lab.state()["solution"]
        lab.page.mouse.move(*lab.at(part))
        lab.until(lambda before=before: lab.state()["solution"] != before)  # while the pointer is down
    lab.page.mouse.up()
    lab.until(lambda: (s := lab.state())["ring"][0] == pytest.approx(s["x"][155], rel=0.1))
    lab.until(lambda: norm_is_drawn(lab))


def test_a_rule_restores_its_lambda(lab):
    lab.page.mouse.click(*lab.at(0.3))
    lab.until(lambda: "manual" in lab.lam())
    lab.page.get_by_role("button", name="Discrepancy").click()
    lab.until(lambda: "rule 6: Discrepancy principle" in lab.lam())
    residual = 1.01 * 0.01 * np.linalg.norm(make("heat", n=200)[1])  # the principle: |Ax - b| = τ |e|
    lab.until(lambda: lab.state()["ring"][0] == pytest.approx(residual, rel=0.01))


def test_every_view_marks_lambda_and_handles_clicks(lab):
    spans = """(name) => Bokeh.documents[0].get_model_by_name(name).center.filter((m) => m.type == 'Span')
      .map((m) => [m.visible, m.location])[0]"""
    views = {"GCV": "gcv", "Error": "error", "Singular values": "singular", "Ribbon": "ribbon",
             "Quasi-optimality": "quasi", "Picard": "picard", "Curvature": "curvature"}  # fmt: skip
    for place, (title, name) in enumerate(views.items()):
        lab.page.get_by_role("button", name=title, exact=True).last.click()
        shown = f"Bokeh.documents[0].get_model_by_name('{name} view')?.inner_width > 50"
        lab.until(lambda shown=shown: lab.page.evaluate(shown))
        if name != "ribbon":
            before = lab.lam()
            lab.page.mouse.click(*lab.at(0.25 + 0.06 * place))
            lab.until(lambda before=before: lab.lam() != before and "manual" in lab.lam())
            chosen = pytest.approx(float(lab.lam().split()[2]), rel=0.02)
            lab.until(lambda name=name, at=chosen: lab.page.evaluate(spans, f"{name} view") == [True, at])
    box = lab.page.evaluate("""() => { const m = Bokeh.documents[0].get_model_by_name('curvature view');
      const b = Bokeh.index.find_one(m).el.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }""")
    before = lab.lam()
    lab.page.mouse.click(box[0] + 0.45 * box[2], box[1] + 0.4 * box[3])
    lab.until(lambda: lab.lam() != before)


def test_each_move_of_the_noise_slider_solves_the_problem_again(lab):
    start = lab.state()["x"]
    slider = lab.page.get_by_label(re.compile("^Noise")).first
    slider.focus()
    for _ in range(10):  # a tenth of a decade each
        before = lab.state()["x"]
        lab.page.keyboard.press("ArrowRight")
        lab.until(lambda before=before: lab.state()["x"] != before)
    # ten times the noise leaves ten times the residual
    lab.until(lambda: lab.done() and min(lab.state()["x"]) > 3 * min(start))


def test_another_problem_and_a_picture(lab):
    lab.choose("Problem", "Blurred picture")
    lab.until(lambda: lab.state()["picture"] >= 48 * 48)
    lab.type("n [pixels per side]", "16")  # small, because it is solved to the end twice
    lab.until(lambda: lab.state()["picture"] == 16 * 16 and lab.done(), OPENING)
    lab.page.mouse.click(*lab.at(0.5))
    lab.until(lambda: "manual" in lab.lam())
    picture = io.BytesIO()
    Image.fromarray(np.uint8(np.add.outer(np.arange(90), np.arange(120)))).save(picture, "PNG")
    before = lab.lam()
    lab.give(PICTURE, "ramp.png", picture.getvalue())
    lab.until(lambda: lab.lam() != before and lab.done(), OPENING)
    lab.page.get_by_role("button", name="Restore phantom").click()


def test_a_key_replaces_lambda_by_alpha_everywhere(lab):
    lam = float(lab.lam().split()[2])
    lab.key("a")
    lab.until(lambda: lab.lam().startswith("α ="))
    assert float(lab.lam().split()[2]) == pytest.approx(lam**2, rel=0.02)
    label = "Bokeh.documents[0].get_model_by_name('curvature view').below[0].axis_label"
    lab.until(lambda: lab.page.evaluate(label) == "α = λ²")
    lab.key("a")
    lab.until(lambda: lab.lam().startswith("λ ="))


def test_wrong_numbers_are_refused_next_to_their_fields(lab):
    before = lab.state()["x"]
    for label, text, words in (
        ("n [samples]", "7", "n must be a multiple of 2 for heat, not 7"),
        ("λ", "-1", "lam must be a finite number above 0, not -1"),
    ):
        lab.type(label, text)
        lab.page.locator("nav").first.get_by_text(words).wait_for()
    assert lab.still(lambda: lab.state()["x"], 0.5) == before  # the old curve stays


def test_files_of_an_own_problem(lab):
    A, b, x = make("shaw", n=20)
    lab.choose("Problem", "Own A and b")
    lab.page.get_by_text("No A and b are loaded.").wait_for()  # in place of the old problem's curve
    lab.give(A_FILE, "bad.npz", b"no matrix \0 at all")
    lab.page.get_by_role("alert").get_by_text("matrix must be an .npz file").wait_for()
    lab.page.get_by_text("Rejected: bad.npz").wait_for()
    lab.give(A_FILE, "shaw.npz", npz(A=A, b=b, x=x))
    lab.until(lambda: lab.state()["truth"] == pytest.approx(x))
    lab.page.get_by_text("A: shaw.npz").wait_for()
    market, rhs = io.BytesIO(), io.BytesIO()
    scipy.io.mmwrite(market, sp.coo_matrix(np.diag([3.0, 2.0, 1.0])))
    lab.give(A_FILE, "diagonal.mtx", market.getvalue())
    lab.page.get_by_role("alert").get_by_text("select a file with b").wait_for()
    np.save(rhs, np.ones(3))
    lab.give(B_FILE, "b.npy", rhs.getvalue())
    lab.until(lambda: len(lab.state()["solution"]) == 3)


def test_further_narrows_the_ribbons(lab):
    assert lab.fact("ribbon")
    lab.key("f")
    lab.until(lambda: "of 0.0001" in lab.status() and lab.done())


def test_the_lab_pauses_steps_and_continues(lab):
    lab.grow("2 steps/s")
    lab.key("r")
    lab.until(lambda: "Running" in lab.status())
    lab.key(" ")
    lab.until(lambda: "Paused" in lab.status())
    step = int(lab.still(lambda: lab.fact("step")))  # frames in flight have been received
    lab.key("s")
    lab.until(lambda: int(lab.fact("step")) == step + 1)
    lab.grow(FAST)
    lab.key(" ")
    lab.until(lab.done)
