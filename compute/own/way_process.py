"""The process of one way, seen from the command: each task returns a result or raises Fault.

An endless loop, a crash or exhausted memory ends only the process of that way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from compute.devices.webgpu import SOFTWARE
from compute.machine.container import available_memory
from compute.own import tasks
from compute.own.faults import Fault
from compute.process.child import ProcessEnd
from compute.process.tasks import ChildAnswer, Failure, Progress, Result, TaskProcess
from compute.process.watchdog import Deadlines, Loss

STARTING = 60.0  # s for starting the process and importing the libraries, in addition to the deadline
SHARE = 0.8  # of the free memory, as the limit of one way
CAUSES = {
    "SIGSEGV": "it read or wrote outside of its arrays",
    "SIGBUS": "it read or wrote outside of its arrays",
    "SIGABRT": "a library stopped it",
    "SIGFPE": "it divided by zero",
}


class WayProcess:
    """A process that has loaded the user's file.

    deadline: seconds without progress after which it is killed; interpret: disable Numba's compiler in it, to search
    for races between CPU threads; software: use WebGPU's software adapters in it.
    """

    def __init__(
        self, path: Path, *, stand_in: bool, simulate: bool, memory: int, deadline: float, interpret: bool = False,
        software: bool = False,
    ) -> None:  # fmt: skip
        self._limits = Deadlines(deadline, renewed=True)
        environment = {"NUMBA_ENABLE_CUDASIM": "1" if simulate else "0"}
        environment |= {"NUMBA_DISABLE_JIT": "1"} if interpret else {}
        environment |= {SOFTWARE: "software"} if software else {}
        self._child = TaskProcess(leads=True, low=False, ahead=tasks.__name__, environment=environment)
        self._opening: Any = partial(tasks.open_file, path, stand_in, memory, interpret)
        self.fault: Fault | None = None

    def open(self) -> tasks.FileFacts:
        """Load the file in the process. Raise Fault."""
        facts: tasks.FileFacts = self.ask(self._opening, STARTING)
        return facts

    def ask(self, task: Callable[..., Any], starting: float = 0.0) -> Any:
        """Run `task` in the process and return its result. Raise Fault.

        starting: seconds allowed in addition to the deadline.
        """
        if self.fault:
            raise self.fault
        self._doing = "starting"
        match self._child.run(task, self._limits, starting, self._on_answer):
            case Result(value=value):
                return value
            case Failure(error=Fault() as fault):
                raise fault
            case Failure(text=text):
                raise Fault("raises", f"{text} ({self._doing})")
            case Loss():
                allowed = self._limits.deadline + (starting if self._doing == "starting" else 0.0)
                self.fault = Fault("hangs", f"it did not end within {allowed:g} s (last progress: {self._doing})")
            case ProcessEnd(text=end):
                cause = next((f": {text}" for name, text in CAUSES.items() if name in end), "")
                self.fault = Fault("crashed", f"its process is gone, {end}{cause} (last progress: {self._doing})")
        raise self.fault

    def _on_answer(self, answer: ChildAnswer) -> None:
        if isinstance(answer, Progress):
            self._doing = answer.words or self._doing

    def close(self) -> None:
        """End the process."""
        self._child.close()


def free_memory() -> int:
    """Return the bytes of memory that one way may use."""
    return int(SHARE * available_memory())
