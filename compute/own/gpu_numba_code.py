"""PTX and machine code of Numba-CUDA's kernels, on machines without a GPU too.

For which types a kernel is compiled is known once it is launched. So what launches it runs in Numba's simulator first,
in a process of its own at a small size, and each launch is noted; then numba-cuda compiles for the architecture that is
asked for, which needs no driver, ptxas makes machine code of it, and nvdisasm prints that.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from compute import scratch
from compute.cuda_source import Resources, resources_in
from compute.export.child_process import ChildProcess, Failure, Result, Tell, exchange
from compute.own.code_view import KernelCode, find_program, kernels_of_listing, listing_of

INSTALL = "pip install 'numba-cuda[cu13]' nvidia-cuda-nvcc"
COMPILERS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")
SECONDS = 60.0  # for ptxas
TICK = 0.2  # s between looks at the simulator's process
SIMULATED = {"NUMBA_ENABLE_CUDASIM": "1"}
REPLACED = re.compile(r"\.entry (\S+?)\(")


class NumbaCodeUnavailable(ValueError):
    """The code of Numba's kernels cannot be shown here; the text says why and which line installs what is missing."""


@dataclass(frozen=True)
class LaunchTypes:
    """A launch as it was noted. types: Numba's, of the arguments; threads: of a block."""

    module: str
    kernel: str
    types: tuple[Any, ...]
    threads: int


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
            found[key] = LaunchTypes(*key, types, prod(kernel.block_dim))
            tell(0.0, f"noting {kernel.fn.__name__}")
        return launch(kernel, *arguments)

    FakeCUDAKernel.__call__ = noted
    try:
        run()
    finally:
        FakeCUDAKernel.__call__ = launch
    return tuple(found.values())


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
        tell(0.5, f"compiling {one.kernel} for {architecture}")
        name = one.kernel.rpartition(".")[2]
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

    kernel = next((each for each in _kernels(one.module) if each.py_func.__qualname__ == one.kernel), None)
    if kernel is None:
        raise NumbaCodeUnavailable(f"{one.kernel} is not found in {one.module}")
    capability = int(architecture.removeprefix("sm_")[:-1]), int(architecture[-1])
    fast = bool(kernel.targetoptions.get("fastmath", False))
    made = cuda.compile(
        kernel.py_func, one.types, cc=capability, device=False, abi="numba", output="ptx", lineinfo=True, fastmath=fast
    )[0]
    text = made if isinstance(made, str) else made.decode()
    entry = REPLACED.search(text)
    if entry is None:
        raise NumbaCodeUnavailable(f"{one.kernel}: its PTX has no entry")
    return text, entry[1]


def _kernels(module: str) -> Iterator[Any]:
    """All of a module, those in its dicts, lists and tuples too."""

    def within(values: Iterable[Any]) -> Iterator[Any]:
        """Kernels among values, one level down too."""
        for value in values:
            if hasattr(value, "py_func"):
                yield value
            elif isinstance(value, dict):
                yield from (each for each in value.values() if hasattr(each, "py_func"))
            elif isinstance(value, (list, tuple)):
                yield from (each for each in value if hasattr(each, "py_func"))

    return within(list(vars(import_module(module)).values()))


def _machine_code(ptx: str, name: str, architecture: str) -> KernelCode:
    program = find_ptxas()
    with scratch.lent("code") as folder:
        source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [str(program), f"-arch={architecture}", "-lineinfo", "-v", str(source), "-o", str(cubin)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NumbaCodeUnavailable(f"ptxas cannot be run: {error}") from error
        if done.returncode:
            raise NumbaCodeUnavailable(f"ptxas refuses it: {done.stderr.strip()[:300]}")
        resources: dict[str, Resources] = resources_in(done.stdout + done.stderr)
        return dict(kernels_of_listing(listing_of(cubin), resources))[name]


