"""Declarations of a workload and of the ways to compute it, in a user's file and in the built-in workloads.

    @workload(sizes=(100, 10_000_000), dtypes=("float32",))
    def inputs(n, dtype, rng):
        return (rng.random(n, dtype=dtype),)

    @way("cpu_numpy", reference=True)
    def blur(x): ...

A way has one of three forms: it receives the inputs and returns the results; it receives the inputs followed by the
result arrays and fills those; or it changes the inputs in place. Its name begins with the name of its library, like the
ways of the crossover lab: cpu_numba, gpu_cupy_shared. Only a command of the user makes `load` execute a file.

A built-in workload is a package with the same decorators. Its __init__.py declares the workload, with more arguments,
and imports no optional library; its other files declare the ways. A file is imported when one of its ways runs, so the
ways of a file need the same libraries; until then `compute.ways.source` reads the file without executing it.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from compute.devices.backends import BACKENDS
from compute.devices.cuda_source import Defines, compile_cuda
from compute.devices.webgpu_passes import WgpuArray
from compute.devices.wgsl import BINDING, INLINE, WgslProgram, launch
from compute.measure.records import FIRST_REVISION
from compute.ways.comparing import ResultComparison
from compute.ways.ecosystems import ECOSYSTEMS, ecosystem_of
from compute.ways.source import DeclaredWay
from compute.ways.workload import BUILT_IN, DTYPES, LAB, Cited, Claim, Way, Work, Workload

TOLERANCES = {"float32": 1e-4, "float64": 1e-10}  # of the largest result; sums of 1e7 float32 numbers are off by 1e-5
USUAL = BACKENDS[0].name  # the default reference
LARGEST, LARGEST_N = 2**22, 10**9  # file size in bytes; n
F = TypeVar("F", bound=Callable[..., Any])
WorkCount = Callable[[int], float]


class CudaCompiler(Protocol):
    """Compiles a .cu file; the result has `get_function(name)`, which returns a kernel."""

    def __call__(self, path: Path, *, defines: Defines) -> Any:
        """Compile `path` with -D options."""


class FileRefused(ValueError):
    """A user's file lacks a declaration or contains an invalid one; the text names the error."""


@dataclass(frozen=True)
class WayOptions:
    """The options of `way`. prepare, work: None in processes that have only the way's name."""

    prepare: Callable[..., tuple[Any, ...]] | None = None
    work: Callable[..., Work] | None = None
    exhibit: str = ""
    revision: int = FIRST_REVISION


@dataclass(frozen=True)
class OwnWay(Way):
    """A function of a user's file. call: the function, None in other processes; line: its first line in `file`.

    defined_as: the function's name.
    """

    call: Callable[..., Any] | None = field(default=None, compare=False)
    line: int = 0
    is_reference: bool = False
    file: Path | None = field(default=None, compare=False)
    defined_as: str = ""
    options: WayOptions = field(default_factory=WayOptions, compare=False)

    @property
    def path(self) -> Path:
        """Return the user's file. Raise ValueError if the path was not set."""
        if self.file is None:
            raise ValueError(f"the file of {self.name} is unknown in this process")
        return self.file

    @property
    def declared(self) -> DeclaredWay:
        """Return the declaration."""
        text = self.call.__doc__ if self.call is not None and self.call.__doc__ else ""
        summary = text.strip().partition("\n")[0]
        options = self.options
        return DeclaredWay(
            self.name, "", self.path, self.defined_as, summary, exhibit=options.exhibit, revision=options.revision
        )

    @property
    def package(self) -> str:  # type: ignore[override]
        """Return "": the way belongs to no package."""
        return ""

    @property
    def parameters(self) -> int:
        """Return the number of positional parameters; 99 for a function with *args."""
        kinds = inspect.signature(self.function()).parameters.values()
        if any(one.kind is one.VAR_POSITIONAL for one in kinds):
            return 99
        return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in kinds)

    def function(self) -> Callable[..., Any]:
        """Return the function to time. Raise TypeError if this process has only its name."""
        if self.call is None:
            raise TypeError(f"only the name of {self.name} is known here")
        return self.call

    def prepared(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs and the result arrays, or what `prepare` makes of them, cut to the number of parameters."""
        if self.options.prepare is not None:
            arguments = tuple(self.options.prepare(*arguments))
        return arguments[: self.parameters]

    def work(self, n: int, dtype: str, **settings: Any) -> Work | None:
        """Return the work of this way if its declaration has one, else None."""
        return self.options.work(n, dtype, **settings) if self.options.work else None

    def without_call(self) -> OwnWay:
        """Return a copy without the functions, for sending to another process."""
        return replace(self, call=None, options=replace(self.options, prepare=None, work=None))


@dataclass
class OwnFile:
    """A user's file. ways: by name; nan, denormals: whether such values are tested as inputs.

    moved, flops: minimum bytes and operations for n; without `moved`, the bytes of the arrays are counted. on: memory
    of the arrays passed to a way, its device's or the host's; kernels: those of .cu and .wgsl files in the same folder;
    compiler: compiles the .cu files.
    """

    path: Path
    inputs: Callable[..., Any] | None = None
    sizes: tuple[int, int] = (1, 1)
    dtypes: tuple[str, ...] = ()
    tolerance: Mapping[str, float] = field(default_factory=dict)
    nan: bool = False
    denormals: bool = True
    moved: WorkCount | None = None
    flops: WorkCount | None = None
    on: Literal["device", "host"] = "device"
    ways: dict[str, OwnWay] = field(default_factory=dict)
    kernels: list[CudaKernel | WgslKernel] = field(default_factory=list)
    compiler: CudaCompiler = field(default=compile_cuda, repr=False)

    @property
    def name(self) -> str:
        """Return the file's name without its suffix."""
        return self.path.stem

    @property
    def reference(self) -> OwnWay:
        """Return the way that the others are compared with."""
        return next(way for way in self.ways.values() if way.is_reference)

    def case_inputs(self, n: int, dtype: str, rng: np.random.Generator) -> tuple[Any, ...]:
        """Return the inputs from the user's function as a tuple. Raise FileRefused if it contains no array."""
        assert self.inputs is not None  # noqa: S101 - checked by `load`
        given = self.inputs(n, np.dtype(dtype).type, rng)
        found = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        if not any(isinstance(value, np.ndarray) for value in found):
            raise FileRefused(f"the workload returns no NumPy array for n = {n}: {found!r:.80}")
        return found

    def truth(self, inputs: tuple[Any, ...]) -> tuple[NDArray[Any], ...]:
        """Return the expected results: those of the reference, with the same dtype."""
        arguments = tuple(np.array(v) if isinstance(v, np.ndarray) else v for v in inputs)
        returned = self.reference.function()(*arguments)
        if returned is None:
            return tuple(v for v in arguments if isinstance(v, np.ndarray))
        results = returned if isinstance(returned, tuple) else (returned,)
        if any(isinstance(one, np.ma.MaskedArray) for one in results):
            raise FileRefused(
                f"the reference {self.reference.name} returns a masked array, which nothing is compared with"
            )
        return tuple(np.asarray(one) for one in results)

    @property
    def in_place(self) -> bool:
        """Return whether the reference changes its inputs and returns None."""
        rng = np.random.default_rng(0)
        arguments = tuple(
            np.array(v) if isinstance(v, np.ndarray) else v
            for v in self.case_inputs(self.sizes[0], self.dtypes[0], rng)
        )
        return self.reference.function()(*arguments) is None

    def workload(self, comparison: ResultComparison, seed: int) -> Workload:
        """Return the file's workload for the crossover lab's harness."""
        shapes: dict[tuple[int, str], tuple[tuple[NDArray[Any], ...], float]] = {}
        in_place = self.in_place

        def known(n: int, dtype: str) -> tuple[tuple[NDArray[Any], ...], float]:
            """Return empty result arrays for n, and the bytes of inputs and results."""
            if (n, dtype) not in shapes:
                inputs = self.case_inputs(n, dtype, np.random.default_rng([seed, n]))
                arrays = [value for value in inputs if isinstance(value, np.ndarray)]
                results = arrays if in_place else self.truth(inputs)
                bytes_ = sum(a.nbytes for a in arrays) + sum(a.nbytes for a in results)
                shapes[n, dtype] = (
                    (() if in_place else tuple(np.empty(a.shape, a.dtype) for a in results)),
                    float(bytes_),
                )
                if len(shapes) > 1:  # keep the arrays of one n only
                    shapes.pop(next(iter(shapes)))
            return shapes[n, dtype]

        smallest = known(self.sizes[0], self.dtypes[0])[1] / self.sizes[0]

        def work(n: int, dtype: str) -> Work:
            """Return the declared work; without a declaration, scale the bytes of the smallest n."""
            moved = self.moved(n) if self.moved else known(n, dtype)[1] if (n, dtype) in shapes else smallest * n
            return Work(moved, self.flops(n) if self.flops else moved, 2 * moved)

        return Workload(
            f"own.{self.name}", self.name, 0, self.on, self.sizes, "n",
            {dtype: self.tolerance.get(dtype, TOLERANCES[dtype]) for dtype in DTYPES},
            inputs=self.case_inputs, outputs=lambda n, dtype: known(n, dtype)[0], reference=lambda *v: self.truth(v),
            difference=comparison, work=work,
        )  # fmt: skip


_loading: list[OwnFile] = []
_built_in: dict[str, Workload] = {}  # by package


class Details(TypedDict, total=False):
    """Arguments of `workload` in a built-in workload only: fields of `Workload`, which documents them."""

    title: str
    chapter: int
    on: Literal["device", "host"]
    counted: str
    settings: Mapping[str, tuple[Any, ...]]
    outputs: Callable[..., tuple[NDArray[Any], ...]]
    reference: Callable[..., tuple[NDArray[Any], ...]]
    difference: Callable[[Any, Any], float]
    difference_in: str
    work: Callable[..., Work]
    cited: tuple[Cited, ...]
    claims: tuple[Claim, ...]


def built_in_workload(package: str) -> Workload:
    """Return the workload that a package declares. Raise TypeError if it declares none."""
    import_module(package)
    if package not in _built_in:
        name = package.rpartition(".")[2]
        raise TypeError(f"workloads/{name}/__init__.py must declare a function with @workload(…)")
    return _built_in[package]


def _module_of(function: Any) -> str:
    return str(getattr(function, "__module__", ""))


def _file_of(function: Any) -> OwnFile | None:
    """Return the user's file that is being loaded, unless the function belongs to the lab, which the file imports."""
    return _loading[-1] if _loading and not _module_of(function).startswith(f"{LAB}.") else None


def _check(sizes: tuple[int, int], dtypes: Sequence[str]) -> None:
    if len(sizes) != 2 or not all(isinstance(n, int) for n in sizes) or not 1 <= sizes[0] < sizes[1] <= LARGEST_N:
        raise FileRefused(f"sizes must be two whole numbers that rise, from 1 to {LARGEST_N:,}, not {sizes}")
    if not dtypes or set(dtypes) - set(DTYPES):
        raise FileRefused(f"dtypes must be of {', '.join(DTYPES)}, not {tuple(dtypes)}")


def workload(
    sizes: tuple[int, int], dtypes: Sequence[str] = ("float32",), *,
    tolerance: float | Mapping[str, float] | None = None, denormals: bool = True,
    nan: bool = False, moved: WorkCount | None = None, flops: WorkCount | None = None, **details: Unpack[Details],
) -> Callable[[F], F]:  # fmt: skip
    """Declare the inputs: a function (n, dtype, rng) that returns arrays and plain numbers.

    Args:
        sizes: smallest and largest n to time.
        dtypes: "float32", "float64" or both.
        tolerance: largest accepted difference from the reference, relative to the largest result.
        denormals: whether inputs may be denormal numbers, which lack full precision.
        nan: whether inputs may contain NaN.
        moved: minimum bytes that n moves (default: those of inputs and results).
        flops: operations for n; without it the verdict leaves out arithmetic.
        details: further arguments of a built-in workload.

    Raises:
        FileRefused: names the invalid argument.

    """
    _check(sizes, dtypes)
    if isinstance(tolerance, Mapping):
        allowed = tolerance
    else:
        allowed = {} if tolerance is None else dict.fromkeys(dtypes, tolerance)

    def declare(function: F) -> F:
        """Store the function and its options in the file being loaded."""
        file = _file_of(function)
        if file is not None:
            if details:
                raise FileRefused(f"{', '.join(details)}: only a built-in workload has these arguments")
            if file.inputs is not None:
                raise FileRefused("there are two workloads; a file has one")
            file.inputs, file.sizes, file.dtypes = function, (sizes[0], sizes[1]), tuple(dtypes)
            file.tolerance = {str(dtype): float(value) for dtype, value in allowed.items()}
            file.denormals, file.nan, file.moved, file.flops = denormals, nan, moved, flops
        elif (package := _module_of(function)).startswith(f"{BUILT_IN}."):
            _built_in[package] = Workload(package, sizes=sizes, tolerance=allowed, inputs=function, **details)  # type: ignore[misc]  # the constructor names what is missing
        return function

    return declare


def way(
    name: str, *, reference: bool = False, prepare: Callable[..., tuple[Any, ...]] | None = None,
    work: Callable[..., Work] | None = None, exhibit: str = "", revision: int = FIRST_REVISION,
) -> Callable[[F], F]:  # fmt: skip
    """Declare a function as a way to compute the workload.

    Args:
        name: the library, or library_variant.
        reference: compare the other ways with this one; cpu_numpy is the default reference.
        prepare: called once before the timing with the inputs and the result arrays; returns the arguments of the way.
        work: (n, dtype) -> the work of this way, if it is less than the least work of the workload.
        exhibit: why the lab displays the way but times it only on request.
        revision: raised when the way becomes faster or slower, which excludes its recorded curves from comparisons.

    Raises:
        FileRefused: for an unknown library; the decorator raises it for a duplicate name.

    """
    backend = ecosystem_of(name)
    if backend is None:
        known = ", ".join(one.name for one in ECOSYSTEMS)
        raise FileRefused(f"the name of a way must begin with one of {known}, not {name!r}")

    def declare(function: F) -> F:
        """Store the function in the file being loaded."""
        file = _file_of(function)
        if file is not None:
            if name in file.ways:
                raise FileRefused(f"there are two ways {name!r}; add what is special: {name}_shared")
            line = inspect.unwrap(function).__code__.co_firstlineno
            variant = name[len(backend.name) + 1 :]
            options = WayOptions(prepare, work, exhibit, revision)
            file.ways[name] = OwnWay(
                file.name, backend, variant, function, line, reference, file.path, function.__name__, options
            )
        return function

    return declare


@dataclass
class CudaKernel:
    """A kernel of a .cu file in the folder of the user's file, compiled on its first call."""

    path: Path
    name: str
    defines: Defines
    compiler: CudaCompiler
    made: Any = None

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], **more: Any) -> None:
        """Launch the kernel, with the arguments of a cupy.RawKernel."""
        if self.made is None:
            self.made = self.compiler(self.path, defines=self.defines).get_function(self.name)
        self.made(grid, block, args, **more)


def cuda_kernel(file: str, name: str, **defines: int | str | float) -> CudaKernel:
    """Return the kernel `name` of the CUDA C in `file`, a path relative to the user's file. defines: its -D options.

    Raise FileRefused if that file does not exist.
    """
    base = _loading[-1].path.parent if _loading else Path.cwd()
    path = base / file
    if not path.is_file():
        raise FileRefused(f"there is no {file} next to the file")
    kernel = CudaKernel(path, name, defines, _loading[-1].compiler if _loading else compile_cuda)
    if _loading:
        _loading[-1].kernels.append(kernel)
    return kernel


@dataclass
class WgslKernel:
    """A kernel in WGSL for any GPU of WebGPU, compiled on its first call."""

    program: WgslProgram
    name: str

    @property
    def path(self) -> Path:
        """Return the .wgsl file, or the user's file if that contains the kernel as text."""
        return self.program.path

    @property
    def defines(self) -> Defines:
        """Return the values of its upper-case names."""
        return dict(self.program.defines)

    @cached_property
    def arrays(self) -> int:
        """Return the number of arrays that the program declares."""
        return len(BINDING.findall(self.program.text))

    def __call__(self, grid: tuple[int, ...], args: tuple[Any, ...]) -> None:
        """Launch `grid` workgroups.

        args: the arrays in the order of their bindings, then the numbers of `struct Numbers` without `zero`, as NumPy
        scalars of 32 bits. Raise TypeError for other arguments.
        """
        arrays, numbers = args[: self.arrays], args[self.arrays :]
        if not arrays or len(arrays) < self.arrays or not all(isinstance(each, WgpuArray) for each in arrays):
            given = ", ".join(type(each).__name__ for each in args)
            raise TypeError(f"{self.name} declares {self.arrays} arrays; its arguments are {given or 'none'}")
        for each in numbers:
            if not isinstance(each, np.generic) or each.itemsize != 4:
                raise TypeError(f"a number of {self.name} must be a NumPy scalar of 32 bits, not {each!r:.40}")
        launch(self.program, self.name, grid, arrays, *numbers)


def wgsl_kernel(code: str, name: str, *, exact: int = 0, **defines: int | str | float) -> WgslKernel:
    """Return the kernel `name` in WGSL.

    Args:
        code: the text, or the name of a .wgsl file, a path relative to the user's file.
        name: the function marked @compute.
        exact: which roundings the compiler must keep, as in `compute.devices.wgsl.WgslProgram`.
        defines: values that replace upper-case names of the text.

    Raises:
        FileRefused: if the file does not exist.

    """
    named = tuple(sorted(defines.items()))
    if not code.endswith(".wgsl"):
        return WgslKernel(WgslProgram(_loading[-1].path if _loading else INLINE, named, exact, code), name)
    path = (_loading[-1].path.parent if _loading else Path.cwd()) / code
    if not path.is_file():
        raise FileRefused(f"there is no {code} next to the file")
    kernel = WgslKernel(WgslProgram(path, named, exact), name)
    if _loading:
        _loading[-1].kernels.append(kernel)
    return kernel


def read_text(path: Path) -> str:
    """Return the text of a user's file. Raise FileRefused for an invalid one, with the line of a syntax error."""
    if not path.is_file():
        raise FileRefused(f"there is no file {path}")
    if path.stat().st_size > LARGEST:
        raise FileRefused(f"{path.name} has {path.stat().st_size} bytes; {LARGEST} are allowed")
    try:
        text = path.read_text(encoding="utf-8")
        compile(text, str(path), "exec")
    except UnicodeDecodeError as error:
        raise FileRefused(f"{path.name} is no text in UTF-8 (byte {error.start})") from error
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FileRefused(f"{path.name}{line}: syntax error: {said}") from error
    return text


def load(path: Path, compiler: CudaCompiler = compile_cuda) -> OwnFile:
    """Execute the file and return its declarations. compiler: compiles the kernels of its `cuda_kernel` calls.

    Raise FileRefused if a declaration is missing; errors that the file raises propagate.
    """
    path = path.resolve()
    read_text(path)
    file = OwnFile(path, compiler=compiler)
    spec = spec_from_file_location(f"own_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FileRefused(f"{path.name} is no Python file: its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent))
    linecache.checkcache(str(path))
    _loading.append(file)
    try:
        spec.loader.exec_module(module)
    finally:
        _loading.pop()
        sys.path.remove(str(path.parent))
        if str(path.parent) not in sys.path:  # for imports inside ways; appended last, to shadow no other module
            sys.path.append(str(path.parent))
    return _whole(file)


def _whole(file: OwnFile) -> OwnFile:
    """Mark the reference and return the file. Raise FileRefused if a declaration is missing."""
    if file.inputs is None:
        raise FileRefused(f"{file.path.name} has no workload: a function with @workload(sizes=…)")
    if not file.ways:
        raise FileRefused(f"{file.path.name} has no way to compute it: a function with @way(…)")
    marked = [own for own in file.ways.values() if own.is_reference]
    if len(marked) > 1:
        raise FileRefused(f"{file.path.name} has {len(marked)} references; one is compared with")
    if not marked:
        if USUAL not in file.ways:
            raise FileRefused(f"{file.path.name} has no reference: mark a way with reference=True")
        file.ways[USUAL] = replace(file.ways[USUAL], is_reference=True)
    elif marked[0].backend.kind == "gpu":
        raise FileRefused(f"the reference of {file.path.name} must run on the CPU, not be {marked[0].name}")
    return file
