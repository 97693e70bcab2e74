"""The group "Problem" of the side bar: A and b, their size, options and noise; the user's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.labs.l_curve.labels import short
from app.page.typed_slider import TypedList, read_number
from app.page.widgets import FULL, NumberField, ValueWidgets, icon, range_words
from app.tab.controls import column
from app.tab.session import Session
from app.tab.upload import Upload, sketch
from compute.cli import settings
from compute.export import decoding
from compute.files.images import Kept, LoadedPicture
from compute.lab.frames import Frame
from compute.labs.l_curve.lab import is_picture
from compute.labs.l_curve.problems import PROBLEMS
from compute.labs.l_curve.problems.own import ArrayFile
from compute.labs.l_curve.system import OWN, files_of, settled, typical

KINDS = {  # label, and name of an accepted file
    "matrix": ("A, or A and b [.npz, .npy, .csv, .mtx, .mat]", "A"),
    "rhs": ("b [.npy, .csv, .mtx, .mat]", "b"),
    "image": ("Picture [.png, .jpg]", "Picture"),
}
MOST_NAMES = 100  # stored sets of file names, the latest
WITHOUT_B, ASK_FOR_B = "rhs must be given", "The file has no b: select a file with b."


class ProblemFiles:
    """The file fields of a problem: the user's A and b, or an image. An A without b waits for the file of b.

    load(files) defines a problem from the files; picture(image) replaces the phantom by an image, picture(None)
    restores it. The lab's answer arrives at `complain`, or with its next frame.
    """

    def __init__(
        self,
        session: Session,
        load: Callable[[Mapping[str, ArrayFile]], object],
        picture: Callable[[LoadedPicture | None], object],
    ) -> None:
        self.session, self._load, self._picture = session, load, picture
        self._files: dict[str, ArrayFile] = {}
        self._waits = False  # A waits for a b that is being read
        self._sent: tuple[str, ...] = ()
        self._pending = self._shown = ""  # fingerprints of the files sent last and of those that the lab uses
        self._names: dict[str, dict[str, str]] = {}  # fingerprint -> file names by kind
        self.fields: dict[str, Upload[Any]] = {
            "matrix": Upload(*KINDS["matrix"], partial(decoding.arrays, name="matrix"), partial(self._came, "matrix")),
            "rhs": Upload(*KINDS["rhs"], partial(decoding.arrays, name="rhs"), partial(self._came, "rhs")),
            "image": Upload(*KINDS["image"], decoding.picture, self._picture_came),
        }
        self.phantom = pmui.Button(
            label="Restore phantom", icon="restart_alt", variant="outlined", size="small", visible=False, **FULL
        )
        self.phantom.on_click(lambda event: self._without_picture())
        self.panel = column(*(field.panel for field in self.fields.values()), self.phantom)

    def show(self, problem: str, pictured: bool) -> None:
        """Show only the fields for `problem`; pictured: whether its solution is a picture. Hidden fields stop."""
        for kind, field in self.fields.items():
            field.panel.visible = pictured if kind == "image" else problem == OWN
            if not field.panel.visible:
                field.stop()
        self._offer_phantom()

    def _offer_phantom(self) -> None:
        """Show the button for the phantom if an image replaces it."""
        self.phantom.visible = self.fields["image"].panel.visible and "image" in self.session.values["options"]

    @property
    def waiting(self) -> bool:
        """Whether a file is being read or waits for the engine's answer."""
        return bool(self._sent) or any(field.busy for field in self.fields.values())

    def read(self) -> None:
        """Process files that have been read: b after its A, and A only when no b is being read."""
        self.fields["image"].tick()
        self.fields["matrix"].tick()
        if not self.fields["matrix"].busy:
            self.fields["rhs"].tick()
        if self._waits and not self.fields["rhs"].busy:  # b was refused
            self._offer()

    def close(self) -> None:
        """Stop reading files."""
        for field in self.fields.values():
            field.close()

    def complain(self, words: str) -> bool:
        """Show the engine's refusal of the files sent last; return False if none were sent."""
        sent, self._sent = self._sent, ()
        if sent == ("matrix",) and words.startswith(WITHOUT_B):
            self.fields["rhs"].prompt(ASK_FOR_B)
            self.fields["matrix"].taken()
        elif sent:
            name = next((kind for kind in sent if words.startswith(kind)), None)
            name = name or ("rhs" if words.startswith("b ") and "rhs" in sent else sent[0])
            self.fields[name].refuse(words)
            self._files.pop(name, None)
            self._names.pop(self._pending, None)
        return bool(sent)

    def tick(self, frame: Frame) -> None:
        """Show the files that a frame used: those sent last, or earlier ones again."""
        self._offer_phantom()
        shown = frame.notes["files"]
        if self._sent and shown == self._pending:
            self._sent = ()
        elif shown == self._shown:
            return
        self._shown = shown
        names = self._names.get(shown, {})
        if "image" not in (*names, *self._sent):
            self.fields["image"].reset()
        for kind, name in names.items():
            if self.fields[kind].busy:  # its label shows another file
                continue
            self.fields[kind].name = name
            if kind == "image":
                kept = Kept(*map(int, frame.notes["kept"].split()))
                self.fields[kind].taken(f"Loaded: {kept.words}.", "" if kept.whole else sketch(kept))
            else:
                self.fields[kind].taken()
        if frame.notes["problem"] == OWN:
            options = self.session.values["options"]
            self._files = {
                kind: options[kind] for kind in ("matrix", "rhs") if isinstance(options.get(kind), ArrayFile)
            }
            if "rhs" not in self._files:
                self.fields["rhs"].reset()

    def again(self) -> bool:
        """Load the files again that were used before another problem was chosen; return False without such files."""
        if "matrix" not in self._files or files_of(self._files) not in self._names:
            return False
        self._send(tuple(self._files), self._files)
        self._load(dict(self._files))
        return True

    def _send(self, kinds: tuple[str, ...], files: Mapping[str, ArrayFile | LoadedPicture]) -> None:
        self._sent, self._pending = kinds, files_of(files)
        self._names[self._pending] = {kind: self.fields[kind].name for kind in kinds}
        for old in list(self._names)[:-MOST_NAMES]:
            del self._names[old]

    def _picture_came(self, picture: LoadedPicture, name: str) -> None:
        self._send(("image",), {"image": picture})
        self.phantom.visible = True
        self._picture(picture)

    def _came(self, kind: str, file: ArrayFile, name: str) -> None:
        self._files[kind] = file
        if kind == "matrix":
            self._files.pop("rhs", None)
            self.fields["rhs"].reset()
        if "matrix" not in self._files:
            self.fields[kind].prompt("Select A first, then b.")
        elif kind == "matrix" and self.fields["rhs"].busy:
            self._waits = True
        else:
            self._offer()

    def _offer(self) -> None:
        """Send the files to the lab."""
        self._waits = False
        self._send(tuple(self._files), self._files)
        self._load(dict(self._files))

    def _without_picture(self) -> None:
        self.phantom.visible = False
        self.fields["image"].reset()
        self._picture(None)


GROUPS = {
    "On a line": ("shaw", "heat", "gravity", "phillips", "deriv2", "i_laplace", "baart", "foxgood", "wing"),
    "Pictures": ("blur", "paralleltomo", "tomo"),
    "Benchmark": ("random_sparse",),
    "Your own": (OWN,),
}
TITLE_OF_OWN = "Own A and b"
LOWEST, A_DECADE = -6, 10  # noise slider: the lowest decade relative to |b|, and steps per decade
SEEDS = 1000
LABELS = {False: "n  [samples]", True: "n  [pixels per side]"}
WHOLE = ("seed", "band", "angles")
NOTHING_YET = "No A and b are loaded. Select a file in the side bar."
READING = "Reading your A and b …"
REPLACED = ("problem", "options", "noise", "lam", "lambdas", "derivative")
PENALTIES = {"‖x‖  size": 0, "‖x′‖  slope": 1, "‖x″‖  curvature": 2}
NO_NOISE = 0.0  # added to the user's b by default


def noises() -> dict[str, float]:
    """Return label -> noise as a fraction of |b|: none, then logarithmic steps up to 1."""
    levels = [10 ** (i / A_DECADE) for i in range(LOWEST * A_DECADE, 1)]
    return {"none": 0.0} | {short(level): level for level in levels}


def titles() -> dict[str, dict[str, str]]:
    """Return group -> title -> name of the problems."""
    words = {name: problem.title for name, problem in PROBLEMS.items()} | {OWN: TITLE_OF_OWN}
    return {group: {words[name]: name for name in names} for group, names in GROUPS.items()}


class ProblemControls(ValueWidgets):
    """The fields of all parameters of A and b. Values that the lab would refuse are reported next to their field."""

    def __init__(
        self,
        session: Session,
        grow: Callable[[], object],
        rush: Callable[[], object],
        forgot: Callable[[Mapping[str, Any]], object],
    ) -> None:
        """forgot(values) is called with the λ and the range that are reset when the problem changes."""
        super().__init__(session)
        self._grow, self._rush, self._forgot = grow, rush, forgot
        self._lost: dict[str, Any] | None = None  # values before the last change of the problem, for `undo`
        values = session.values
        own = values["problem"] == OWN
        self._noises = {own: values["noise"], not own: NO_NOISE}  # for the user's data, and for generated problems
        self.uploads = ProblemFiles(session, self._load, self._picture)
        self.problem = pmui.Select(label="Problem", groups=titles(), value=values["problem"], size="small", **FULL)
        self.problem.param.watch(lambda event: self._choose(event.new), "value")
        hint = settings.bound_words("unknowns")
        of_n = NumberField(LABELS[False], values["n"], partial(self._set, "n"), whole=True, helper_text=hint)
        self.fields = {"n": of_n}
        for name in ("density", "depth", "kappa", "band", "sigma", "rays", "angles", "seed"):
            label, take = str(self.parameter(name).label), partial(self._set, name)
            self.fields[name] = NumberField(
                label, values[name], take, whole=name in WHOLE, optional=name == "rays",
                accepted=partial(range_words, self.parameter(name).bounds),
            )  # fmt: skip
        fields = (field.panel for field in self.fields.values())
        self.penalty = pmui.Select(
            label="Penalty", options=PENALTIES, value=values["derivative"], size="small",
            description="The part of x that λ damps. A smooth x suits a derivative.", **FULL,
        )  # fmt: skip
        self.penalty.param.watch(lambda event: self._penalise(event.new), "value")
        self.panel = column(self.problem, *fields, self.uploads.panel, self.penalty, self._noise())
        self._show_options(values["problem"])

    @property
    def unloaded(self) -> bool:
        """Whether the user's problem is selected but its files are missing."""
        return self.problem.value == OWN != self.session.values["problem"]

    def veil(self, frame: Frame) -> str:
        """Return the text that covers the curve of `frame` if it does not belong to the selected problem, else ""."""
        if self.problem.value != OWN or frame.notes["problem"] == OWN:
            return ""
        return NOTHING_YET if self.unloaded and not self.uploads.waiting else READING

    def tick(self, frame: Frame) -> None:
        """Show the files of the latest frame; called a few times a second."""
        self.uploads.tick(frame)

    # -- noise

    def _noise(self) -> Any:
        self.noise = pmui.DiscreteSlider(label="Noise ‖e‖ / ‖b‖", options=noises(), value=0.0, size="small", **FULL)
        bounds = self.parameter("noise").bounds
        self._typed_noise = TypedList(self.noise, float, partial(read_number, "noise", bounds=bounds))
        self._typed_noise.show(self.session.values["noise"])
        self.noise.param.watch(lambda event: self._take_noise(event.new), "value")
        again = icon("casino", "New noise seed", self._reseed, align="center")
        return pn.Row(self._typed_noise.panel, again, margin=0, sizing_mode="stretch_width")

    def _take_noise(self, level: float) -> None:
        if self._following:
            return
        self._noises[self.problem.value == OWN] = level
        if not self.unloaded:  # otherwise it applies to the files to be loaded
            self._make_noise(noise=level)

    def _make_noise(self, **values: Any) -> None:
        self._rush()
        self.session.change(**values)

    def _reseed(self) -> None:
        self._make_noise(noise_seed=(self.session.values["noise_seed"] + 1) % SEEDS)

    def _show_noise(self, level: float) -> None:
        """Move the slider to `level`, without changing the session."""
        with self._quiet():
            self._typed_noise.show(level)

    # -- changing the problem

    def _choose(self, name: str) -> None:
        """Choose another problem with its typical size; the user's problem begins when its files are loaded."""
        self._show_options(name)
        if self._following or (name == OWN and self.session.values["problem"] == OWN):
            return
        self._show_noise(self._noises[name == OWN])
        if name == OWN:
            self.uploads.again()
        if name in (OWN, self.session.values["problem"]):
            return
        order = 0 if is_picture(name) else self.penalty.value
        values = {"n": typical(name), "options": {}, "rays": None, "noise": self._noises[False], "derivative": order}
        self._renew(problem=name, **values)
        for field in ("n", "rays"):
            self.fields[field].show(self.session.values[field])

    def _load(self, files: Mapping[str, ArrayFile]) -> None:
        """Load the user's data; noise is added only if the user has selected it."""
        self._renew(problem=OWN, options=dict(files), noise=self._noises[True])

    def _picture(self, picture: LoadedPicture | None) -> None:
        now = self.session.values["options"]
        options = {name: value for name, value in now.items() if name != "image"}
        if picture is not None:
            options["image"] = picture
        if options != now:  # otherwise undo would have no effect
            self._lost = self._made_of()
            self.session.change(options=options)

    def _renew(self, **values: Any) -> None:
        """Set another problem, and reset λ and its range."""
        self._lost = self._made_of()
        self._grow()
        self.session.change(**values, lam=None, lambdas=None)
        self._forgot({name: self.session.values[name] for name in ("lam", "lambdas")})

    def _penalise(self, order: int) -> None:
        """Penalise a derivative of x. Its λ have other units, so λ and its range are reset."""
        if not self._following and order != self.session.values["derivative"]:
            self._renew(derivative=order)

    def _set(self, name: str, value: Any) -> None:
        values = self.session.values
        if values["problem"] != OWN:
            settled({**values, name: value})
            settings.require("unknowns", self.session.lab.SIZES["unknowns"]({**values, name: value}))
        self._grow()
        self.session.change(**{name: value}, lam=None)
        self._forgot({"lam": self.session.values["lam"]})

    # -- undo

    def _made_of(self) -> dict[str, Any]:
        """Return the values that a change of the problem replaces."""
        return {name: self.session.values[name] for name in (*REPLACED, *self.fields)}

    @property
    def undoable(self) -> str:
        """The title of the problem that `undo` restores; "" without one."""
        if self._lost is None or self._lost == self._made_of():
            return ""
        name = self._lost["problem"]
        return TITLE_OF_OWN if name == OWN else PROBLEMS[name].title

    def undo(self) -> None:
        """Restore the problem before its last change, with files, noise and λ; a second call undoes the first."""
        lost = self._lost
        if lost is None or not self.undoable:
            return
        self._lost = self._made_of()
        self._grow()
        self.session.change(**lost)
        self.show_values(lost)
        self._forgot({name: self.session.values[name] for name in ("lam", "lambdas", "rule")})

    def _show_options(self, name: str) -> None:
        known = PROBLEMS[name].options if name in PROBLEMS else {}
        for field, typed in self.fields.items():
            typed.panel.visible = field in known or (field == "n" and name != OWN)
        pictured = is_picture(name)
        self.penalty.visible = not pictured
        self.fields["n"].panel.label = LABELS[pictured]
        self.uploads.show(name, pictured)

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show values that were changed without these widgets, for instance because the engine refused others."""
        super().show_values(values)
        with self._quiet():
            if "problem" in values and not self.uploads.waiting:  # otherwise fields with errors would be hidden
                self.problem.value = values["problem"]
        for name, field in self.fields.items():
            if name in values and not field.panel.error_state:
                field.show(values[name])
        if "derivative" in values and not is_picture(self.session.values["problem"]):
            with self._quiet():
                self.penalty.value = values["derivative"]
        if "noise" in values:
            self._noises[self.session.values["problem"] == OWN] = values["noise"]
            if not self.unloaded:
                self._show_noise(values["noise"])
        self._show_options(self.problem.value)

    def refused(self, text: str) -> bool:
        """Show the engine's refusal of a value next to its field; return False if none of these fields is affected."""
        if self.uploads.complain(text):
            return True
        name = text.split(" ", 1)[0]
        name = name if name in self.fields else "n" if "GiB" in text else ""
        if name:
            self.fields[name].complain(text)
        return bool(name)
