"""The parameters of a diffusion lab, and what they must be together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import param

from compute.lab import Lab
from compute.labs.diffusion import presets
from compute.labs.diffusion.edges import EDGES

LIMIT = 0.25  # largest stable r of forward Euler in two dimensions
UNSTABLE_LIMIT = 0.5
PICTURE_BYTES = 16 * 2**20  # display buffers and scratch, rounded up
WRONG = ("racing",)  # variants whose result is wrong on purpose; they are shown with their error


class Settings(Lab):
    """Everything that can be set. STRUCTURAL ones rebuild the state, those of INITIAL begin anew."""

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

    def __init__(self, **values: Any) -> None:
        ratio = values.pop("r", self.param["r"].default) if values.get("unstable") else None
        super().__init__(**values)
        if ratio is not None:
            self._set_limit()
            self.r = ratio
        self.param.watch(self._set_limit, ["unstable"])

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

    def require(self, **values: Any) -> None:
        """Raise ValueError unless `update` would take these values; nothing changes."""
        with self._widened(values):
            super().require(**values)

    def update(self, **values: Any) -> None:
        """Set several parameters at once: all of them, or none and a ValueError."""
        with self._widened(values):
            super().update(**values)

    @contextmanager
    def _widened(self, values: Mapping[str, Any]) -> Iterator[None]:
        """The bound of r that the values may need, until they are set."""
        self._set_limit(unstable=bool(values.get("unstable", self.unstable)) or self.r > LIMIT)
        try:
            yield
        finally:
            self._set_limit()

    def _set_limit(self, *_events: Any, unstable: bool | None = None) -> None:
        """The bound of r belongs to this lab alone and depends on `unstable`."""
        allowed = self.unstable if unstable is None else unstable
        self.param["r"].bounds = (0, UNSTABLE_LIMIT if allowed else LIMIT)
