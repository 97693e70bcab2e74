"""The diffusion tab without a browser: its curves and texts for the frames of a lab."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from app.labs.diffusion.controls import DiffusionControls, distinct_limits
from app.labs.diffusion.view import DiffusionView
from app.tab.controls import REDO, UNDO
from app.tab.plots import StrokePoint
from app.tab.session_states import FellBack
from compute.engine import messages
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion.scheme import growth_factor
from tests.direct import DirectSession, read


def png(width, height):
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.tile(np.linspace(0, 255, width), (height, 1)))).save(file, "PNG")
    return file.getvalue()


class Sided:
    """Controls and view of one session without an engine or a browser."""

    def __init__(self, **values):
        self.session = DirectSession(Diffusion(**{"ny": 32, "nx": 32, "backend": "cpu_numpy", **values}))
        self.told = []
        notices = SimpleNamespace(tell=lambda kind, text: self.told.append(text))
        self.lab_view = DiffusionView(self.session, (1200, 800))
        self.controls = DiffusionControls(self.session, self.lab_view, notices)
        self.session.value_changes.subscribe(self.controls.show_values)
        self.session.events.subscribe(lambda event: self.controls.on_event(event) or self.told.append(event.text))
        self.see()

    @property
    def lab(self):
        return self.session.live

    def see(self):
        self.session.see()
        self.lab_view.tick()
        self.controls.tick()

    def run(self, *steps):
        """Advance by each of these numbers of steps, with one frame after each."""
        for each in steps:
            self.lab.advance(each)
            self.see()

    def curve(self):
        """Return (steps, values) as the probe's plot draws them."""
        return tuple(np.array(column).tolist() for column in self.lab_view.series.sources[0].data.values())

    def bring(self, **values):
        """Set values from a link, a file or a story, as app.tab.restore does."""
        self.session.change(**values)
        self.session.value_changes.publish(values)

    def give(self, name, data):
        """Upload a file as the browser sends it."""
        upload = self.controls.source.upload
        upload.field._update_file(name, "image/png", data)
        read(upload)

    def shown(self):
        """Return the label of the selected initial field."""
        choice = self.controls.source.choice
        options = choice.options if isinstance(choice.options, dict) else {name: name for name in choice.options}
        return next(words for words, value in options.items() if value == choice.value)

    def field(self):
        """Return the label of the file field and the text shown below it."""
        upload = self.controls.source.upload
        return upload.field.label, upload.words.object if upload.words.visible else ""


@pytest.mark.parametrize("presenter", [False, True])
def test_curves_stand_beside_the_pictures_only_where_they_have_room_to_be_read(presenter):
    view, least = Sided().lab_view, 299  # px
    adjacent = 0
    for width in range(300, 1300, 20):
        for height in (220, 300, 400, 600):
            view.size, view.presenter = (width, height), presenter
            view.arrange()
            pictures = [column for column in view._columns.values() if column.visible]
            used = sum(column.width for column in pictures)
            assert used <= width, (width, height)
            if view._curves.visible and view._curves.width + used <= width:
                adjacent += 1
                assert view._curves.width >= least, (width, height)
    assert adjacent


@pytest.mark.parametrize("act", ["preset", "reset", "restore", "rollback", "load"])
@pytest.mark.parametrize("before", [0, 30])
def test_the_probe_curve_begins_anew_with_another_field(act, before):
    """Whatever the step of the new field, no sample of the old field is joined to it."""
    tab = Sided(preset="hot spots")
    lab = tab.lab
    elsewhere = Diffusion(ny=32, nx=32, backend="cpu_numpy", preset="step")
    elsewhere.advance(60)
    tab.run(10, 10)
    lab.checkpoint()
    tab.run(10, *[10] * (before // 10))
    {
        "preset": lambda: lab.update(preset="single mode"),
        "reset": lab.reset,
        "restore": lambda: lab.restore(elsewhere.snapshot()),
        "rollback": lab.rollback,
        "load": lambda: lab.load(np.full((32, 32), 0.25)),
    }[act]()
    at, field = lab.steps, lab.field()
    tab.see()
    assert tab.curve() == ([at], [pytest.approx(float(field[16, 16]))])
    tab.run(5, 5)
    assert tab.curve()[0] == [at, at + 5, at + 10]


def test_another_place_of_the_probe_begins_anew_and_no_old_frame_joins_it():
    """While paused, the latest frame belongs to the old position until the next frame arrives."""
    tab = Sided(preset="gaussian")
    tab.lab_view._probe(2.0, 2.0)
    tab.lab_view.tick()  # before the engine's next frame
    tab.see()
    assert tab.curve() == ([0], [pytest.approx(float(tab.lab.field()[2, 2]))])


def test_the_probe_s_samples_are_exported_as_they_are_drawn():
    probed = Sided(probe_x=0.25, probe_y=0.75)
    probed.run(3, 4)
    name, text = probed.lab_view.samples()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert name == "probe"
    assert [row["step"] for row in rows] == ["0", "3", "7"]
    assert {(row["x_cell"], row["y_cell"]) for row in rows} == {("8", "24")}
    assert [float(row["u"]) for row in rows] == probed.curve()[1]
    assert float(rows[-1]["u"]) == probed.lab.field()[24, 8]


def test_no_tip_covers_the_brush():
    pictures = Sided().lab_view.pictures
    hovers = [plot.hover for plot in pictures.plots.values()]
    pictures.use_pointer_for(painting=True)
    assert [hover.renderers for hover in hovers] == [[], []]
    pictures.use_pointer_for(painting=False)
    assert [hover.renderers for hover in hovers] == [[plot.image] for plot in pictures.plots.values()]


def test_a_stroke_is_drawn_as_a_step_where_it_was_made():
    tab = Sided(preset="gaussian")
    tab.run(10)
    untouched = float(tab.lab.field()[16, 16])
    for value in (0.5, 0.25, 0.0):  # a stroke of several frames at the same step
        tab.lab.paint([(16.0, 16.0)], value, 3.0)
        tab.see()
    tab.run(10)
    steps, values = tab.curve()
    assert steps == [0, 10, 10, 20]
    assert values[1:3] == [pytest.approx(untouched), 0.0]


@pytest.mark.parametrize("values", [{"backend": "cpu_numba"}, {"dtype": "float64"}, {"r": 0.1, "edges": "periodic"}])
def test_one_run_goes_on_over_a_change_of_how_it_is_computed(values):
    tab = Sided(preset="gaussian")
    tab.run(10)
    tab.lab.update(**values)
    tab.run(10)
    assert tab.curve()[0] == [0, 10, 20]


def test_a_new_grid_begins_anew():
    tab = Sided(preset="gaussian")
    tab.run(10)
    tab.session.change(ny=48, nx=48)
    tab.lab_view.show_whole()
    tab.lab_view.tick()  # the latest frame still has the old grid
    tab.run(10)
    assert tab.curve()[0] == [10]


def test_an_engine_that_died_goes_on_with_the_run_it_had():
    """The restored state is some steps older: later samples belong to a run that was lost, and are dropped."""
    tab = Sided(preset="gaussian")
    tab.run(10, 10)
    kept = tab.lab.snapshot()
    tab.run(10, 10)
    tab.session.live = Diffusion(ny=32, nx=32, backend="cpu_numpy", preset="gaussian")
    tab.lab.restore(kept)
    tab.see()
    assert tab.curve()[0] == [0, 10, 20]
    tab.run(10)
    assert tab.curve()[0] == [0, 10, 20, 30]


# -- the source of the field


def test_an_image_is_named_as_the_source_and_its_cropping_is_said():
    tab = Sided(preset="gaussian")
    tab.give("holiday.png", png(64, 32))
    assert tab.field() == ("Reading holiday.png …", "")
    tab.see()
    assert tab.shown() == "Your image (holiday.png)"
    label, below = tab.field()
    assert label == "Image: holiday.png"
    assert "the middle 32 × 32 of 64 × 32 pixels" in below
    assert "<svg" in below
    assert not tab.controls._mode.visible
    tab.give("square.png", png(40, 40))
    tab.see()
    assert "all of its 40 × 40 pixels" in tab.field()[1]
    assert "<svg" not in tab.field()[1]


def test_reset_leads_back_to_the_image_and_a_preset_away_from_it():
    tab = Sided(preset="gaussian")
    tab.give("holiday.png", png(64, 32))
    tab.see()
    image = tab.lab.field()
    tab.session.step()
    tab.controls.keys["r"]()
    tab.see()
    np.testing.assert_array_equal(tab.lab.field(), image)
    assert tab.shown() == "Your image (holiday.png)"
    tab.controls.source.choice.value = "gaussian"  # the preset selected before the upload
    tab.see()
    np.testing.assert_array_equal(tab.lab.field(), Diffusion(ny=32, nx=32, preset="gaussian").field())
    assert tab.shown() == "gaussian"
    assert tab.field() == ("Image as field [≤ 16 MiB]", "")


@pytest.mark.parametrize("image", [False, True])
def test_a_file_that_is_no_image_is_shown_as_rejected_with_the_reason(image):
    """The preset or the image before it stays."""
    tab = Sided(preset="gaussian")
    if image:
        tab.give("holiday.png", png(64, 32))
        tab.see()
    before, shown = tab.lab.field(), tab.shown()
    tab.give("notimg.png", b"not a picture at all")
    tab.see()
    label, below = tab.field()
    assert label == "Rejected: notimg.png"
    assert "image must be a PNG or JPEG file" in below
    assert "role='alert'" in below
    assert tab.told == []  # the text below the field is the only message
    assert tab.shown() == shown
    np.testing.assert_array_equal(tab.lab.field(), before)


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>.png", "a" * 300 + ".png", "../../etc/passwd", "x\x00\n.png"]
)
def test_a_file_s_name_is_text_of_bounded_length(name):
    tab = Sided()
    tab.give(name, b"not a picture at all")
    tab.see()
    label, below = tab.field()
    assert len(label) < 50
    assert "<img" not in below
    assert "\n" not in label
    assert "/etc" not in label


def test_an_image_that_an_engine_lost_is_sent_again_once():
    tab = Sided(preset="gaussian")
    sent, source = [], tab.controls.source
    tab.session.act = lambda name, **arguments: sent.append((name, arguments["data"]))
    tab.give("holiday.png", png(64, 32))
    for restart in range(2):
        assert len(sent) == restart + 1
        tab.controls.on_event(messages.EngineRestarting("killed"))
        tab.controls.on_event(messages.EngineRestarted("killed", 0.5))
    assert sent[0] == sent[1]
    assert tab.field()[0] == "Rejected: holiday.png"
    assert "restarted twice" in tab.field()[1]
    tab.give("holiday.png", png(64, 32))
    tab.controls.on_event(FellBack("the GPU is gone"))
    assert len(sent) == 4
    tab.controls.on_event(messages.EngineRestarted("another time, long ago", 0.5))  # this does not lose the file
    assert len(sent) == 4
    assert source.upload.field.label == "Reading holiday.png …"


def test_undo_brings_the_image_or_the_preset_back_in_every_widget():
    tab = Sided(preset="gaussian")
    undo = tab.controls.transport.undo.button
    assert undo.disabled
    tab.give("holiday.png", png(64, 32))
    tab.see()
    tab.session.step()
    tab.see()
    tab.controls.source.choice.value = "single mode"
    tab.controls._mode[0][0].value = 7
    tab.see()
    assert not undo.disabled
    assert "your image at step 1" in undo.description
    tab.controls.keys[UNDO]()
    tab.see()
    assert tab.shown() == "Your image (holiday.png)"
    assert tab.session.values["preset"] == "gaussian"  # the preset below the image
    assert tab.session.values["mode_p"] == 3
    assert (tab.lab.steps, tab.controls._mode[0][0].value) == (1, 3)
    tab.controls.keys[REDO]()
    tab.see()
    assert (tab.shown(), tab.lab.mode_p, tab.session.values["mode_p"]) == ("single mode", 7, 7)


def test_the_page_takes_no_older_value_back_while_a_slider_is_dragged():
    """Frames older than the last change carry old values; only an undo sets the widgets from a frame."""
    tab = Sided(preset="single mode")
    tab.session.step()
    tab.controls.keys["r"]()
    tab.see()
    tab.controls.keys[UNDO]()
    tab.see()
    tab.controls._mode[0][0].value = 4
    old = tab.session.see()
    tab.controls._mode[0][0].value = 9
    tab.session.latest = old
    tab.controls.tick()
    assert (tab.session.values["mode_p"], tab.lab.mode_p, tab.controls._mode[0][0].value) == (9, 9, 9)


def test_a_late_frame_of_the_first_of_two_undos_takes_the_second_not_back():
    tab = Sided(preset="gaussian")
    tab.session.step()
    for preset in ("single mode", "ring"):
        tab.controls.source.choice.value = preset
        tab.session.step()
    tab.session.act("undo")
    late = tab.session.see()
    tab.session.act("undo")
    tab.session.latest = late
    tab.controls.tick()
    assert tab.shown() == tab.session.values["preset"] == tab.lab.preset == "gaussian"


def test_strokes_of_one_turn_of_the_loop_are_apart_and_each_has_its_undo():
    tab = Sided(preset="single mode")
    before, waiting, brush = tab.lab.field(), [], tab.controls.brush
    tab.session.later = waiting.append
    brush.value.value = 2.0
    brush.stroke(StrokePoint(4.0, 4.0, True))
    brush.stroke(StrokePoint(28.0, 28.0, False))
    brush.stroke(StrokePoint(28.0, 24.0, True))
    for callback in waiting:
        callback()
    painted = tab.lab.field()
    assert (painted[4, 4], painted[28, 28], painted[24, 28]) == (2.0, 2.0, 2.0)
    np.testing.assert_array_equal(painted[12:20], before[12:20])  # no line connects the strokes
    tab.session.act("undo")
    once = tab.lab.field()
    assert once[4, 4] == 2.0
    np.testing.assert_array_equal(once[20:], before[20:])
    tab.session.act("undo")
    np.testing.assert_array_equal(tab.lab.field(), before)


def test_a_stroke_goes_on_from_one_turn_of_the_loop_to_the_next():
    tab = Sided(preset="single mode")
    before, brush = tab.lab.field(), tab.controls.brush
    brush.value.value = 2.0
    brush.stroke(StrokePoint(4.0, 16.0, False))
    brush.stroke(StrokePoint(28.0, 16.0, True))
    assert (tab.lab.field()[16, 4:29] == 2.0).all()
    tab.session.act("undo")
    np.testing.assert_array_equal(tab.lab.field(), before)


# -- states from links, files and stories


def test_the_switch_beyond_the_limit_follows_a_state_that_is_brought():
    """The slider's range extends to r of the state, without setting other values."""
    tab = Sided()
    r, unstable = tab.controls.r, tab.controls.unstable
    tab.bring(unstable=True, r=0.3)
    assert (tab.session.values["unstable"], tab.session.values["r"]) == (True, 0.3)
    assert (unstable.value, r.end, r.value) == (True, 0.3, 0.3)
    tab.bring(unstable=True, r=0.4)
    assert (tab.lab.r, r.value) == (0.4, 0.4)
    assert r.end >= 0.4
    tab.bring(unstable=False, r=0.1)
    assert (tab.session.values["unstable"], tab.session.values["r"]) == (False, 0.1)
    assert (unstable.value, r.end, r.value) == (False, 0.25, 0.1)
    unstable.value = True  # by hand
    assert (tab.lab.unstable, tab.lab.r, r.value, r.end) == (True, 0.26, 0.26, 0.3)
    unstable.value = False
    assert (tab.lab.unstable, tab.lab.r, r.value, r.end) == (False, 0.1, 0.1, 0.25)  # the previous r


def test_the_steps_per_frame_are_one_two_five_and_so_on_or_the_maximum():
    speed = Sided().controls.transport.speed
    steps = [number * 10**power for power in range(3) for number in (1, 2, 5)] + [1000]
    assert speed.options == {str(number): number for number in steps} | {"maximum": 0}


def test_beyond_the_limit_single_cells_are_shown_and_the_pace_is_slow_and_even():
    """An audience sees the cells of the chequerboard grow without flicker: each step inverts the pattern."""
    tab = Sided(ny=128, nx=128, probe_x=1.0)
    pictures, speed, unstable = tab.lab_view.pictures, tab.controls.transport.speed, tab.controls.unstable
    speed.value = 50
    unstable.value = True
    assert tab.session.steps_per_frame == 2
    assert pictures.view == (96, 48, 128, 80)  # 32 cells a side, at the probe and within the field
    unstable.value = False
    assert (tab.session.steps_per_frame, pictures.view) == (50, None)
    tab.bring(unstable=True, r=0.3)  # a link includes its own view
    assert (tab.session.steps_per_frame, pictures.view) == (2, None)
    speed.value = 10  # by hand
    tab.bring(unstable=False, r=0.1)
    assert tab.session.steps_per_frame == 10
    tab.lab_view.show_part((0.0, 0.0, 64.0, 64.0))
    unstable.value = True
    assert pictures.view == (0, 0, 64, 64)  # a part selected by hand is kept
    unstable.value = False
    assert pictures.view == (0, 0, 64, 64)


@pytest.mark.parametrize(
    ("low", "high", "typed"),
    [
        (-0.123456, 0.98765, (-0.1235, 0.9877)),
        (1.0, 1.0 + 2**-52, (1.0, 1.0 + 2**-52)),
        (0.25, 0.25, (0.25, 0.25)),  # a constant field has no range
    ],
)
def test_limits_are_typed_with_the_digits_that_tell_them_apart(low, high, typed):
    assert distinct_limits(low, high) == typed


def test_typed_limits_that_are_brought_replace_typed_limits_of_both_pictures():
    tab = Sided()
    names = ("limits_field", "limits_laplacian")
    for field, laplacian in (((0.0, 1.0), (-1.0, 1.0)), ((2.0, 5.0), (-0.1, 0.1))):
        tab.bring(limits_field=field, limits_laplacian=laplacian)
        assert tuple(tab.session.values[name] for name in names) == (field, laplacian)
        assert tab.controls.display.kind.value == "manual"
    tab.session.changes.clear()
    tab.controls.keys["l"]()  # the limits of the latest frame, in one change
    assert len(tab.session.changes) == 1
    assert tab.told == []


def spans(tab):
    """Return (low, high) of the field's colours as the colour bar shows them."""
    values = tab.lab_view.pictures.plots["field"].values
    return values.low, values.high


@pytest.mark.parametrize("kind", ["initial field", "each frame"])
def test_the_key_fits_the_limits_of_the_colours_which_stay_so(kind):
    tab = Sided(preset="gaussian", hold_limits=True)
    display = tab.controls.display
    display.kind.value = kind
    tab.see()
    began = spans(tab)
    tab.lab.advance(300)
    tab.see()
    field = tab.lab.field()
    now = pytest.approx((field.min(), field.max()), rel=0.01, abs=0.01)
    assert field.max() < 0.9 * began[1]  # the field has spread
    assert (spans(tab) == now) == (kind == "each frame")
    tab.controls.keys["l"]()
    tab.see()
    assert spans(tab) == now
    assert display.kind.value == "initial field"  # the scale is now fixed, whatever it was before
    fitted = spans(tab)
    tab.lab.advance(300)
    tab.see()
    assert tab.lab.field().max() < 0.9 * fitted[1]
    assert spans(tab) == fitted
    tab.controls.keys["r"]()  # another field has its own limits
    tab.see()
    assert spans(tab) == pytest.approx(began)


def test_several_gpus_can_share_a_grid_where_they_are():
    tab = Sided()
    assert tab.controls._together(1) == []
    for found, wanted in ((2, ["cuda:0-1"]), (6, ["cuda:0-1", "cuda:0-3", "cuda:0-5"])):
        (choice,) = tab.controls._together(found)
        assert list(choice.options.values()) == ["", *wanted]
        assert choice.value == ""
    tab.session.values["devices"] = "cuda:2,0"  # as a link may contain
    (choice,) = tab.controls._together(4)
    assert choice.value == "cuda:2,0"


def test_the_field_of_the_pause_takes_a_step_and_shows_a_refusal():
    tab = Sided()
    field = tab.controls.pause.panel
    field.value = "40"
    assert tab.lab.status.stops_after == 40
    tab.run(30)
    assert tab.lab.status.stops_after == 10
    field.value = "2.5"
    assert (field.error_state, tab.lab.pause_at) == (True, 40)
    tab.bring(pause_at=None)
    assert (field.value, field.error_state, tab.lab.status.stops_after) == ("", False, 0)
    assert tab.controls.on_event(messages.Refused("pause_at must be at least 0, not -3", kept={"pause_at": None}))
    assert "not -3" in field.helper_text


# -- growth at the probe


def test_the_growth_of_a_mode_is_shown_next_to_its_factor_on_a_logarithmic_axis():
    tab = Sided(preset="single mode", mode_p=3, mode_q=2, r=0.2, dtype="float64", probe_x=0.3, probe_y=0.6)
    tab.run(*[5] * 6)
    linear = tab.curve()[1]
    tab.controls.display.growth.value = True
    factor = growth_factor(32, 32, 3, 2, "zero-flux", 0.2)
    words = tab.lab_view._growth.object
    assert words.count(f"<b>{factor:.7g}</b>") == 2  # measured and theory
    assert "mode (3, 2)" in words
    assert np.allclose(tab.curve()[1], np.log10(np.abs(linear)))
    ends = [np.array(column) for column in tab.lab_view.series.sources[1].data.values()]
    assert ends[0].tolist() == [0, 30]
    assert np.allclose(ends[1], [np.log10(abs(linear[0])), np.log10(abs(linear[-1]))])
    tab.controls.display.growth.value = False
    assert tab.curve()[1] == linear
    assert not tab.lab_view.series.figure.renderers[1].visible


def test_growth_is_fitted_to_the_newest_samples_of_one_r():
    tab = Sided(preset="single mode", mode_p=3, mode_q=2, r=0.1, dtype="float64", probe_x=0.3, probe_y=0.6)
    tab.controls.display.growth.value = True
    assert "at least 3 samples" in tab.lab_view._growth.object
    tab.run(10, 10, 10)
    tab.session.change(r=0.25)
    tab.run(10, 10, 10)
    factor = growth_factor(32, 32, 3, 2, "zero-flux", 0.25)
    assert tab.lab_view._growth.object.count(f"<b>{factor:.7g}</b>") == 2
    assert "3 samples, steps 40 to 60" in tab.lab_view._growth.object
    tab.run(*[10] * 17)
    tab.controls.display.fitted.value = 0.1  # of 190 steps
    assert "at least 3 samples" in tab.lab_view._growth.object  # two have no residual
    tab.controls.display.fitted.value = 0.5
    assert "10 samples, steps 140 to 230" in tab.lab_view._growth.object


def test_above_the_limit_the_factor_of_the_finest_mode_is_shown():
    tab = Sided(preset="single mode", unstable=True, r=0.3, edges="periodic")
    tab.run(1, 1, 1)
    tab.controls.display.growth.value = True
    assert "<b>1.4</b> finest" in tab.lab_view._growth.object  # 8 r - 1
