"""Compiles a .cu with g++ and cuda_on_cpu.h, and offers its kernels as CuPy would, on NumPy arrays.

What g++ and NVRTC have made is kept in .pytest_cache under a name made of everything they have read, for the other
processes of a run and for the next run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from compute import cuda_source
from compute.cuda_source import Defines, Resources, check_cuda, source_text
from compute.devices import Host
from tests.sources import ROOT

KEPT = ROOT / ".pytest_cache" / "compiled"
HEADER = Path(__file__).with_name("cuda_on_cpu.h")
OPTIONS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wno-unknown-pragmas",
           "-Wno-unused-variable", "-Wno-strict-aliasing", f"-I{HEADER.parent}")  # fmt: skip

KERNEL = re.compile(r'extern "C" __global__ void(?: __launch_bounds__\([^()]*\))?\s+(\w+)\(([^()]*)\)')
NUMBERS = {"int32": ctypes.c_int, "int64": ctypes.c_longlong, "float32": ctypes.c_float, "float64": ctypes.c_double}


class Gpu(nullcontext[None]):
    """Stands for cupy.cuda.Device."""

    id = 0


class DeviceArray(np.ndarray):
    """A NumPy array that says, as CuPy's do, on which GPU it lies."""

    device = Gpu()


def upload(host: np.ndarray[Any, Any]) -> DeviceArray:
    return np.array(host).view(DeviceArray)


class FakeGpu(Host):
    """A host whose arrays pass for CuPy's."""

    def allocate(self, shape: Any, dtype: Any) -> Any:
        return upload(np.full(shape, 7, dtype))  # not zero: what is read must have been written


class Module:
    """A compiled .cu: `get_function(name)` gives a kernel as of a cupy.RawModule. `backwards`: last block first."""

    def __init__(self, path: Path, defines: Mapping[str, Any]) -> None:
        self._load(source_text(path), defines)

    @classmethod
    def of(cls, source: str, defines: Mapping[str, Any]) -> Module:
        """From the text of a .cu."""
        made = cls.__new__(cls)
        made._load(source, defines)
        return made

    def _load(self, source: str, defines: Mapping[str, Any]) -> None:
        self.backwards = False
        self._library = ctypes.CDLL(str(_compiled(_program(source), defines)))

    def get_function(self, name: str) -> Any:
        """A function of (grid, block, arguments)."""
        launch = self.raw(name)
        return lambda grid, block, arguments: launch(grid, block, [_argument(value) for value in arguments])

    def raw(self, name: str) -> Any:
        """The same with arguments of ctypes."""
        function = self._library[f"launch_{name}"]

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: list[Any]) -> None:
            sizes = [ctypes.c_uint(size) for pair in (grid, block) for size in (*pair, 1)[:2]]
            function(*sizes, ctypes.c_int(self.backwards), *arguments)

        return launch


class Library:
    """Stands for compile_cuda: each source is compiled once for each set of defines. `backwards`: last block first."""

    def __init__(self, **more: str) -> None:
        self._more, self._made, self._backwards = more, {}, False

    def __call__(self, path: Path, *, defines: Mapping[str, Any]) -> Module:
        key = path, tuple(sorted(defines.items()))
        if key not in self._made:
            self._made[key] = Module(path, {**defines, **self._more})
            self._made[key].backwards = self._backwards
        return self._made[key]

    @property
    def backwards(self) -> bool:
        return self._backwards

    @backwards.setter
    def backwards(self, last_first: bool) -> None:
        self._backwards = last_first
        for module in self._made.values():
            module.backwards = last_first


def _compiled(program: str, defines: Mapping[str, Any]) -> Path:
    """The shared library of a C++ program; a warning is an error."""
    options = [*OPTIONS, *(f"-D{key}={value}" for key, value in defines.items())]
    library = _kept(".so", program, HEADER.read_text(), options, _gpp())
    if not library.exists():
        making = library.with_suffix(f".{os.getpid()}.so")
        command = ["g++", *options, "-x", "c++", "-", "-o", str(making)]
        done = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
        if done.returncode or "warning" in done.stderr:
            making.unlink(missing_ok=True)
            raise RuntimeError(done.stderr)
        making.replace(library)
    return library


def resources_of(path: Path, defines: Defines, architecture: str) -> dict[str, Resources]:
    """What NVRTC says that each kernel of a .cu takes on an architecture; kept like the libraries."""
    what = source_text(path), path.name, dict(defines), architecture, Path(cuda_source.__file__).read_text()
    told = _kept(".json", *what, version("nvidia-cuda-nvrtc"))
    if not told.exists():
        made = check_cuda(path, defines=defines, architecture=architecture)
        assert made.cubin.startswith(b"\x7fELF")
        making = told.with_suffix(f".{os.getpid()}.json")
        making.write_text(json.dumps({name: asdict(found) for name, found in made.resources.items()}))
        making.replace(told)
    return {name: Resources(**found) for name, found in json.loads(told.read_text()).items()}


def _kept(ending: str, *read: Any) -> Path:
    """Where the file is kept that was made from what was read."""
    KEPT.mkdir(parents=True, exist_ok=True)
    return KEPT / (hashlib.sha256(json.dumps(read).encode()).hexdigest()[:24] + ending)


@cache
def _gpp() -> str:
    return subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout


def _program(source: str) -> str:
    parts = ['#include "cuda_on_cpu.h"\n', source]
    for name, parameters in KERNEL.findall(source):
        names = [re.split(r"[\s*]+", parameter.strip())[-1] for parameter in parameters.split(",")]
        parts.append(
            f'extern "C" void launch_{name}'
            f"(unsigned gx, unsigned gy, unsigned bx, unsigned by, int backwards, {parameters})\n"
            f"{{ cuda_on_cpu::launch({{gx, gy}}, {{bx, by}}, backwards, [=] {{ {name}({', '.join(names)}); }}); }}\n"
        )
    return "".join(parts)


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return NUMBERS[value.dtype.name](value)
