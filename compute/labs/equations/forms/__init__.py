"""Source code of a plan in NumPy, Numba, Numba-CUDA, CUDA C and WGSL. The lab runs the same text that students read."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from compute.labs.equations.forms import (
    cuda_form,
    cuda_steps_form,
    numba_cuda_form,
    numba_form,
    numba_steps_form,
    numpy_form,
    wgsl_form,
    wgsl_steps_form,
)
from compute.labs.equations.forms.pass_kernel import PassKernel, pass_kernels
from compute.labs.equations.tree import Plan, System, operations

T = TypeVar("T")
MOST_TITLE = 60  # characters
FORMS = ("numpy", "numba", "numba-cuda", "cuda", "wgsl")
_MODULES = {
    "numpy": numpy_form.module, "numba": numba_form.module, "numba-cuda": numba_cuda_form.module,
    "cuda": cuda_form.module,
}  # fmt: skip


@dataclass(eq=False)
class Program:
    """A system with its plan, printed and compiled at most once for each form and number type.

    title: heads each printed text; characters other than ASCII letters, digits, spaces and ,.()+- are removed.
    """

    system: System
    plan: Plan
    title: str = "Equations"
    _kept: dict[Hashable, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.title = re.sub(r"[^A-Za-z0-9 ,.()+-]", "", self.title)[:MOST_TITLE]

    @property
    def kernels(self) -> list[PassKernel]:
        """The kernel of each pass, in order."""
        return self.kept("kernels", lambda: pass_kernels(self.system, self.plan))

    @property
    def operations(self) -> int:
        """The number of operations on a cell in a time step, or for a picture."""
        return self.kept("operations", lambda: len(self.plan.stages) * sum(map(operations, self.plan.passes)))

    def sources(self, form: str, dtype: str = "float32") -> list[str]:
        """Return the source texts of a form: a single text for all passes, but a text per pass for WGSL.

        form: one of FORMS. dtype: float32 or float64; WGSL supports float32 only. Raise ValueError for other values.
        """
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
        known = ("float32",) if form == "wgsl" else ("float32", "float64")
        if dtype not in known:
            raise ValueError(f"dtype must be {' or '.join(known)} for {form}, not {dtype!r}")
        return self.kept((form, dtype), lambda: self._printed(form, dtype))

    def steps_tiling(self, dtype: str) -> cuda_steps_form.MultiStepTiling | None:
        """Return the sizes of a CUDA C launch that computes several steps; None if the plan does not permit it."""
        return self.kept(("tiling", dtype), lambda: cuda_steps_form.tiling(self.system, self.plan, dtype))

    def steps_strips(self) -> wgsl_steps_form.MultiStepStrips | None:
        """Return the sizes of a WGSL launch that computes several steps; None if the plan does not permit it."""
        return self.kept("strips", lambda: wgsl_steps_form.strips_of(self.system, self.plan))

    def cache_tiling(self, dtype: str) -> numba_steps_form.CacheTiling | None:
        """Return the sizes of tiles in which Numba computes several steps; None if the plan does not permit it."""
        return self.kept(("cache tiling", dtype), lambda: numba_steps_form.tiling(self.system, self.plan, dtype))

    def steps_source(self, form: str, dtype: str = "float32") -> str:
        """Return the text of a kernel with several steps per launch. ValueError if impossible.

        form: cuda, wgsl or numba; of Numba, with several steps per pass through memory.
        """
        tiles = self.cache_tiling(dtype) if form == "numba" else None
        tiling = self.steps_tiling(dtype) if form == "cuda" else None
        strips = self.steps_strips() if form == "wgsl" else None
        if tiles is not None:
            return self.kept(
                ("numba steps", dtype), lambda: numba_steps_form.module(self.kernels[0], tiles, self.title, dtype)
            )
        if tiling is not None:
            return self.kept(
                ("cuda steps", dtype), lambda: cuda_steps_form.module(self.kernels[0], tiling, self.title, dtype)
            )
        if strips is not None:
            return self.kept("wgsl steps", lambda: wgsl_steps_form.module(self.kernels[0], strips, self.title))
        raise ValueError(
            "several steps per launch require one short pass over at most two fields in CUDA C or WGSL, in Numba one "
            "pass without diagonals, coordinates, time and slow functions"
        )

    def _printed(self, form: str, dtype: str) -> list[str]:
        if form == "wgsl":
            return [wgsl_form.module([each], self.title) for each in self.kernels]
        return [_MODULES[form](self.kernels, self.title, dtype)]

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make` for this key, computed at the first call."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
