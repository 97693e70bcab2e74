"""The backends of kernels, and the reasons for which one may be unavailable on this machine.

A backend has a name, a kind of device and the packages that it requires. A lab has a backend if its folder contains a
file of that name; nothing else registers it. Optional packages are imported only when a backend is requested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from compute.cli.arguments import named
from compute.devices.devices import HOST, Host, NoDevice, device_kind
from compute.devices.gpu_devices import Cuda, NumbaCuda
from compute.devices.webgpu import SOFTWARE, WebGpu, import_error

if TYPE_CHECKING:
    from compute.devices.devices import Device

ON_SIMULATOR, ON_SHIM = "in Numba's simulator", "on the CPU in place of a GPU"  # stand-ins of compute.own
ON_SOFTWARE = "on WebGPU's software adapter"  # another one; it records no accesses of threads
CUDA_INSTALL = "pip install 'fieldlab[cuda13]'  # with a driver below 580: 'fieldlab[cuda12]'"
WEBGPU_INSTALL = "pip install 'fieldlab[webgpu]'"


class BackendUnavailable(RuntimeError):
    """A requested backend is unavailable on this machine; the text states the reason and an install command, if any."""


def _nothing() -> None:
    """Prepare nothing."""


def _start_numba() -> None:
    """Let Numba fill its tables and start its threads, which it does at the first call of a kernel."""
    kernels = import_module("compute.display.cpu_numba")
    kernels.levels(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.uint8), 0.0, 1.0)


def _import_cupy() -> None:
    if find_spec("cupy"):
        import_module("cupy")


def kind_of(name: str) -> Literal["cpu", "gpu"]:
    """Return the kind of the device of a backend, or of a way, called `name`; also of one in a record of other code."""
    return "gpu" if name.startswith("gpu_") else "cpu"


@dataclass(frozen=True)
class Backend:
    """One way to write kernels.

    name: file name of its kernels in every lab, which begins with the kind of its device; device: "host", "cuda" or
    "webgpu"; device_class: the Device of its arrays; needs: importable packages; label: its name on the screen;
    preference: of several ready backends, a new page uses the one with the highest; serial: whether its kernels use one
    thread; dtypes: the number types in which it computes; installed_by: the command that installs its packages;
    display_file: its kernels in compute.display, "" for those of its own name; stand_in: where its kernels can be
    checked on a machine without its device, as text, "" if nowhere; prepare: imports what would delay the first frame,
    without touching a GPU.
    """

    name: str
    device: str
    device_class: type[Device]
    needs: tuple[str, ...]
    label: str
    preference: int = field(default=0, kw_only=True)
    serial: bool = field(default=False, kw_only=True)
    dtypes: tuple[str, ...] = field(default=("float32", "float64"), kw_only=True)
    installed_by: str = field(default="", kw_only=True)
    display_file: str = field(default="", kw_only=True)
    stand_in: str = field(default="", kw_only=True)
    prepare: Callable[[], object] = field(default=_nothing, kw_only=True)

    @property
    def kind(self) -> Literal["cpu", "gpu"]:
        """The kind of its device."""
        return device_kind(self.device)

    @property
    def threaded(self) -> bool:
        """Whether its kernels run on Numba's threads."""
        return "numba" in self.needs

    def engine(self, index: int = 0) -> str:
        """Return the name of the engine that computes on device number `index` of this backend."""
        return HOST if self.kind == "cpu" else f"{self.device}:{index}"

    @property
    def missing(self) -> str | None:
        """Why this backend cannot be used on this machine, as text; None if it can."""
        return _why_missing(self, os.environ.get(SOFTWARE, ""))

    @property
    def simulated(self) -> str:
        """Why its times are meaningless: a simulator or an interpreter runs its kernels; "" for valid times."""
        if self.threaded and os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            return "Numba compiles nothing (NUMBA_DISABLE_JIT is set): its times are those of interpreted Python"
        if self.device == "cuda" and os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
            return "the CUDA simulator is on (NUMBA_ENABLE_CUDASIM=1): its times mean nothing"
        return self.device_class.simulated()

    @property
    def ready(self) -> bool:
        """Whether the backend can be used on this machine and runs on its device, not in a simulator."""
        return self.missing is None and not self.simulated

    @property
    def install(self) -> str:
        """The command that installs the missing packages; empty if no package is missing."""
        return "" if self.missing is None or isinstance(self.missing, NoDevice) else self.installed_by

    def require(self) -> None:
        """Raise BackendUnavailable, with the reason and an install command, if any, unless the backend can be used."""
        if self.missing:
            help_ = f" Install: {self.install}" if self.install else ""
            raise BackendUnavailable(f"backend {self.name!r} is not available: {self.missing}.{help_}")

    def open_device(self, index: int = 0) -> Device:
        """Return device number `index` of this backend's kind, ready for allocation.

        Raises BackendUnavailable if the backend is missing, ValueError if no device has that number.
        """
        self.require()
        return self.device_class(index)

    def has_kernels(self, package: str) -> bool:
        """Return whether `package` (for example "compute.labs.diffusion") has a file for this backend."""
        return find_spec(f"{package}.{self.name}") is not None

    def kernels(self, package: str) -> ModuleType:
        """Return this backend's kernels of `package`; imports its GPU library, if any."""
        self.require()
        return import_module(f"{package}.{self.name}")

    def display(self) -> ModuleType:
        """Return this backend's kernels of compute.display: CUDA C serves the arrays of CuPy and of Numba."""
        self.require()
        simulated = "numba.cuda" in self.needs and self.simulated
        return import_module(f"compute.display.{'simulated' if simulated else self.display_file or self.name}")


@cache
def _why_missing(backend: Backend, _software: str) -> str | None:
    """Check once per process and setting: installing a package requires a restart anyway."""
    if backend.device == "cuda":  # set before CUDA starts: NVML and nvidia-smi number GPUs by their bus
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    absent = [name for name in backend.needs if not installed(name)]
    if absent:
        return f"the package {' and '.join(absent)} is not installed"
    return backend.device_class.missing()


def installed(name: str) -> bool:
    """Return whether the package called `name`, which may be dotted, can be imported; does not import it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package of a dotted name is absent
        return False


_CUDA: dict[str, Any] = {"installed_by": CUDA_INSTALL, "display_file": "gpu"}
_WEBGPU: dict[str, Any] = {
    "installed_by": WEBGPU_INSTALL,
    "dtypes": ("float32",),
    "stand_in": ON_SOFTWARE,
    "prepare": import_error,
}
BACKENDS: tuple[Backend, ...] = (
    Backend("cpu_numpy", HOST, Host, (), "NumPy", preference=1, serial=True),
    Backend("cpu_numba", HOST, Host, ("numba",), "Numba", preference=2, prepare=_start_numba),
    Backend("gpu_wgpu", "webgpu", WebGpu, ("wgpu",), "WebGPU", preference=3, **_WEBGPU),
    Backend(
        "gpu_numba", "cuda", NumbaCuda, ("numba.cuda",), "Numba-CUDA", preference=4, stand_in=ON_SIMULATOR, **_CUDA
    ),
    Backend(
        "gpu_cupy", "cuda", Cuda, ("cupy",), "CUDA C", preference=5, stand_in=ON_SHIM, prepare=_import_cupy, **_CUDA
    ),
)
REFERENCE = "cpu_numpy"  # the backend that every lab has, with which all others are compared
BEST_FIRST = tuple(each.name for each in sorted(BACKENDS, key=lambda each: -each.preference))


def preferred(known: Iterable[Backend] = BACKENDS) -> Backend:
    """Return the first of BEST_FIRST that is in `known` and ready: the backend of a new page. ValueError if none is.

    A lab created without a backend (`Diffusion()` in a notebook, a file, a link) computes on the host instead, which is
    the same on every machine.
    """
    ready = {candidate.name: candidate for candidate in known if candidate.ready}
    for name in BEST_FIRST:
        if name in ready:
            return ready[name]
    raise ValueError(f"none of {', '.join(BEST_FIRST)} is ready here")


def best_of_host() -> Backend:
    """Return the best ready backend of the host, which computes in every number type."""
    return preferred(each for each in BACKENDS if each.kind == "cpu")


def backend(name: str) -> Backend:
    """Return the backend called `name`; ValueError lists the known names."""
    return named("backend", name, {each.name: each for each in BACKENDS})
