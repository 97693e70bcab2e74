"""PTX and machine code of Numba-CUDA's kernels, on machines without a GPU too.

For which types a kernel is compiled is known once it is launched, and a kernel may be made within a function, of
others. So what launches it runs in Numba's simulator first, in a process of its own at a small size, and each launch is
noted, with what the names in it stand for; then numba-cuda compiles for the architecture that is asked for, which needs
no driver, ptxas makes machine code of it, and nvdisasm prints that.
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

from compute import scratch
from compute.cuda_source import Resources, resources_in
from compute.export.child_process import ChildProcess, Failure, Result, Tell, exchange
from compute.own.code_view import KernelCode, find_program, kernels_of_listing, listing_of, run_tool

INSTALL = "pip install 'numba-cuda[cu13]' nvidia-cuda-nvcc"
COMPILERS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
TICK = 0.2  # s between looks at the simulator's process
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}
REPLACED = re.compile(r"\.entry (\S+?)\(")


class NumbaCodeUnavailable(ValueError):
    """The code of Numba's kernels cannot be shown here; the text says why and which line installs what is missing."""


@dataclass(frozen=True)
class NotedFunction:
    """A function of a kernel as the simulator's process knew it. name: as in its module, with "<locals>" for one that
    another function has made; bound: what names in it stand for that its module does not say by itself.
    """

    module: str
    name: str
    bound: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class LaunchTypes:
    """A launch as it was noted. types: Numba's, of the arguments; threads: of a block."""

    kernel: NotedFunction
    types: tuple[Any, ...]
    threads: int
    fast: bool


@dataclass(frozen=True)
class NumbaCode:
    """Of all kernels that were launched, by name."""

    ptx: str
    kernels: Mapping[str, KernelCode]
    threads: Mapping[str, int]


def find_ptxas() -> Path | None:
    """The program, of the wheel or of a toolkit on the path; None if there is none."""
    return find_program("ptxas", COMPILERS)


def noted_launches(run: Callable[[], object], tell: Tell) -> tuple[LaunchTypes, ...]:
    """Run it in the simulator and note the first launch of each kernel. For a process with NUMBA_ENABLE_CUDASIM=1."""
    from numba import typeof
    from numba.cuda.simulator.kernel import FakeCUDAKernel

    found: dict[tuple[str, str], LaunchTypes] = {}
    launch = FakeCUDAKernel.__call__

    def noted(kernel: Any, *arguments: Any) -> Any:
        """Note it, and launch."""
        key = kernel.fn.__module__, kernel.fn.__qualname__
        if key not in found:
            types = tuple(typeof(getattr(each, "_ary", each)) for each in arguments)
            fast = bool(kernel._fastmath)  # noqa: SLF001 - Numba says it nowhere else
            found[key] = LaunchTypes(function_noted(kernel.fn), types, prod(kernel.block_dim), fast)
            tell(0.0, f"noting {kernel.fn.__name__}")
        return launch(kernel, *arguments)

    FakeCUDAKernel.__call__ = noted
    try:
        run()
    finally:
        FakeCUDAKernel.__call__ = launch
    return tuple(found.values())


def function_noted(function: Any) -> NotedFunction:
    """`function` with the device functions and constants that its names stand for now."""
    cells = function.__closure__ or ()
    free = {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}
    named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    known = free | {name: value for name, value in named.items() if hasattr(value, "fn")}
    bound = {name: function_noted(each.fn) if hasattr(each, "fn") else each for name, each in known.items()}
    return NotedFunction(function.__module__, function.__qualname__, tuple(bound.items()))


def _names(code: CodeType) -> set[str]:
    """The global names in a function, and in those within it."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def code_of(run: Callable[[], object], architecture: str, tell: Tell) -> NumbaCode:
    """Of all kernels that `run` launches, in the module that launches them. Raises NumbaCodeUnavailable.

    run: can be pickled, and runs in the simulator's process.
    """
    if find_spec("numba_cuda") is None or find_ptxas() is None:
        absent = "numba-cuda" if find_spec("numba_cuda") is None else "ptxas"
        raise NumbaCodeUnavailable(f"{absent} is not installed; {INSTALL}")
    launches = _simulated(run, tell)
    if not launches:
        raise NumbaCodeUnavailable("no kernel is launched by a first run of it")
    ptx, kernels, threads = [], {}, {}
    for one in launches:
        name = one.kernel.name.rpartition(".")[2]
        tell(0.5, f"compiling {name} for {architecture}")
        text, mangled = _compiled(one, architecture)
        ptx.append(text.replace(mangled, name))
        kernels[name] = replace(_machine_code(text, mangled, architecture), name=name)
        threads[name] = one.threads
    return NumbaCode("\n".join(ptx), kernels, threads)


def _simulated(run: Callable[[], object], tell: Tell) -> tuple[LaunchTypes, ...]:
    """The launches of `run`, which a child process makes in the simulator; it ends with the job that this is."""
    tell(0.0, "running it in Numba's simulator")
    with closing(ChildProcess(leads=False, low=True, environment=SIMULATED)) as child:
        child.give(partial(noted_launches, run))
        while not child.ended:
            for _, answer in exchange([child], TICK):
                match answer:
                    case Result(value=value):
                        return tuple(value)
                    case Failure(text=text):
                        raise NumbaCodeUnavailable(f"Numba's simulator cannot run it: {text}")
    raise NumbaCodeUnavailable("the process of Numba's simulator ended")


def _compiled(one: LaunchTypes, architecture: str) -> tuple[str, str]:
    """The PTX of a kernel for the types that it was launched with, and its name there."""
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
    """Have numba-cuda compile device functions for `capability`: it asks the GPU of this computer otherwise."""
    dispatcher: Any = import_module("numba.cuda.dispatcher")
    given = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        yield
    finally:
        dispatcher.get_current_device = given


def _function(noted: NotedFunction) -> FunctionType:
    """The function that was noted, for numba-cuda, its names bound as they were in the simulator's process."""
    from numba import cuda

    module, code = import_module(noted.module), code_noted(noted)
    values = {name: _bound(value) for name, value in noted.bound}
    names = {**vars(module), **values}
    if vars(module).get("cuda", cuda) is None:  # see compute.gpu_numba_kernel
        names["cuda"] = cuda
    closure = tuple(CellType(values[name]) for name in code.co_freevars)
    return FunctionType(code, names, code.co_name, None, closure)


def _bound(value: Any) -> Any:
    """A constant as it is; a function as one that kernels can call."""
    from numba import cuda

    if not isinstance(value, NotedFunction):
        return value
    known = vars(import_module(value.module)).get(value.name)
    return known if hasattr(known, "py_func") else cuda.jit(device=True)(_function(value))


def code_noted(noted: NotedFunction) -> CodeType:
    """The code of a function by its name in its module. Raises NumbaCodeUnavailable."""
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
