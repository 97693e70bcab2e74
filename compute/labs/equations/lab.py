"""The equations lab: systems of partial differential equations that are typed, computed live in any backend.

This module has the parameters, the state on a device and the time stepping. language.py reads the text, passes.py and
forms/ make the kernels, programs.py keeps them, stability.py bounds the time step, picture.py makes the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil, nan
from typing import Any, ClassVar, cast
from uuid import uuid4

import numpy as np
import param
from numpy.typing import ArrayLike, NDArray

from compute.devices.backends import REFERENCE, Backend, backend
from compute.devices.devices import Array
from compute.display.camera import Camera, RasterRequest
from compute.files.documents import short
from compute.files.images import LoadedPicture
from compute.lab import strokes
from compute.lab.compilation import Compilation, Interim
from compute.lab.fields import as_field, as_number, is_finite
from compute.lab.frames import Frame, Raster, View
from compute.lab.history import GIVEN, PLACE, Entry, HistoryRules
from compute.lab.image_history import LARGE, LOAD, image_in, record_image, require_image
from compute.lab.lab import PICTURE_BYTES, Lab, grid_cells
from compute.lab.limits import limit
from compute.lab.sections import DIRECTIONS
from compute.lab.status import LabStatus
from compute.lab.two_runs import SECOND, TwoRuns
from compute.lab.undo import EarlierField, UndoHistory
from compute.labs.equations import stepping
from compute.labs.equations.compiling import compilation_of, compiler_of
from compute.labs.equations.forms import Program
from compute.labs.equations.language import LEAST_SETTING, MOST_SETTING
from compute.labs.equations.picture import WITH_TEXT, first_raster, panels_of, require_shown, show
from compute.labs.equations.presets import FIRST as FIRST_PRESETS
from compute.labs.equations.presets import FOLDER, preset, presets
from compute.labs.equations.programs import (
    SLOTS,
    Slot,
    alike,
    at_start,
    full_text,
    names_at_start,
    picture_of,
    program_of,
    slots_of,
)
from compute.labs.equations.reference import initial
from compute.labs.equations.stability import UNBOUNDED, Stability, stability
from compute.labs.equations.tree import IMAGE, EquationError, Name, words
from compute.measure.timing import Timing

FORM_OF = {
    "cpu_numpy": "numpy", "cpu_numba": "numba", "gpu_numba": "numba-cuda", "gpu_cupy": "cuda", "gpu_wgpu": "wgsl",
}  # fmt: skip
USUAL = 100  # operations on a cell in a time step: of a longer text, the largest grid of a server is smaller
GROWTH = 1000.0  # of the largest value since the start, beyond which the lab pauses
MOST_BOUND_CELLS = 2**24  # the bound of the time step reads all fields on the host: a second on 4096 x 4096 cells
FIRST_INTERVAL, LEAST_INTERVAL = 16, 8  # steps after which the bound is taken again, at first and at least
MOST_CHANGE = 0.03  # relative change of the bound from one time to the next; it has a margin of 0.1
PANELS = ("picture", "profile", "probe", "integral")  # choices of the second panel
RELAXED = 1000  # steps after which the bound of a given time step is taken again, then after twice as many
OPERATION, LONGEST = 1e-9, 0.2  # seconds of NumPy for an operation on a cell; seconds of a step in its place
ROUNDED = 1e-9  # relative error of the sum of time steps that is ignored
NOT_FINITE = "the fields hold values that are not finite (NaN or inf): reduce the time step, then reset"


def _slot(number: int) -> Any:
    return param.Number(
        default=None, allow_None=True, label=f"Number {number} of the text", doc="None: its value there."
    )


@dataclass(frozen=True)
class Bound:
    """The stability of the scheme about a state. numbers, step: of that state; interval: steps until it is due."""

    stability: Stability
    numbers: Mapping[str, float]
    step: int
    interval: int = FIRST_INTERVAL

    def is_due(self, numbers: Mapping[str, float], steps: int) -> bool:
        """Return whether the bound must be taken again."""
        return numbers != self.numbers or steps >= self.next_step

    @property
    def next_step(self) -> int:
        """The step at which it is due."""
        return self.step + self.interval

    def later(self, found: Stability, step: int) -> Bound:
        """Return the bound about a later state, due when it may have changed by MOST_CHANGE, at most twice as late."""
        before, now = self.stability.limit, found.limit
        change = abs(now - before) / before if before < np.inf and now < np.inf else float(now != before)
        fitting = self.interval * MOST_CHANGE / max(change, MOST_CHANGE / 2)
        return Bound(found, self.numbers, step, max(LEAST_INTERVAL, int(fitting)))


class EquationHistory(HistoryRules):
    """Brush strokes and images are entries, too."""

    def apply(self, lab: Lab, entry: Entry) -> None:
        """Apply an entry; undo keeps nothing."""
        equations = cast("Equations", lab)
        if (image := image_in(entry)) is not None:
            equations.load_image(image)
        else:
            with equations.earlier.resting():
                super().apply(lab, entry)

    def require_entry(self, action: str, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless an entry, which may come from anywhere, has valid arguments."""
        if action == LOAD:
            require_image(arguments)
            return
        needed = {"points", "value", "radius", "field"}
        if set(arguments) != needed or not isinstance(arguments["field"], str):
            given = ", ".join(sorted(map(str, arguments))) or "nothing"
            raise ValueError(f"{action} needs {', '.join(sorted(needed))}, field as text, not {short(given)}")
        strokes.require_stroke(arguments["points"], arguments["value"], arguments["radius"])


class Equations(TwoRuns):
    """Systems u_t = f(u, …, lap(u), …, x, y, t) on ny x nx cells, typed as `text`; language.py documents the language.

    text: the equations, or the name of a preset. A change rebuilds the lab. Its fields begin again, unless the texts
    differ in edges, scheme and dt only. A text with an error is refused with EquationError (line, column, caret), and
    the lab stays as it is.

    p1 … p12: the numbers of the text with a range (`F = 0.037 in [0, 0.1]`), in its order; `slots` has their names and
    ranges, `numbers` their values by name, `set(F=0.04)` sets them by name. Other equations set them to their values,
    as does None. They are arguments of the kernels: a change never compiles. Slots beyond those of the text are None.

    time_step: None for the `dt` of the text, or without one 90 % of the bound of stability. That is taken again as the
    numbers change and after 8 steps or more, the later the less it changes. `dt`: the time step in use; `bound`: the
    bound at some state.

    first_picture: the field of the raster `field`, "" for the first one. show: expression of the raster `show`, "" for
    that of the text, else the second field, else the rate of change. A wall exists if the text has one (`wall = 0`).

    second_panel: what the page shows next to the first picture: the second one, or a plot of the field `plotted` (the
    second picture if it is "show") along the row or column through the cell at probe_x, probe_y, or over time at this
    cell, or of its integral over the grid. Frames contain the values of all of them.

    second_run: see compute/lab/two_runs.py; {"F": 0.04} is the same as that of the slot. Only numbers without which the
    initial values and the wall are the same can differ, and the time step. pause_at: the time t at which an engine
    pauses the lab; running it again continues. paint draws into a field or the
    wall.

    field(name), load(array, name), data(): (ny, nx) arrays of `dtype`, row 0 at the bottom; load_image(data): the image
    to which the name `image` of the text refers; `t`: the simulated time; source(backend): the printed program.
    Sources: README.md in this folder.
    """

    STRUCTURAL: ClassVar[tuple[str, ...]] = (*Lab.STRUCTURAL, "variant", "text", "ny", "nx", "dtype")
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = (
        *("backend", "device_index", "variant", "dtype", *SLOTS, "time_step", "pause_at", "first_picture", "show"),
        *("limits_field", "limits_show", "text", SECOND, "paint", LOAD),
    )
    FIRST: ClassVar[str] = LOAD
    HISTORY: ClassVar[HistoryRules] = EquationHistory()
    COMPARED: ClassVar[Mapping[str, str]] = {name: name for name in SLOTS} | {"time_step": "Δt"}
    CLOCK: ClassVar[str] = "the same t"
    COMPILED: ClassVar[tuple[str, ...]] = ("backend", "device_index", "variant", "text", "dtype", "show")
    panels = staticmethod(panels_of)
    APART: ClassVar[tuple[int, int, int]] = (128, 140, 152)  # grey-blue: a wall
    APART_WORDS: ClassVar[str] = "a wall, or not finite"

    variant = param.String(default="", label="Kernel", doc="Name in the backend's VARIANTS; empty for its default.")
    text = param.String(
        default=preset(FOLDER / f"{FIRST_PRESETS[0]}.txt").text, label="Equations", doc="One statement a line."
    )
    ny = param.Integer(default=256, bounds=(1, 16384), label="Rows [cells]")
    nx = param.Integer(default=256, bounds=(1, 16384), label="Columns [cells]")
    dtype = param.Selector(default="float32", objects=["float32", "float64"], label="Number type")
    p1, p2, p3, p4 = _slot(1), _slot(2), _slot(3), _slot(4)
    p5, p6, p7, p8 = _slot(5), _slot(6), _slot(7), _slot(8)
    p9, p10, p11, p12 = _slot(9), _slot(10), _slot(11), _slot(12)
    time_step = param.Number(
        default=None, allow_None=True, bounds=(LEAST_SETTING, MOST_SETTING), label="Time step",
        doc="None: that of the text, or 90 % of the bound of stability.",
    )  # fmt: skip
    pause_at = param.Number(
        default=None, allow_None=True, bounds=(0, None), label="Pause at t", doc="None: never. In an engine only.",
    )  # fmt: skip
    first_picture = param.String(default="", label="First picture", doc="A field; empty: the first one.")
    show = param.String(default="", label="Second picture", doc="An expression; empty: that of the text.")
    limits_field = param.Range(default=None, allow_None=True, label="Limits of the first picture")
    limits_show = param.Range(default=None, allow_None=True, label="Limits of the second picture")
    second_panel = param.Selector(default=PANELS[0], objects=list(PANELS), label="Second panel")
    plotted = param.String(default="", label="Plotted", doc="A field, or show; empty: the first picture's field.")
    section = param.Selector(default=DIRECTIONS[0], objects=list(DIRECTIONS), label="Section")
    probe_x = param.Number(default=0.5, bounds=(0, 1), label="Probe x [part of the width]")
    probe_y = param.Number(default=0.5, bounds=(0, 1), label="Probe y [part of the height]")

    state: stepping.State  # on the device
    earlier: UndoHistory  # the fields before strokes, resets, images and other texts, of the present grid
    _begun: str  # the text of the state
    _image: LoadedPicture | None  # the last image that was loaded, whether the text uses it or not
    _scale: float  # the largest magnitude at the start, or when the lab paused because of its growth
    _ill: str  # why the state is not healthy, "" if it is
    _bound: Bound | None
    _drawing: dict[str, Array]  # the arrays of the second picture
    _seen: Mapping[str, float]  # the numbers of the last frame

    def __init__(self, **values: Any) -> None:
        self._require_known(values)
        self.earlier, self._image = UndoHistory(self, WITH_TEXT), None
        values = _completed({"text": type(self).text, **values}, "")
        self._filled = str(values["text"])
        super().__init__(**values)
        self.param.watch(self._begin_anew, list(SLOTS), precedence=1)
        self._open_second()

    # -- the text and its numbers

    @property
    def program(self) -> Program:
        """The program of a time step."""
        return program_of(self._values["text"])

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The numbers of the text with their names and ranges."""
        return slots_of(self._values["text"])

    @classmethod
    def comparable(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the parameters in which the runs can differ: no number of which the initial values depend."""
        text = full_text(str(values["text"]))
        return (*(each.slot for each in slots_of(text) if each.name not in names_at_start(text)), "time_step")

    @property
    def numbers(self) -> dict[str, float]:
        """The values of the text's numbers by name."""
        now = self._values
        return {each.name: float(now[each.slot]) for each in self.slots}

    def set(self, **numbers: float) -> None:
        """Set numbers of the text by name: all of them, or none and raise ValueError."""
        slots = {each.name: each.slot for each in self.slots}
        unknown = sorted(numbers.keys() - slots.keys())
        if unknown:
            raise ValueError(f"the text has no number {unknown[0]!r}; it has {', '.join(slots) or 'none'}")
        self.update(**{slots[name]: value for name, value in numbers.items()})

    @classmethod
    def named_numbers(cls, values: Mapping[str, Any]) -> tuple[Slot, ...]:
        """Return the numbers of the text. Raise EquationError for an invalid one."""
        return slots_of(full_text(str(values.get("text", cls.text))))

    def source(self, name: str = "") -> str:
        """Return the program as the backend `name` runs it, by default this lab's. ValueError for another name."""
        name = name or self.backend
        if name not in FORM_OF:
            raise ValueError(f"backend must be one of {', '.join(FORM_OF)}, not {name!r}")
        return "\n".join(self.program.sources(FORM_OF[name], "float32" if name == "gpu_wgpu" else self.dtype))

    def update(self, **values: Any) -> None:
        """Set several parameters in one call: all of them, or none and raise ValueError."""
        self._require_known(values)
        values = _completed(values, self.text)
        before, self._filled = self._filled, values.get("text", self.text)
        try:
            with self.earlier.unless_refused():
                if self._filled != self.text:
                    self.earlier.keep()
                super().update(**values)
        except Exception:
            self._filled = before
            raise

    def require(self, **values: Any) -> None:
        """Raise ValueError unless `update` would accept these values; no value changes."""
        self._require_known(values)
        super().require(**_completed(values, self.text))

    @contextmanager
    def _adapted(self, values: Mapping[str, Any]) -> Iterator[None]:  # noqa: ARG002 - validate checks the ranges
        """Lift the ranges of the numbers in the block; they are those of the text afterwards."""
        self._set_ranges(())
        try:
            yield
        finally:
            self._set_ranges(self.slots)

    def _set_ranges(self, slots: tuple[Slot, ...]) -> None:
        """Set the labels and the bounds of this lab's parameters p1 … p12."""
        known = {each.slot: each for each in slots}
        for name in SLOTS:
            found = known.get(name)
            self.param[name].bounds = (found.low, found.high) if found else None
            self.param[name].label = found.name if found else type(self).param[name].label

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError for an invalid text, numbers beyond their ranges, and other incompatible values."""
        kernels, variant = backend(values["backend"]).kernels(self.PACKAGE), values["variant"]
        if variant and variant not in kernels.VARIANTS:
            known = ", ".join(kernels.VARIANTS)
            raise ValueError(f"variant must be empty or one of {known} for {values['backend']}, not {variant!r}")
        slots, system = slots_of(values["text"]), program_of(values["text"]).system
        for each in slots:
            each.require(values[each.slot])
        for name in SLOTS[len(slots) :]:
            if values[name] is not None:
                raise ValueError(f"{name} must be None: the text has {len(slots)} numbers with a range")
        require_shown(values, system)
        self._require_work(values)
        for name in ("limits_field", "limits_show"):
            limits = values[name]
            if limits is not None and not (all(map(is_finite, limits)) and limits[0] < limits[1]):
                raise ValueError(f"{name} must be two finite numbers, the lower one first, not {limits}")
        if values["time_step"] is None and system.dt is None and values["ny"] * values["nx"] > MOST_BOUND_CELLS:
            bound = f"on more than {MOST_BOUND_CELLS:,} cells, where its bound is not determined"
            raise ValueError(f"time_step must be given {bound}, or dt in the text; not None")

    @staticmethod
    def _require_work(values: Mapping[str, Any]) -> None:
        """Raise ValueError for a grid on which a step, the picture or the start of a long text would take too long."""
        program = program_of(values["text"])
        drawn = picture_of(values["text"], values["show"])
        count = max(program.operations, drawn.operations, at_start(program.system))
        most = limit("grid") * USUAL // max(count, USUAL)
        if grid_cells(values) > most:
            raise ValueError(
                f"ny * nx must be at most {most:,} for this text, which has {count:,} operations on a cell, "
                f"not {grid_cells(values):,}"
            )

    # -- the backend that computes

    @property
    def computing(self) -> Backend:
        """The backend that computes: NumPy until a kernel of the chosen one is compiled."""
        chosen = self.interim is None or self.interim.variant
        return backend(self._values["backend"] if chosen else REFERENCE)

    def compilation(self) -> Compilation | None:
        """Load the kernels of the text and the second picture; return the task that compiles missing ones, or None."""
        names = "backend", "variant", "text", "show", "dtype", "device_index"
        return compilation_of(*(self._values[name] for name in names))

    def compiler(self) -> Callable[..., Any] | None:
        """Return a ChildTask that prepares a process for compiling the kernels of any text, or None."""
        return compiler_of(self._values["backend"], self._values["device_index"])

    def set_interim(self, interim: Interim | None) -> None:
        """Compute with NumPy or another kernel, with the same state; None: with the chosen backend and kernel."""
        before, name = self.interim, self.computing.name
        self.interim = interim
        if self.computing.name == name:
            return
        try:
            self._rebuild()
        except Exception:
            self.interim = before
            raise

    def _is_slow(self, program: Program) -> bool:
        """Return whether a program waits for its compilation, because NumPy would block an engine's other labs."""
        waits = self.interim is not None and not (self.interim.lasts or self.interim.variant)
        return waits and grid_cells(self._values) * program.operations * OPERATION > LONGEST

    # -- state

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes of all arrays of the text, and those of a picture, for each run."""
        now = {name: values.get(name, cls.param[name].default) for name in ("text", "show", "ny", "nx", "dtype")}
        text = full_text(now["text"])
        program = program_of(text)
        fields, plan = len(program.system.fields), program.plan
        arrays = fields * (3 if plan.from_start else 2) + len(plan.auxiliary)
        arrays += 0 if program.system.wall is None else 2  # the wall, and a field without its cells for a picture
        with suppress(EquationError):  # `validate` refuses it; of a lab that leaves a text, `show` may be the new one
            arrays += len(picture_of(text, now["show"]).plan.auxiliary)
        own = arrays * int(now["ny"]) * int(now["nx"]) * np.dtype(now["dtype"]).itemsize + PICTURE_BYTES
        return own + cls._second_bytes(values)

    def begin(self) -> dict[str, NDArray[Any]]:
        """Return the initial values of the fields, and the wall if the text has one."""
        found = initial(self.program.system, self.ny, self.nx, self.numbers, self.image)
        with np.errstate(over="ignore"):
            return {name: array.astype(self.dtype) for name, array in found.items()}

    def _allocate(self, old: dict[str, Any]) -> None:
        self._release()
        shapes = {array.shape for array in old["arrays"].values()} if old else set()
        keeps = bool(old) and alike(old["text"], self.text) and shapes == {(self.ny, self.nx)}
        new = {name: each.astype(self.dtype) for name, each in old["arrays"].items()} if keeps else self.begin()
        self.camera = Camera(self.device, self.display)
        self.state, self._begun = stepping.begin(self.device, self.program, new), self.text
        self._drawing, self._seen = {}, {}
        self._set_ranges(self.slots)
        self._collect()
        if keeps:
            self._resume(old)
        else:
            if any(each.shape != (self.ny, self.nx) for each in old.get("arrays", {}).values()):
                self.earlier.forget("the grid is another")
            self._start(new)

    def _release(self) -> None:
        self.__dict__.pop("state", None)
        self._drawing = {}
        super()._release()

    def _collect(self) -> None:
        """Take the fields, and the wall, from the state, in which arrays change roles."""
        names = [*self.program.system.fields, *(["wall"] if "wall" in self.state.now else [])]
        self.arrays = {name: self.state.now[name] for name in names}

    def _start(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._start(arrays)
        self.run, self.state.t, self._bound, self._ill = uuid4().hex, 0.0, None, ""
        if self.image is not None:
            record_image(self.history, self.image, self.ny, self.nx)
        inside = arrays["wall"] < 1 if "wall" in arrays else True
        fields = (np.abs(arrays[name]) for name in self.program.system.fields)
        self._scale = max(float(np.max(each, initial=0.0, where=np.isfinite(each) & inside)) for each in fields) or 1.0

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as host arrays and plain numbers."""
        own = {"text": self._begun, "run": self.run, "t": self.state.t, "scale": self._scale, "bound": self._bound}
        return {**super().snapshot(), **own, "image": self._image, **self._second_snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of a lab with the same equations and shape; raise ValueError for others.

        Edges, scheme and time step may differ.
        """
        if not alike(snapshot.get("text", ""), self.text):
            raise ValueError("snapshot must be of a lab with the same equations")
        self.earlier.keep()
        super().restore(snapshot)

    def _resume(self, snapshot: dict[str, Any]) -> None:
        super()._resume(snapshot)
        self.run, self.state.t, self._scale, self._ill = snapshot["run"], snapshot["t"], snapshot["scale"], ""
        self._bound = snapshot["bound"] if snapshot["text"] == self.text else None
        self._image = snapshot["image"]
        self._resume_second(snapshot)

    def _rebuild(self, *events: param.parameterized.Event) -> None:
        """Rebuild the state; a text that was set without `update` gives the numbers their values first."""
        if not self._ready or self._filled == self.text:
            super()._rebuild(*events)
            return
        before = {name: self._values[name] for name in SLOTS}
        try:
            with param.parameterized.discard_events(self):
                self._set_ranges(())
                self._put_back(_completed({"text": self.text}, self._filled))
            super()._rebuild(*events)
            self._filled = self.text
        except Exception:
            with param.parameterized.discard_events(self):
                self._put_back({"text": self._filled, **before})
            self._set_ranges(self.slots)
            raise

    def _begin_anew(self, *events: param.parameterized.Event) -> None:
        """Begin again at step 0 if the initial values depend on a changed number."""
        changed = {event.name for event in events}
        at_start = names_at_start(self.text)
        starts = any(each.slot in changed and each.name in at_start for each in self.slots)
        if self._ready and starts and not self.steps and self.history.missing in ("", LARGE):
            self.reset()

    def field(self, name: str = "") -> NDArray[Any]:
        """Return a (ny, nx) host copy of a field, by default the first, or of "wall". ValueError for another name."""
        return self.device.download(self.arrays[self._known(name)])

    def load(self, array: ArrayLike, name: str | ArrayLike = "") -> None:
        """Start at step 0 with `array` (ny, nx) as a field, by default the first, or as "wall", rounded to its type.

        The other arrays keep their values at step 0, and begin again after it. load(name, array) is the same. Raise
        ValueError for an array that as_field refuses, and for an unknown name.
        """
        if isinstance(array, str):
            array, name = name, array
        known = self._known(str(name))
        held = self.arrays[known]
        others = self.data() if self.steps == 0 else self.begin()
        self._start({**others, known: as_field(array, held.shape, held.dtype)})
        self.history.mark_incomplete(GIVEN)

    @property
    def image(self) -> LoadedPicture | None:
        """The image that the initial values or the wall use, None without one."""
        return self._image if IMAGE in names_at_start(self.text) else None

    def load_image(self, data: bytes | LoadedPicture) -> None:
        """Begin again with an image, PNG or JPEG: `image` in the text is its brightness 0 … 1, cropped to the grid.

        A server decodes files elsewhere and passes a LoadedPicture. Raise ValueError for a file that is refused, and
        if the text does not use `image`.
        """
        loaded = LoadedPicture.of(data)
        if IMAGE not in names_at_start(self.text):
            first = self.program.system.fields[0]
            raise ValueError(f"image has no effect: text must use it, for example {first}(0) = image")
        self._image = loaded
        self.reset()

    def forget_image(self) -> None:
        """Begin again without an image: `image` in the text is 0."""
        self._image = None
        self.reset()

    def paint(
        self,
        points: strokes.StrokePoints,
        value: float,
        radius: float,
        field: str = "",
        begins: bool = True,  # noqa: ARG002 - as in the diffusion lab, where undo reverts whole strokes
    ) -> None:
        """Set the cells within `radius` of the line through `points` [(x, y), …], both in cells, to `value`.

        field: by default the first; "wall" if the text has one, for which 1 is a wall and 0 erases it. Raise ValueError
        for an invalid stroke, and for an unknown field.
        """
        strokes.require_stroke(points, value, radius)
        known, value = self._known(field), as_number(value, self.dtype, "value")
        if radius > max(self.ny, self.nx):
            raise ValueError(f"radius must be at most {max(self.ny, self.nx)} cells, not {radius}")
        if known == "wall" and value not in (0, 1):
            raise ValueError(f"value must be 1 or 0 in wall, not {value:g}")
        discs = list(strokes.discs_along(points, radius / 2))
        if (second := self._prepare_second()) is not None:
            second.paint(points, value, radius, known)
        self.history.note(self.steps, {name: self._values[name] for name in PLACE})
        for x, y in discs:
            self.display.disc(self.arrays[known], y, x, radius, value)
        self.history.record_action(
            self.steps, "paint", {**strokes.stroke_as_json(points, value, radius), "field": known}
        )
        self._bound = None

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        """Return what buttons and histories call with the lab, by name."""
        own: dict[str, Callable[..., Any]] = {
            "paint": cls.paint,
            LOAD: cls.load_image,
            "forget_image": cls.forget_image,
        }
        return {**super().actions(), **own, "undo": cls.undo, "redo": cls.redo}

    def act(self, name: str, **arguments: Any) -> Any:
        """Call one of `actions` by name; `undo` can restore the fields that it changes."""
        with self.earlier.around(name, arguments):
            return super().act(name, **arguments)

    def undo(self) -> None:
        """Restore fields and text before the last stroke, reset, image or text. Raise ValueError if none are kept."""
        self._bring(self.earlier.back())

    def redo(self) -> None:
        """Restore the fields that were undone last. Raise ValueError without any."""
        self._bring(self.earlier.forth())

    def _bring(self, field: EarlierField) -> None:
        if field.initial["text"] != self.text:
            with self.earlier.resting():
                self.update(**field.initial)
        self._resume(field.snapshot)

    @staticmethod
    def origin_of(initial: Mapping[str, Any], snapshot: Mapping[str, Any]) -> str:  # noqa: ARG004 - as other labs
        """Return the title of the fields' preset, or "the fields"."""
        return next((each.title for each in presets().values() if each.text == initial["text"]), "the fields")

    def close(self) -> None:
        """Release the fields, also the earlier ones, and the image."""
        self.earlier.close()
        self._image = None
        super().close()

    def _known(self, name: str) -> str:
        if name and name not in self.arrays:
            raise ValueError(f"name must be one of {', '.join(self.arrays)}, not {name!r}")
        return name or self._first()

    # -- time

    @property
    def t(self) -> float:
        """The simulated time, in units of the text."""
        return self.state.t

    @property
    def bound(self) -> Stability | None:
        """The bound of the time step about the state at which it was taken last, None before the first time."""
        return self._bound.stability if self._bound is not None else None

    @property
    def given_step(self) -> float | None:
        """The time step if it is given, by `time_step` or the text."""
        own = self._values["time_step"]
        return self.program.system.dt if own is None else own

    @property
    def dt(self) -> float:
        """The time step of the next step."""
        given = self.given_step
        return self._taken().dt if given is None else given

    def _taken(self) -> Stability:
        """Return the bound of the time step, taken again if it is due."""
        numbers = self.numbers
        if self._bound is None or self._bound.is_due(numbers, self.steps):
            arrays = Lab.data(self)
            finite = all(np.isfinite(each).all() for each in arrays.values())
            limit = UNBOUNDED if self._bound is None else self._bound.stability.limit  # of values that are not finite
            found = stability(self.program.system, arrays, numbers, self.t) if finite else Stability(limit, False, "")
            found = replace(found, limit=float(f"{found.limit:.3g}"))  # so that rounding changes no time step
            same = self._bound is not None and self._bound.numbers == numbers
            self._bound = (
                self._bound.later(found, self.steps) if same and self._bound else Bound(found, numbers, self.steps)
            )
        return self._bound.stability

    def limit_seen(self) -> float:
        """Return the bound of the time step for a frame; nan if unknown.

        A given time step does not need it: it is taken again when the numbers have rested for a frame.
        """
        numbers = self.numbers
        rested, self._seen = numbers == self._seen, numbers
        if self._values["ny"] * self._values["nx"] > MOST_BOUND_CELLS:
            return nan
        bound = self._bound
        if self.given_step is None or bound is None:
            return self._taken().limit
        if rested and (bound.numbers != numbers or self.steps >= max(RELAXED, 2 * bound.step)):
            self._bound = None
            return self._taken().limit
        return bound.stability.limit

    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps of `dt` with the present numbers."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        self._prepare_second()
        timing: Timing | None = None
        left = steps
        while left:
            dt = self.dt
            count = self._steps_at_once(left)
            found = self._advance(count, dt)
            timing = found if timing is None else timing.then(found)
            left -= count
        self._advance_second(steps)
        return cast("Timing", timing)

    def _steps_at_once(self, steps: int) -> int:
        """Return how many of `steps` steps have the present time step."""
        automatic = self.given_step is None and self._bound is not None
        return min(steps, self._bound.next_step - self.steps) if automatic and self._bound else steps

    @property
    def _clock(self) -> float:
        """The reading of the clock that is equal in both runs: the simulated time."""
        return self.t

    def _steps_to(self, clock: float) -> int:
        """Return the steps that bring `t` nearest to a time; only those with the present time step."""
        steps = round((clock - self.t) / self.dt)
        return self._steps_at_once(steps) if steps > 0 else 0

    def _advance(self, steps: int, dt: float) -> Timing:
        kernels, variant, numbers = self.kernels, self._variant, self.numbers
        kernel: Callable[..., None] = kernels.VARIANTS[variant] if variant else kernels.step
        with self.stepping(steps) as done:
            kernel(self.program, self.state, numbers, dt, steps)
        self._collect()
        return done.timing

    @property
    def _variant(self) -> str:
        """The kernel that computes, "" for the backend's default one."""
        return self._values["variant"] if self.interim is None else self.interim.variant

    def _first_call(self, *what: str) -> bool:
        return super()._first_call(self._values["text"], self.computing.name, *what)

    def _idle_timing(self) -> Timing:
        cells = self.state.shape[0] * self.state.shape[1] * len(self.program.system.fields)
        return Timing(self.computing.name, self._variant, 0, cells)

    # -- results

    def second_picture(self) -> tuple[str, Array]:
        """Return the expression of the second picture and its array on the device, computed if it is no field.

        It is the last field while NumPy, which computes in place of another backend, would take too long.
        """
        program = self._drawing_program
        node = program.system.show
        assert node is not None  # noqa: S101 - picture_of sets one
        if self._is_slow(program):
            name = program.system.fields[-1]
            return name, self.state.now[name]
        if isinstance(node, Name) and not program.plan.passes:
            return node.name, self.state.now[node.name]
        if self._drawing.keys() != set(program.plan.auxiliary):
            shape, dtype = self.state.shape, self.state.dtype
            self._drawing = {name: self.device.allocate(shape, dtype) for name in program.plan.auxiliary}
        state = replace(self.state, now={**self.state.now, **self._drawing}, spare={})
        self.kernels.step(program, state, self.numbers, 1.0, 1)
        program.kept(("drawn", self.computing.name, self.dtype), lambda: True)
        return words(node), state.now["show"]

    @property
    def _drawing_program(self) -> Program:
        return picture_of(self._values["text"], self._values["show"])

    def examine(self, peak: float, nonfinite: int) -> None:
        """Note the health of the fields: their largest magnitude, and the number of values that are not finite."""
        self._ill = NOT_FINITE if nonfinite else ""
        if not nonfinite and peak > GROWTH * self._scale:
            self._ill = (
                f"the largest value, {peak:.3g}, is more than {GROWTH:g} times that of the start: the equations grow, "
                "or the time step is too large; run again to continue"
            )
            self._scale = peak

    @property
    def status(self) -> LabStatus:
        """The status: unhealthy after values that are not finite, or a thousandfold growth; `pause_at` stops it.

        It rests while NumPy, which computes in place of another backend, would take too long for a step.
        """
        drawn = self._drawing_program.kept(("drawn", self.computing.name, self.dtype), lambda: False)
        left, at = 0, self._values["pause_at"]
        if at is not None and self.t < at:
            left = ceil((at - self.t) / self.dt * (1 - ROUNDED))
        status = LabStatus(
            resting=self._is_slow(self.program), healthy=not self._ill, why=self._ill, cold=not drawn,
            stops_after=left, goal=f"t = {at} is reached",
        )  # fmt: skip
        return self._status_of_both(status)

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Return the rasters `field` and `show`, and the facts listed in picture.py.

        view: (x0, y0, x1, y1) in cells, None for all; pixels: largest (height, width) of the rasters.
        """
        self._prepare_second()
        with self.device.lock:
            frame = show(self, view, pixels)
        return self._with_second(frame, view, pixels)

    def _held_limits(self) -> tuple[float, float] | None:
        limits: tuple[float, float] | None = self._values["limits_field"]
        return limits

    def _first_raster(self, view: View | None, pixels: tuple[int, int], limits: tuple[float, float]) -> Raster:
        with self.device.lock:
            wall = self.arrays.get("wall") if self._ill != NOT_FINITE else None
            return first_raster(self, RasterRequest(view, pixels, limits, self._first_shown), wall)

    @property
    def _first_shown(self) -> str:
        """The field of the first picture."""
        return self._values["first_picture"] or self.program.system.fields[0]


def _completed(values: dict[str, Any], text: str) -> dict[str, Any]:
    """Return `values` with the numbers of other equations, and those that are None, as the text gives them.

    text: the present text, "" for none.
    """
    new = values.get("text", text)
    if not isinstance(new, str):
        return values  # param refuses it
    new = full_text(new)
    own: dict[str, float | None] = dict.fromkeys(SLOTS) | {each.slot: each.value for each in slots_of(new)}
    changed = {name: own[name] for name in SLOTS if name in values} if alike(text, new) else own
    given = {name: value for name, value in values.items() if value is not None or name not in SLOTS}
    second = values.get(SECOND, None if alike(text, new) else {})  # other equations have no second run
    if isinstance(second, Mapping):
        named = {each.name: each.slot for each in slots_of(new)}
        given[SECOND] = {named.get(name, name): value for name, value in second.items()}
    return {**values, **changed, **given, **({"text": new} if "text" in values else {})}
