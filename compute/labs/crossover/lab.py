"""class Crossover: a sweep as a lab with live curves. A step is one slice of the sweep."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from math import ceil, isfinite
from time import perf_counter
from types import MappingProxyType
from typing import Any, ClassVar

import param
from numpy.typing import NDArray

from compute.devices.backends import backend, preferred
from compute.devices.devices import Device, Host, device_kind
from compute.lab.frames import Frame, View
from compute.lab.history import History, HistoryRules
from compute.lab.lab import Lab
from compute.lab.status import LabStatus
from compute.labs.crossover import curves, panels, picture
from compute.labs.crossover.frame import frame_of
from compute.labs.crossover.trap import Trap, trap
from compute.measure.roofs import RoofMeter
from compute.measure.timing import Timing
from compute.ways.catalogue import workload, workload_names
from compute.ways.plan import SweepPlan
from compute.ways.roofline import Roof, roof_of, roof_parts
from compute.ways.runner import SCRATCH_BYTES, forget_scratch
from compute.ways.sweep import CHECKS, Sweep, SweepProgress
from compute.ways.workload import DTYPES, Way, Workload

LARGEST = 10**9  # n of any workload
OWN_BYTES = 2**20  # the lab's own samples
FORGOTTEN: Mapping[str, Any] = {"ways": [], "settings": {}, "least": None, "most": None}  # by a change of workload

TURN = 0.008  # seconds after which other labs on the device get their turn
LOST = "the times, which are measured again on the computer that opens it"
NOT_BEGUN = SweepProgress(0.0, "not begun")
ROOFS = "measuring the roofs"
ROOF_ROUNDS = 5  # rounds that are followed by roof samples: all rounds of a short sweep
SWEEP_PART = 0.98  # part of the progress; the rest is for the roofs


@dataclass(frozen=True)
class GpuWayOnHost(Way):
    """A GPU way in a lab that is open on the host."""

    @property
    def missing(self) -> str | None:
        """Why the way cannot run here."""
        return self.backend.missing or "this lab is open on the host; open it with a GPU's backend"


class SweepHistoryRules(HistoryRules):
    """A file contains the plan of a sweep, but no times, which must be measured again."""

    def of(self, kind: type[Lab], values: Mapping[str, Any], snapshot: Mapping[str, Any] | None = None) -> History:
        """Return the history of the plan; measured times are missing in it."""
        points = snapshot["points"].values() if snapshot else ()
        lost = any(point["status"] == "measured" for point in points)
        return replace(super().of(kind, values, snapshot), missing=LOST if lost else "")


class Crossover(Lab):
    """Time against n for the ways to write a workload, checked first, then sampled in shuffled order.

    README.md defines the times. The lab is hosted by the engine of its backend's device; a GPU's engine also runs the
    ways of the host, since times can be compared only if they are measured in turn in one process. A step is a slice of
    the sweep, about 20 ms, or one call if that is longer; n for which a single piece would take more than `longest`
    seconds are skipped, so that the other labs of the engine stay responsive.
    """

    LAB = "crossover"
    TITLE = "Crossover"
    PACKAGE = "compute.labs.crossover"
    ENDS: ClassVar[bool] = True
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = ()
    NUMBER_TYPE: ClassVar[str] = ""  # dtype is that of the ways, each with a backend of its own
    RESTORES: ClassVar[bool] = True
    HISTORY: ClassVar[HistoryRules] = SweepHistoryRules()
    SIZES = MappingProxyType({"call_seconds": lambda values: ceil(values["longest"])})  # of the longest call
    panels = staticmethod(panels.panels)
    SWEEP: ClassVar[tuple[str, ...]] = (
        *("workload", "ways", "dtype", "least", "most", "per_decade", "settings"),
        *("budget", "evict", "split", "seed", "longest"),
    )

    workload = param.Selector(default="add_one", objects=workload_names(), label="Workload")
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
    longest = param.Number(default=0.5, bounds=(0.01, 60), label="Longest piece [s]", doc="Larger n are skipped.")

    sweep: Sweep
    progress: SweepProgress
    roofs: dict[str, Roof]  # by device of the ways: "host", "cuda"
    trap_result: str  # JSON of the numbers that both programs of the last trap reported; "" before the first
    elapsed: float  # seconds
    rows: dict[tuple[str, int], tuple[Any, list[float]]]  # cached rows of the frames

    def __init__(self, **values: Any) -> None:
        self.roofs, self.trap_result = {}, ""
        self._traps: deque[Trap] = deque()
        self._work: Generator[SweepProgress, None, None] | None = None
        values.setdefault("backend", self.home())
        super().__init__(**values)
        self.param.watch(self._restart, list(self.SWEEP))

    # -- parameters

    @classmethod
    def home(cls) -> str:
        """Return the default backend: a GPU's if available, since its engine also runs the host's ways."""
        return preferred(cls.backends()).name

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes for the smallest n. Each larger n is checked separately and skipped if it does not fit."""
        given = {name: values.get(name, cls.param[name].default) for name in cls.SWEEP}
        least = extent(given)[0]
        case = workload(given["workload"]).case(least, given["dtype"], **given["settings"])
        chosen = backend(values.get("backend", cls.param["backend"].default))
        scratch = SCRATCH_BYTES["cpu" if chosen.device_class is Host else "gpu"]
        return int(case.work().memory) + OWN_BYTES + given["evict"] * scratch

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError unless ways, settings and n are valid for the workload."""
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
        """Set several parameters together, all or none.

        A change of the workload resets ways, settings and n to their defaults.
        """
        if values.get("workload", self.workload) != self.workload:
            values = {**FORGOTTEN, **values}
        super().update(**values)

    @property
    def chosen_workload(self) -> Workload:
        """The Workload that the parameter `workload` names."""
        return workload(self.workload)

    # -- state

    def _allocate(self, old: dict[str, Any]) -> None:  # noqa: ARG002 another device starts a new sweep
        self.reset()

    def _release(self) -> None:
        """Close the sweep, which releases its arrays."""
        if self._work is not None:
            self._work.close()
        self._work = None
        forget_scratch()

    def close(self) -> None:
        """Close the sweep and the lab; the measurements remain in `sweep`."""
        super().close()
        self.__dict__.pop("_work", None)  # any further use raises ClosedLabError

    def _restart(self, *_events: param.parameterized.Event) -> None:
        if self._ready:
            self.reset()

    def reset(self) -> None:
        """Start a new sweep with the current values; the first step begins the measurement."""
        self._release()
        self.sweep, self.rows = Sweep(self._plan()), {}
        self._work = self._slices()
        self.progress, self.elapsed = NOT_BEGUN, 0.0

    def cancel(self) -> None:
        """End the sweep, release its memory and keep the measurements; the lab rests until `reset`."""
        if self._work is not None:
            self.progress = SweepProgress(self.progress.done, "cancelled")
        self._release()

    def try_trap(self, which: str) -> None:
        """Run both programs of the trap called `which` in the next step; later frames contain their results."""
        self._traps.append(trap(which))

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        """Return the methods that buttons call, by name."""
        return {**super().actions(), "cancel": cls.cancel, "try_trap": cls.try_trap}

    def _plan(self) -> SweepPlan:
        chosen = self.chosen_workload
        ways = tuple(self._way(way) for way in chosen.ways())
        named = [next(way for way in ways if way.name == name) for name in dict.fromkeys(self.ways)]
        here = tuple(way for way in ways if not way.exhibit and self._can_time(way))
        sizes = chosen.grid(*extent(self.values()), self.per_decade)
        return SweepPlan(
            chosen, tuple(named) or here, sizes, self.dtype, dict(self.settings),
            self.budget, self.evict, self.split, self.seed, self.longest, early=True,
        )  # fmt: skip

    def _can_time(self, way: Way) -> bool:
        """Whether the times of a way mean something here, in the sweep's number type."""
        return not way.missing and not way.backend.simulated and self.dtype in way.backend.dtypes

    def _way(self, way: Way) -> Way:
        if way.backend.kind == "gpu" and way.backend.device != self.device.name.partition(":")[0]:
            return GpuWayOnHost(way.workload, way.backend, way.variant)
        return way

    def snapshot(self) -> dict[str, Any]:
        """Return every point of the sweep as plain values, and the lab's values."""
        roofs = {kind: (roof.dtype, roof.bandwidth, roof.flops, roof.l2) for kind, roof in self.roofs.items()}
        own = {"values": self.values(), "elapsed": self.elapsed, "resting": self.status.resting, "roofs": roofs}
        return {**own, **self.sweep.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the measurements. A sweep that had not ended is restarted with the next step."""
        self.reset()
        if not self.sweep.restore(snapshot):
            return
        self.elapsed, self.progress = snapshot["elapsed"], SweepProgress(0.0, "interrupted")
        self.roofs = {kind: Roof(kind, *roof) for kind, roof in snapshot["roofs"].items()} | self.roofs
        if snapshot["resting"]:
            self._release()
            self.progress = SweepProgress(1.0, "complete")

    def data(self) -> dict[str, NDArray[Any]]:
        """Return "<way>.n" and seconds per call, "<way>.median", "<way>.q1" and "<way>.q3", of each way with times."""
        return picture.times_of(self.frame())

    # -- advancing

    @property
    def begun(self) -> bool:
        """Whether at least one step of the sweep has been made."""
        return self.progress != NOT_BEGUN

    @property
    def finished(self) -> bool:
        """Whether the sweep is complete."""
        return self.progress.done >= 1.0

    @property
    def status(self) -> LabStatus:
        """The status: resting without a sweep and a trap; the progress is that of the sweep.

        A slice may create the inputs of an n and the arrays of a way, `longest` each.
        """
        resting = self._work is None and not self._traps
        return LabStatus(resting, self.progress.done, cold=self._cold, longest_call=2 * self.longest)

    def blocked(self) -> bool:
        """Return whether this sweep must wait because another sweep of the process has its arrays in memory.

        The engine calls this whenever it chooses among the labs that are to advance; this keeps the arrays of a running
        sweep, however long visible labs are served before it.
        """
        if self.progress.waits and not self._traps:
            return self.sweep.held_up
        self.sweep.wants_its_turn()
        return False

    @property
    def _cold(self) -> bool:
        """Whether the next slice may compile, or measures a roof."""
        timing = CHECKS * SWEEP_PART <= self.progress.done < SWEEP_PART and self.progress.doing != ROOFS
        return bool(self._traps) or not timing

    def advance(self, steps: int = 1) -> Timing:
        """Run up to `steps` >= 1 slices of the sweep, begun within TURN seconds; a pending trap runs first."""
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        start, cold, done, seconds = perf_counter(), self._cold, 0, 0.0
        while done < steps and seconds < TURN and not self.status.resting:
            self._slice()
            done, seconds = done + 1, perf_counter() - start
            if self.progress.waits:
                break
        self.elapsed += seconds
        return Timing(self.backend, "", max(done, 1), 1, 0.0, seconds, first_call=cold)

    def run(self) -> Sweep:
        """Run the sweep to its end and return it."""
        while not self.status.resting:
            self.advance()
        return self.sweep

    def _slice(self) -> None:
        if self._traps:
            self.trap_result = self._traps.popleft().tried()
            return
        work = self._work
        if work is None:
            return
        try:
            self.progress = next(work)
        except StopIteration:
            self._work, self.progress = None, SweepProgress(1.0, "complete")

    def _slices(self) -> Generator[SweepProgress, None, None]:
        """Yield the progress of the sweep, then of the roofs that its times are compared with."""
        if any(point.status != "waiting" for point in self.sweep.points.values()):  # the sweep was interrupted
            self.sweep, self.rows, self.elapsed = Sweep(self._plan()), {}, 0.0
        meter = RoofMeter(self._devices().values(), ("copy", "fma"), self.dtype, live=True)
        with closing(self.sweep.measure()) as work, closing(meter):
            for progress in work:
                now = replace(progress, done=SWEEP_PART * progress.done)
                if progress.point is None and 1 <= progress.rounds <= ROOF_ROUNDS:  # the roofs get their turn
                    yield replace(now, doing=ROOFS)
                    meter.sample()
                    meter.close()  # release its arrays before a way is timed
                yield now
        for kind, device in self._devices().items():
            for part in roof_parts(device, self.dtype):
                yield SweepProgress(SWEEP_PART, f"measuring the {part.what} of {device.name}")
                part.measure()
            self.roofs[kind] = roof_of(device, self.dtype)

    def _devices(self) -> dict[str, Device]:
        """Return the devices on which the ways of the sweep compute, by kind."""
        here = {way.backend.device for way in self.sweep.plan.ways if not way.missing}
        return {kind: Host() if device_kind(kind) == "cpu" else self.device for kind in sorted(here, reverse=True)}

    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:  # noqa: ARG002 no raster
        """Return the current curves, to be read with picture.py, with their finding in the notes."""
        return curves.with_finding(frame_of(self))

    def idle_timing(self) -> Timing:
        """Return the timing of a frame, which reports no steps: its times were measured elsewhere."""
        return Timing(self.backend, "", 0, 1)


def extent(values: Mapping[str, Any]) -> tuple[int, int]:
    """Return (least, most) n: the values if set, else those of the workload."""
    least, most = workload(values["workload"]).sizes
    return values["least"] or min(least, values["most"] or least), values["most"] or max(most, values["least"] or most)
