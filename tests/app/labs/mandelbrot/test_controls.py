"""The Mandelbrot lab's side bar without a browser: values from links and files, and values set by hand."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from app.labs.mandelbrot.controls import MandelbrotControls
from app.labs.mandelbrot.parts import facts
from app.labs.mandelbrot.view import MandelbrotView
from compute.devices.backends import backend, best_of_host
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.views import LESSON_SHAPE
from tests.conftest import require
from tests.direct import DirectSession

A, B, C = (({"center": (re, "0"), "zoom": "4e0"}) for re in ("-0.75", "-1.25", "0.25"))


class Sided:
    """Controls and view of one session; `waiting` has the throttled callbacks, which `turn` runs."""

    def __init__(self, **values):
        start = {"backend": "cpu_numpy", "ny": 24, "nx": 36, "max_iterations": 200, **values}
        self.session = DirectSession(Mandelbrot(**start))
        self.waiting = []
        self.session.document.add_timeout_callback = lambda callback, wait: self.waiting.append(callback)
        self.told = []
        self.lab_view = MandelbrotView(self.session, (900, 600))
        self.controls = MandelbrotControls(self.session, self.lab_view, SimpleNamespace())
        self.session.value_changes.subscribe(self.controls.show_values)
        self.session.events.subscribe(lambda event: self.told.append(event.text))
        self.navigator = self.lab_view.navigator
        self.turn()

    def turn(self):
        """Run the pending throttled callbacks."""
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()

    def bring(self, **values):
        """Set values from a link, a file or a story, as app.tab.restore does."""
        self.session.change(**values)
        self.session.value_changes.publish(values)

    def see(self):
        """Compute and deliver a frame of the complete picture."""
        while not self.session.live.finished:
            self.session.step()
        self.session.see()

    def place(self):
        """Return the lab's centre and zoom."""
        return {name: self.session.values[name] for name in ("center", "zoom")}


def test_an_orbit_that_is_brought_keeps_its_length():
    tab = Sided()
    explain = tab.controls.explain
    for length in (30, 12):
        tab.bring(orbit_length=length)
        assert tab.session.values["orbit_length"] == length
        assert (explain.orbit.value, explain.length.value, explain.length_row.visible) == (True, length, True)
    tab.bring(orbit_length=0)
    assert (tab.session.values["orbit_length"], explain.orbit.value, explain.length_row.visible) == (0, False, False)
    tab.controls.keys["o"]()  # by hand: the previous length
    assert (tab.session.values["orbit_length"], explain.length_row.visible) == (12, True)
    explain.length.value = 20
    assert tab.session.values["orbit_length"] == 20


def test_limits_that_are_brought_are_shown_as_typed_and_stay_what_they_are():
    tab = Sided()
    display = tab.controls.display
    for limits in ((5.0, 50.0), (60.0, 90.0), (1.0, 2.0)):  # no lab would accept the half-applied pairs
        tab.bring(limits=limits)
        assert tab.session.values["limits"] == limits
        assert (display.automatic.value, display._row.visible) == (False, True)
        assert tuple(float(field.panel.value) for field in display.limits.fields) == limits
    tab.bring(limits=None)
    assert (tab.session.values["limits"], display.automatic.value, display._row.visible) == (None, True, False)
    assert tab.told == []


def rounded(limits):
    """Return limits to three figures; None for automatic ones."""
    return limits and [float(f"{value:.3g}") for value in limits]


def seen_limits(tab):
    """Return the limits of the counts in the latest picture, to three figures."""
    return rounded([tab.session.latest.facts[name] for name in ("minimum", "maximum")])


def held(tab):
    """Return the lab's fixed limits to three figures; None for automatic ones."""
    return rounded(tab.session.values["limits"])


def test_the_key_holds_the_limits_of_this_view_and_pressed_again_those_of_another():
    tab = Sided()
    tab.see()
    whole = seen_limits(tab)
    assert held(tab) is None  # each view has its own limits at first
    tab.controls.keys["l"]()
    assert held(tab) == whole
    assert not tab.controls.display.automatic.value
    tab.navigator.go(("-0.7453", "0.1127"), "2e3", 1000)
    for _ in range(3):
        tab.turn()
        tab.see()
        tab.controls.tick()
        assert seen_limits(tab) == held(tab) == whole  # whatever is shown
    tab.controls.keys["l"]()
    assert held(tab) is None
    for _ in range(2):
        tab.see()
        tab.controls.tick()
    assert held(tab) == seen_limits(tab) != whole
    assert [float(field.panel.value) for field in tab.controls.display.limits.fields] == list(
        tab.session.values["limits"]
    )
    tab.controls.display.automatic.value = True
    tab.see()
    tab.controls.tick()
    assert held(tab) is None
    assert tab.told == []


def test_automatic_limits_only_widen_while_a_picture_is_refined():
    """They widen a few times, as finer pixels and more iterations add counts beyond them: no flicker."""
    tab = Sided(center=("-0.7453", "0.1127"), zoom="2e3", max_iterations=5000, ny=60, nx=90)
    seen, stages = [], set()
    while not tab.session.live.finished:
        tab.session.step()
        facts = tab.session.see().facts
        if facts["minimum"] > 0:  # some point has escaped
            seen.append((facts["minimum"], facts["maximum"]))
            stages.add((facts["stride"], facts["limit"]))
    changes = [pair for pair in pairwise(seen) if pair[0] != pair[1]]
    assert all(new[0] <= old[0] and new[1] >= old[1] for old, new in changes)
    assert len(seen) > 3
    assert len(changes) <= 3 * len(stages)


@pytest.mark.parametrize("running", [True, False])
def test_limits_that_are_fitted_are_those_of_the_complete_picture(running):
    """A paused lab completes no picture: the limits of an unfinished one are fitted there."""
    tab = Sided(max_iterations=5000, ny=120, nx=180, center=("-0.7453", "0.1127"), zoom="2e3")
    tab.session.play(running)
    tab.bring(limits=(1.0, 2.0))
    tab.controls.keys["l"]()
    tab.session.step()
    tab.session.see()
    assert not tab.session.latest.facts["finished"]
    tab.controls.tick()
    fitted = None if running else seen_limits(tab)
    assert held(tab) == fitted
    tab.see()
    tab.controls.tick()
    assert held(tab) == (fitted or seen_limits(tab))


def test_a_frame_that_was_on_its_way_with_the_held_limits_does_not_hold_them_again():
    tab = Sided()
    tab.bring(limits=(1.0, 2.0))
    tab.see()
    of_before = tab.session.latest
    tab.controls.keys["l"]()
    tab.session.latest, tab.session.answered = of_before, True  # the frame arrives after the key
    tab.controls.tick()
    assert held(tab) is None
    tab.see()
    tab.controls.tick()
    assert held(tab) == seen_limits(tab) != [1.0, 2.0]


def test_the_key_pressed_before_automatic_limits_have_come_back_does_not_hold_those_of_before():
    tab = Sided()
    tab.bring(limits=(1.0, 2.0))
    tab.see()
    display = tab.controls.display
    display.automatic.value = True  # the frame with automatic limits is still pending
    tab.controls.keys["l"]()
    assert held(tab) is None
    tab.see()
    tab.controls.tick()
    assert (held(tab), display.automatic.value) == (seen_limits(tab), False)
    assert held(tab) != [1.0, 2.0]


@pytest.mark.parametrize(
    ("center", "zoom", "scale"),
    [(("-0.7453", "0.1127"), "1e3", "log"), (("2.2", "0"), "1e5", "linear"), (("2.2", "0"), "1e12", "log")],
)
def test_limits_are_held_to_the_last_digit_and_change_no_colour(center, zoom, scale):
    """Including counts that differ in the fifth digit, and a single count."""
    tab = Sided(center=center, zoom=zoom, scale=scale, colouring="smooth")
    tab.see()
    before, facts = tab.session.latest, tab.session.latest.facts
    tab.session.changes.clear()
    tab.controls.keys["l"]()
    assert len(tab.session.changes) == 1  # both limits at once
    low, high = tab.session.values["limits"]
    assert (low, high) == pytest.approx((facts["minimum"], facts["maximum"]), rel=1e-15)
    assert low < high
    assert tab.told == []
    tab.see()
    assert tab.session.latest.facts["automatic"] == 0
    assert np.array_equal(tab.session.latest.rasters["escape"].levels, before.rasters["escape"].levels)


def test_a_place_that_is_brought_is_not_overtaken_by_a_drag_that_waits():
    tab = Sided()
    tab.navigator.go(A["center"], A["zoom"])
    tab.turn()
    tab.navigator.pan_pixels(3, 0)
    tab.navigator.pan_pixels(3, 0)
    assert tab.waiting  # the last part of the drag is pending
    tab.bring(**C)
    tab.turn()
    assert tab.place() == C
    assert (tab.navigator.center, tab.navigator.zoom) == (C["center"], C["zoom"])


def test_backspace_leads_back_to_the_place_that_a_link_left():
    tab = Sided()
    for place in (A, B):
        tab.navigator.go(place["center"], place["zoom"])
        tab.turn()
    tab.session.change(max_iterations=500)  # as the slider does
    tab.controls.tick()
    tab.bring(**C, max_iterations=300)
    assert not tab.controls.undo.disabled
    tab.bring(**C)  # repeated: the same place adds no step
    back = tab.controls.keys["backspace"]
    for place, iterations in ((B, 500), (A, 200)):
        back()
        tab.turn()
        assert (tab.place(), tab.session.values["max_iterations"]) == (place, iterations)
    for place, iterations in ((B, 500), (C, 300)):
        tab.controls.keys["shift+backspace"]()
        tab.turn()
        assert (tab.place(), tab.session.values["max_iterations"]) == (place, iterations)


def test_a_place_that_the_lab_refused_is_no_step_back(monkeypatch):
    tab = Sided()
    first = tab.place()
    tab.navigator.go(A["center"], A["zoom"])
    tab.turn()

    def refuse(**values):
        raise ValueError("there is no room for it")

    with monkeypatch.context() as patch:
        patch.setattr(tab.session.live, "update", refuse)
        tab.navigator.go(B["center"], B["zoom"])
        tab.turn()
    assert (tab.told, tab.place()) == (["there is no room for it"], A)
    while tab.navigator.can_undo:
        tab.navigator.undo()
        tab.turn()
        assert tab.place() != B
    assert tab.place()["zoom"] == first["zoom"]


def test_a_mark_is_removed_by_its_name_and_no_other_one():
    tab = Sided()
    tab.see()
    gallery = tab.controls.places.gallery
    before = [item["title"] for item in gallery.items]
    for _ in range(3):
        tab.controls.keys["m"]()
    for message in ({"drop": "Mark 2"}, {"drop": "Mark 2"}, {"drop": before[0]}, {"drop": len(before)}, {"drop": []}):
        gallery._handle_msg(message)
    assert [item["title"] for item in gallery.items] == [*before, "Mark 1", "Mark 3"]
    for message in ({"pick": -1}, {"pick": True}, {"pick": 1000}, {"pick": "Mark 2"}, "drop", None):
        gallery._handle_msg(message)
    assert tab.told == []


def test_the_whole_set_has_the_size_of_the_screen_after_the_lessons_scene():
    tab = Sided()
    pictures = [item["title"] for item in tab.controls.places.gallery.items]
    first = tab.controls.resolution.value
    tab.controls.places.pick(pictures.index("Lesson's scene"))
    assert tab.controls.resolution.value == LESSON_SHAPE
    tab.controls.keys["0"]()
    assert tab.controls.resolution.value == first


def test_precisions_that_the_backend_lacks_are_disabled(monkeypatch):
    require(backend("gpu_wgpu"), monkeypatch)
    tab = Sided(precision="float64")
    precision, kernel = tab.controls.iteration.precision, tab.controls.compute.kernel
    assert precision.disabled_options == []
    tab.controls.compute.backend.value = "gpu_wgpu"
    assert (tab.session.values["backend"], tab.session.values["precision"]) == ("gpu_wgpu", "auto")
    tab.see()
    tab.controls.tick()
    assert precision.value == "auto"
    assert precision.disabled_options == ["float64", "perturbation"]
    assert "24 bits" in precision.helper_text
    kernel.value = "fused"
    assert "some percent" in kernel.helper_text
    tab.bring(zoom="3e3")
    tab.see()
    tab.controls.tick()
    assert "48 bits" in precision.helper_text
    assert {item[:2] for item in facts(tab.session.latest)} >= {("precision", "double-single")}
    tab.bring(zoom="1e12")
    tab.see()
    tab.controls.tick()
    host = best_of_host().label
    assert f"computed by {host}: WebGPU has no float64" in precision.helper_text
    assert ("computed by", host, "warn") in facts(tab.session.latest)
    assert tab.told == []
    tab.controls.compute.backend.value = "cpu_numpy"
    tab.controls.tick()
    assert precision.disabled_options == []
