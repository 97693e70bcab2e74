"""A lab: parameters, a state on a device, and how it advances. It knows no GUI, and no clock but its device's.

A subclass declares its parameters with bounds, lists in ACTIONS what a client may call, and implements `_allocate`,
`advance` and `frame`. Its kernels lie in its own folder, one file per backend. In a notebook a lab is used directly;
in the app it lives in an engine.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from importlib.resources import files
from types import ModuleType
from typing import Any, ClassVar

import param
from numpy.typing import NDArray
from param.parameterized import ParameterizedMetaclass

from compute.backends import BACKENDS, Backend, backend
from compute.devices import Device
from compute.frames import Frame
from compute.history import Entry, History, plain_history
from compute.mixing import mixed
from compute.panels import Panel, plain
from compute.timings import Timing

RESERVE = 0.1  # part of the free memory left to others when a grid is checked against it

View = tuple[float, float, float, float]


class OutOfMemory(ValueError):
    """A grid was refused before anything was allocated; the text gives the predicted and the free bytes."""


class LabMeta(ParameterizedMetaclass, ABCMeta):
    """param's metaclass and abc's in one."""


class Lab(param.Parameterized, metaclass=LabMeta):
    """Base of all labs. Bad values raise ValueError naming the parameter, the value and the bound."""

    LAB: ClassVar[str]
    TITLE: ClassVar[str]
    PACKAGE: ClassVar[str]
    ACTIONS: ClassVar[tuple[str, ...]] = ()
    STRUCTURAL: ClassVar[tuple[str, ...]] = ("backend", "device_index")
    ENDS: ClassVar[bool] = False  # whether advancing leads to `resting`
    HISTORY_NAMES: ClassVar[tuple[str, ...]] = ()  # parameters and actions that a history may have
    FIRST: ClassVar[str] = ""  # the one of those actions that makes the state anew: only a history's first entry
    RESTORES: ClassVar[bool] = False  # whether a snapshot holds all that is shown, not just how far the lab was
    APART: ClassVar[tuple[int, int, int]] = (255, 0, 200)  # colour in exports of what is no number

    backend = param.Selector(
        default="cpu_numba", objects=[b.name for b in BACKENDS], label="Backend", doc="How the kernels are written."
    )
    device_index = param.Integer(default=0, bounds=(0, 63), label="Device", doc="Number of the GPU; 0 on the host.")

    def __init__(self, **values: Any) -> None:
        self._ready = False
        self.number = 0
        self._require_known(values)
        super().__init__(**values)
        self.validate(self.values())
        self._open_device()
        self._require_memory(self.predicted_bytes(**self.values()))
        self._allocate({})
        self._ready = True
        self.param.watch(self._rebuild, list(self.STRUCTURAL))

    # -- what a subclass gives

    @classmethod
    @abstractmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Bytes of device memory that a lab with these values needs."""

    @abstractmethod
    def _allocate(self, old: dict[str, Any]) -> None:
        """Make the state for the present parameters; `old` is the snapshot before the change, {} at the start."""

    @abstractmethod
    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps; returns what launching and computing took."""

    @abstractmethod
    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """What the screen shows of the state: `view` (x0, y0, x1, y1) in cells, at most `pixels` (height, width)."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The whole state as host arrays and plain numbers; it can be pickled."""

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of a lab with the same shape."""

    @classmethod
    def panels(cls, frame: Frame) -> Mapping[str, Panel]:
        """What can be drawn of a frame, by name; the first is what is drawn by itself."""
        return plain(frame)

    def data(self) -> dict[str, NDArray[Any]]:
        """The results as host arrays by name, for files; {} for a lab that has none."""
        return {}

    @property
    def healthy(self) -> bool:
        """False once the state was seen to hold NaN or inf."""
        return True

    @property
    def resting(self) -> bool:
        """True while advancing would do nothing, until a value changes: a picture that is complete, for instance."""
        return False

    @property
    def cold(self) -> bool:
        """True while what comes next may first have to be compiled, beyond the very first call, which always may."""
        return False

    # -- values and actions, the same for every lab

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError for values that are each within their bounds but do not go together."""

    def values(self) -> dict[str, Any]:
        """Every parameter's present value."""
        return {name: value for name, value in self.param.values().items() if name != "name"}

    def update(self, **values: Any) -> None:
        """Set several parameters at once: all of them, or none and a ValueError."""
        self._try(values)
        before = self.values()
        try:
            self.param.update(**values)
        except Exception:
            with param.parameterized.discard_events(self):
                self._put_back(before)
            raise

    def require(self, **values: Any) -> None:
        """Raise ValueError unless `update` would take these values; nothing changes."""
        self._try(values)

    def _try(self, values: dict[str, Any]) -> None:
        self._require_known(values)
        before = self.values()
        with param.parameterized.discard_events(self):  # a trial: bounds are checked, nothing reacts
            try:
                for name, value in values.items():
                    setattr(self, name, value)
                self.validate(self.values())
            finally:
                self._put_back(before)

    def _put_back(self, before: dict[str, Any]) -> None:
        for name, value in before.items():
            setattr(self, name, value)

    def _require_known(self, values: dict[str, Any]) -> None:
        known = sorted(set(type(self).param.values()) - {"name"})
        for name in values:
            if name not in known:
                raise ValueError(f"{self.LAB} has no parameter {name!r}; it has {', '.join(known)}")

    def act(self, name: str, **arguments: Any) -> Any:
        """Call one of ACTIONS by name."""
        if name not in self.ACTIONS:
            raise ValueError(f"action must be one of {', '.join(self.ACTIONS)}, not {name!r}")
        return getattr(self, name)(**arguments)

    def close(self) -> None:
        """Give the state's memory back. The lab cannot be used afterwards."""
        self._ready = False
        self._release()
        self.device.close()

    def _release(self) -> None:
        """Drop every array on the device."""

    # -- pictures and films that are made of parameters alone

    @classmethod
    def pictured(cls, values: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:  # noqa: ARG003 for subclasses
        """The values of a lab whose picture has `size` (height, width); those it was given, where that is no value."""
        return values

    @classmethod
    def sized(cls) -> frozenset[str]:
        """Names of the parameters that the size of a picture decides."""
        return frozenset(cls.pictured({}, (1, 1)))

    @classmethod
    def between(cls, first: dict[str, Any], last: dict[str, Any], part: float) -> dict[str, Any]:
        """Values on the way from `first` to `last`, which have the same names; `part` is 0 at the first, 1 at the last.

        mixing.py says what is between two values.
        """
        return {name: mixed(value, last[name], part) for name, value in first.items()}

    # -- what a file needs to make a state again

    @property
    def headway(self) -> float:
        """How far a lab that ends is, from 0 to 1."""
        return 1.0 if self.resting else 0.0

    @classmethod
    def history_of(cls, values: Mapping[str, Any], snapshot: Mapping[str, Any] | None = None) -> History:  # noqa: ARG003
        """Return how a lab with these values came about, of which `snapshot` was taken; without it, of a new lab."""
        return plain_history(cls, values)

    @classmethod
    def require_entry(cls, action: str, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless an entry of a history, which may come from anywhere, has arguments it may have."""

    def replay(self, entry: Entry) -> None:
        """Do what an entry of a history says; the lab has done its steps."""
        if "set" in entry:
            self.update(**entry["set"])
        else:
            self.act(entry["do"], **entry["with"])

    # -- backend and device

    @property
    def chosen(self) -> Backend:
        """The Backend in use."""
        return backend(self.backend)

    @property
    def kernels(self) -> ModuleType:
        """The lab's kernels in the chosen backend."""
        return self.chosen.kernels(self.PACKAGE)

    @property
    def display(self) -> ModuleType:
        """The kernels that turn a field into a picture, in the chosen backend."""
        return self.chosen.kernels("compute.display")

    @classmethod
    def backends(cls) -> tuple[Backend, ...]:
        """The backends this lab has a file for, present on this machine or not."""
        return tuple(b for b in BACKENDS if b.has_kernels(cls.PACKAGE))

    @classmethod
    def variants(cls, name: str) -> tuple[str, ...]:
        """The kernels that the backend `name` has for this lab, its default first; none if it is missing here."""
        chosen = backend(name)
        return () if chosen.missing else tuple(chosen.kernels(cls.PACKAGE).VARIANTS)

    @classmethod
    def about(cls) -> str:
        """Equation, method and sources: the text of README.md in the lab's folder, in Markdown."""
        return files(cls.PACKAGE).joinpath("README.md").read_text(encoding="utf-8")

    def _open_device(self) -> None:
        if self.chosen not in self.backends():
            known = ", ".join(b.name for b in self.backends())
            raise ValueError(f"backend must be one of {known} for {self.LAB}, not {self.backend!r}")
        index = self.device_index if self.chosen.device == "cuda" else 0
        self.device: Device = self.chosen.open_device(index)

    def _require_memory(self, needed: int, held: int = 0) -> None:
        free = int((1 - RESERVE) * self.device.free_bytes()) + held
        if needed > free:
            raise OutOfMemory(
                f"this needs {needed / 2**30:.2f} GiB on {self.device.name}, but {free / 2**30:.2f} GiB can be used"
            )

    def _rebuild(self, *events: param.parameterized.Event) -> None:
        """A structural parameter changed: check first, then move or rebuild the state. On failure nothing changes."""
        if not self._ready:
            return
        old_values = {**self.values(), **{event.name: event.old for event in events}}
        old_device = self.device
        try:
            self.validate(self.values())
            self._open_device()
            held = self.predicted_bytes(**old_values) if self.device.name == old_device.name else 0
            self._require_memory(self.predicted_bytes(**self.values()), held)
        except Exception:
            self.device = old_device
            with param.parameterized.discard_events(self):
                self._put_back({event.name: event.old for event in events})
            raise
        self._allocate(self._snapshot_of(old_device))

    def _snapshot_of(self, device: Device) -> dict[str, Any]:
        """Read the state from the device it still lies on."""
        new, self.device = self.device, device
        try:
            return self.snapshot()
        finally:
            self.device = new
