"""A stand-in for CuPy on machines without a GPU: NumPy for the arrays, cuda_on_cpu.py for kernels in CUDA C.

It checks the results of a way and finds races in its kernels; it measures no times and does not test CuPy. Functions of
CuPy that it lacks raise AttributeError, which the report shows.
"""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import Backend
from compute.devices.cuda_source import Defines, compile_cuda, source_text
from compute.devices.devices import Host
from compute.own.cuda_on_cpu import CudaOnCpu, KernelOnCpu, KernelRefused, module_of

C_TYPES = {
    "float32": "float", "float64": "double", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned int", "int64": "long long",
    "uint64": "unsigned long long", "bool": "bool",
}  # fmt: skip
BLOCK = 128


class StandInArray(np.ndarray[Any, Any]):
    """A NumPy array in place of a GPU array, with CuPy's `get` and `set`."""

    def get(self, stream: Any = None, out: Any = None, blocking: bool = True) -> NDArray[Any]:  # noqa: ARG002 - as CuPy
        """Return a copy on the host."""
        if out is None:
            return np.array(self)
        out[...] = self
        return out  # type: ignore[no-any-return]

    def set(self, host: NDArray[Any], stream: Any = None) -> None:  # noqa: ARG002 - CuPy's signature
        """Copy the values of a host array."""
        self[...] = host


def as_array(host: Any, dtype: Any = None) -> StandInArray:
    """Return a copy as a StandInArray."""
    return np.array(host, dtype).view(StandInArray)


class OnCpu(Host):
    """Main memory in place of a GPU's."""

    def upload(self, host: NDArray[Any]) -> StandInArray:
        """Return a copy as a StandInArray."""
        return as_array(host)

    def download(self, array: Any) -> NDArray[Any]:
        """Return a copy. Raise TypeError for an array that is not a StandInArray."""
        if not isinstance(array, StandInArray):
            raise TypeError(f"the result is of type {type(array).__name__}, not an array on the GPU (cupy.ndarray)")
        return np.array(array)


STAND_IN = Backend("gpu_cupy", "cuda", OnCpu, (), "CUDA C on the CPU")


class RawModule:
    """CUDA C in a string with several kernels."""

    def __init__(self, *, code: str, options: tuple[str, ...] = (), **_: Any) -> None:
        self._code = code
        self._made: CudaOnCpu | None = None
        self._defines = [option[2:] for option in options if option.startswith("-D")]

    def compile(self) -> None:
        """Compile the source on the first call."""
        if self._made is None:
            self._made = module_of(self._code, "the CUDA C", tuple(self._defines))

    def get_function(self, name: str) -> KernelOnCpu:
        """Return the kernel of that name."""
        self.compile()
        assert self._made is not None  # noqa: S101 - by `compile`
        return self._made.get_function(name)


class RawKernel:
    """CUDA C in a string, of which one kernel is used."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = (), **_: Any) -> None:
        self._module, self._name = RawModule(code=code, options=options), name

    def compile(self) -> None:
        """Compile the source on the first call."""
        self._module.compile()

    def __call__(self, grid: Any, block: Any, args: Any, **more: Any) -> None:
        """Launch the kernel."""
        self._module.get_function(self._name)(grid, block, args, **more)


class ElementwiseKernel:
    """A formula for each element. A one-letter type is that of the array passed; `raw` arrays are indexed."""

    def __init__(self, in_params: str, out_params: str, operation: str, name: str = "kernel", **more: Any) -> None:
        self._inputs, self._outputs = _parameters(in_params), _parameters(out_params)
        self._operation, self._name, self._preamble = operation, name, str(more.get("preamble", ""))
        self._made: dict[tuple[str, ...], KernelOnCpu] = {}

    def __call__(self, *given: Any, size: int | None = None, **_: Any) -> Any:
        """Compute the outputs and return them; allocate outputs that the caller does not pass."""
        parameters = [*self._inputs, *self._outputs]
        letters: dict[str, np.dtype[Any]] = {}
        values = list(given)
        for (kind, _name, _raw), value in zip(parameters, values, strict=False):
            if len(kind) == 1 and isinstance(value, (np.ndarray, np.generic)):
                letters.setdefault(kind, value.dtype)
        dtypes = [letters.get(k) or np.dtype(np.float64 if len(k) == 1 else k) for k, _, _ in parameters]
        shaped = [
            v for v, (_, _, raw) in zip(values, parameters, strict=False) if isinstance(v, np.ndarray) and not raw
        ]
        shape = np.broadcast_shapes(*(v.shape for v in shaped)) if shaped else (size or 1,)
        values += [np.full(shape, -1, dtype).view(StandInArray) for dtype in dtypes[len(values) :]]
        passed = [self._passed(v, d, p[2], shape) for v, d, p in zip(values, dtypes, parameters, strict=True)]
        count = int(np.prod(shape))
        self._kernel(dtypes)((max(1, -(-count // BLOCK)),), (BLOCK,), (*passed, np.int64(count)))
        outputs = values[len(self._inputs) :]
        for value, held in zip(outputs, passed[len(self._inputs) :], strict=True):
            if held is not value:
                value[...] = held
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    def _passed(value: Any, dtype: np.dtype[Any], raw: bool, shape: tuple[int, ...]) -> NDArray[Any]:
        if isinstance(value, np.ndarray) and value.dtype != dtype:
            raise TypeError(f"an array of {value.dtype} was passed where {dtype} is declared")
        array = np.asanyarray(value, dtype)
        return np.ascontiguousarray(array if raw else np.broadcast_to(array, shape)) if array.ndim == 0 or not (
            array.flags.c_contiguous and (raw or array.shape == shape)
        ) else array  # fmt: skip

    def _kernel(self, dtypes: list[np.dtype[Any]]) -> KernelOnCpu:
        key = tuple(d.name for d in dtypes)
        if key not in self._made:
            parameters = [*self._inputs, *self._outputs]
            types = [C_TYPES[d.name] for d in dtypes]
            arrays = [f"{t}* {n}" if raw else f"{t}* {n}_" for t, (_, n, raw) in zip(types, parameters, strict=True)]
            named = "".join(
                f"{t}& {n} = {n}_[i]; " for t, (_, n, raw) in zip(types, parameters, strict=True) if not raw
            )
            letters = "".join(
                f"typedef {t} {k}; " for (k, _, _), t in zip(parameters, types, strict=True) if len(k) == 1
            )
            code = (
                f'{self._preamble}\nextern "C" __global__ void {self._name}({", ".join(arrays)}, long long n_)\n'
                f"{{ {_distinct(letters)} long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
                f"  if (i < n_) {{ {named} {self._operation}; }} }}\n"
            )
            self._made[key] = module_of(code, f"the formula of {self._name}").get_function(self._name)
        return self._made[key]


def _distinct(declarations: str) -> str:
    return "".join(dict.fromkeys(part + "; " for part in declarations.split("; ") if part))


def _parameters(text: str) -> list[tuple[str, str, bool]]:
    """Return (type, name, raw) of each parameter."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(raw\s+)?(\w+)\s+(\w+)", one)
        if not match:
            raise KernelRefused(f"a parameter of an ElementwiseKernel is a type and a name, not {one!r}")
        found.append((match[2], match[3], bool(match[1])))
    return found


class Stream(nullcontext[Any]):
    """A stream without effect: all operations are synchronous."""

    null: Any = None

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(self)

    def synchronize(self) -> None:
        """Return immediately."""

    def use(self) -> Stream:
        """Return the stream itself."""
        return self


def installed() -> bool:
    """Return whether `import cupy` loads the stand-in in this process."""
    return getattr(sys.modules.get("cupy"), "RawKernel", None) is RawKernel


def install() -> None:
    """Make `import cupy` and `import cupyx` load the stand-ins in this process."""
    made, cuda, more = ModuleType("cupy"), ModuleType("cupy.cuda"), ModuleType("cupyx")
    made.__dict__.update({name: getattr(np, name) for name in dir(np) if not name.startswith("_")})
    cuda.__dict__.update(Stream=Stream, get_current_stream=Stream, Device=lambda *_: nullcontext(), is_available=bool)
    made.__dict__.update(
        cuda=cuda, RawKernel=RawKernel, RawModule=RawModule, ElementwiseKernel=ElementwiseKernel, ndarray=StandInArray,
        fuse=lambda *args, **_: args[0] if args else lambda function: function, asnumpy=np.array, asarray=as_array,
        array=as_array, get_array_module=lambda *_: made, zeros=_made(np.zeros), ones=_made(np.ones),
        empty=_made(_unwritten), full=_made(np.full), arange=_made(np.arange), linspace=_made(np.linspace),
        zeros_like=_made(np.zeros_like), ones_like=_made(np.ones_like),
        empty_like=lambda a, dtype=None, **_: as_array(_unwritten(a.shape, dtype or a.dtype)),
    )  # fmt: skip
    more.__dict__.update(empty_like_pinned=np.empty_like, empty_pinned=np.empty, zeros_pinned=np.zeros)
    sys.modules.update({"cupy": made, "cupy.cuda": cuda, "cupyx": more})


def compile_source(path: Path, *, defines: Defines) -> Any:
    """Compile a .cu file for the CPU if the stand-in is installed, else for the GPU with CuPy."""
    if not installed():
        return compile_cuda(path, defines=defines)
    return module_of(source_text(path), path.name, tuple(f"{name}={value}" for name, value in defines.items()))


def _made(function: Any) -> Any:
    return lambda *args, **more: function(*args, **more).view(StandInArray)


def _unwritten(shape: Any, dtype: Any = np.float64, **_: Any) -> NDArray[Any]:
    """Return an array of values that no correct result has, so that reads of unwritten elements are detected."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.nan if dtype.kind in "fc" else 1 if dtype.kind in "ub" else -1, dtype)
