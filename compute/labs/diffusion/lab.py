"""The diffusion lab: u_t = D lap(u) by explicit Euler steps, live, displayed with its Laplacian.

This module has its parameters, its state on a device and the time stepping. scheme.py has the exact solutions of the
discrete equation, initial.py initial fields and brush strokes, history.py history and undo, picture.py the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from math import nan
from types import ModuleType
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import param
from numpy.typing import ArrayLike, NDArray

from compute.devices.backends import Backend, backend
from compute.devices.builds import watching
from compute.devices.devices import Array, Host, device_numbers, devices_name
from compute.devices.gpu_devices import Cuda
from compute.display.camera import Camera, Survey
from compute.files.images import LoadedPicture
from compute.lab import strokes
from compute.lab.fields import as_field, as_number, is_finite
from compute.lab.frames import Frame, Raster, View
from compute.lab.history import GIVEN, PLACE, HistoryRules
from compute.lab.image_history import record_image
from compute.lab.lab import PICTURE_BYTES, Lab
from compute.lab.sections import DIRECTIONS
from compute.lab.status import LabStatus
from compute.lab.two_runs import TwoRuns
from compute.lab.undo import EarlierField, UndoHistory
from compute.labs.diffusion import history, initial
from compute.labs.diffusion.history import FieldHistory
from compute.labs.diffusion.picture import HeldLimits, panels_of, show
from compute.labs.diffusion.scheme import EDGES, LIMIT, WRONG_VARIANTS, ExactMode
from compute.labs.diffusion.slabs import FEWEST_GHOSTS, SlabLayout
from compute.measure.timing import Timing

SLAB_DEVICE = "compute.labs.diffusion.gpu_slab_device"  # imported if several GPUs share a grid
SLAB_KERNELS = "compute.labs.diffusion.gpu_slabs"
TOGETHER = ("gpu_cupy",)  # backends with kernels for a shared grid
UNSTABLE_LIMIT = 0.5


@dataclass
class HeatBalance:
    """Total heat relative to that when the field was loaded or painted, and whether all cells were finite."""

    start: float | None = None
    scale: float = 1.0
    nonfinite: int = 0

    def seen(self, survey: Survey, cells: int) -> None:
        """Update from a survey of the field; the first one sets the start.

        The scale of the drift is the heat at the start, or a thousandth of cells x peak if positive and negative cells
        cancel.
        """
        self.nonfinite = survey.nonfinite
        if self.start is None:
            peak = max(abs(survey.minimum), abs(survey.maximum))
            self.start, self.scale = survey.total, max(abs(survey.total), 1e-3 * cells * peak)

    def drift(self, total: float) -> float:
        """Return (total - start) / scale, dimensionless; nan without a scale."""
        return (total - self.start) / self.scale if self.start is not None and self.scale > 0 else nan


@lru_cache(maxsize=64)
def _together(devices: str, backend: str) -> tuple[int, ...]:
    """Return the numbers of the GPUs that share the grid; () if a single device has the whole grid."""
    if not devices:
        return ()
    numbers = device_numbers(devices)
    if len(numbers) < 2:
        raise ValueError(f"devices must name at least 2 GPUs, not {devices!r}: device_index chooses one")
    return numbers if backend in TOGETHER else ()


@lru_cache(maxsize=64)
def _kernels(chosen: Backend, together: tuple[int, ...]) -> ModuleType:
    """Return a backend's kernels for one device or, with `together`, for several GPUs."""
    own = chosen.kernels(Diffusion.PACKAGE)
    return import_module(SLAB_KERNELS) if together else own


def require_slabs(numbers: tuple[int, ...], ny: int) -> None:
    """Raise ValueError unless GPUs with these numbers exist and each gets enough of the ny rows."""
    found = Cuda.count()
    if max(numbers) >= found:
        raise ValueError(f"devices must name GPUs from 0 to {found - 1}, not {devices_name(numbers)!r}")
    try:
        SlabLayout(ny, len(numbers), FEWEST_GHOSTS)
    except ValueError as error:
        raise ValueError(f"devices {devices_name(numbers)!r} do not fit: {error}") from error


class Diffusion(TwoRuns):
    """Forward Euler for u_t = D lap(u) on ny x nx cells of unit size: u' = u + r ((N + S) + (W + E) - 4 u).

    r = D dt / dx^2 is dimensionless and stable up to 1/4; `unstable=True` allows more, to show the instability. `field`
    and `laplacian` are (ny, nx) arrays of `dtype`, row 0 at the bottom. pause_at: the step at which an engine pauses
    the lab; running it again continues. second_run: see compute/lab/two_runs.py; backends are compared by a race. With
    other edges the single mode begins as the mode of these edges. Source: any text on finite differences, e.g.
    Strikwerda, chapter 6; README.md in this folder.
    """

    LAB = "diffusion"
    TITLE = "Diffusion"
    PACKAGE = "compute.labs.diffusion"
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = (*history.DYNAMIC, "paint", "load_image", "refit")
    HISTORY: ClassVar[HistoryRules] = history.FieldHistoryRules()
    FIRST: ClassVar[str] = "load_image"
    STRUCTURAL: ClassVar[tuple[str, ...]] = (
        *Lab.STRUCTURAL,
        "devices",
        "variant",
        "ny",
        "nx",
        "dtype",
    )  # changes rebuild the state
    LOCAL: ClassVar[tuple[str, ...]] = ("devices",)
    COMPARED: ClassVar[Mapping[str, str]] = {"r": "r", "edges": "edges", "variant": "kernel", "dtype": "number type"}
    panels = staticmethod(panels_of)
    INITIAL: ClassVar[tuple[str, ...]] = ("preset", "seed", "mode_p", "mode_q", "text")  # a change restarts the field

    variant = param.String(default="", label="Kernel", doc="Name in the backend's VARIANTS; empty for its default.")
    ny = param.Integer(default=512, bounds=(1, 16384), label="Rows [cells]")
    nx = param.Integer(default=512, bounds=(1, 16384), label="Columns [cells]")
    dtype = param.Selector(default="float32", objects=["float32", "float64"], label="Number type")
    devices = param.String(
        default="",
        label="GPUs together",
        doc="GPUs that share the grid, as in cuda:0-3 or cuda:0,2, with backend gpu_cupy; empty: device_index alone.",
    )
    r = param.Number(default=0.2, bounds=(0, LIMIT), label="r = D Δt / Δx²", doc="Diffusion number of one step.")
    unstable = param.Boolean(
        default=False, label="See it blow up (r > ¼)", doc="Allow r beyond the stability limit 0.25."
    )
    edges = param.Selector(default="zero-flux", objects=list(EDGES), label="Edges")
    preset = param.Selector(default="hot spots", objects=list(initial.PRESETS), label="Initial field")
    seed = param.Integer(default=0, bounds=(0, 2**31 - 1), label="Seed")
    mode_p = param.Integer(default=3, bounds=(0, 64), label="Mode p, along x")
    mode_q = param.Integer(default=2, bounds=(0, 64), label="Mode q, along y")
    text = param.String(default="Fieldlab", regex=r"^[^\x00-\x1f]{1,40}$", label="Text")
    pause_at = param.Integer(
        default=None, allow_None=True, bounds=(0, None), label="Pause at step", doc="None: never. In an engine only."
    )
    limits_field = param.Range(default=None, allow_None=True, label="Limits of the field", doc="None: automatic.")
    hold_limits = param.Boolean(default=False, label="Hold the limits", doc="Those that the field began with.")
    limits_laplacian = param.Range(default=None, allow_None=True, label="Limits of the Laplacian")
    section = param.Selector(default="horizontal", objects=list(DIRECTIONS), label="Section")
    section_at = param.Number(default=0.5, bounds=(0, 1), label="Section at [part of the side]")
    probe_x = param.Number(default=0.5, bounds=(0, 1), label="Probe x [part of the width]")
    probe_y = param.Number(default=0.5, bounds=(0, 1), label="Probe y [part of the height]")

    u: Array  # (ny, nx) the field
    spare: Array  # the other grid of the ping-pong, unused between two advances
    truth: list[Array]  # two grids for the correct kernel next to a wrong one; otherwise empty
    run: str  # id of the unbroken run of steps that the field belongs to; another field starts another run
    history: FieldHistory  # the events that led to the field
    heat: HeatBalance
    exact_mode: ExactMode | None

    def __init__(self, **values: Any) -> None:
        self._image: LoadedPicture | None = None
        self._saved: dict[str, Any] | None = None
        self.earlier, self.held = UndoHistory(self), HeldLimits(self)
        ratio = values.pop("r", self.param["r"].default) if values.get("unstable") else None
        super().__init__(**values)
        if ratio is not None:
            self._set_limit()
            self.r = ratio
        self.param.watch(self._set_limit, ["unstable"])
        self.param.watch(self._forget_exact, ["edges"], precedence=1)
        self._open_second()

    # -- interdependent values

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes of two grids, two more with the racing kernel, and those of a picture, for each run."""
        cells = int(values.get("ny", cls.ny)) * int(values.get("nx", cls.nx))
        grids = 4 if values.get("variant") in WRONG_VARIANTS else 2
        own = grids * cells * np.dtype(values.get("dtype", cls.dtype)).itemsize + PICTURE_BYTES
        return own + cls._second_bytes(values)

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError unless limits are in order, the backend has the variant, and `unstable` allows r."""
        for name in ("limits_field", "limits_laplacian"):
            limits = values[name]
            if limits is not None and not (all(map(is_finite, limits)) and limits[0] < limits[1]):
                raise ValueError(f"{name} must be two finite numbers, the lower one first, not {limits}")
        together = _together(values["devices"], values["backend"])
        kernels, variant = _kernels(backend(values["backend"]), together), values["variant"]
        if together:
            require_slabs(together, values["ny"])
        if variant and variant not in kernels.VARIANTS:
            known = ", ".join(kernels.VARIANTS)
            raise ValueError(f"variant must be empty or one of {known} for {values['backend']}, not {variant!r}")
        if values["r"] > LIMIT and not values["unstable"]:
            raise ValueError(f"r must be at most {LIMIT} unless unstable is on, not {values['r']}")

    @contextmanager
    def _adapted(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Widen the bound of r in the block if the values need it."""
        self._set_limit(unstable=bool(values.get("unstable", self.unstable)) or self.r > LIMIT)
        try:
            yield
        finally:
            self._set_limit()

    def _set_limit(self, *_events: Any, unstable: bool | None = None) -> None:
        """Set the bound of r of this lab, which depends on `unstable`."""
        allowed = self.unstable if unstable is None else unstable
        self.param["r"].bounds = (0, UNSTABLE_LIMIT if allowed else LIMIT)

    # -- several GPUs

    @property
    def together(self) -> tuple[int, ...]:
        """The numbers of the GPUs that share the grid; () if a single device has the whole grid."""
        return _together(self._values["devices"], self._values["backend"])

    @property
    def kernels(self) -> ModuleType:
        """The lab's kernels in the chosen backend: those for slabs if several GPUs share the grid."""
        return _kernels(backend(self._values["backend"]), self.together)

    def _open_device(self) -> None:
        super()._open_device()
        if self.together:
            self.display = import_module(SLAB_DEVICE)
            self.device = self.display.SlabDevice(self.together)

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:
        if hasattr(self, "u"):
            self._release()
        shape = (self.ny, self.nx)
        grids = [self.device.allocate(shape, self.dtype) for _ in range(4 if self.variant in WRONG_VARIANTS else 2)]
        self.u, self.spare, *self.truth = grids
        self.camera = self.display.SlabCamera(self.device) if self.together else Camera(self.device, self.display)
        if old and old["field"].shape == shape:
            self._resume(old)
        else:
            self._saved = None
            self.earlier.forget("the grid is another")
            self.reset()
            self.earlier.begin()

    def _release(self) -> None:
        del self.u, self.spare, self.truth, self.camera

    def close(self) -> None:
        """Release the grids, the earlier fields, the checkpoint and the picture."""
        self.earlier.close()
        self._saved = self._image = None
        super().close()

    def reset(self) -> None:
        """Return to the initial field: the preset, or the loaded image. The step count is 0 again."""
        self._begin(self.values())

    def _redraw(self, mode: ExactMode) -> None:
        """Begin with a single mode for the present edges; after a rollback, `preset` may be another."""
        self._begin({**self.values(), "preset": initial.SINGLE_MODE, "mode_p": mode.p, "mode_q": mode.q})

    def _begin(self, values: Mapping[str, Any]) -> None:
        """Begin at step 0 with the loaded image, or the preset of `values`."""
        options = initial.PresetOptions(*(values[name] for name in ("seed", "mode_p", "mode_q", "text", "edges")))
        image, shape = self._image, (self.ny, self.nx)
        rows = initial.picture_rows(image, *shape) if image else initial.preset_rows(values["preset"], *shape, options)
        field = self.spare if isinstance(self.device, Host) else np.empty(shape, self.dtype)
        initial.fill(field, rows)
        self._put(field, 0)
        self.history = FieldHistory.begun(values, ("ny", "nx", *self.INITIAL))
        if image:
            record_image(self.history, image, *shape)
        elif values["preset"] == initial.SINGLE_MODE:
            self.exact_mode = ExactMode(*shape, options.p, options.q, self.edges)

    def load(self, array: ArrayLike) -> None:
        """Start at step 0 with `array` (ny, nx) as the field, rounded to the lab's dtype.

        Raise ValueError for another shape, and for values that as_field refuses.
        """
        self._put(as_field(array, (self.ny, self.nx), self.dtype), 0)
        self.history = FieldHistory.begun(self.values(), ("ny", "nx", *self.INITIAL))
        self.history.mark_incomplete(GIVEN)

    def _put(self, field: NDArray[Any], steps: int) -> None:
        """Write `field` to the device, discard data about the previous state, and start a new run."""
        self.device.write(field, self.u)
        if self.truth:
            self.device.write(field, self.truth[0])
        self.steps, self.run = steps, uuid4().hex
        self.number = 0 if steps == 0 else self.number
        self.exact_mode, self.heat, self.spent, self.held.first = None, HeatBalance(), None, None

    def load_image(self, data: bytes | LoadedPicture) -> None:
        """Start from a picture: the bytes of a PNG or JPEG file; brightness 0 … 1, cropped to the grid's shape.

        A server decodes files elsewhere and passes a LoadedPicture. Raise ValueError for a refused file.
        """
        self._image = LoadedPicture.of(data)
        self.reset()

    def forget_image(self) -> None:
        """Start from the preset instead of the loaded image."""
        self._image = None
        self.reset()

    def paint(
        self,
        points: strokes.StrokePoints,
        value: float,
        radius: float,
        begins: bool = True,  # noqa: ARG002 see act
    ) -> None:
        """Set the cells within `radius` of the line through `points` [(x, y), …], both in cells, to `value`.

        begins: whether this is a new stroke, not the continuation of the last one: undo reverts a stroke as a whole.
        """
        strokes.require_stroke(points, value, radius)
        value = as_number(value, self.dtype, "value")
        if radius > max(self.ny, self.nx):
            raise ValueError(f"radius must be at most {max(self.ny, self.nx)} cells, not {radius}")
        discs = list(strokes.discs_along(points, radius / 2))
        if (second := self._prepare_second()) is not None:
            second.paint(points, value, radius)
        with self.device.lock:
            self.held.limits()
        self._note(PLACE)
        for u in (self.u, *self.truth[:1]):
            for x, y in discs:
                self.display.disc(u, y, x, radius, value)
        self.history.record_action(self.steps, "paint", strokes.stroke_as_json(points, value, radius))
        self.exact_mode, self.heat = None, HeatBalance()

    def checkpoint(self) -> None:
        """Save the present state for `rollback`; it replaces an older checkpoint."""
        self._saved = self.snapshot() | {"saved": None}

    def rollback(self) -> None:
        """Return to the state of the last checkpoint, in a new run. Raise ValueError without a checkpoint."""
        if self._saved is None:
            raise ValueError("rollback needs a checkpoint of a field of this size; there is none yet")
        self._resume({**self._saved, "run": uuid4().hex})

    def undo(self) -> None:
        """Restore the field before its last change; see history.py. Raise ValueError if none is kept."""
        self._bring(self.earlier.back())

    def redo(self) -> None:
        """Restore the field that was undone last. Raise ValueError without one."""
        self._bring(self.earlier.forth())

    @staticmethod
    def origin_of(initial: Mapping[str, Any], snapshot: Mapping[str, Any]) -> str:
        """Return the origin of a field, as text."""
        return "your image" if snapshot["image"] else str(initial["preset"])

    def _bring(self, field: EarlierField) -> None:
        with param.parameterized.discard_events(self):
            self._put_back(dict(field.initial))
        self._resume(field.snapshot)

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        """Return what buttons, keys and histories call with the lab, by name."""
        return {
            **super().actions(), "paint": cls.paint, "load_image": cls.load_image, "forget_image": cls.forget_image,
            "refit": lambda lab: lab.held.refit(), "checkpoint": cls.checkpoint, "rollback": cls.rollback,
            "undo": cls.undo, "redo": cls.redo,
        }  # fmt: skip

    def act(self, name: str, **arguments: Any) -> Any:
        """Call one of `actions` by name; `undo` can restore the field that it changes."""
        with self.earlier.around(name, arguments):
            return super().act(name, **arguments)

    def _note(self, names: Sequence[str]) -> None:
        """Store the present values of `names` in the history; called before the field changes."""
        present = self._values
        self.history.note(self.steps, {name: present[name] for name in names})

    def snapshot(self) -> dict[str, Any]:
        """Return field, step count and run, history, exact solution, checkpoint and image."""
        return {
            "field": self.device.download(self.u),
            "steps": self.steps,
            "run": self.run,
            "history": self.history.copy(),
            "exact": self.exact_mode.copy() if self.exact_mode else None,
            "facts": replace(self.heat),
            "limits": self.held.first,
            "saved": self._saved,
            "image": self._image,
            **self._second_snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of the same shape, in its run; the number type may differ."""
        if snapshot["field"].shape != (self.ny, self.nx):
            raise ValueError(f"snapshot must have the shape ({self.ny}, {self.nx}), not {snapshot['field'].shape}")
        self.earlier.keep()
        self._resume(snapshot)

    def _resume(self, snapshot: dict[str, Any]) -> None:
        field = snapshot["field"]
        self._saved, self._image = snapshot["saved"] or self._saved, snapshot["image"]
        exact = snapshot["exact"]
        foreign = exact is not None and exact.edges != self.edges  # the mode belongs to other edges
        if foreign and not snapshot["steps"]:
            self._redraw(exact)
            return
        self._put(field.astype(self.dtype), snapshot["steps"])
        self.run = snapshot["run"]
        self.history = snapshot["history"].copy()
        self._note(("dtype",))
        self.exact_mode = None if foreign or exact is None else exact.copy()
        self.heat, self.held.first = replace(snapshot["facts"]), snapshot["limits"]
        self._resume_second(snapshot)

    # -- results

    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps with the present parameters."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        self._prepare_second()
        kernels, now = self.kernels, self._values
        r, edges, variant, dtype = float(now["r"]), now["edges"], now["variant"], now["dtype"]
        with self.device.lock:
            self.held.limits()
            if self.heat.start is None:  # also in a replay without frames
                self.heat.seen(self.camera.survey(self.u), now["ny"] * now["nx"])
        self._note(history.DYNAMIC)
        kernel = kernels.VARIANTS[variant] if variant else kernels.step
        with watching() as builds, self.device.lock, self.device.stopwatch() as watch:
            kernel(self.u, self.spare, r, edges, steps)
        self.u, self.spare = self.spare, self.u
        if self.truth:
            kernels.step(*self.truth, r, edges, steps)
            self.truth.reverse()
        self.steps += steps
        if self.exact_mode:
            self.exact_mode.advance(r, steps)
        timing = Timing(
            backend=now["backend"],
            variant=variant,
            steps=steps,
            cells=now["ny"] * now["nx"],
            launch=watch.launch,
            compute=watch.seconds(),
            first_call=self._first_call(variant, dtype) or builds.count > 0,
            devices=max(1, len(self.together)),
        )
        self.spent = timing if self.spent is None else self.spent.then(timing)
        self._advance_second(steps)
        return timing

    def field(self) -> NDArray[Any]:
        """Return a (ny, nx) host copy of the field, in the lab's dtype."""
        return self.device.download(self.u)

    def laplacian(self) -> NDArray[Any]:
        """Return a (ny, nx) host copy of +lap(field)."""
        self.kernels.laplacian(self.u, self.spare, self.edges)
        return self.device.download(self.spare)

    def data(self) -> dict[str, NDArray[Any]]:
        """Return the field and its Laplacian."""
        return {"field": self.field(), "laplacian": self.laplacian()}

    def exact(self) -> NDArray[np.float64] | None:
        """Return the (ny, nx) exact solution of the scheme for the single-mode preset; None for any other field."""
        return self.exact_mode.field() if self.exact_mode else None

    @property
    def status(self) -> LabStatus:
        """The status; unhealthy after a frame contained NaN or inf; `pause_at` stops it."""
        at = self.pause_at
        left = max(at - self.steps, 0) if at is not None else 0
        status = LabStatus(healthy=self.heat.nonfinite == 0, stops_after=left, goal=f"step {at} is reached")
        return self._status_of_both(status)

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Return field and Laplacian as rasters, the section as curve(s), and the facts and notes listed in picture.py.

        view: (x0, y0, x1, y1) in cells, None for all; pixels: largest (height, width) of the rasters.
        """
        self._prepare_second()
        with self.device.lock:
            frame = show(self, self._image, view, pixels)
        return self._with_second(frame, view, pixels)

    def _held_limits(self) -> tuple[float, float] | None:
        with self.device.lock:
            return self._values["limits_field"] or self.held.limits()

    def _first_raster(self, view: View | None, pixels: tuple[int, int], limits: tuple[float, float]) -> Raster:
        with self.device.lock:
            return self.camera.raster(self.u, view, pixels, limits, "u")

    # -- reactions to parameters

    def _reseed(self, *events: param.parameterized.Event) -> None:
        """Start from the preset after a change of the preset or one of its options."""
        if self._ready:
            self.earlier.reseed(events)
            self._image = None
            self.reset()
            self.earlier.reseeded()

    def _forget_exact(self, *_events: Any) -> None:
        """Drop or renew the exact solution: with other edges its mode is no eigenmode, nor is heat conserved alike."""
        if self.steps == 0 and self.exact_mode:
            self._redraw(self.exact_mode)
        self.exact_mode, self.heat = self.exact_mode if self.steps == 0 else None, HeatBalance()
