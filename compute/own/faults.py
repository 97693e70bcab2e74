"""The faults of a user's way, each described in one sentence."""

from __future__ import annotations

import traceback
from pathlib import Path

from compute.devices.backends import BackendUnavailable
from compute.devices.cuda_source import CudaSourceError
from compute.devices.webgpu_passes import WebGpuError
from compute.devices.wgsl import WgslError
from compute.measure.agreement import error_line
from compute.own.cuda_on_cpu import KernelRefused, NoCompiler
from compute.ways.declaring import FileRefused

KINDS = {
    "syntax": "syntax error",
    "missing": "not here",
    "compile": "does not compile",
    "raises": "raises an error",
    "differs": "wrong",
    "race": "race",
    "outside": "outside of an array",
    "stuck": "barrier never reached",
    "hangs": "does not end",
    "crashed": "crashes",
    "memory": "memory exhausted",
}  # labels in a table, by kind
COMPILING = ("TypingError", "LoweringError", "UnsupportedError", "CompileException", "NvvmError", "LinkerError")
REFUSED = (KernelRefused, CudaSourceError, WgslError, WebGpuError)
NO_MEMORY = ("OutOfMemory", "_ArrayMemoryError", "MemoryError")


class Fault(ValueError):
    """A way or the file failed. kind: one of KINDS; text: a sentence without its full stop."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def __str__(self) -> str:
        return self.text


def fault_of(error: BaseException, path: Path, doing: str) -> Fault:  # noqa: PLR0911 - one return a kind
    """Return the Fault for an exception. path: the user's file; doing: the step that raised it ("n = 33")."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, FileRefused):
        return Fault("raises", str(error))
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    where = f"{doing}, line {lines[-1]} of {path.name}" if lines else doing
    said = error_line(error) if isinstance(error, Exception) else type(error).__name__
    name = type(error).__name__
    if any(part in name for part in NO_MEMORY):
        return Fault("memory", f"memory is exhausted ({where}): {said}")
    if isinstance(error, (NoCompiler, BackendUnavailable)):
        return Fault("missing", str(error))
    if isinstance(error, REFUSED) or name in COMPILING:
        return Fault("compile", f"it cannot be compiled or launched ({where}): {_short(error, said)}")
    if isinstance(error, ModuleNotFoundError):
        return Fault("missing", f"{error.name} is not installed ({where}): import it inside of the way that needs it")
    if isinstance(error, SystemExit):
        return Fault("raises", f"it ends the program ({where})")
    return Fault("raises", f"it raises an error ({where}): {said}")


def _short(error: BaseException, said: str) -> str:
    return str(error)[:300] if isinstance(error, KernelRefused) else said
