"""Run CUDA C on the CPU and record its memory accesses: kernels compiled by a C++ compiler, on NumPy arrays.

`cuda_on_cpu.cpp` describes the execution of a launch and the detected faults; this module compiles the sources and
passes the arrays. Each array is copied between two guard regions before a launch and copied back after it, so that
writes outside of an array are detected and do no harm. No GPU and no GPU library is needed, only g++ or clang++.

The project's own kernels are tested with it too (tests/cuda_on_cpu.py), mostly unwatched: directly on the arrays, at
full speed, where only threads stuck at a barrier are detected.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.kernel_cache import folder
from compute.files.files import whole_file
from compute.machine import scratch
from compute.own.watch import Access, AccessWatch, KernelLaunch

HERE = Path(__file__).parent
HEADER, RUNTIME = HERE / "cuda_on_cpu.h", HERE / "cuda_on_cpu.cpp"
COMPILERS = ("g++", "clang++", "c++")
OPTIONS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fPIC")
STRICT = ("-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-variable", "-Wno-strict-aliasing")
GUARD = 2**16  # bytes before and behind an array; same value in the .cpp
ALIGNMENT = 256  # of an array on a GPU
FILL = 0xFF  # of the guards: NaN in every floating-point format
MOST_THREADS = 1024  # of a block
MOST_SHARED = 2**18  # bytes of a block's dynamic shared memory; same value in the .cpp
DIMENSIONS = 3
KERNEL = re.compile(
    r"__global__\s+(?:static\s+)?void\s+(?:__launch_bounds__\s*\([^()]*\)\s*)?(\w+)\s*\(([^()]*)\)\s*\{"
)
BOUNDED = re.compile(r"__launch_bounds__\s*\([^()]*\)\s*(?=void)")
DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\([^()]*\)\s*)?([\w\s]+?)\s+(\w+)\s*\[\s*\]\s*;")
INCLUDE = re.compile(r"^\s*#\s*include\s*<[^>]+>", re.MULTILINE)
POINTER, CONST_POINTER, OTHER, REAL = 1000, 2000, 9000, 100  # same values as fieldlab_kind in the .h


class NoCompiler(RuntimeError):
    """This machine has no C++ compiler."""


class KernelRefused(RuntimeError):
    """The source of a kernel, or a launch of it, is invalid; the text states the error."""


@cache
def compiler() -> str:
    """Return the C++ compiler. Raise NoCompiler if none is installed."""
    for name in (os.environ.get("CXX", ""), *COMPILERS):
        if name and shutil.which(name):
            return name
    raise NoCompiler("there is no C++ compiler (g++ or clang++)")


@dataclass(frozen=True)
class CpuBuild:
    """Compiler settings. watched: record every access, which is slower; strict: treat warnings as errors.

    kept: folder in which libraries are cached for other processes and later runs; None: for this process alone.
    """

    watched: bool = True
    strict: bool = False
    kept: Path | None = None

    def options(self, defines: Sequence[str]) -> list[str]:
        """Return the compiler's options."""
        watching = ("-fsanitize=thread",) if self.watched else ()
        return [*OPTIONS, *(STRICT if self.strict else ("-w",)), *watching, *(f"-D{define}" for define in defines)]


class CudaOnCpu:
    """The kernels of one source, with the interface of a cupy.RawModule. name: of the source, for messages."""

    def __init__(self, source: str, name: str, defines: Sequence[str] = (), build: CpuBuild = CpuBuild()) -> None:
        self._name, self._kernels, self._watched = name, kernels_of(source), build.watched
        if not self._kernels:
            raise KernelRefused(f'{name} has no kernel: a function that begins with extern "C" __global__ void')
        self._library = ctypes.CDLL(str(_compiled(source, name, tuple(self._kernels), build, defines)))

    def get_function(self, kernel: str) -> KernelOnCpu:
        """Return the kernel of that name. Raise KernelRefused, which lists the names, if it does not exist."""
        if kernel not in self._kernels:
            raise KernelRefused(f"{self._name} has no kernel {kernel!r}; it has {', '.join(self._kernels)}")
        return KernelOnCpu(self._library, kernel, self._kernels[kernel], self._watched)


@cache
def module_of(source: str, name: str, defines: tuple[str, ...] = ()) -> CudaOnCpu:
    """Return the kernels of a source, compiled once per process."""
    return CudaOnCpu(source, name, defines)


def kernels_of(source: str) -> dict[str, tuple[str, ...]]:
    """Return the parameter names of each kernel of a source, by kernel name."""
    plain = BOUNDED.sub("", re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL))
    return {
        name: tuple(re.split(r"[\s*&]+", one.strip())[-1] for one in parameters.split(",") if one.strip())
        for name, parameters in KERNEL.findall(plain)
    }


def _compiled(source: str, name: str, kernels: tuple[str, ...], build: CpuBuild, defines: Sequence[str]) -> Path:
    """Compile the shared library and return its path. Raise KernelRefused with the compiler's first error."""
    text = DYNAMIC.sub(r"\1* const \2 = (\1*)(void*)fieldlab_dynamic_shared;", source)
    callable_ = "\n".join(f"FIELDLAB_KERNEL({kernel})" for kernel in kernels)
    headers = "\n".join(INCLUDE.findall(text))
    program = (  # an anonymous namespace: __shared__ in inline functions would otherwise be shared between libraries
        f'#include "{HEADER}"\n{headers}\nnamespace {{\n#line 1 "{name}"\n{text}\n}}\n'
        f'#line 1 "launchers"\n{callable_}\n'
    )
    options = build.options(defines)
    read = (program, HEADER.read_text(encoding="utf-8"), RUNTIME.read_text(encoding="utf-8"), *options, _version())
    library = (build.kept or scratch.folder("kernel")) / f"kernel-{_digest(*read)}.so"
    if not library.exists():
        with whole_file(library) as made:
            part = made.with_suffix(".o")
            _run([compiler(), *options, "-x", "c++", "-c", "-", "-o", str(part)], program)
            _run([compiler(), "-shared", "-Wl,-Bsymbolic", str(part), str(_runtime()), "-o", str(made)])
    return library


def _digest(*read: str) -> str:
    return hashlib.sha256("\0".join(read).encode()).hexdigest()[:24]


@cache
def _version() -> str:
    """Return the compiler's version text."""
    return subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=False).stdout


@cache
def _runtime() -> Path:
    """Compile the runtime once for this compiler, cache it in the folder of Numba's kernels, and return its path."""
    digest = _digest(RUNTIME.read_text(encoding="utf-8"), _version())
    try:
        kept = folder() / f"fieldlab-cuda-on-cpu-{digest}.o"
        if not kept.exists():
            _compile_runtime(kept)
    except OSError:  # the folder is not writable
        kept = scratch.folder("runtime") / "runtime.o"
        _compile_runtime(kept)
    return kept


def _compile_runtime(kept: Path) -> None:
    with whole_file(kept) as made:
        _run([compiler(), "-std=c++17", "-O2", "-fPIC", "-c", str(RUNTIME), "-o", str(made)])


def _run(command: list[str], text: str = "") -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else f"exit code {done.returncode}")
        raise KernelRefused(f"the compiler says: {first.strip()[:300]}")


# -- a launch


class Sizes(ctypes.Structure):
    """FieldlabLaunch in the .h."""

    _fields_ = (("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3))


class RawAccess(ctypes.Structure):
    """Access in the .cpp."""

    _fields_ = (
        ("argument", ctypes.c_int), ("write", ctypes.c_int), ("atomic", ctypes.c_int), ("element", ctypes.c_int64),
        ("block", ctypes.c_uint * 3), ("thread", ctypes.c_uint * 3),
    )  # fmt: skip


COUNTS = ("reads", "writes", "atomics", "shared", "barriers", "sectors", "accesses")


class Told(ctypes.Structure):
    """Told in the .cpp."""

    _fields_ = (
        ("outside", ctypes.c_int), ("race", ctypes.c_int), ("stuck", ctypes.c_int),
        ("first", RawAccess), ("second", RawAccess), *((name, ctypes.c_int64) for name in COUNTS),
    )  # fmt: skip


@dataclass
class _Arena:
    """Copies of arrays between guard regions. Arrays that share memory share it in the copy, too."""

    roots: dict[int, NDArray[Any]] = field(default_factory=dict)
    copies: dict[int, NDArray[np.uint8]] = field(default_factory=dict)

    def place(self, array: NDArray[Any]) -> int:
        """Copy the array's memory on first use and return the address of its copy."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        begin = root.ctypes.data
        if begin not in self.roots:
            if not root.flags.c_contiguous:
                raise KernelRefused("an array whose memory has gaps was passed to a kernel: make it contiguous")
            size = max(root.nbytes, 1)
            room = np.full(size + 2 * GUARD + 2 * ALIGNMENT, FILL, np.uint8)
            start = -(-(room.ctypes.data + GUARD) // ALIGNMENT) * ALIGNMENT - room.ctypes.data
            self.roots[begin], self.copies[begin] = root, room[start : start + size]
            self.copies[begin][: root.nbytes] = _bytes(root)
        return int(self.copies[begin].ctypes.data + array.ctypes.data - begin)

    def bring_back(self) -> None:
        """Copy the contents that the kernel left back to the arrays."""
        for begin, root in self.roots.items():
            if root.flags.writeable:
                _bytes(root)[:] = self.copies[begin][: root.nbytes]


class _InPlace(_Arena):
    """No copies: unwatched kernels work on the arrays themselves."""

    def place(self, array: NDArray[Any]) -> int:
        """Return the array's own address."""
        if not array.flags.c_contiguous:
            raise KernelRefused("an array whose memory has gaps was passed to a kernel: make it contiguous")
        return int(array.ctypes.data)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.ndarray).view(np.uint8)


class KernelOnCpu:
    """A kernel, called like one of CuPy's: (grid, block, arguments, shared_mem=bytes).

    Its launches are reported to the AccessWatch of this process (watch.py), which also sets the order of blocks and
    threads.
    """

    def __init__(self, library: ctypes.CDLL, name: str, parameters: tuple[str, ...], watched: bool = True) -> None:
        self._library, self._name, self._parameters, self._watched = library, name, parameters, watched
        kinds = (ctypes.c_int * (len(parameters) + 1))()
        library[f"fieldlab_kinds_{name}"](kinds)
        self._kinds = tuple(kinds[: len(parameters)])

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0,
        stream: Any = None,  # noqa: ARG002 - launches are synchronous
    ) -> None:  # fmt: skip
        """Launch it and wait for its last thread. Raise KernelRefused if arguments do not fit its parameters."""
        if len(args) != len(self._parameters):
            raise KernelRefused(f"{self._name} has {len(self._parameters)} parameters and was given {len(args)}")
        arena = _Arena() if self._watched else _InPlace()
        held = [self._held(arena, number, value) for number, value in enumerate(args)]
        places = (ctypes.c_void_p * max(1, len(held)))(*(value.ctypes.data for value in held))
        named = {
            id(_root(value)): name
            for name, value in reversed(list(zip(self._parameters, args, strict=True)))
            if isinstance(value, np.ndarray)
        }
        arrays = [
            (named.get(id(root), ""), root, ctypes.c_void_p(arena.copies[begin].ctypes.data))
            for begin, root in arena.roots.items()
        ]
        self._launched(grid, block, places, shared_mem, arrays)
        arena.bring_back()

    def at_addresses(self, grid: tuple[int, ...], block: tuple[int, ...], places: Any, *, shared_mem: int = 0) -> None:
        """Launch it with arguments as the driver receives them, an array of addresses; accesses are not recorded."""
        self._launched(grid, block, places, shared_mem, [])

    def _launched(
        self, grid: tuple[int, ...], block: tuple[int, ...], places: Any, shared_mem: int,
        arrays: list[tuple[str, NDArray[Any], ctypes.c_void_p]],
    ) -> None:  # fmt: skip
        """Run the launch and report it. arrays: name, array, and the address that the kernel receives for it."""
        self._check(grid, block, shared_mem)
        watch, library = AccessWatch.current(), self._library
        seed = ctypes.c_uint(watch.next_seed())
        library.fieldlab_prepare(int(watch.order), seed, int(shared_mem), int(self._watched))
        for _, root, address in arrays:
            library.fieldlab_array(address, ctypes.c_int64(root.nbytes), int(root.dtype.itemsize))
        sizes = Sizes(
            (ctypes.c_uint * 3)(*(*grid, 1, 1)[:DIMENSIONS]), (ctypes.c_uint * 3)(*(*block, 1, 1)[:DIMENSIONS])
        )
        library[f"fieldlab_launch_{self._name}"](ctypes.byref(sizes), places)
        watch.heard(self._launch(Told.in_dll(library, "fieldlab_told"), [each[:2] for each in arrays]))

    def _check(self, grid: tuple[int, ...], block: tuple[int, ...], shared_mem: int) -> None:
        for what, sizes in (("grid", grid), ("block", block)):
            if not 1 <= len(sizes) <= DIMENSIONS or any(int(size) < 1 for size in sizes):
                raise KernelRefused(f"{what} of {self._name} must be one to three numbers from 1 on, not {sizes}")
        if int(np.prod(block)) > MOST_THREADS:
            raise KernelRefused(f"a block of {self._name} may have {MOST_THREADS} threads, not {int(np.prod(block))}")
        if not 0 <= shared_mem <= MOST_SHARED:
            raise KernelRefused(f"shared_mem of {self._name} must be from 0 to {MOST_SHARED} bytes, not {shared_mem}")

    def _held(self, arena: _Arena, number: int, value: Any) -> NDArray[Any]:
        """Return the bytes of an argument, as CuPy passes them. Raise KernelRefused if its type is wrong."""
        kind, name = self._kinds[number], f"argument {number + 1} ({self._parameters[number]}) of {self._name}"
        if isinstance(value, np.ndarray) and value.ndim + value.size > 0 and not isinstance(value, np.generic):
            if not POINTER <= kind < OTHER:
                raise KernelRefused(f"{name} is a number, and was given an array")
            item = kind % POINTER
            if item and (item % REAL != value.dtype.itemsize or (item > REAL) != (value.dtype.kind == "f")):
                wanted = f"{8 * (item % REAL)}-bit {'real' if item > REAL else 'whole'} numbers"
                if value.dtype.itemsize <= 8 and item % REAL <= 8 and value.dtype.kind in "fiub":
                    raise KernelRefused(f"{name} points to {wanted}, and was given {value.dtype} values")
            return np.array(arena.place(value), np.uintp)
        if POINTER <= kind < OTHER:
            if isinstance(value, (int, np.int64)) and value == 0:  # a null pointer, as in CuPy
                return np.zeros(1, np.uintp)
            raise KernelRefused(f"{name} is a pointer, and was given {value!r}")
        held = np.asarray(value)  # as in CuPy: Python's own numbers have 8 bytes
        real = held.dtype.kind == "f"
        if kind < OTHER and (real != (kind > REAL) or (real and held.dtype.itemsize != kind - REAL)):
            wanted = {REAL + 4: "float", REAL + 8: "double"}.get(kind, f"whole number of {kind} bytes")
            raise KernelRefused(f"{name} is a {wanted}, and was given {value!r}: pass a number of that type")
        padded = np.zeros(max(8, held.nbytes), np.uint8)
        padded[: held.nbytes] = np.atleast_1d(held).view(np.uint8)
        return padded

    def _launch(self, told: Told, arrays: list[tuple[str, NDArray[Any]]]) -> KernelLaunch:
        def access(raw: RawAccess) -> Access:
            """Return an access with the array's name and element instead of raw addresses."""
            name, size = "shared memory" if raw.argument == -1 else "", 0
            if raw.argument >= 0:
                name, size = arrays[raw.argument][0], arrays[raw.argument][1].size
            verb = "atomic" if raw.atomic else "write" if raw.write else "read"
            return Access(name, size, int(raw.element), verb, tuple(raw.block), tuple(raw.thread))

        counts = {name: int(getattr(told, name)) for name in COUNTS}
        return KernelLaunch(
            self._name,
            outside=access(told.first) if told.outside else None,
            race=(access(told.first), access(told.second)) if told.race and not told.outside else None,
            stuck=access(told.first) if told.stuck and not told.race and not told.outside else None,
            **counts,
        )


def _root(array: NDArray[Any]) -> NDArray[Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
