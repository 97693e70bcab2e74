"""CuPy on a machine without a GPU: the stand-in of `fieldlab try`, with strictly compiled kernels and graphs.

It does not test CuPy itself, only that the project's code computes correct numbers with these functions.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from compute.own import gpu_stand_in
from compute.own.gpu_stand_in import StandInArray as Array
from compute.own.gpu_stand_in import as_array as asarray
from tests.cuda_on_cpu import Module

__all__ = ["Array", "Graph", "RawKernel", "Stream", "asarray", "extensions", "module"]


class RawKernel:
    """CUDA C in a string; Python's numbers are passed as 8 bytes each, as CuPy does."""

    backwards = False

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self._code, self._name = code, name
        self._defines = dict(option.removeprefix("-D").split("=", 1) for option in options if option.startswith("-D"))
        self._module: Module | None = None

    def compile(self) -> None:
        if self._module is None:
            self._module = Module(self._code, self._defines, lambda: RawKernel.backwards)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        assert Graph.recording is None or self._module, "a kernel is loaded while a graph is recorded"
        self.compile()
        numbers = {int: np.int64, float: np.float64}
        values = tuple(numbers.get(type(value), lambda v: v)(value) for value in arguments)
        Graph.record_or_run(lambda: self._module.get_function(self._name)(grid, block, values))


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


class Stream(gpu_stand_in.Stream):
    """A stream that runs all work immediately, or records it."""

    def begin_capture(self) -> None:
        Graph.recording = []

    def end_capture(self) -> Graph:
        assert Graph.recording is not None
        graph, Graph.recording = Graph(Graph.recording), None
        return graph


def module() -> ModuleType:
    """Return the module for `import cupy`."""
    made = _stand_in("cupy")
    made.RawKernel, made.cuda.Stream, made.cuda.get_current_stream = RawKernel, Stream, Stream
    return made


def extensions() -> ModuleType:
    """Return the module for `import cupyx`."""
    return _stand_in("cupyx")


def _stand_in(name: str) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for each in ("cupy", "cupy.cuda", "cupyx"):
            patch.setitem(sys.modules, each, None)
        gpu_stand_in.install()
        return sys.modules[name]
