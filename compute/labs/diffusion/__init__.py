"""2D diffusion, live: u_t = D lap(u) by explicit Euler steps, with the Laplacian beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray
from PIL import Image

from compute.devices import Array
from compute.frames import Frame
from compute.images import as_field, read_image
from compute.lab import Lab, View
from compute.labs.diffusion import presets
from compute.labs.diffusion.brush import MAX_POINTS, along
from compute.labs.diffusion.edges import EDGES
from compute.labs.diffusion.exact import ExactMode
from compute.labs.diffusion.heat import Heat
from compute.labs.diffusion.picture import added, show
from compute.raster.camera import Camera
from compute.timings import Timing

LIMIT = 0.25  # largest stable r of forward Euler in two dimensions
UNSTABLE_LIMIT = 0.5
PICTURE_BYTES = 16 * 2**20  # display buffers and scratch, rounded up


WRONG = ("racing",)  # variants whose result is wrong on purpose; they are shown with their error
_WARM: set[tuple[str, str, str]] = set()  # (backend, variant, dtype) that this process has run before


class Diffusion(Lab):
    """Forward Euler for u_t = D lap(u) on ny x nx cells of unit size: u' = u + r ((N + S) + (W + E) - 4 u).

    r = D dt / dx^2 is dimensionless and stable up to 1/4; `unstable=True` allows more, to see it blow up. `field` and
    `laplacian` are (ny, nx) arrays of `dtype`, row 0 at the bottom. Source: any text on finite differences, e.g.
    Strikwerda, chapter 6; README.md beside this file.
    """

    LAB = "diffusion"
    TITLE = "Diffusion"
    PACKAGE = "compute.labs.diffusion"
    ACTIONS = ("reset", "paint", "checkpoint", "rollback", "load_image")
    STRUCTURAL: ClassVar[tuple[str, ...]] = (*Lab.STRUCTURAL, "variant", "ny", "nx", "dtype")
    INITIAL: ClassVar[tuple[str, ...]] = ("preset", "seed", "mode_p", "mode_q", "text")

    variant = param.String(default="", label="Kernel", doc="Name in the backend's VARIANTS; empty for its default.")
    ny = param.Integer(default=512, bounds=(1, 16384), label="Rows [cells]")
    nx = param.Integer(default=512, bounds=(1, 16384), label="Columns [cells]")
    dtype = param.Selector(default="float32", objects=["float32", "float64"], label="Number type")
    r = param.Number(default=0.2, bounds=(0, LIMIT), label="r = D Δt / Δx²", doc="Diffusion number of one step.")
    unstable = param.Boolean(default=False, label="See it blow up", doc="Allow r beyond the stability limit 0.25.")
    edges = param.Selector(default="zero-flux", objects=list(EDGES), label="Edges")
    preset = param.Selector(default="hot spots", objects=list(presets.PRESETS), label="Initial field")
    seed = param.Integer(default=0, bounds=(0, 2**31 - 1), label="Seed")
    mode_p = param.Integer(default=3, bounds=(0, 64), label="Mode p, along x")
    mode_q = param.Integer(default=2, bounds=(0, 64), label="Mode q, along y")
    text = param.String(default="Fieldlab", regex=r"^[^\x00-\x1f]{1,40}$", label="Text")
    limits_field = param.Range(default=None, allow_None=True, label="Limits of the field", doc="None: automatic.")
    limits_laplacian = param.Range(default=None, allow_None=True, label="Limits of the Laplacian")
    section = param.Selector(default="horizontal", objects=["horizontal", "vertical"], label="Section")
    section_at = param.Number(default=0.5, bounds=(0, 1), label="Section at [part of the side]")
    probe_x = param.Number(default=0.5, bounds=(0, 1), label="Probe x [part of the width]")
    probe_y = param.Number(default=0.5, bounds=(0, 1), label="Probe y [part of the height]")

    u: Array  # (ny, nx) the field
    spare: Array  # the other grid of the ping-pong; holds nothing between two advances
    truth: list[Array]  # two grids for the right kernel beside a wrong one; otherwise empty
    camera: Camera
    steps: int
    heat: Heat
    exact_mode: ExactMode | None
    spent: Timing | None  # what was spent since the last frame

    def __init__(self, **values: Any) -> None:
        self._image: Image.Image | None = None
        self._saved: dict[str, Any] | None = None
        ratio = values.pop("r", self.param["r"].default) if values.get("unstable") else None
        super().__init__(**values)
        if ratio is not None:
            self._set_limit()
            self.r = ratio
        self.param.watch(self._set_limit, ["unstable"])
        self.param.watch(self._reseed, list(self.INITIAL))
        self.param.watch(self._forget_exact, ["edges"])

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Two grids of the number type, two more beside the racing kernel, and what a picture needs."""
        cells = int(values.get("ny", cls.ny)) * int(values.get("nx", cls.nx))
        grids = 4 if values.get("variant") in WRONG else 2
        return grids * cells * np.dtype(values.get("dtype", cls.dtype)).itemsize + PICTURE_BYTES

    def validate(self, values: dict[str, Any]) -> None:
        """Limits in order, a variant the backend has, and r within its bound when `unstable` is off."""
        for name in ("limits_field", "limits_laplacian"):
            limits = values[name]
            if limits is not None and not (np.isfinite(limits).all() and limits[0] < limits[1]):
                raise ValueError(f"{name} must be two finite numbers, the lower one first, not {limits}")
        kernels, variant = self.kernels, values["variant"]
        if variant and variant not in kernels.VARIANTS:
            known = ", ".join(kernels.VARIANTS)
            raise ValueError(f"variant must be empty or one of {known} for {values['backend']}, not {variant!r}")
        if values["r"] > LIMIT and not values["unstable"]:
            raise ValueError(f"r must be at most {LIMIT} unless unstable is on, not {values['r']}")

    def update(self, **values: Any) -> None:
        """Set several parameters at once: all of them, or none and a ValueError."""
        self._set_limit(unstable=bool(values.get("unstable", self.unstable)) or self.r > LIMIT)
        try:
            super().update(**values)
        finally:
            self._set_limit()

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:
        if hasattr(self, "u"):
            self._release()
        shape = (self.ny, self.nx)
        grids = [self.device.allocate(shape, self.dtype) for _ in range(4 if self.variant in WRONG else 2)]
        self.u, self.spare, *self.truth = grids
        self.camera = Camera(self.device, self.raster)
        if old and old["field"].shape == shape:
            self.restore(old)
        else:
            self._saved = None
            self.reset()

    def _release(self) -> None:
        del self.u, self.spare, self.truth, self.camera

    def reset(self) -> None:
        """Back to the initial field: the preset, or the image if one was loaded. The step count is 0 again."""
        if self._image is not None:
            self.load(as_field(self._image, self.ny, self.nx))
            return
        options = presets.Options(self.seed, self.mode_p, self.mode_q, self.text, self.edges)
        self.load(presets.make(self.preset, self.ny, self.nx, options))
        if self.preset == "single mode":
            self.exact_mode = ExactMode(self.ny, self.nx, self.mode_p, self.mode_q, self.edges)

    def load(self, array: NDArray[Any]) -> None:
        """Take `array` (ny, nx) as the field, in the lab's dtype; the step count starts at 0.

        Raises ValueError for another shape or for values that are not finite.
        """
        array = np.asarray(array)
        if array.shape != (self.ny, self.nx):
            raise ValueError(f"array must have the shape ({self.ny}, {self.nx}), not {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError("array must be finite; it holds NaN or inf")
        self._put(array.astype(self.dtype), 0)

    def _put(self, field: NDArray[Any], steps: int) -> None:
        """Write `field` to the device and forget what was known of the state before it."""
        self.device.write(field, self.u)
        if self.truth:
            self.device.write(field, self.truth[0])
        self.steps = steps
        self.number = 0 if steps == 0 else self.number
        self.exact_mode, self.heat, self.spent = None, Heat(), None

    def load_image(self, data: bytes) -> None:
        """Start from a picture: the bytes of a PNG or JPEG file; brightness 0 … 1, cropped to the grid's shape."""
        self._image = read_image(data)
        self.reset()

    def paint(self, points: Sequence[tuple[float, float]], value: float, radius: float) -> None:
        """Set the cells within `radius` of the line through `points` [(x, y), …], both in cells, to `value`."""
        if not 0 < radius <= max(self.ny, self.nx):
            raise ValueError(f"radius must be above 0 and at most {max(self.ny, self.nx)} cells, not {radius}")
        if not np.isfinite(value) or not np.isfinite(points).all() or not 1 <= len(points) <= MAX_POINTS:
            raise ValueError(f"paint needs a finite value and 1 to {MAX_POINTS} finite points")
        for u in (self.u, *self.truth[:1]):
            for x, y in along(points, radius / 2):
                self.raster.disc(u, y, x, radius, value)
        self.exact_mode, self.heat = None, Heat()

    def checkpoint(self) -> None:
        """Remember the present state for `rollback`."""
        self._saved = self.snapshot()

    def rollback(self) -> None:
        """Back to the state of the last checkpoint; ValueError if there is none."""
        if self._saved is None:
            raise ValueError("rollback needs a checkpoint of a field of this size; there is none yet")
        self.restore(self._saved)

    def snapshot(self) -> dict[str, Any]:
        """Field, step count, exact solution, checkpoint and image."""
        return {
            "field": self.device.download(self.u),
            "steps": self.steps,
            "exact": self.exact_mode,
            "facts": self.heat,
            "saved": self._saved,
            "image": self._image,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of the same shape; the number type may differ."""
        field = snapshot["field"]
        if field.shape != (self.ny, self.nx):
            raise ValueError(f"snapshot must have the shape ({self.ny}, {self.nx}), not {field.shape}")
        self._put(field.astype(self.dtype), snapshot["steps"])
        self.exact_mode = snapshot["exact"].copy() if snapshot["exact"] else None
        self.heat = snapshot["facts"]
        self._saved, self._image = snapshot["saved"] or self._saved, snapshot["image"]

    # -- results

    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps with the parameters as they are now."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        kernels, r = self.kernels, float(self.r)
        kernel = kernels.VARIANTS[self.variant] if self.variant else kernels.step
        with self.device.lock, self.device.stopwatch() as watch:
            kernel(self.u, self.spare, r, self.edges, steps)
        self.u, self.spare = self.spare, self.u
        if self.truth:
            kernels.step(*self.truth, r, self.edges, steps)
            self.truth.reverse()
        self.steps += steps
        if self.exact_mode:
            self.exact_mode.advance(r, steps)
        cells, first = self.ny * self.nx, self._first()
        timing = Timing(self.backend, self.variant, steps, cells, watch.launch, watch.seconds(), first_call=first)
        self.spent = timing if self.spent is None else added(self.spent, timing)
        return timing

    def _first(self) -> bool:
        key = (self.backend, self.variant, self.dtype)
        first = key not in _WARM
        _WARM.add(key)
        return first

    def field(self) -> NDArray[Any]:
        """(ny, nx) host copy of the field, in the lab's dtype."""
        return self.device.download(self.u)

    def laplacian(self) -> NDArray[Any]:
        """(ny, nx) host copy of +lap(field)."""
        self.kernels.laplacian(self.u, self.spare, self.edges)
        return self.device.download(self.spare)

    def data(self) -> dict[str, NDArray[Any]]:
        """field and laplacian."""
        return {"field": self.field(), "laplacian": self.laplacian()}

    def exact(self) -> NDArray[np.float64] | None:
        """(ny, nx) exact solution of the scheme for the single-mode preset; None for any other field."""
        return self.exact_mode.field() if self.exact_mode else None

    @property
    def healthy(self) -> bool:
        """False once a frame showed NaN or inf."""
        return self.heat.nonfinite == 0

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Field and Laplacian as rasters, the section as curve(s), and the facts.

        view: (x0, y0, x1, y1) in cells, None for all; pixels: largest (height, width) of the rasters.
        facts: step, minimum, maximum, heat, heat_drift (relative, since the field was loaded or painted), nonfinite,
        probe, r, limit; exact_error (relative L2 on the section) with the single-mode preset; racing_error (relative
        L2 over at most the central 512 x 512 cells) with the racing kernel.
        """
        with self.device.lock:
            return show(self, view, pixels)

    # -- reactions to parameters

    def _set_limit(self, *_events: Any, unstable: bool | None = None) -> None:
        """The bound of r belongs to this lab alone and depends on `unstable`."""
        allowed = self.unstable if unstable is None else unstable
        self.param["r"].bounds = (0, UNSTABLE_LIMIT if allowed else LIMIT)

    def _reseed(self, *_events: Any) -> None:
        """Another preset, or another option of it: start from that."""
        if self._ready:
            self._image = None
            self.reset()

    def _forget_exact(self, *_events: Any) -> None:
        """With other edges the mode is no longer an eigenmode; nor is heat conserved in the same way."""
        if self.steps == 0 and self.exact_mode:
            self.reset()
        self.exact_mode, self.heat = self.exact_mode if self.steps == 0 else None, Heat()
