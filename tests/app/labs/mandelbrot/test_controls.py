"""The Mandelbrot lab's side bar without a browser: how it shows what comes from elsewhere, and what it sets by hand."""

from __future__ import annotations

from types import SimpleNamespace

from app.labs.mandelbrot.controls import MandelbrotControls
from app.labs.mandelbrot.view import MandelbrotView
from compute.labs.mandelbrot import Mandelbrot
from tests.direct import DirectSession


class Sided:
    """Controls and view of one session; `wait` has the throttled changes, which `turn` lets through."""

    def __init__(self, **values):
        start = {"backend": "cpu_numpy", "ny": 24, "nx": 36, "max_iterations": 200, **values}
        self.session = DirectSession(Mandelbrot(**start))
        self.waiting = []
        self.session.document.add_timeout_callback = lambda callback, wait: self.waiting.append(callback)
        self.told = []
        self.lab_view = MandelbrotView(self.session, (900, 600))
        self.controls = MandelbrotControls(self.session, self.lab_view, SimpleNamespace())
        self.session.on_values = self.controls.show_values
        self.session.on_event = lambda event: self.told.append(event.text)
        self.navigator = self.lab_view.navigator
        self.turn()

    def turn(self):
        """The page's loop comes round, and later."""
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()

    def bring(self, **values):
        """Values of a link, a file or a story, as app.export.restore sets them."""
        self.session.change(**values)
        self.session.on_values(values)

    def see(self):
        """A frame of the whole picture arrives."""
        while not self.session.live.finished:
            self.session.step()
        self.session.see()


def test_an_orbit_that_is_brought_keeps_its_length():
    tab = Sided()
    explain = tab.controls.explain
    for length in (30, 12):
        tab.bring(orbit_length=length)
        assert tab.session.values["orbit_length"] == length
        assert (explain.orbit.value, explain.length.value, explain.length.visible) == (True, length, True)
    tab.bring(orbit_length=0)
    assert (tab.session.values["orbit_length"], explain.orbit.value, explain.length.visible) == (0, False, False)
    tab.controls.keys["o"]()  # by hand: as long as it was
    assert (tab.session.values["orbit_length"], explain.length.visible) == (12, True)
    explain.length.value = 20
    assert tab.session.values["orbit_length"] == 20


def test_limits_that_are_brought_are_shown_as_typed_and_stay_what_they_are():
    tab = Sided()
    display = tab.controls.display
    for limits in ((5.0, 50.0), (60.0, 90.0), (1.0, 2.0)):  # pairs whose halves together no lab would take
        tab.bring(limits=limits)
        assert tab.session.values["limits"] == limits
        assert (display.automatic.value, display._row.visible) == (False, True)
        assert tuple(end.value for end in display._ends) == limits
    tab.bring(limits=None)
    assert (tab.session.values["limits"], display.automatic.value, display._row.visible) == (None, True, False)
    assert tab.told == []


def test_limits_that_are_fixed_by_hand_are_sent_as_a_pair():
    tab = Sided()
    tab.see()
    display = tab.controls.display
    for end, value in zip(display._ends, (3000.0, 5000.0), strict=True):  # of an earlier picture
        end.value = value
    tab.session.changes.clear()
    display.automatic.value = False
    (change,) = tab.session.changes
    facts = tab.session.latest.facts
    assert [float(f"{value:.3g}") for value in change["limits"]] == [
        float(f"{facts[name]:.3g}") for name in ("minimum", "maximum")
    ]
    assert tab.told == []
