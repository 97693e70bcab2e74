"""Stand-in for CuPy on a machine without a GPU: NumPy for the arrays, cuda_on_cpu for the kernels.

It does not test CuPy itself, only that the project's code computes correct numbers with these functions.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from tests.cuda_on_cpu import Module

REAL = {"float32": "float", "float64": "double", "int32": "int"}


class RawKernel:
    """CUDA C in a string; Python's numbers are passed as 8 bytes each, as CuPy does."""

    backwards = False

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self._code, self._name = code, name
        self._defines = dict(option.removeprefix("-D").split("=", 1) for option in options if option.startswith("-D"))
        self._module: Module | None = None

    def compile(self) -> None:
        if self._module is None:
            self._module = Module.of(self._code, self._defines)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        assert Graph.recording is None or self._module, "a kernel is loaded while a graph is recorded"
        self.compile()
        self._module.backwards = RawKernel.backwards
        numbers = {int: np.int64, float: np.float64}
        values = tuple(numbers.get(type(value), lambda v: v)(value) for value in arguments)
        Graph.record_or_run(lambda: self._module.get_function(self._name)(grid, block, values))


class ElementwiseKernel:
    """An elementwise kernel. T is the dtype of the first array; arguments are arrays, the outputs last."""

    def __init__(self, inputs: str, outputs: str, operation: str, name: str) -> None:
        self._parameters = [p.split() for p in (*inputs.split(","), *outputs.split(","))]
        self._operation, self._name = operation, name

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> None:
        assert len(arrays) == len(self._parameters)
        for array, (kind, name) in zip(arrays, self._parameters, strict=True):
            wanted = arrays[0].dtype if kind == "T" else np.dtype(kind)  # as in CuPy, where "int" is a long
            if array.dtype != wanted:
                raise TypeError(f"Type is mismatched. {name} {array.dtype} {wanted}")
        pointers = ", ".join(f"{REAL.get(kind, kind)}* {name}_" for kind, name in self._parameters)
        names = "".join(f"{REAL.get(kind, kind)}& {name} = {name}_[i_]; " for kind, name in self._parameters)
        code = (
            f'extern "C" __global__ void {self._name}({pointers}, long long n_)\n'
            f"{{ long long i_ = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
            f"  if (i_ < n_) {{ {names} {self._operation}; }} }}\n"
        )
        kernel = RawKernel(re.sub(r"\bT\b", REAL[arrays[0].dtype.name], code), self._name)
        kernel((-(-arrays[0].size // 64),), (64,), (*arrays, arrays[0].size))


class Graph:
    """The launches of raw kernels during a capture, for replay."""

    recording: list[Any] | None = None

    def __init__(self, launches: list[Any]) -> None:
        self._launches = launches

    @classmethod
    def record_or_run(cls, launch: Any) -> None:
        launch() if cls.recording is None else cls.recording.append(launch)

    def launch(self, stream: Any = None) -> None:
        for launch in self._launches:
            launch()


class Stream(nullcontext[Any]):
    """A stream that runs all work immediately."""

    def __init__(self, non_blocking: bool = False) -> None:
        super().__init__(self)

    def begin_capture(self) -> None:
        Graph.recording = []

    def end_capture(self) -> Graph:
        assert Graph.recording is not None
        graph, Graph.recording = Graph(Graph.recording), None
        return graph

    def synchronize(self) -> None: ...


class Array(np.ndarray):  # type: ignore[type-arg]
    """An array with the methods of CuPy's arrays that NumPy's lack."""

    def set(self, host: np.ndarray[Any, Any], stream: Any = None) -> None:
        self[...] = host

    def get(self, stream: Any = None, out: Any = None, blocking: bool = True) -> Any:
        if out is None:
            return np.array(self)
        out[...] = self
        return out


def empty(shape: Any, dtype: Any = np.float64) -> Array:
    return np.empty(shape, dtype).view(Array)


def asarray(host: Any, dtype: Any = None) -> Array:
    return np.array(host, dtype).view(Array)


def module() -> ModuleType:
    """Return the module for `import cupy`."""
    made = ModuleType("cupy")
    made.__dict__.update({name: getattr(np, name) for name in dir(np) if not name.startswith("__")})
    cuda = ModuleType("cupy.cuda")
    made.__dict__.update(RawKernel=RawKernel, ElementwiseKernel=ElementwiseKernel, fuse=lambda: lambda f: f, cuda=cuda)
    made.__dict__.update(asnumpy=np.array, empty=empty, asarray=asarray, empty_like=lambda a: empty(a.shape, a.dtype))
    cuda.__dict__.update(Stream=Stream, get_current_stream=Stream)
    return made


def extensions() -> ModuleType:
    """Return the module for `import cupyx`."""
    made = ModuleType("cupyx")
    made.__dict__.update(empty_like_pinned=np.empty_like)
    return made
