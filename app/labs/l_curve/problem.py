"""The problem group: which problem, how large, its options, its noise; files of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import log10
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.l_curve.steps import Steps
from app.labs.l_curve.upload import Uploads
from app.labs.l_curve.words import short
from app.session import Session
from app.typed import Typed
from app.widgets import FULL, Bound, icon
from compute.frames import Frame
from compute.labs.l_curve.problems import PROBLEMS
from compute.labs.l_curve.system import OWN, settled, typical

GROUPS = {
    "On a line": ("shaw", "heat", "gravity", "phillips", "deriv2", "i_laplace", "baart", "foxgood", "wing"),
    "Pictures": ("blur", "paralleltomo", "tomo"),
    "Benchmark": ("random_sparse",),
    "Your own": (OWN,),
}
TITLE_OF_OWN = "Own A and b"
LOWEST, A_DECADE = -6, 10  # noise: decades below |b|, and steps in each
SEEDS = 1000
LABELS = {False: "n  [samples]", True: "n  [pixels a side]"}
WHOLE = ("seed", "band", "angles")
NOTHING_YET = "No A and b are loaded yet. Choose the file of A, or of A and b, in the side bar: their curve comes then."
READING = "Reading your A and b …"
REPLACED = ("problem", "options", "noise", "lam", "lambdas")
NO_NOISE = 0.0  # added to one's own b, unless it is asked for


def noises() -> dict[str, float]:
    """Words -> noise as a part of |b|: none, then logarithmic steps up to 1."""
    levels = [10 ** (i / A_DECADE) for i in range(LOWEST * A_DECADE, 1)]
    return {"none": 0.0} | {short(level): level for level in levels}


def titles() -> dict[str, dict[str, str]]:
    """The problems in words -> their names, in groups."""
    words = {name: problem.title for name, problem in PROBLEMS.items()} | {OWN: TITLE_OF_OWN}
    return {group: {words[name]: name for name in names} for group, names in GROUPS.items()}


class ProblemControls(Bound):
    """Everything that makes A and b. A change that the lab would refuse is refused here, beside its field."""

    def __init__(self, session: Session, steps: Steps, forgot: Callable[[Mapping[str, Any]], object]) -> None:
        """forgot(values) hears of the λ and the range that do not outlive a change of the problem."""
        super().__init__(session)
        self._steps, self._forgot = steps, forgot
        self._following = False
        self._lost: dict[str, Any] | None = None  # values before the last change of the problem, for `undo`
        values = session.values
        own = values["problem"] == OWN
        self._noises = {own: values["noise"], not own: NO_NOISE}  # of one's own data, and of problems that are made
        self.uploads = Uploads(session, self._load, self._picture)
        self.problem = pmui.Select(label="Problem", groups=titles(), value=values["problem"], size="small", **FULL)
        self.problem.param.watch(lambda event: self._choose(event.new), "value")
        self.fields = {"n": Typed(LABELS[False], values["n"], partial(self._set, "n"), whole=True)}
        for name in ("density", "depth", "kappa", "band", "sigma", "rays", "angles", "seed"):
            label, take = str(self.parameter(name).label), partial(self._set, name)
            self.fields[name] = Typed(label, values[name], take, whole=name in WHOLE, optional=name == "rays")
        self.panel = column(
            self.problem, *(field.panel for field in self.fields.values()), self.uploads.panel, self._noise()
        )
        self._show_options(values["problem"])

    @property
    def unloaded(self) -> bool:
        """Whether one's own problem is chosen, and its files have not come."""
        return self.problem.value == OWN != self.session.values["problem"]

    def veil(self, frame: Frame) -> str:
        """What stands in the place of the curve of `frame`, while that is not the problem that is chosen; or ""."""
        if self.problem.value != OWN or frame.notes["problem"] == OWN:
            return ""
        return NOTHING_YET if self.unloaded else READING

    def tick(self, frame: Frame) -> None:
        """A few times a second: what a frame says of files."""
        self.uploads.tick(frame)

    # -- noise

    def _noise(self) -> Any:
        levels = noises()
        value = nearest(levels, self.session.values["noise"])
        self.noise = pmui.DiscreteSlider(
            label="Noise added to b  [part of ‖b‖]", options=levels, value=value, size="small", **FULL
        )
        self.noise.param.watch(lambda event: self._take_noise(event.new), "value")
        again = icon("casino", "Other noise of the same size", self._reseed, align="center")
        return pmui.Row(self.noise, again, margin=0, sizing_mode="stretch_width")

    def _take_noise(self, level: float) -> None:
        if self._following:
            return
        self._noises[self.problem.value == OWN] = level
        if not self.unloaded:  # else it is meant for the files that are still to come
            self._make_noise(noise=level)

    def _make_noise(self, **values: Any) -> None:
        self._steps.rush()
        self.session.change(**values)

    def _reseed(self) -> None:
        self._make_noise(noise_seed=(self.session.values["noise_seed"] + 1) % SEEDS)

    def _show_noise(self, level: float) -> None:
        """Put the slider at the level that is nearest to `level`, which stays what it is."""
        with self._quiet():
            self.noise.value = nearest(noises(), level)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """What widgets show in the block was not chosen by anyone."""
        self._following = True
        try:
            yield
        finally:
            self._following = False

    # -- another problem

    def _choose(self, name: str) -> None:
        """Another problem, at its usual size; one's own begins with its file."""
        self._show_options(name)
        if self._following or (name == OWN and self.session.values["problem"] == OWN):
            return
        self._show_noise(self._noises[name == OWN])
        if name == OWN:
            self.uploads.again()
        if name in (OWN, self.session.values["problem"]):
            return
        self._renew(problem=name, n=typical(name), options={}, rays=None, noise=self._noises[False])
        for field in ("n", "rays"):
            self.fields[field].show(self.session.values[field])

    def _load(self, files: Mapping[str, bytes]) -> None:
        """One's own data, as they are: only noise that was asked for is added."""
        self._renew(problem=OWN, options=dict(files), noise=self._noises[True])

    def _picture(self, data: bytes | None) -> None:
        self._lost = self._made_of()
        options = {name: value for name, value in self.session.values["options"].items() if name != "image"}
        self.session.change(options=options if data is None else {**options, "image": data})

    def _renew(self, **values: Any) -> None:
        """Another problem: neither λ nor range of the old one has to do with it."""
        self._lost = self._made_of()
        self._steps.grow()
        self.session.change(**values, lam=None, lambdas=None)
        self._forgot({name: self.session.values[name] for name in ("lam", "lambdas")})

    def _set(self, name: str, value: Any) -> None:
        values = self.session.values
        if values["problem"] != OWN:
            settled({**values, name: value})
        self._steps.grow()
        self.session.change(**{name: value}, lam=None)
        self._forgot({"lam": self.session.values["lam"]})

    # -- back

    def _made_of(self) -> dict[str, Any]:
        """The values that another problem replaces."""
        return {name: self.session.values[name] for name in (*REPLACED, *self.fields)}

    @property
    def undoable(self) -> str:
        """In words, what `undo` brings back; "" if there is nothing."""
        if self._lost is None or self._lost == self._made_of():
            return ""
        name = self._lost["problem"]
        return TITLE_OF_OWN if name == OWN else PROBLEMS[name].title

    def undo(self) -> None:
        """The problem before the last change of it, with its files, its noise and its λ; once more, and it is back."""
        lost = self._lost
        if lost is None or not self.undoable:
            return
        self._lost = self._made_of()
        self._steps.grow()
        self.session.change(**lost)
        self.follow(lost)
        self._forgot({name: self.session.values[name] for name in ("lam", "lambdas", "rule")})

    def _show_options(self, name: str) -> None:
        known = PROBLEMS[name].options if name in PROBLEMS else {}
        for field, typed in self.fields.items():
            typed.panel.visible = field in known or (field == "n" and name != OWN)
        pictured = name in PROBLEMS and PROBLEMS[name].dimensions == 2
        self.fields["n"].panel.label = LABELS[pictured]
        self.uploads.show(name, pictured)

    def follow(self, values: Mapping[str, Any]) -> None:
        """Show values that the session took by itself, for instance because the engine refused others."""
        super().follow(values)
        with self._quiet():
            if "problem" in values and not self.uploads.waiting:  # else the fields, and what is wrong, would be hidden
                self.problem.value = values["problem"]
        for name, field in self.fields.items():
            if name in values and not field.panel.error_state:
                field.show(values[name])
        if "noise" in values:
            self._noises[self.session.values["problem"] == OWN] = values["noise"]
            if not self.unloaded:
                self._show_noise(values["noise"])
        self._show_options(self.problem.value)

    def refused(self, text: str) -> bool:
        """The engine refused something, in these words; whether a field here says so now."""
        if self.uploads.complain(text):
            return True
        name = text.split(" ", 1)[0]
        name = name if name in self.fields else "n" if "GiB" in text else ""
        if name:
            self.fields[name].complain(text)
        return bool(name)


def nearest(levels: Mapping[str, float], value: float) -> float:
    """The slider's level that is nearest to `value`."""
    known = [level for level in levels.values() if level > 0]
    return min(known, key=lambda level: abs(log10(level / value))) if value > 0 else 0.0
