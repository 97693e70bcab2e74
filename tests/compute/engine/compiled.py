"""A lab whose kernels a job compiles into a folder, with faults on request."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import param

from compute.lab.compilation import Compilation, Interim
from compute.lab.lab import OutOfMemory
from compute.process.tasks import Report
from tests.compute.engine.faulty import Faulty


def compile_into(folder: str, kernel: str, report: Report) -> None:
    """Write a file in place of a kernel. A name that begins with slow, fail, crash or lose does as it says."""
    Path(folder, f"{kernel} began {os.getpid()}").touch()
    report(0.0, "compiling")
    if kernel.startswith("slow"):
        time.sleep(60.0)
    if kernel.startswith("fail"):
        raise ValueError("planted")
    if kernel.startswith("crash"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if not kernel.startswith("lose"):
        Path(folder, kernel).touch()


def began(folder: Path, kernel: str) -> list[int]:
    """Return the processes that have begun to compile a kernel."""
    return [int(path.name.rsplit(" ", 1)[1]) for path in folder.glob(f"{kernel} began *")]


class Compiled(Faulty):
    """A lab with the kernel of this name. interims: each argument of `set_interim`.

    A kernel whose name begins with staged is compiled after another one, which computes during its compilation.
    """

    LAB, TITLE = "compiled", "Compiled"
    COMPILED: ClassVar[tuple[str, ...]] = ("kernel",)

    folder = param.String(default="")
    kernel = param.String(default="")

    def __init__(self, **values: Any) -> None:
        self.interims: list[Interim | None] = []
        super().__init__(**values)

    @classmethod
    def actions(cls) -> dict[str, Callable[..., Any]]:
        return {**super().actions(), "choose": cls.choose}

    def choose(self, kernel: str) -> None:
        self.update(kernel=kernel)

    def compilation(self) -> Compilation | None:
        if Path(self.folder, self.kernel).is_file():
            return None
        quick = f"quick {self.kernel}"
        if not self.kernel.startswith("staged"):
            return Compilation(self.kernel, partial(compile_into, self.folder, self.kernel))
        if not Path(self.folder, quick).is_file():
            return Compilation(quick, partial(compile_into, self.folder, quick))
        name = self.kernel.removeprefix("staged ")
        return Compilation(self.kernel, partial(compile_into, self.folder, name), "quick")

    def compiler(self) -> Callable[..., Any]:
        return partial(compile_into, self.folder, "compiler")

    def set_interim(self, interim: Interim | None) -> None:
        if interim is None and self.kernel.startswith("large") and self.size > 4:
            raise OutOfMemory("planted: no room")
        self.interim = interim
        self.interims.append(interim)
