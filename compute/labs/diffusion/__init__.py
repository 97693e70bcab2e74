"""2D diffusion, live: u_t = D lap(u) by explicit Euler steps, with the Laplacian beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import param
from numpy.typing import NDArray

from compute.builds import watching
from compute.devices import Array
from compute.display.camera import Camera
from compute.frames import Frame
from compute.history import Entry, History
from compute.lab import View
from compute.labs.diffusion import brush, history, presets
from compute.labs.diffusion.exact import ExactMode
from compute.labs.diffusion.heat import Heat
from compute.labs.diffusion.history import FieldHistory
from compute.labs.diffusion.loaded import Loaded
from compute.labs.diffusion.panels import panels
from compute.labs.diffusion.parameters import WRONG, Settings
from compute.labs.diffusion.picture import show
from compute.labs.diffusion.undo import Undo
from compute.panels import Panel
from compute.timings import Timing

_WARM: set[tuple[str, str, str]] = set()  # (backend, variant, dtype) that this process has run before


class Diffusion(Settings):
    """Forward Euler for u_t = D lap(u) on ny x nx cells of unit size: u' = u + r ((N + S) + (W + E) - 4 u).

    r = D dt / dx^2 is dimensionless and stable up to 1/4; `unstable=True` allows more, to see it blow up. `field` and
    `laplacian` are (ny, nx) arrays of `dtype`, row 0 at the bottom. Source: any text on finite differences, e.g.
    Strikwerda, chapter 6; README.md beside this file.
    """

    LAB = "diffusion"
    TITLE = "Diffusion"
    PACKAGE = "compute.labs.diffusion"
    ACTIONS = ("reset", "paint", "checkpoint", "rollback", "load_image", "forget_image", "undo")
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = (*history.DYNAMIC, "paint", "load_image")
    FIRST: ClassVar[str] = "load_image"
    RESTORES: ClassVar[bool] = True

    u: Array  # (ny, nx) the field
    spare: Array  # the other grid of the ping-pong; holds nothing between two advances
    truth: list[Array]  # two grids for the right kernel beside a wrong one; otherwise empty
    camera: Camera
    steps: int
    run: str  # names the unbroken run of steps that the field belongs to; another field begins another run
    history: FieldHistory  # how the field came about
    heat: Heat
    exact_mode: ExactMode | None
    spent: Timing | None  # what was spent since the last frame

    def __init__(self, **values: Any) -> None:
        self._image: Loaded | None = None
        self._saved: dict[str, Any] | None = None
        self.lost = Undo(self)  # the field that was replaced last
        super().__init__(**values)
        self.param.watch(self._reseed, list(self.INITIAL), precedence=1)  # after the grids, if they are rebuilt, too
        self.param.watch(self._forget_exact, ["edges"], precedence=1)

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:
        if hasattr(self, "u"):
            self._release()
        shape = (self.ny, self.nx)
        grids = [self.device.allocate(shape, self.dtype) for _ in range(4 if self.variant in WRONG else 2)]
        self.u, self.spare, *self.truth = grids
        self.camera = Camera(self.device, self.display)
        if old and old["field"].shape == shape:
            self._resume(old)
        else:
            self._saved = self.lost.lost = None
            self.reset()

    def _release(self) -> None:
        del self.u, self.spare, self.truth, self.camera

    def reset(self) -> None:
        """Back to the initial field: the preset, or the image if one was loaded. The step count is 0 again."""
        options = presets.Options(self.seed, self.mode_p, self.mode_q, self.text, self.edges)
        image, shape = self._image, (self.ny, self.nx)
        self.load(image.field(*shape) if image else presets.make(self.preset, *shape, options))
        self.history = FieldHistory.begun(self.values(), ("ny", "nx", *self.INITIAL))
        if image:
            self.history.loaded(image, *shape)
        elif self.preset == "single mode":
            self.exact_mode = ExactMode(*shape, self.mode_p, self.mode_q, self.edges)

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
        self.history = FieldHistory.begun(self.values(), ("ny", "nx", *self.INITIAL))
        self.history.lose(history.GIVEN)

    def _put(self, field: NDArray[Any], steps: int) -> None:
        """Write `field` to the device and forget what was known of the state before it: a new run begins."""
        self.device.write(field, self.u)
        if self.truth:
            self.device.write(field, self.truth[0])
        self.steps, self.run = steps, uuid4().hex
        self.number = 0 if steps == 0 else self.number
        self.exact_mode, self.heat, self.spent = None, Heat(), None

    def load_image(self, data: bytes) -> None:
        """Start from a picture: the bytes of a PNG or JPEG file; brightness 0 … 1, cropped to the grid's shape."""
        self._image = Loaded.read(data)
        self.reset()

    def forget_image(self) -> None:
        """Start from the preset instead of the image that was loaded."""
        self._image = None
        self.reset()

    def paint(self, points: brush.Points, value: float, radius: float) -> None:
        """Set the cells within `radius` of the line through `points` [(x, y), …], both in cells, to `value`."""
        brush.require(points, value, radius)
        if radius > max(self.ny, self.nx):
            raise ValueError(f"radius must be at most {max(self.ny, self.nx)} cells, not {radius}")
        discs = list(brush.along(points, radius / 2))
        self._note(history.PLACE)
        for u in (self.u, *self.truth[:1]):
            for x, y in discs:
                self.display.disc(u, y, x, radius, value)
        self.history.did(self.steps, "paint", brush.plain(points, value, radius))
        self.exact_mode, self.heat = None, Heat()

    def checkpoint(self) -> None:
        """Remember the present state for `rollback`, in the place of an older one."""
        self._saved = self.snapshot() | {"saved": None}

    def rollback(self) -> None:
        """Back to the state of the last checkpoint, in a new run; ValueError if there is none."""
        if self._saved is None:
            raise ValueError("rollback needs a checkpoint of a field of this size; there is none yet")
        self._resume({**self._saved, "run": uuid4().hex})

    def undo(self) -> None:
        """Bring back the field that was replaced last; see undo.py. ValueError if none is kept."""
        lost = self.lost.back()
        with param.parameterized.discard_events(self):
            self._put_back(dict(lost.initial))
        self._resume(lost.snapshot)

    def act(self, name: str, **arguments: Any) -> Any:
        """Call one of ACTIONS by name; a field that is lost by it can be brought back by `undo`."""
        with self.lost.around(name):
            return super().act(name, **arguments)

    def _note(self, names: Sequence[str]) -> None:
        """Before the field is changed: with which values."""
        self.history.note(self.steps, {name: getattr(self, name) for name in names})

    def snapshot(self) -> dict[str, Any]:
        """Field, step count and run, history, exact solution, checkpoint and image."""
        return {
            "field": self.device.download(self.u),
            "steps": self.steps,
            "run": self.run,
            "history": self.history.copy(),
            "exact": self.exact_mode.copy() if self.exact_mode else None,
            "facts": replace(self.heat),
            "saved": self._saved,
            "image": self._image,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of the same shape, in its run; the number type may differ."""
        if snapshot["field"].shape != (self.ny, self.nx):
            raise ValueError(f"snapshot must have the shape ({self.ny}, {self.nx}), not {snapshot['field'].shape}")
        self.lost.keep()
        self._resume(snapshot)

    def _resume(self, snapshot: dict[str, Any]) -> None:
        field = snapshot["field"]
        self._saved, self._image = snapshot["saved"] or self._saved, snapshot["image"]
        exact = snapshot["exact"]
        foreign = exact is not None and exact.edges != self.edges  # the mode is one of other edges
        if foreign and not snapshot["steps"]:
            self.reset()
            return
        self._put(field.astype(self.dtype), snapshot["steps"])
        self.run = snapshot["run"]
        self.history = snapshot["history"].copy()
        self._note(("dtype",))
        self.exact_mode = None if foreign or exact is None else exact.copy()
        self.heat = replace(snapshot["facts"])

    @classmethod
    def history_of(cls, values: Mapping[str, Any], snapshot: Mapping[str, Any] | None = None) -> History:
        """See Lab. With a snapshot, all that happened since the reset."""
        return snapshot["history"].as_plain(cls, values, snapshot["steps"]) if snapshot else super().history_of(values)

    @classmethod
    def require_entry(cls, action: str, arguments: Mapping[str, Any]) -> None:
        """See Lab."""
        history.require_entry(action, arguments)

    def replay(self, entry: Entry) -> None:
        """See Lab. An image comes as text."""
        if entry.get("do") == "load_image":
            self.load_image(history.decoded(entry["with"]["data"]))
        else:
            super().replay(entry)

    # -- results

    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps with the parameters as they are now."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        kernels, r = self.kernels, float(self.r)
        self._note(history.DYNAMIC)
        kernel = kernels.VARIANTS[self.variant] if self.variant else kernels.step
        with watching() as builds, self.device.lock, self.device.stopwatch() as watch:
            kernel(self.u, self.spare, r, self.edges, steps)
        self.u, self.spare = self.spare, self.u
        if self.truth:
            kernels.step(*self.truth, r, self.edges, steps)
            self.truth.reverse()
        self.steps += steps
        if self.exact_mode:
            self.exact_mode.advance(r, steps)
        cells, first = self.ny * self.nx, self._first() or builds.count > 0
        timing = Timing(self.backend, self.variant, steps, cells, watch.launch, watch.seconds(), first_call=first)
        self.spent = timing if self.spent is None else self.spent.then(timing)
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

    @classmethod
    def panels(cls, frame: Frame) -> Mapping[str, Panel]:
        """Field, Laplacian, and the profile on the section line."""
        return panels(frame)

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
        """Field and Laplacian as rasters, the section as curve(s), and the facts and notes that picture.py names.

        view: (x0, y0, x1, y1) in cells, None for all; pixels: largest (height, width) of the rasters.
        """
        with self.device.lock:
            return show(self, self._image, view, pixels)

    # -- reactions to parameters

    def _reseed(self, *events: param.parameterized.Event) -> None:
        """Another preset, or another option of it: start from that."""
        if self._ready:
            self.lost.keep(*events)
            self._image = None
            self.reset()

    def _forget_exact(self, *_events: Any) -> None:
        """With other edges the mode is no longer an eigenmode; nor is heat conserved in the same way."""
        if self.steps == 0 and self.exact_mode:
            self.reset()
        self.exact_mode, self.heat = self.exact_mode if self.steps == 0 else None, Heat()
