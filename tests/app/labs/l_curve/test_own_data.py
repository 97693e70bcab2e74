"""User-provided A and b, and the choice of λ: every part of the L-curve's page agrees with the lab."""

from __future__ import annotations

import io

import numpy as np
import pytest
import scipy.io
from PIL import Image

from app.labs.l_curve.controls import LCurveControls
from app.labs.l_curve.parts import FIRST
from app.labs.l_curve.view import LCurveView
from app.tab.controls import UNDO
from compute.engine import Refused
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.problems import make
from compute.labs.l_curve.system import OWN
from tests.direct import DirectSession, read

pytestmark = pytest.mark.extended


class Tab:
    """Controls and view of one session without an engine or a browser."""

    def __init__(self, **values):
        self.session = DirectSession(LCurve(**{**FIRST, "n": 40, "backend": "cpu_numpy", **values}))
        self.lab_view = LCurveView(self.session, (1200, 800))
        self.controls = LCurveControls(self.session, self.lab_view, None)
        self.session.value_changes.subscribe(self.controls.show_values)
        self.session.events.subscribe(self.controls.on_event)
        self.see()

    @property
    def lab(self):
        return self.session.live

    def see(self):
        """Deliver the next frame and run the periodic callbacks."""
        self.session.see()
        self.tick()

    def tick(self):
        self.lab_view.tick()
        self.controls.tick()

    def choose(self, problem):
        self.controls.problem.problem.value = problem

    def press(self, key):
        self.controls.keys[key]()
        self.see()

    def give(self, kind, name, data):
        """Upload a file as the browser sends it; return its field."""
        upload = self.controls.problem.uploads.fields[kind]
        upload.field._update_file(name, "application/octet-stream", data)
        assert upload.field.uploaded_label.startswith("Reading ")
        read(upload)
        return upload

    def label(self, kind):
        """Return the label of a file field."""
        return self.controls.problem.uploads.fields[kind].field.uploaded_label

    def bring(self, **values):
        """Set values from a link, a file or a story, as app.tab.restore does."""
        self.session.change(**values)
        self.session.value_changes.publish(values)

    def noise(self):
        """Return the value of the noise slider."""
        return self.controls.problem.noise.value

    def veil(self):
        """Return the text that covers the curve, "" without one."""
        return self.lab_view.veil.object if self.lab_view.veil.visible else ""


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.fixture(scope="module")
def shaw():
    A, b, x = make("shaw", n=20)
    return npz(A=A, b=b + 1e-3, x=x), A, b + 1e-3


@pytest.fixture
def own():
    """Return a tab on which the user's problem was chosen, and no file."""
    tab = Tab()
    assert (tab.veil(), tab.lab.noise) == ("", 0.01)
    tab.choose(OWN)
    return tab


@pytest.fixture
def loaded(own, shaw):
    """Return a tab with the user's data."""
    own.give("matrix", "shaw.npz", shaw[0])
    own.see()
    return own


def test_ones_own_data_get_no_noise_that_nobody_asked_for(loaded, shaw):
    """The page starts with 1 % for its own problems; b from a file stays unchanged."""
    lab = loaded.lab
    assert lab.problem == OWN
    np.testing.assert_array_equal(lab.b, shaw[2])
    assert (lab.noise, loaded.session.values["noise"], loaded.noise(), lab.noise_norm) == (0.0, 0.0, 0.0, 0.0)
    loaded.controls.problem.noise.value = 0.1
    assert np.linalg.norm(lab.b - shaw[2]) == pytest.approx(0.1 * np.linalg.norm(shaw[2]))
    loaded.give("matrix", "again.npz", npz(A=shaw[1], b=2 * shaw[2]))  # the noise applies to the next file, too
    assert np.linalg.norm(lab.b - 2 * shaw[2]) == pytest.approx(0.2 * np.linalg.norm(shaw[2]))


def test_noise_may_be_asked_for_before_the_file_comes(own, shaw):
    assert own.noise() == 0.0
    own.controls.problem.noise.value = 0.1
    assert own.lab.noise == 0.01  # the lab still has the old problem
    own.give("matrix", "shaw.npz", shaw[0])
    assert (own.lab.problem, own.lab.noise) == (OWN, 0.1)


def test_made_problems_have_their_noise_back_after_ones_own(loaded):
    loaded.choose("shaw")
    assert (loaded.lab.problem, loaded.lab.noise, loaded.noise()) == ("shaw", 0.01, 0.01)


def test_noise_that_was_saved_with_ones_own_data_stays(shaw):
    """A link, or a file dropped on the page: all values in one change, as app.tab.restore sets them."""
    tab = Tab()
    data = {"matrix": shaw[1].tolist(), "rhs": shaw[2].tolist()}
    wanted = {"problem": OWN, "options": data, "noise": 0.25, "n": 20, "lam": None, "lambdas": None, "rays": None}
    tab.bring(**wanted, tolerance=3e-4)
    assert (tab.lab.problem, tab.lab.noise, tab.session.values["noise"]) == (OWN, 0.25, 0.25)
    assert tab.noise() == 0.25  # between two steps of the slider
    assert tab.lab.tolerance == 3e-4  # likewise
    assert tab.controls.lambda_choice.tolerance.value == 3e-4
    tab.controls.lambda_choice.tolerance.value = 1e-5  # by hand
    assert tab.lab.tolerance == 1e-5


def test_a_lab_that_takes_ones_own_data_keeps_no_noise_of_another_problem(shaw):
    """Without a page and in sweeps: noise is passed with the data or is zero."""
    lab = LCurve(problem="shaw", n=20, noise=0.1, backend="cpu_numpy")
    lab.update(problem=OWN, options={"matrix": shaw[1], "rhs": shaw[2]})
    np.testing.assert_array_equal(lab.b, shaw[2])
    lab.update(problem="shaw")
    lab.update(problem=OWN, options={"matrix": shaw[1], "rhs": shaw[2]}, noise=0.5)
    assert lab.noise == 0.5


@pytest.mark.parametrize("bad", [b"\xd0\xcf\x11\xe0 a sheet", npz(A=np.eye(3))])
def test_a_refused_file_changes_nothing(own, bad):
    """With a filter of file endings a browser would ignore a file of another kind silently."""
    upload = own.give("matrix", "bad.xlsx", bad)
    own.see()
    assert not upload.field.accept
    assert (own.lab.problem, own.session.values["noise"]) == ("heat", 0.01)
    assert own.noise() == 0.0  # of the user's data, which the page is about to load
    assert own.controls.growth.undo.button.disabled
    own.choose("heat")
    own.tick()
    assert (own.noise(), own.veil(), own.session.changes[1:]) == (0.01, "", [])


# -- before any file is loaded


def test_before_the_file_comes_the_page_says_so_instead_of_the_old_curve(own, shaw):
    assert "No A and b are loaded" in own.veil()
    own.give("matrix", "bad.npz", b"no matrix at all")
    own.see()
    assert "No A and b are loaded" in own.veil()
    own.give("matrix", "shaw.npz", shaw[0])
    own.tick()  # the latest frame is still one of the old problem
    assert own.veil() != ""
    own.see()
    assert own.veil() == ""


# -- λ is consistent everywhere


@pytest.mark.parametrize("act", ["problem", "n", "option", "own"])
def test_a_lambda_by_hand_is_forgotten_everywhere_at_once(act, shaw):
    tab = Tab()
    chosen = tab.controls.lambda_choice
    tab.lab_view.pick(0.109)
    tab.see()
    assert (chosen.rule.value, float(chosen.lam.panel.value)) == ("", 0.109)
    assert "manual" in tab.lab_view.title.object
    {
        "problem": lambda: tab.choose("shaw"),
        "n": lambda: tab.controls.problem._set("n", 60),
        "option": lambda: tab.controls.problem._set("kappa", 2.0),
        "own": lambda: tab.give("matrix", "shaw.npz", shaw[0]),
    }[act]()
    tab.see()
    assert "manual" not in tab.lab_view.title.object
    assert (chosen.rule.value, tab.session.values["lam"]) == ("curvature", None)
    shown, rule = chosen.lam.panel.value, tab.session.latest.facts["lam"]
    assert shown == (f"{rule:.6g}" if rule > 0 else "")  # that of the rule


def test_a_range_that_another_problem_dropped_is_not_shown_as_set():
    tab = Tab()
    tab.controls.lambda_choice.automatic.value = False
    assert tab.session.values["lambdas"] is not None
    tab.choose("shaw")
    assert tab.session.values["lambdas"] is None
    assert tab.controls.lambda_choice.automatic.value is True


# -- files


def test_a_file_is_told_as_taken_once_the_lab_shows_it_and_as_refused_with_the_reason(own, shaw):
    field = own.give("matrix", "notes.npz", b"no matrix \0 at all")
    own.see()
    assert field.field.uploaded_label == "Rejected: notes.npz"
    assert "matrix must be an .npz file" in field.words.object
    own.give("matrix", "shaw.npz", shaw[0])
    own.tick()
    assert (field.field.uploaded_label, field.words.visible) == ("Reading shaw.npz …", False)
    own.see()
    assert field.field.uploaded_label == "A: shaw.npz"
    # a later refusal for another reason does not concern the file
    own.controls.on_event(Refused("steps_at_most must be from 1 to 100000, not 0"))
    assert (field.field.uploaded_label, field.words.visible) == ("A: shaw.npz", False)


def test_a_refusal_is_the_file_s_though_older_frames_come_before_it(own, monkeypatch):
    monkeypatch.setattr(own.session, "change", lambda **values: None)  # the engine has not answered
    own.give("matrix", "bad.npz", npz(A=np.full((3, 3), np.nan), b=np.ones(3)))
    own.see()
    assert own.controls.on_event(Refused("A must be finite; it holds NaN or inf"))
    assert own.label("matrix") == "Rejected: bad.npz"


def picture(width, height):
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.add.outer(np.arange(height), np.arange(width)) % 256)).save(file, "PNG")
    return file.getvalue()


def test_a_picture_says_which_part_of_it_was_taken():
    tab = Tab(problem="blur", n=16)
    field = tab.give("image", "ramp.png", picture(120, 90))
    tab.see()
    assert field.field.uploaded_label == "Picture: ramp.png"
    assert "the middle 90 × 90 of 120 × 90 pixels" in field.words.object
    assert "<svg class='kept' width='44' height='33'" in field.words.object  # 44 : 33 is the picture's 4 : 3
    tab.give("image", "square.png", picture(64, 64))
    tab.see()
    assert "all of its 64 × 64 pixels" in field.words.object


@pytest.fixture
def ramp():
    """Return a tab with the picture ramp.png as the solution."""
    tab = Tab(problem="blur", n=16)
    tab.give("image", "ramp.png", picture(64, 64))
    tab.see()
    return tab


def test_a_picture_is_said_to_be_taken_only_while_it_is_shown(ramp):
    phantom = ramp.controls.problem.uploads.phantom
    assert (ramp.label("image"), phantom.visible) == ("Picture: ramp.png", True)
    ramp.choose("tomo")  # computed with the phantom
    phantom.clicks += 1  # clicked before the page has hidden it
    ramp.see()
    assert (ramp.label("image"), phantom.visible) == ("Picture [.png, .jpg]", False)
    ramp.press(UNDO)
    assert ramp.lab.problem == "blur"
    assert "image" in ramp.session.values["options"]
    assert (ramp.label("image"), phantom.visible) == ("Picture: ramp.png", True)
    ramp.give("image", "bad.png", b"no picture at all")
    ramp.see()
    assert (ramp.label("image"), phantom.visible) == ("Rejected: bad.png", True)
    ramp.choose("tomo")
    ramp.give("image", "square.png", picture(32, 32))
    ramp.tick()  # the latest frame still has the first picture
    assert ramp.label("image") == "Reading square.png …"
    ramp.see()
    assert ramp.label("image") == "Picture: square.png"


def test_the_phantom_comes_back_and_the_picture_by_undo(ramp):
    phantom = ramp.controls.problem.uploads.phantom
    phantom.clicks += 1
    ramp.see()
    assert (ramp.session.values["options"], phantom.visible) == ({}, False)
    ramp.press(UNDO)
    assert (list(ramp.session.values["options"]), phantom.visible) == (["image"], True)


# -- the kept solution


def test_a_kept_solution_is_said_to_be_kept_as_long_as_it_is():
    tab = Tab()
    keep, solution = tab.controls.lambda_choice.keep, tab.lab_view.linked_plots.solution
    for problem in ("shaw", "gravity"):
        tab.press("n")
        assert (solution.kept is not None, keep.value) == (True, True)
        assert keep.label.startswith("Comparison: λ")
        tab.choose(problem)
        tab.see()
        assert (solution.kept, keep.value, keep.label) == (None, False, "Keep for comparison (N)")


# -- undo


def test_ones_own_data_come_back_with_the_problem(loaded):
    """By undo, or by choosing one's own data again; the file need not be selected a second time."""
    tab = loaded
    tab.controls.problem.noise.value = 0.1
    tab.lab_view.pick(0.02)
    tab.see()
    tab.choose("heat")
    tab.see()
    assert (tab.lab.problem, tab.lab.lam) == ("heat", None)
    assert "Own A and b" in tab.controls.growth.undo.button.description
    tab.press(UNDO)
    assert (tab.lab.problem, tab.lab.noise, tab.lab.lam) == (OWN, 0.1, 0.02)
    assert (tab.controls.problem.problem.value, tab.controls.lambda_choice.rule.value) == (OWN, "")
    assert tab.veil() == ""
    tab.press(UNDO)  # reverts the undo
    assert (tab.lab.problem, tab.lab.noise) == ("heat", 0.01)
    tab.choose(OWN)
    tab.see()
    assert (tab.lab.problem, tab.lab.noise, tab.veil()) == (OWN, 0.1, "")
    assert tab.label("matrix") == "A: shaw.npz"


def test_undo_brings_back_the_file_that_another_one_replaced(loaded, shaw):
    loaded.give("matrix", "second.npz", npz(A=2 * shaw[1], b=shaw[2]))
    loaded.see()
    assert loaded.label("matrix") == "A: second.npz"
    loaded.press(UNDO)
    assert loaded.label("matrix") == "A: shaw.npz"
    np.testing.assert_allclose(loaded.lab.system.A.toarray(), shaw[1], rtol=1e-12)


@pytest.mark.parametrize("form", ["npy", "csv", "mat"])
def test_a_dense_matrix_alone_waits_for_its_b(own, shaw, form):
    def written(array):
        """Return the bytes of a file in that format."""
        file = io.BytesIO()
        {
            "npy": lambda: np.save(file, array),
            "csv": lambda: np.savetxt(file, array, "%.17g", ","),
            "mat": lambda: scipy.io.savemat(file, {"any": array}),
        }[form]()
        return file.getvalue()

    own.give("matrix", f"A.{form}", written(shaw[1]))
    assert "select a file with b" in own.controls.problem.uploads.fields["rhs"].words.object
    own.give("rhs", f"b.{form}", written(shaw[2]))
    own.see()
    assert own.lab.problem == OWN
    np.testing.assert_array_equal(own.lab.b, shaw[2])
    assert own.label("matrix") == f"A: A.{form}"


def test_the_chooser_says_that_its_rule_gives_no_lambda():
    tab = Tab(rule="discrepancy", noise=0.0)
    tab.lab.solve()
    tab.see()
    assert tab.session.latest.notes["shown"].endswith("gives none: the middle of the range")
    assert "gives no λ" in tab.controls.lambda_choice.rule.helper_text
    tab.session.change(lam=0.1)
    tab.see()
    assert tab.controls.lambda_choice.rule.helper_text == ""
