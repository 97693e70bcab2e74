"""A lab: parameters, a state on a device, and how it advances, without any GUI and with no clock but its device's.

A subclass declares its parameters with bounds and implements `advance` and `frame`; everything else has a working
default. The state is `arrays` on the device, initialised from `begin`; `stepping` times the kernels that advance them,
`raster` and `framed` make the frame. A lab with a state of another kind overrides `_allocate`, `snapshot`, `restore`
and `predicted_bytes` together. Its kernels are in its own folder, one file per backend. A notebook uses a lab directly;
the app runs it in an engine.
"""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from math import isfinite
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import param
from numpy.typing import ArrayLike, NDArray
from param.parameterized import ParameterizedMetaclass

from compute.cli.arguments import named
from compute.devices.backends import BACKENDS, Backend, backend
from compute.devices.builds import watching
from compute.devices.devices import Array, Device
from compute.display.camera import Camera
from compute.files.documents import short
from compute.lab import in_notebook, limits
from compute.lab.compilation import Compilation, Interim
from compute.lab.fields import as_field
from compute.lab.frames import Curve, Frame, Raster, View, freeze
from compute.lab.history import GIVEN, NUMBER_TYPE, HistoryRules, StepHistory
from compute.lab.interpolation import values_between
from compute.lab.panels import Panel, plain
from compute.lab.status import LabStatus
from compute.measure.timing import Timing

RESERVE = 0.1  # fraction of the free memory that a grid must leave to other programs
PICTURE_BYTES = 16 * 2**20  # display buffers and scratch, rounded up
HOME = "that is, in lab.py of a folder with cpu_numpy.py (docs/architecture.md)"
RELEASED = ("arrays", "camera", "device", "display")  # attributes that a closed lab lacks
ON_THE_WAY = ("backend", "device_index", "variant", "dtype")  # structural parameters that keep the state

Values = dict[str, Any]

_RUN_BEFORE: set[tuple[str, ...]] = set()  # by this process: lab, backend, and all other inputs of a build


def grid_cells(values: Mapping[str, Any]) -> int:
    """Return the cells of the grid at these values; 0 for a lab without one."""
    return int(values.get("ny", 0)) * int(values.get("nx", 0))


class OutOfMemory(ValueError):
    """A device has no room for a state; the text states the predicted and the free bytes, or the device's reason."""


class ClosedLabError(ValueError, AttributeError):
    """Use of a lab after `close`. An AttributeError, so that hasattr returns False for what was released."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(f"{lab!r} is closed: its state was released, create another lab")


class NamedNumber(Protocol):
    """A number that has a name and a range only at some values of the other parameters. slot: its parameter."""

    @property
    def name(self) -> str:
        """Its name on the page, on the command line and in stories."""

    @property
    def slot(self) -> str:
        """The parameter of the lab."""

    @property
    def low(self) -> float:
        """Its lower bound."""

    @property
    def high(self) -> float:
        """Its upper bound."""


def number_label(name: str, low: float, high: float) -> str:
    """Return the label of the control of a number with a name and a range."""
    return f"{name} ({low:g} to {high:g})"


def control_label(kind: type[Lab], name: str, values: Mapping[str, Any]) -> str:
    """Return the label of the control of a parameter, or of a named number, at `values`."""
    for each in kind.named_numbers(values):
        if name in (each.name, each.slot):
            return number_label(each.name, each.low, each.high)
    return str(kind.param[name].label)


@dataclass
class Stepping:
    """The timing of a block of `Lab.stepping`; valid after the block."""

    timing: Timing


class LabMeta(ParameterizedMetaclass, ABCMeta):
    """param's and abc's metaclass in one. Sets missing class attributes from the lab's folder and parameters."""

    INITIAL: tuple[str, ...]
    STRUCTURAL: tuple[str, ...]
    _text: str  # the docstring of the class

    def __init__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> None:
        super().__init__(name, bases, content)
        cls._text = content.get("__doc__") or ""  # in a notebook param appends a table of the parameters to __doc__
        if param.Parameterized in bases or cls.__abstractmethods__:  # Lab itself, and other bases of labs
            return
        package = cls.__module__.rpartition(".")[0]  # "" of a class in a script or in a cell of a notebook
        folder = package.rpartition(".")[2] or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        fixed = {"name", *cls.INITIAL, *(each for each in cls.STRUCTURAL if each not in ON_THE_WAY)}
        own = {
            "PACKAGE": package,
            "LAB": folder,
            "TITLE": folder.replace("_", " ").capitalize(),
            "HISTORY_NAMES": tuple(each for each in cls.param if each not in fixed),
        }
        for what, value in own.items():
            if not hasattr(cls, what):
                setattr(cls, what, value)


def variants(kind: type[Lab], name: str) -> tuple[str, ...]:
    """Return the kernels that the backend `name` has for a lab, its default first; () for a missing backend.

    A lab with a parameter `variant`, which chooses between them, lists them as VARIANTS in every backend's file.
    """
    chosen = backend(name)
    if chosen.missing:
        return ()
    return tuple(chosen.kernels(kind.PACKAGE).VARIANTS) if "variant" in kind.param else ("",)


def values_on(kind: type[Lab], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make `values` valid on the backend `name`.

    These are the backend, its default kernel if it lacks the present one, and its first number type and GPU likewise.
    """
    changes: dict[str, Any] = {"backend": name}
    if "variant" in values and values["variant"] not in ("", *variants(kind, name)):
        changes["variant"] = ""
    chosen, index = backend(name), values.get("device_index", 0)
    if chosen.kind == "gpu" and index and index >= chosen.device_class.count():
        changes["device_index"] = 0
    known = number_types(kind, name)
    if known and values.get(kind.NUMBER_TYPE, known[0]) not in known:
        changes[kind.NUMBER_TYPE] = known[0]
    return changes


def number_types(kind: type[Lab], name: str) -> tuple[str, ...]:
    """Return the values of a lab's NUMBER_TYPE that the backend `name` can compute; () for a lab without them."""
    if kind.NUMBER_TYPE not in kind.param:
        return ()
    dtypes = backend(name).dtypes
    return tuple(value for value in kind.param[kind.NUMBER_TYPE].objects if kind.dtype_of(value) in ("", *dtypes))


class Lab(param.Parameterized, in_notebook.ShownInNotebook, metaclass=LabMeta):
    """Base of all labs. Bad values raise ValueError naming the parameter, the value and the bound."""

    LAB: ClassVar[str]  # its name in links, files and commands: that of its folder
    TITLE: ClassVar[str]  # of its tab: the name as words
    PACKAGE: ClassVar[str]  # package of its kernels and its class
    STRUCTURAL: ClassVar[tuple[str, ...]] = ("backend", "device_index")  # parameters that rebuild the state
    INITIAL: ClassVar[tuple[str, ...]] = ()  # parameters that reset the state to step 0
    LOCAL: ClassVar[tuple[str, ...]] = ()  # parameters about this machine that change no result: in no link or file
    ENDS: ClassVar[bool] = False  # whether advancing leads to `status.resting`
    HISTORY_NAMES: ClassVar[tuple[str, ...]]  # parameters and actions allowed in a history: those that keep the state
    HISTORY: ClassVar[HistoryRules] = HistoryRules()  # how files recreate its state
    NUMBER_TYPE: ClassVar[str] = "dtype"  # parameter for the number type of its kernels; "" without one
    FIRST: ClassVar[str] = ""  # the one of those actions that makes a new state: only a history's first entry
    RESTORES: ClassVar[bool] = True  # whether a snapshot includes the whole displayed state, not only the progress
    GRIDS: ClassVar[int] = 4  # arrays of ny x nx cells that `predicted_bytes` counts
    APART: ClassVar[tuple[int, int, int]] = (255, 0, 200)  # colour of pixels without a number, in exports
    COMPILED: ClassVar[tuple[str, ...]] = ()  # parameters from which kernels are generated
    PRELOADED: ClassVar[tuple[str, ...]] = ()  # modules that an engine imports in advance, to shorten the first frame
    APART_WORDS: ClassVar[str] = "not finite"  # description of such pixels
    PICTURE_SIZE: ClassVar[tuple[str, ...]] = ()  # parameters for the height and width of a picture in pixels, if any
    SIZES: ClassVar[Mapping[str, Callable[[Mapping[str, Any]], int]]] = MappingProxyType({"grid": grid_cells})
    """Sizes at given values that a server may limit (compute/cli/settings.py), by the name of the limit."""
    panels: ClassVar[staticmethod[[Frame], Mapping[str, Panel]]] = staticmethod(plain)
    """Returns the drawable panels of a frame by name; the first is the default."""
    between: ClassVar[staticmethod[[Values, Values, float], Values]] = staticmethod(values_between)
    """Returns values on the way between two states; see interpolation.py."""

    backend = param.Selector(
        default="cpu_numba", objects=[b.name for b in BACKENDS], label="Backend", doc="How the kernels are written."
    )
    device_index = param.Integer(default=0, bounds=(0, 63), label="Device", doc="Number of the GPU; 0 on the host.")

    arrays: dict[str, Array]  # the state on the device, by name
    history: StepHistory  # of the state
    steps: int  # since the beginning
    spent: Timing | None  # since the last frame
    camera: Camera
    display: ModuleType  # the kernels that turn a field into a picture, in the backend in use
    _cached: Mapping[str, Any] | None = None  # the present values
    interim: Interim | None = None  # reason for another backend in place of the chosen one; None normally
    _closed = False

    def __init__(self, **values: Any) -> None:
        self._ready = False
        self.number = self.steps = self._nonfinite = 0
        self.arrays, self.spent = {}, None
        self._require_known(values)
        super().__init__(**values)
        self._accept(self.values())
        self._open_device()
        self._require_memory(self.predicted_bytes(**self.values()))
        self._allocate({})
        self._ready = True
        self.param.watch(self._rebuild, list(self.STRUCTURAL))
        if self.INITIAL:
            self.param.watch(self._reseed, list(self.INITIAL), precedence=1)  # also after a rebuild, if any

    # -- for subclasses to implement

    @abstractmethod
    def advance(self, steps: int = 1) -> Timing:
        """Advance `steps` >= 1 steps; return the times of launching and computing."""

    @abstractmethod
    def frame(self, view: View | None = None, pixels: tuple[int, int] = (512, 512)) -> Frame:
        """Return a frame of the state: `view` (x0, y0, x1, y1) in cells, at most `pixels` (height, width)."""

    def begin(self) -> dict[str, NDArray[Any]]:
        """Return the state at step 0 for the current parameters: host arrays by name, the first for `field`."""
        return {}

    # -- a state of arrays; override this section for another kind of state

    @classmethod
    def predicted_bytes(cls, **values: Any) -> int:
        """Return the bytes of device memory for a lab with these values: GRIDS grids and PICTURE_BYTES."""
        given = {name: values.get(name, cls.param[name].default) for name in ("ny", "nx", "dtype") if name in cls.param}
        cells = int(given.get("ny", 0)) * int(given.get("nx", 0))
        return cls.GRIDS * cells * np.dtype(given.get("dtype", "float64")).itemsize + PICTURE_BYTES

    def _allocate(self, old: dict[str, Any]) -> None:
        """Make the state for the current parameters; `old` is the snapshot before the change, {} at the start."""
        self._release()
        new = self.begin()
        self.camera = Camera(self.device, self.display)
        self.arrays = {name: self.device.allocate(array.shape, array.dtype) for name, array in new.items()}
        if old and {name: array.shape for name, array in old["arrays"].items()} == self._shapes():
            self._resume(old)
        else:
            self._start(new)

    def _release(self) -> None:
        """Release every array on the device."""
        self.arrays = {}
        self.__dict__.pop("camera", None)

    def reset(self) -> None:
        """Return to step 0."""
        self._start(self.begin())

    def _reseed(self, *_events: param.parameterized.Event) -> None:
        """Reset after a change of a parameter in INITIAL."""
        if self._ready:
            self.reset()

    def _start(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        values = self.values()
        self._write(arrays)
        self.steps, self.number, self.spent = 0, 0, None
        self.history = StepHistory(values, {name: values[name] for name in self.HISTORY_NAMES if name in values})

    def _resume(self, snapshot: dict[str, Any]) -> None:
        self._write(snapshot["arrays"])
        self.steps, self.history, self.spent = snapshot["steps"], snapshot["history"].copy(), None
        if NUMBER_TYPE in self.history.now:  # at once: each change rounds the field
            self.history.note(self.steps, {NUMBER_TYPE: self._values[NUMBER_TYPE]})

    def _write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, array in self.arrays.items():
            self.device.write(np.ascontiguousarray(arrays[name], array.dtype), array)
        self._nonfinite = 0

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(array.shape) for name, array in self.arrays.items()}

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as host arrays and plain numbers; it can be pickled."""
        return {"arrays": Lab.data(self), "steps": self.steps, "history": self.history.copy()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a snapshot of a lab with the same shape; raise ValueError for another shape."""
        shapes = {name: array.shape for name, array in snapshot["arrays"].items()}
        if shapes != self._shapes():
            raise ValueError(f"snapshot must have the shapes {self._shapes()}, not {shapes}")
        self._resume(snapshot)

    def data(self) -> dict[str, NDArray[Any]]:
        """Return the results as host arrays by name, for files."""
        return {name: self.device.download(array) for name, array in self.arrays.items()}

    def field(self) -> NDArray[Any]:
        """Return a host copy of the first array; raise ValueError for a lab without arrays."""
        return self.device.download(self.arrays[self._first()])

    def load(self, array: ArrayLike) -> None:
        """Start at step 0 with `array` as the first array of the state, rounded to its type.

        Raise ValueError for an array that as_field refuses, and for a lab without such an array.
        """
        first = self._first()
        held = self.arrays[first]
        self._start({**self.begin(), first: as_field(array, held.shape, held.dtype)})
        self.history.mark_incomplete(GIVEN)

    def _first(self) -> str:
        """Return the name of the first array of the state."""
        if not self.arrays:
            raise ValueError(f"{self.LAB} has no field to read or load: its parameters make it; data() has its results")
        return next(iter(self.arrays))

    @contextmanager
    def stepping(self, steps: int) -> Iterator[Stepping]:
        """Time the block, which launches the kernels of `steps` >= 1 steps; yield the future holder of the Timing.

        `with self.stepping(steps) as done: …` is followed by `return done.timing`.
        """
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        self.history.note(self.steps, {name: self._values[name] for name in self.history.now})
        done = Stepping(self._idle_timing())
        with watching() as builds, self.device.lock, self.device.stopwatch() as watch:
            yield done
        self.steps += steps
        first = self._first_call(done.timing.variant, *(str(each.dtype) for each in self.arrays.values()))
        done.timing = timing = replace(
            done.timing, steps=steps, launch=watch.launch, compute=watch.seconds(), first_call=first or builds.count > 0
        )
        self.spent = timing if self.spent is None else self.spent.then(timing)

    def _first_call(self, *what: str) -> bool:
        """Whether this lab and backend, with `what` as further inputs of a build, run for the first time here."""
        key = (self.LAB, self._values["backend"], *what)
        first = key not in _RUN_BEFORE
        _RUN_BEFORE.add(key)
        return first

    def _idle_timing(self) -> Timing:
        """Return the timing of a frame without computation."""
        cells = next((int(array.size) for array in self.arrays.values()), 0)
        return Timing(self.backend, str(self._values.get("variant", "")), 0, cells)

    def raster(
        self, name: str, view: View | None, pixels: tuple[int, int], limits: tuple[float, float] | None = None
    ) -> Raster:
        """Return the picture of the array `name`, its colours between `limits`, by default the range of its values."""
        with self.device.lock:
            survey = self.camera.survey(self.arrays[name])
            self._nonfinite += survey.nonfinite
            return self.camera.raster(self.arrays[name], view, pixels, limits or survey.limits(), name)

    def framed(self, parts: Mapping[str, Raster | Curve], facts: Mapping[str, float]) -> Frame:
        """Return the frame of these pictures and curves, with the step, `facts` and the timing since the last one."""
        camera, spent = self.camera, self.spent or self._idle_timing()
        timing = replace(spent, levels=camera.levels_seconds, transfer=camera.transfer_seconds)
        camera.start()
        self.spent, self.number = None, self.number + 1
        return Frame(parts, freeze({"step": self.steps, **facts}), timing, self.number)

    @property
    def status(self) -> LabStatus:
        """Whether the lab rests, how far it is, whether its state is finite, and what its next call may take."""
        return LabStatus(healthy=self._nonfinite == 0)

    def blocked(self) -> bool:
        """Return whether another lab of the process prevents this one from advancing.

        The engine calls this only when the lab is to advance.
        """
        return False

    # -- kernels generated from the parameters in COMPILED

    def compilation(self) -> Compilation | None:
        """Load the kernels for the present values from the cache; return the task that compiles missing ones, or None.

        Compile nothing. Engines call this after each change of a parameter in COMPILED, and after each task, since a
        task may compile a part of the missing kernels. In other programs kernels are compiled at their first use.
        """
        return None

    def compiler(self) -> Callable[..., Any] | None:
        """Return a ChildTask that prepares a process for the tasks of `compilation`; None if that saves no time."""
        return None

    def set_interim(self, interim: Interim | None) -> None:
        """Compute with another backend or kernel, with the same state; None: with the chosen one.

        An exception, such as OutOfMemory, leaves the lab unchanged.
        """

    # -- values and actions, common to every lab

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError for values that are each within their bounds but incompatible."""

    def _accept(self, values: dict[str, Any]) -> None:
        """Raise ValueError for values that are incompatible, or exceed the limits of this process."""
        known = number_types(type(self), values["backend"])
        if known and values[self.NUMBER_TYPE] not in known:
            name, dtype = self.NUMBER_TYPE, values[self.NUMBER_TYPE]
            raise ValueError(f"{name} must be {' or '.join(known)} for {values['backend']}, not {dtype!r}")
        self.validate(values)
        for name, size in self.SIZES.items():
            limits.require(name, size(values))

    @classmethod
    def named_numbers(cls, values: Mapping[str, Any]) -> Sequence[NamedNumber]:  # noqa: ARG003 - a lab's own
        """Return the numbers to which other parameters give a name and a range; `values`: those not at their default.

        Raise ValueError for invalid values.
        """
        return ()

    @classmethod
    def dtype_of(cls, value: str) -> str:
        """Return the number type of the kernels at a value of NUMBER_TYPE; "" if the lab chooses a type by itself."""
        return value

    def values(self) -> dict[str, Any]:
        """Return the current values of all parameters."""
        return dict(self._values)

    @property
    def _values(self) -> Mapping[str, Any]:
        """The present values, read-only, cached until a parameter is set.

        param takes 1 to 3 us to read a parameter, and a frame of the diffusion lab reads fifty.
        """
        if self._cached is None:
            self._cached = {name: value for name, value in self.param.values().items() if name != "name"}
        return self._cached

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; clear the cache of the values if it is a parameter, not an instance attribute.

        The cache is cleared both before and after, since watchers of the parameter run in between.
        """
        held_by_param = name not in self.__dict__
        if held_by_param:
            if self._closed and name in self.param:
                raise ClosedLabError(self)
            self.__dict__["_cached"] = None
        super().__setattr__(name, value)
        if held_by_param:
            self.__dict__["_cached"] = None

    def update(self, **values: Any) -> None:
        """Set several parameters in one call: all of them, or none and raise ValueError."""
        with self._adapted(values):
            self._try(values)
            before = self.values()
            try:
                self.param.update(**values)
            except Exception:
                with param.parameterized.discard_events(self):
                    self._put_back(before)
                raise

    def require(self, **values: Any) -> None:
        """Raise ValueError unless `update` would accept these values; no value changes."""
        with self._adapted(values):
            self._try(values)

    def _adapted(self, values: Mapping[str, Any]) -> AbstractContextManager[None]:  # noqa: ARG002 a lab's own
        """Return the context in which bounds that depend on other parameters are those at `values`."""
        return nullcontext()

    def _try(self, values: dict[str, Any]) -> None:
        self._require_known(values)
        before = self.values()
        with param.parameterized.discard_events(self):  # a trial: bounds are checked, no watcher runs
            try:
                for name, value in values.items():
                    setattr(self, name, value)
                self._accept(self.values())
            finally:
                self._put_back(before)

    def _put_back(self, before: dict[str, Any]) -> None:
        for name, value in before.items():
            setattr(self, name, value)

    def _require_known(self, values: dict[str, Any]) -> None:
        if self._closed:
            raise ClosedLabError(self)
        known = sorted(set(type(self).param.values()) - {"name"})
        for name in values:
            if name not in known:
                raise ValueError(f"{self.LAB} has no parameter {name!r}; it has {', '.join(known)}")

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        """Return the methods that a button, a history or another process may call, by name."""
        return {"reset": cls.reset}

    def act(self, name: str, **arguments: Any) -> Any:
        """Call one of `actions` by name."""
        return named("action", name, self.actions())(self, **arguments)

    def close(self) -> None:
        """Free the state's memory; a second call has no effect. Every later use of the state raises ClosedLabError."""
        if self._closed:
            return
        self._settle()
        self._closed, self._ready = True, False
        self._release()
        device = self.device
        for name in RELEASED:
            self.__dict__.pop(name, None)
        device.close()

    if not TYPE_CHECKING:  # a type checker would take any attribute for existing

        def __getattr__(self, name):
            """Raise ClosedLabError in a closed lab, and else the error of the failed look-up again."""
            if self._closed:
                raise ClosedLabError(self)
            return super().__getattribute__(name)

    def __enter__(self) -> Self:
        """Return the lab, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        """Return an expression that creates this lab at step 0, with the values that are not the defaults.

        Long values are abbreviated.
        """
        defaults, same = type(self).param.values(), param.parameterized.Comparator.is_equal
        changed = (f"{name}={short(value)}" for name, value in self._values.items() if not same(value, defaults[name]))
        return f"{type(self).__name__}({', '.join(changed)})"

    def __str__(self) -> str:
        """Return repr(), and the step or that the lab is closed: Diffusion(ny=64), step 30."""
        ending = f", step {self.steps}" if self.steps else ""
        return f"{self!r}{', closed' if self._closed else ending}"

    # -- backend and device

    @property
    def kernels(self) -> ModuleType:
        """The lab's kernels in the chosen backend; raises ValueError for a lab in no package."""
        if not self.PACKAGE:
            raise ValueError(f"{self.LAB} has no kernels in files: its class must be in a package, {HOME}")
        return self.computing.kernels(self.PACKAGE)

    @property
    def computing(self) -> Backend:
        """The backend that computes: the chosen one, unless a lab replaces it where that lacks a number type."""
        return backend(self._values["backend"])

    @classmethod
    def backends(cls) -> tuple[Backend, ...]:
        """Return the backends this lab has a file for, available on this machine or not.

        A lab in a script or in a cell of a notebook computes by its own methods, on the host.
        """
        if not cls.PACKAGE:
            return tuple(b for b in BACKENDS if b.kind == "cpu")
        return tuple(b for b in BACKENDS if b.has_kernels(cls.PACKAGE))

    @classmethod
    def about(cls) -> str:
        """Return equation, method and sources in Markdown: README.md of the lab's folder, in scripts the docstring."""
        if not cls.PACKAGE:
            return inspect.cleandoc(cls._text)
        return Path(import_module(cls.PACKAGE).__path__[0], "README.md").read_text(encoding="utf-8")

    def _open_device(self) -> None:
        chosen = backend(self._values["backend"])
        if chosen not in self.backends():
            known = ", ".join(b.name for b in self.backends())
            raise ValueError(f"backend must be one of {known} for {self.LAB}, not {self.backend!r}")
        index = self.device_index if chosen.kind == "gpu" else 0
        self.device: Device = chosen.open_device(index)
        computing = self.computing
        if computing is not chosen:
            self.device = computing.open_device()
        self.display = computing.display()

    def _require_memory(self, needed: int, held: int = 0) -> None:
        free = (1 - RESERVE) * self.device.free_bytes() + held
        if needed > free or not self.device.has_room(needed - held):
            known = f"but {free / 2**30:.2f} GiB can be used" if isfinite(free) else "which cannot be allocated"
            raise OutOfMemory(f"this needs {needed / 2**30:.2f} GiB on {self.device.name}, {known}")

    def _rebuild(self, *events: param.parameterized.Event) -> None:
        """Check changed structural parameters, then move or rebuild the state. On failure nothing changes."""
        if not self._ready:
            return
        old_values = {**self.values(), **{event.name: event.old for event in events}}
        old_device, old_display = self.device, self.display
        try:
            self._accept(self.values())
            self._open_device()
            held = self.predicted_bytes(**old_values) if self.device.name == old_device.name else 0
            self._require_memory(self.predicted_bytes(**self.values()), held)
        except Exception:
            self._return_to(old_device, old_display, events)
            raise
        state = self._snapshot_of(old_device)
        try:
            self._allocate(state)
        except MemoryError as error:  # the device reports no free memory, or another program has allocated it
            refused = self.device.name
            self._return_to(old_device, old_display, events)
            self._allocate(state)
            raise OutOfMemory(f"this needs memory that {refused} does not have: {error}") from error

    def _return_to(self, device: Device, display: ModuleType, events: Iterable[param.parameterized.Event]) -> None:
        """Return to the device and the values before `events`."""
        self.device, self.display = device, display
        with param.parameterized.discard_events(self):
            self._put_back({event.name: event.old for event in events})

    def _snapshot_of(self, device: Device) -> dict[str, Any]:
        """Read the state from its previous device."""
        new, self.device = self.device, device
        try:
            return self.snapshot()
        finally:
            self.device = new
