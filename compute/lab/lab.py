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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import param
from numpy.typing import ArrayLike, NDArray
from param.parameterized import ParameterizedMetaclass

from compute.cli import settings
from compute.cli.arguments import named
from compute.devices.backends import BACKENDS, Backend, backend
from compute.devices.builds import watching
from compute.devices.devices import Array, Device
from compute.display.camera import Camera
from compute.files.documents import short
from compute.lab import in_notebook
from compute.lab.fields import as_field
from compute.lab.frames import Curve, Frame, Raster, View, freeze
from compute.lab.history import GIVEN, Entry, History, StepHistory, plain_history
from compute.lab.panels import Panel, plain
from compute.lab.status import LabStatus
from compute.measure.timing import Timing

if TYPE_CHECKING:
    from compute.measure.benchmark import Benchmark

RESERVE = 0.1  # fraction of the free memory that a grid must leave to other programs
PICTURE_BYTES = 16 * 2**20  # display buffers and scratch, rounded up
HOME = "that is, in lab.py of a folder with cpu_numpy.py (docs/architecture.md)"
ON_THE_WAY = ("backend", "device_index", "variant", "dtype")  # structural parameters that keep the state

_RUN_BEFORE: set[tuple[str, ...]] = set()  # by this process: lab, backend, and all other inputs of a build


class OutOfMemory(ValueError):
    """A grid was refused before any allocation; the text states the predicted and the free bytes."""


@dataclass
class Stepping:
    """The timing of a block of `Lab.stepping`; valid after the block."""

    timing: Timing


class LabMeta(ParameterizedMetaclass, ABCMeta):
    """param's and abc's metaclass in one. Sets missing class attributes from the lab's folder and parameters."""

    INITIAL: tuple[str, ...]
    STRUCTURAL: tuple[str, ...]

    def __init__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> None:
        super().__init__(name, bases, content)
        if param.Parameterized in bases:  # Lab itself
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


class Lab(param.Parameterized, metaclass=LabMeta):
    """Base of all labs. Bad values raise ValueError naming the parameter, the value and the bound."""

    LAB: ClassVar[str]  # its name in links, files and commands: that of its folder
    TITLE: ClassVar[str]  # of its tab: the name as words
    PACKAGE: ClassVar[str]  # package of its kernels and its class
    STRUCTURAL: ClassVar[tuple[str, ...]] = ("backend", "device_index")  # parameters that rebuild the state
    INITIAL: ClassVar[tuple[str, ...]] = ()  # parameters that reset the state to step 0
    LOCAL: ClassVar[tuple[str, ...]] = ()  # parameters about this machine that change no result: in no link or file
    ENDS: ClassVar[bool] = False  # whether advancing leads to `status.resting`
    HISTORY_NAMES: ClassVar[tuple[str, ...]]  # parameters and actions allowed in a history: those that keep the state
    FIRST: ClassVar[str] = ""  # the one of those actions that makes a new state: only a history's first entry
    RESTORES: ClassVar[bool] = True  # whether a snapshot includes the whole displayed state, not only the progress
    GRIDS: ClassVar[int] = 4  # arrays of ny x nx cells that `predicted_bytes` counts
    APART: ClassVar[tuple[int, int, int]] = (255, 0, 200)  # colour of pixels without a number, in exports
    APART_WORDS: ClassVar[str] = "not finite"  # description of such pixels

    backend = param.Selector(
        default="cpu_numba", objects=[b.name for b in BACKENDS], label="Backend", doc="How the kernels are written."
    )
    device_index = param.Integer(default=0, bounds=(0, 63), label="Device", doc="Number of the GPU; 0 on the host.")

    arrays: dict[str, Array]  # the state on the device, by name
    history: StepHistory  # of the state
    steps: int  # since the beginning
    spent: Timing | None  # since the last frame
    camera: Camera
    canvas: Any  # of a notebook that shows it; None before
    _present: Mapping[str, Any] | None = None
    _closed = False

    def __init__(self, **values: Any) -> None:
        self._ready = False
        self.canvas = None
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
        self.history.lose(GIVEN)

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
        self.history.note(self.steps, {name: self.present[name] for name in self.history.now})
        done = Stepping(self._idle_timing())
        with watching() as builds, self.device.lock, self.device.stopwatch() as watch:
            yield done
        self.steps += steps
        first = self.first_call(done.timing.variant, *(str(each.dtype) for each in self.arrays.values()))
        done.timing = timing = replace(
            done.timing, steps=steps, launch=watch.launch, compute=watch.seconds(), first_call=first or builds.count > 0
        )
        self.spent = timing if self.spent is None else self.spent.then(timing)

    def first_call(self, *what: str) -> bool:
        """Whether this lab and backend, with `what` as further inputs of a build, run for the first time here."""
        key = (self.LAB, self.present["backend"], *what)
        first = key not in _RUN_BEFORE
        _RUN_BEFORE.add(key)
        return first

    def _idle_timing(self) -> Timing:
        """Return the timing of a frame without computation."""
        cells = next((int(array.size) for array in self.arrays.values()), 0)
        return Timing(self.backend, str(self.present.get("variant", "")), 0, cells)

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

    @classmethod
    def panels(cls, frame: Frame) -> Mapping[str, Panel]:
        """Return the drawable panels of a frame by name; the first is the default."""
        return plain(frame)

    @classmethod
    def extremes(cls, frame: Frame) -> Mapping[str, tuple[float, float]]:  # noqa: ARG003 a lab's own
        """Return (minimum, maximum) of the values behind rasters by their names, if the frame's facts include them.

        The pixels of a raster are means of blocks of cells, clipped to the limits of its colours, so that both extremes
        may be lost.
        """
        return {}

    @property
    def status(self) -> LabStatus:
        """Whether the lab rests, how far it is, whether its state is finite, and what its next call may take."""
        return LabStatus(healthy=self._nonfinite == 0)

    def blocked(self) -> bool:
        """Return whether another lab of the process prevents this one from advancing.

        The engine calls this only when the lab is to advance.
        """
        return False

    # -- values and actions, common to every lab

    def validate(self, values: dict[str, Any]) -> None:
        """Raise ValueError for values that are each within their bounds but incompatible."""

    @classmethod
    def sizes(cls, values: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes at these valid values that a server may limit (compute/cli/settings.py), by setting."""
        return {"grid": values["ny"] * values["nx"]} if {"ny", "nx"} <= set(cls.param) else {}

    def _accept(self, values: dict[str, Any]) -> None:
        """Raise ValueError for values that are incompatible, or exceed this server's limits."""
        self.validate(values)
        for name, value in self.sizes(values).items():
            settings.require(name, value)

    def values(self) -> dict[str, Any]:
        """Return the current values of all parameters."""
        return dict(self.present)

    @property
    def present(self) -> Mapping[str, Any]:
        """The read-only result of `values`, cached until a parameter is set.

        param takes 1 to 3 us to read a parameter, and a frame of the diffusion lab reads fifty.
        """
        if self._present is None:
            self._present = {name: value for name, value in self.param.values().items() if name != "name"}
        return self._present

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; clear the cache of `present` if it is a parameter, not an instance attribute.

        The cache is cleared both before and after, since watchers of the parameter run in between.
        """
        held_by_param = name not in self.__dict__
        if held_by_param:
            self.__dict__["_present"] = None
        super().__setattr__(name, value)
        if held_by_param:
            self.__dict__["_present"] = None

    def update(self, **values: Any) -> None:
        """Set several parameters in one call: all of them, or none and raise ValueError."""
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
        self._try(values)

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
        """Free the state's memory. The lab cannot be used afterwards; a second call is a no-op."""
        if self._closed:
            return
        if self.canvas is not None:
            in_notebook.display().settle(self)
        self._closed, self._ready = True, False
        self._release()
        self.device.close()

    def __enter__(self) -> Self:
        """Return the lab, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        """Return the class with its non-default values, and the step: Diffusion(ny=64), step 30."""
        defaults = type(self).param.values()
        changed = (f"{name}={short(value)}" for name, value in self.present.items() if value is not defaults[name])
        ending = f", step {self.steps}" if self.steps else ""
        return f"{type(self).__name__}({', '.join(changed)}){', closed' if self._closed else ending}"

    def __repr__(self) -> str:
        """Return the same as str(): param's own repr lists every parameter."""
        return str(self)

    # -- in a notebook: compute/lab/notebook.py, through in_notebook.py

    def play(self, steps: int = 0) -> Self:
        """Run in the canvas of a notebook, `steps` a frame, 0 for as many as take some 40 ms; return the lab.

        A cell that ends with this call shows the lab. Raise SceneError, with the install command, if the extra is
        missing.
        """
        in_notebook.display().canvas_of(self).stream.play(steps)
        return self

    def pause(self) -> Self:
        """Stop `play`. The canvas becomes a picture of the current state."""
        if self.canvas is not None:
            self.canvas.stream.pause()
            in_notebook.display().settle(self)
        return self

    def _repr_png_(self) -> bytes:
        """Return a still picture; called by notebooks that show no canvas."""
        return in_notebook.display().still(self)

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, Any]:
        """Return the output of a cell: a picture of the current state, and the canvas while the lab plays."""
        return in_notebook.display().mimebundle(self)

    def _ipython_display_(self) -> None:
        """Show the lab in a cell of Jupyter or VS Code."""
        in_notebook.display().show_in_cell(self)

    def _display_(self) -> Any:
        """Return the output for marimo."""
        return in_notebook.display().displayed(self)

    # -- pictures and films made from parameters alone

    @classmethod
    def pictured(cls, values: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:  # noqa: ARG003 for subclasses
        """Return values for a picture of `size` (height, width); unchanged for labs without a value for the size."""
        return values

    @classmethod
    def sized(cls) -> frozenset[str]:
        """Names of the parameters that depend on the size of a picture."""
        return frozenset(cls.pictured({}, (1, 1)))

    @classmethod
    def between(cls, first: dict[str, Any], last: dict[str, Any], part: float) -> dict[str, Any]:
        """Return values on the way from `first` to `last`, which have the same names; `part` runs from 0 to 1.

        `mixed` interpolates between two values.
        """
        return {name: mixed(value, last[name], part) for name, value in first.items()}

    # -- how files recreate a state

    def origin(self) -> dict[str, Any]:
        """Return the snapshot entries that `history_of` needs of a lab that never ends: steps and history, no array."""
        return {"steps": self.steps, "history": self.history.copy()}

    @classmethod
    def history_of(cls, values: Mapping[str, Any], snapshot: Mapping[str, Any] | None = None) -> History:
        """Return the history of a lab with these values, up to its `snapshot`; without one, that of a new lab."""
        if snapshot and "history" in snapshot:
            return snapshot["history"].as_plain(cls, values, snapshot["steps"])
        return plain_history(cls, values)

    @classmethod
    def require_entry(cls, action: str, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless the arguments of a history entry, which may come from anywhere, are valid."""

    def replay(self, entry: Entry) -> None:
        """Apply an entry of a history; the lab has already done the steps before it."""
        if "set" in entry:
            self.update(**entry["set"])
        else:
            self.act(entry["do"], **entry["with"])

    # -- backend and device

    @property
    def chosen(self) -> Backend:
        """The Backend in use."""
        return backend(self.present["backend"])

    @property
    def kernels(self) -> ModuleType:
        """The lab's kernels in the chosen backend; raises ValueError for a lab in no package."""
        if not self.PACKAGE:
            raise ValueError(f"{self.LAB} has no kernels in files: its class must be in a package, {HOME}")
        return self.chosen.kernels(self.PACKAGE)

    @property
    def display(self) -> ModuleType:
        """The kernels that turn a field into a picture, in the chosen backend."""
        return self.chosen.display()

    @classmethod
    def backends(cls) -> tuple[Backend, ...]:
        """Return the backends this lab has a file for, available on this machine or not.

        A lab in a script or in a cell of a notebook computes by its own methods, on the host.
        """
        if not cls.PACKAGE:
            return tuple(b for b in BACKENDS if b.kind == "cpu")
        return tuple(b for b in BACKENDS if b.has_kernels(cls.PACKAGE))

    @classmethod
    def variants(cls, name: str) -> tuple[str, ...]:
        """Return the kernels that the backend `name` has for this lab, its default first; () for a missing backend.

        A lab with a parameter `variant`, which chooses between them, lists them as VARIANTS in every backend's file.
        """
        chosen = backend(name)
        if chosen.missing:
            return ()
        return tuple(chosen.kernels(cls.PACKAGE).VARIANTS) if "variant" in cls.param else ("",)

    @classmethod
    def about(cls) -> str:
        """Return equation, method and sources in Markdown: README.md of the lab's folder, in scripts the docstring."""
        if not cls.PACKAGE:
            return inspect.cleandoc(cls.__doc__ or "")
        return Path(import_module(cls.PACKAGE).__path__[0], "README.md").read_text(encoding="utf-8")

    @classmethod
    def benchmark(cls) -> Benchmark:
        """Return how this lab is checked and timed: BENCHMARK of its folder's benchmark.py, or the default."""
        from compute.measure.benchmark import benchmark_of  # it loads Numba and rich

        return benchmark_of(cls)

    def _open_device(self) -> None:
        if self.chosen not in self.backends():
            known = ", ".join(b.name for b in self.backends())
            raise ValueError(f"backend must be one of {known} for {self.LAB}, not {self.backend!r}")
        index = self.device_index if self.chosen.kind == "gpu" else 0
        self.device: Device = self.chosen.open_device(index)

    def _require_memory(self, needed: int, held: int = 0) -> None:
        free = int((1 - RESERVE) * self.device.free_bytes()) + held
        if needed > free:
            raise OutOfMemory(
                f"this needs {needed / 2**30:.2f} GiB on {self.device.name}, but {free / 2**30:.2f} GiB can be used"
            )

    def _rebuild(self, *events: param.parameterized.Event) -> None:
        """Check changed structural parameters, then move or rebuild the state. On failure nothing changes."""
        if not self._ready:
            return
        old_values = {**self.values(), **{event.name: event.old for event in events}}
        old_device = self.device
        try:
            self._accept(self.values())
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
        """Read the state from its previous device."""
        new, self.device = self.device, device
        try:
            return self.snapshot()
        finally:
            self.device = new


def mixed(first: Any, last: Any, part: float) -> Any:
    """Return the value between two values at `part` of the way from 0 to 1.

    A number changes in proportion to `part`, a whole number that grows tenfold or more by equal factors; any other
    value jumps at the end.
    """
    if isinstance(first, bool) or not all(isinstance(value, int | float) for value in (first, last)):
        return last if part >= 1 else first
    if isinstance(first, int) and isinstance(last, int):
        low, high = sorted((first, last))
        if low > 0 and high >= 10 * low:
            return round(first * (last / first) ** part)
        return round(first + part * (last - first))
    return first + part * (last - first)
