"""The parameters of a crossover lab, and what they must be together."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, ClassVar

import param

from compute.backends import backend, preferred
from compute.devices import Host
from compute.lab import Lab
from compute.labs.crossover.catalogue import DTYPES, Workload, workload, workloads
from compute.labs.crossover.stand import SCRATCH_BYTES

LARGEST = 10**9  # n of any workload
OWN_BYTES = 2**20  # of the lab itself: its samples
FORGOTTEN: Mapping[str, Any] = {"ways": [], "settings": {}, "least": None, "most": None}  # with another workload


class Settings(Lab):
    """Everything that can be set. A change of anything begins a new sweep."""

    SWEEP: ClassVar[tuple[str, ...]] = (
        *("workload", "ways", "dtype", "least", "most", "per_decade", "settings"),
        *("budget", "evict", "split", "seed", "longest"),
    )

    workload = param.Selector(default="add_one", objects=[w.name for w in workloads()], label="Workload")
    ways = param.List(default=[], item_type=str, label="Ways", doc="None: all that run here but exhibits.")
    dtype = param.Selector(default="float64", objects=list(DTYPES), label="Number type")
    least = param.Integer(default=None, bounds=(1, LARGEST), allow_None=True, label="Least n")
    most = param.Integer(default=None, bounds=(1, LARGEST), allow_None=True, label="Largest n")
    per_decade = param.Integer(default=2, bounds=(1, 3), label="n for each power of ten", doc="1; 1, 3; 1, 2, 5.")
    settings = param.Dict(default={}, label="Settings of the workload", doc="By name; those left out are its defaults.")
    budget = param.Number(default=20.0, bounds=(0.1, 3600), label="Time for sampling [s]")
    evict = param.Boolean(default=False, label="Empty the caches", doc="Before each call, which is timed alone.")
    split = param.Boolean(default=False, label="Time transfers", doc="To the device and back, apart.")
    seed = param.Integer(default=0, bounds=(0, 2**31 - 1), label="Seed of the data and of the order")
    longest = param.Number(
        default=0.5,
        bounds=(0.01, 60),
        label="Longest piece [s]",
        doc="Larger n are skipped.",
    )

    def __init__(self, **values: Any) -> None:
        values.setdefault("backend", self.home())
        super().__init__(**values)

    @classmethod
    def home(cls) -> str:
        """The backend to open it with: a GPU's if there is one, since its engine can run the host's ways as well."""
        return preferred(cls.backends()).name

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """What it needs in any case: the smallest n. Each larger one is checked by itself, and skipped if need be."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.SWEEP}
        least = extent(given)[0]
        case = workload(given["workload"]).case(least, given["dtype"], **given["settings"])
        chosen = backend(values.get("backend", cls.param["backend"].default))
        scratch = SCRATCH_BYTES["cpu" if chosen.device_class is Host else "gpu"]
        return int(case.work().held) + OWN_BYTES + given["evict"] * scratch

    def validate(self, values: dict[str, Any]) -> None:
        """Ways and settings that the workload has, and n within its bounds."""
        chosen = workload(values["workload"])
        for name in values["ways"]:
            chosen.way(name)
        for name in values["settings"]:
            if name not in chosen.settings:
                known = ", ".join(chosen.settings) or "none"
                raise ValueError(f"settings must be some of {known} for {chosen.name}, not {name!r}")
        least, most = extent(values)
        chosen.case(least, values["dtype"], **values["settings"])
        if not least <= most <= chosen.sizes[1]:
            raise ValueError(f"most must be from {least} (least) to {chosen.sizes[1]} for {chosen.name}, not {most}")
        for name in ("budget", "longest"):
            if not isfinite(values[name]):
                raise ValueError(f"{name} must be a finite number of seconds, not {values[name]}")
        if values["device_index"]:
            raise ValueError(f"device_index must be 0 for {self.LAB}: its ways compute on the first GPU")

    def update(self, **values: Any) -> None:
        """Set several parameters at once, all or none; another workload begins with its usual ways, settings and n."""
        if values.get("workload", self.workload) != self.workload:
            values = {**FORGOTTEN, **values}
        super().update(**values)

    @property
    def chosen_workload(self) -> Workload:
        """The workload."""
        return workload(self.workload)


def extent(values: Mapping[str, Any]) -> tuple[int, int]:
    """(least, most) n: those that are set, else the workload's."""
    least, most = workload(values["workload"]).sizes
    return values["least"] or min(least, values["most"] or least), values["most"] or max(most, values["least"] or most)
