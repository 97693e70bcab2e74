"""PTX and machine code of Numba-CUDA's kernels, also on machines without a GPU.

The argument types of a kernel are determined only at its launch, and a kernel may be defined within a function and call
other local functions. The launching code therefore runs in Numba's simulator first, at a small size in a separate
process, which records each launch and the values bound to the kernel's names. Then numba-cuda compiles for the
requested architecture, which needs no driver, ptxas assembles the PTX, and nvdisasm prints the machine code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any

from compute.devices.cuda_source import Resources, resources_in
from compute.machine import scratch
from compute.own.code_view import KernelCode, find_program, kernels_of_listing, listing_of, run_tool
from compute.process.child import ProcessEnd
from compute.process.tasks import Failure, Report, Result, TaskProcess
from compute.process.watchdog import Loss

INSTALL = "pip install 'numba-cuda[cu13]' nvidia-cuda-nvcc"
COMPILERS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}
REPLACED = re.compile(r"\.entry (\S+?)\(")


class NumbaCodeUnavailable(ValueError):
    """The code of Numba's kernels cannot be shown; the text states the reason and the install command."""


@dataclass(frozen=True)
class NotedFunction:
    """A function of a kernel in the simulator's process. name: qualified, with "<locals>" for a local function.

    bound: the values of names that its module does not define.
    """

    module: str
    name: str
    bound: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class LaunchTypes:
    """The first launch of a kernel. types: Numba's, of the arguments; threads: of a block; fast: fastmath."""

    kernel: NotedFunction
    types: tuple[Any, ...]
    threads: int
    fast: bool


@dataclass(frozen=True)
class NumbaCode:
    """The code of all launched kernels. ptx: in one text; kernels, threads of a block: by name."""

    ptx: str
    kernels: Mapping[str, KernelCode]
    threads: Mapping[str, int]


def find_ptxas() -> Path | None:
    """Return the path of ptxas, from a wheel or on the PATH; None if it is not installed."""
    return find_program("ptxas", COMPILERS)


def noted_launches(run: Callable[[], object], report: Report) -> tuple[LaunchTypes, ...]:
    """Run `run` in the simulator and return the first launch of each kernel. Needs NUMBA_ENABLE_CUDASIM=1."""
    from numba import typeof
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    found: dict[tuple[str, str], LaunchTypes] = {}
    launch = FakeCUDAKernel.__call__

    def noted(kernel: Any, *arguments: Any) -> Any:
        """Record the launch, then run it."""
        key = kernel.fn.__module__, kernel.fn.__qualname__
        if key not in found:
            types = tuple(typeof(getattr(each, "_ary", each)) for each in arguments)
            fast = bool(kernel._fastmath)  # noqa: SLF001 - Numba has no public attribute for it
            found[key] = LaunchTypes(function_noted(kernel.fn), types, prod(kernel.block_dim), fast)
            report(0.0, f"noting {kernel.fn.__name__}")
        return launch(kernel, *arguments)

    FakeCUDAKernel.__call__ = noted
    try:
        run()
    finally:
        FakeCUDAKernel.__call__ = launch
    return tuple(found.values())


def function_noted(function: Any) -> NotedFunction:
    """Return `function` with the device functions and constants that its names refer to."""
    cells = function.__closure__ or ()
    free = {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}
    named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    known = free | {name: value for name, value in named.items() if hasattr(value, "fn")}
    bound = {name: function_noted(each.fn) if hasattr(each, "fn") else each for name, each in known.items()}
    return NotedFunction(function.__module__, function.__qualname__, tuple(bound.items()))


def _names(code: CodeType) -> set[str]:
    """Return the global names in a function and in its local functions."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def code_of(run: Callable[[], object], architecture: str, report: Report) -> NumbaCode:
    """Return the code of all kernels that `run` launches. Raise NumbaCodeUnavailable.

    run: can be pickled; it runs in the simulator's process.
    """
    if find_spec("numba_cuda") is None or find_ptxas() is None:
        absent = "numba-cuda" if find_spec("numba_cuda") is None else "ptxas"
        raise NumbaCodeUnavailable(f"{absent} is not installed; {INSTALL}")
    launches = _simulated(run, report)
    if not launches:
        raise NumbaCodeUnavailable("no kernel is launched by a first run of it")
    ptx, kernels, threads = [], {}, {}
    for one in launches:
        name = one.kernel.name.rpartition(".")[2]
        report(0.5, f"compiling {name} for {architecture}")
        text, mangled = _compiled(one, architecture)
        ptx.append(text.replace(mangled, name))
        kernels[name] = replace(_machine_code(text, mangled, architecture), name=name)
        threads[name] = one.threads
    return NumbaCode("\n".join(ptx), kernels, threads)


def _simulated(run: Callable[[], object], report: Report) -> tuple[LaunchTypes, ...]:
    """Return the launches of `run`, which a child process runs in the simulator; it ends with the calling job."""
    report(0.0, "running it in Numba's simulator")
    with closing(TaskProcess(leads=False, low=True, environment=SIMULATED)) as child:
        match child.run(partial(noted_launches, run)):
            case Result(value=value):
                return tuple(value)
            case Failure(text=why) | Loss(text=why) | ProcessEnd(text=why):
                raise NumbaCodeUnavailable(f"Numba's simulator cannot run it: {why}")


def _compiled(one: LaunchTypes, architecture: str) -> tuple[str, str]:
    """Return the PTX of a kernel for its argument types, and its mangled name."""
    from numba import cuda

    capability = int(architecture.removeprefix("sm_")[:-1]), int(architecture[-1])
    function = _function(one.kernel)
    with _device(capability):
        made = cuda.compile(
            function, one.types, cc=capability, device=False, abi="numba", output="ptx", lineinfo=True,
            fastmath=one.fast,
        )[0]  # fmt: skip
    text = made if isinstance(made, str) else made.decode()
    entry = REPLACED.search(text)
    if entry is None:
        raise NumbaCodeUnavailable(f"{one.kernel.name}: its PTX has no entry")
    return text, entry[1]


@contextmanager
def _device(capability: tuple[int, int]) -> Iterator[None]:
    """Make numba-cuda compile device functions for `capability`; otherwise it queries the GPU of this computer."""
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    given = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = given


def _function(noted: NotedFunction) -> FunctionType:
    """Rebuild a recorded function for numba-cuda, its names bound to the values from the simulator's process."""
    from numba import cuda

    module, code = import_module(noted.module), code_noted(noted)
    values = {name: _bound(value) for name, value in noted.bound}
    names = {**vars(module), **values}
    if vars(module).get("cuda", cuda) is None:  # see compute.devices.gpu_numba_kernel
        names["cuda"] = cuda
    closure = tuple(CellType(values[name]) for name in code.co_freevars)
    return FunctionType(code, names, code.co_name, None, closure)


def _bound(value: Any) -> Any:
    """Return a constant unchanged, a recorded function as a device function."""
    from numba import cuda

    if not isinstance(value, NotedFunction):
        return value
    known = vars(import_module(value.module)).get(value.name)
    return known if hasattr(known, "py_func") else cuda.jit(device=True)(_function(value))


def code_noted(noted: NotedFunction) -> CodeType:
    """Return the code object of a recorded function. Raise NumbaCodeUnavailable if its module lacks it."""
    first, *within = noted.name.replace(".<locals>", "").split(".")
    outermost = vars(import_module(noted.module)).get(first)
    outermost = getattr(outermost, "py_func", outermost)
    code = getattr(getattr(outermost, "__wrapped__", outermost), "__code__", None)
    for name in within:
        inner = code.co_consts if code else ()
        code = next((each for each in inner if isinstance(each, CodeType) and each.co_name == name), None)
    if code is None:
        raise NumbaCodeUnavailable(f"{noted.name} is not found in {noted.module}")
    return code


def _machine_code(ptx: str, name: str, architecture: str) -> KernelCode:
    program = find_ptxas()
    if program is None:
        raise NumbaCodeUnavailable(f"ptxas is not installed; {INSTALL}")
    with scratch.lent("code") as folder:
        source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        options = f"-arch={architecture}", "-lineinfo", "-v", str(source), "-o", str(cubin)
        done = run_tool(program, options, NumbaCodeUnavailable)
        resources: dict[str, Resources] = resources_in(done.stdout + done.stderr)
        return dict(kernels_of_listing(listing_of(cubin), resources))[name]
