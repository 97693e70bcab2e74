"""Compiles a .cu with g++ and cuda_on_cpu.h, and offers its kernels as CuPy would, on NumPy arrays."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from compute.cuda_source import source_text

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


class Module:
    """A compiled .cu: `get_function(name)` gives a kernel as of a cupy.RawModule. `backwards`: last block first."""

    def __init__(self, path: Path, defines: Mapping[str, Any], folder: Path) -> None:
        self.backwards = False
        name = "_".join([path.parent.name, path.stem, *(str(value) for value in defines.values())])
        program, library = folder / f"{name}.cpp", folder / f"{name}.so"
        program.write_text(_program(source_text(path)))
        options = ["-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wno-unknown-pragmas"]
        options += ["-Wno-unused-variable", "-Wno-strict-aliasing", f"-I{Path(__file__).parent}"]
        options += [f"-D{key}={value}" for key, value in defines.items()]
        done = subprocess.run(["g++", *options, program, "-o", library], capture_output=True, text=True, check=False)
        if done.returncode or "warning" in done.stderr:
            raise RuntimeError(done.stderr)
        self._library = ctypes.CDLL(str(library))

    def get_function(self, name: str) -> Any:
        """A function of (grid, block, arguments)."""
        function = self._library[f"launch_{name}"]

        def launch(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            sizes = [ctypes.c_uint(size) for pair in (grid, block) for size in (*pair, 1)[:2]]
            function(*sizes, ctypes.c_int(self.backwards), *(_argument(value) for value in arguments))

        return launch


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
