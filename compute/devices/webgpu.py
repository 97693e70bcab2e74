"""GPUs through WebGPU (wgpu-py): Metal, Vulkan or DirectX 12 with a single interface. Arithmetic in float32 only.

All labs of a process share one connection per GPU, so that their kernels are compiled once. wgpu is imported when a
device is opened or queried, never at import of this file.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from compute.devices.devices import Array, Device, NoDevice, Stopwatch
from compute.devices.webgpu_exactness import PRODUCT, SUM, exactness
from compute.devices.webgpu_passes import (
    REQUIRED,
    SUBGROUP,
    WORD,
    Gpu,
    Storage,
    TimestampStopwatch,
    WallStopwatch,
    WgpuArray,
)
from compute.devices.webgpu_probe import copy, subgroup_of, time_is_plausible

INTERFACES = ("Vulkan", "Metal", "DX12")  # without OpenGL: its compute shaders lack features of the kernels
STORED = ("float32", "int32", "uint32", "uint16", "uint8", "float64", "int64")  # the last two as pairs of words
SOFTWARE = "FIELDLAB_WEBGPU"  # environment variable; "software" selects adapters that run on the CPU, "off" none
PIECE = 2**26  # bytes per write; wgpu copies each piece before the transfer
ROOM_PIECE = 2**27  # bytes of a buffer that tests for free memory
PROBE_BYTES = 2**24  # of the copy that checks the timestamps
FIXED_SUBGROUP = 0x10DE, 0x106B  # vendors, NVIDIA and Apple, whose compilers choose the same size for every kernel


class WebGpu(Device):
    """GPU number `index` of `adapters()`; number 0 is the GPU that the system prefers."""

    kind = "gpu"
    copies_at_once = False
    fma_dtypes = ("float32",)

    def __init__(self, index: int = 0) -> None:
        if not 0 <= index < self.count():
            raise ValueError(f"device_index must be from 0 to {self.count() - 1}, not {index}")
        super().__init__(index)
        self.name = f"webgpu:{index}"
        self.gpu = _shared(index)
        self.lock = self.gpu.lock
        self.largest_array = self.gpu.largest
        self.clock = _clock(self.gpu)
        self.gpu.subgroup = _subgroup(self.gpu)

    @staticmethod
    def count() -> int:
        """Return the number of GPUs that WebGPU can use."""
        return len(adapters()) if import_error() is None else 0

    @staticmethod
    def missing() -> str | None:
        """Return why WebGPU cannot compute on this machine; None without such a reason."""
        if error := import_error():
            return f"wgpu cannot be imported ({error})"
        if _is_off():
            return NoDevice(f"it is switched off ({SOFTWARE}=off)")
        usable = adapters()
        if not usable:
            software = [each.info["device"] for each in _all_adapters()]
            found = f"only the software adapter {software[0]}" if software else "no GPU or driver"
            return NoDevice(f"wgpu is installed but WebGPU finds {found}")
        lacking = [name for name in REQUIRED if name not in usable[0].features]
        return NoDevice(f"{usable[0].info['device']} lacks {', '.join(lacking)} of WebGPU") if lacking else None

    @staticmethod
    def simulated() -> str:
        """Return why times are meaningless: the adapter is software; "" on a GPU."""
        if os.environ.get(SOFTWARE) != "software" or import_error() or not adapters():
            return ""
        info = adapters()[0].info
        return f"WebGPU runs on the CPU ({info['device']}): its times mean nothing" if _is_software(info) else ""

    @staticmethod
    def exact(index: int = 0) -> bool:
        """Return whether exact=2 keeps the rounding of every sum and product on GPU `index`, measured once."""
        return 0 <= index < WebGpu.count() and _is_exact(_shared(index), index)

    def allocate(self, shape: Sequence[int], dtype: DTypeLike) -> Array:
        """Return an array, which WebGPU fills with zeros. TypeError for a dtype that no kernel can read."""
        kind = np.dtype(dtype)
        if kind.name not in STORED:
            raise TypeError(f"dtype must be one of {', '.join(STORED)} for WebGPU, not {kind.name}")
        with self.lock:
            return WgpuArray(self.gpu.storage(math.prod(shape) * kind.itemsize), tuple(shape), kind)

    def write(self, host: NDArray[Any], array: Array) -> None:
        """Copy from host to device; the host array may be changed afterwards."""
        words = np.ascontiguousarray(host, array.dtype).reshape(-1).view(np.uint8)
        if words.size % WORD:
            words = np.concatenate([words, np.zeros(-words.size % WORD, np.uint8)])
        first = array.offset * array.dtype.itemsize
        with self.lock, self.gpu.errors():
            self.gpu.submit()
            for start in range(0, words.size, PIECE):
                piece = words[start : start + PIECE]
                self.gpu.device.queue.write_buffer(array.storage.buffer, first + start, piece)

    def download(self, array: Array) -> NDArray[Any]:
        """Copy from device to host; blocks."""
        return self.fetch(array)()

    def fetch_all(self, arrays: Sequence[Array]) -> Callable[[], Sequence[NDArray[Any]]]:
        """Queue copies into a mappable buffer; further work can be launched before they are waited for."""
        *starts, total = accumulate((-(-each.nbytes // WORD) * WORD for each in arrays), initial=0)
        room = max(WORD, 1 << max(total - 1, 0).bit_length())
        with self.lock:
            free = self.gpu.landings[room]
            usage = self.gpu.usage
            landing = free.pop() if free else self.gpu.buffer(room, usage.COPY_DST | usage.MAP_READ)
            for start, each in zip(starts, arrays, strict=True):
                self.gpu.copy(each, landing, start)
            self.gpu.submit()
            with self.gpu.errors():
                mapped = landing.map_async("READ_NOSYNC")

        def wait() -> list[NDArray[Any]]:
            """Wait for the copies and return them."""
            with self.lock:
                with self.gpu.errors():
                    mapped.sync_wait()
                    copied = np.frombuffer(landing.read_mapped(copy=True), np.uint8)
                    landing.unmap()
                free.append(landing)
            return [
                copied[start : start + each.nbytes].view(each.dtype).reshape(each.shape)
                for start, each in zip(starts, arrays, strict=True)
            ]

        return wait

    def copiers(self) -> tuple[Callable[[Array, Array], object], ...]:
        """Return a copy by a kernel."""
        return (copy,)

    def synchronise(self) -> None:
        """Wait for the device."""
        self.gpu.wait()

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch of timestamps, or of wall time if this GPU's timestamps are implausible."""
        return TimestampStopwatch(self.gpu) if self.clock == "timestamps" else WallStopwatch(self.gpu)

    def free_bytes(self) -> float:
        """Return inf: WebGPU does not report free memory."""
        return math.inf

    def has_room(self, nbytes: int) -> bool:
        """Return whether `nbytes` bytes can be allocated, by allocating and releasing them."""
        pieces = [min(ROOM_PIECE, nbytes - start) for start in range(0, nbytes, ROOM_PIECE)]
        found: list[Storage] = []
        try:
            found.extend(self.gpu.storage(min(piece, self.gpu.largest)) for piece in pieces)
        except MemoryError:
            return False
        finally:
            found.clear()
            self.gpu.submit()
        return True

    def describe(self) -> dict[str, Any]:
        """Return name, driver, interface and clock; WebGPU reports neither memory nor multiprocessors."""
        info = self.gpu.adapter.info
        return {
            "name": info["device"],
            "driver": info["description"],
            "interface": interface(info),
            "clock": self.clock,
        }

    def close(self) -> None:
        """Destroy the buffers that no array uses any more."""
        with self.lock:
            for landings in self.gpu.landings.values():
                for each in landings:
                    each.destroy()
            self.gpu.landings.clear()
            self.gpu.submit()


@cache
def import_error() -> str | None:
    """Import wgpu; return why that fails, None if it does not."""
    try:
        import wgpu.backends.wgpu_native  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: the native library does not fit this system
        return str(error)
    return None


@cache
def _all_adapters() -> tuple[Any, ...]:
    """Return the adapters of this machine through the interface that the system prefers, the preferred one first."""
    import wgpu
    from wgpu.backends.wgpu_native import extras

    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())  # else Linux's drivers print errors about displays
    extras.set_instance_extras(backends=INTERFACES)
    try:
        first = wgpu.gpu.request_adapter_sync(power_preference="high-performance").info
    except RuntimeError:  # no adapter exists
        return ()
    known = wgpu.gpu.enumerate_adapters_sync()  # on Windows, those of Vulkan and of DirectX 12
    same = [each for each in known if each.info["backend_type"] == first["backend_type"]]
    return tuple(sorted(same, key=lambda each: each.info["device"] != first["device"]))


def _is_off() -> bool:
    return os.environ.get(SOFTWARE) == "off"


def _is_software(info: Any) -> bool:
    return bool(info["adapter_type"] == "CPU")


def adapters() -> tuple[Any, ...]:
    """Return the adapters to compute on: GPUs, or with FIELDLAB_WEBGPU software adapters or none."""
    if _is_off():
        return ()
    software = os.environ.get(SOFTWARE) == "software"
    return tuple(each for each in _all_adapters() if _is_software(each.info) == software)


_GPUS: dict[tuple[int, str], Gpu] = {}  # of this process, by number and setting


def _shared(index: int) -> Gpu:
    """Return the connection to GPU `index`: a new one the first time, and after the GPU was lost."""
    key = index, os.environ.get(SOFTWARE, "")
    if key not in _GPUS or _GPUS[key].lost:
        _GPUS[key] = Gpu(adapters()[index])
    return _GPUS[key]


def listed() -> tuple[list[dict[str, Any]], str | None]:
    """Return {name, memory, interface} of every GPU and the driver of the first; memory is unknown and given as 0."""
    if import_error() is not None or _is_off():
        return [], None
    found = [each.info for each in _all_adapters() if not _is_software(each.info)]
    gpus = [{"name": each["device"], "memory": 0, "interface": interface(each)} for each in found]
    return gpus, found[0]["description"] if found else None


def interface(info: Any) -> str:
    """Return the interfaces of an adapter as text: "WebGPU on Metal"."""
    return f"WebGPU on {info['backend_type']}"


@cache
def _clock(gpu: Gpu) -> str:
    """Return "timestamps" if this GPU has them and they are plausible, else "wall time"."""
    return "timestamps" if gpu.tick is not None and time_is_plausible(gpu, PROBE_BYTES) else "wall time"


@cache
def _subgroup(gpu: Gpu) -> int:
    """Return the threads of a subgroup on GPUs where all kernels have the same, measured; else 0."""
    fixed = gpu.adapter.info["vendor_id"] in FIXED_SUBGROUP and SUBGROUP in gpu.adapter.features
    return subgroup_of(gpu) if fixed else 0


@cache
def _is_exact(_gpu: Gpu, index: int) -> bool:
    device = WebGpu(index)
    with device.lock:
        shares = exactness(device, 2)
    return shares[SUM] == shares[PRODUCT] == 1
