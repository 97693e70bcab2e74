"""The process of one way, as the command sees it: it is asked, and either answers or has a Fault.

A way that loops for ever, crashes or takes all memory takes only its process with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from compute.container import available_memory
from compute.export.child_process import ChildProcess, Failure, Progress, Result, exchange
from compute.own import tasks
from compute.own.faults import Fault

TICK = 0.1  # s between looks at the clock
STARTING = 60.0  # s that a process may take to start and to import the libraries, beside the deadline
SHARE = 0.8  # of the free memory that a way may take
CAUSES = {
    "SIGSEGV": "it read or wrote outside of its arrays",
    "SIGBUS": "it read or wrote outside of its arrays",
    "SIGABRT": "a library stopped it",
    "SIGFPE": "it divided by zero",
    "SIGKILL": "want of memory, or somebody ended it",
}


class WayProcess:
    """A process with the file open in it.

    deadline: seconds that it may be silent while it works; interpret: Numba compiles nothing in it, so that races
    between CPU threads can be looked for.
    """

    def __init__(
        self, path: Path, *, stand_in: bool, simulate: bool, memory: int, deadline: float, interpret: bool = False
    ) -> None:
        self._path, self._deadline = path, deadline
        environment = {"NUMBA_ENABLE_CUDASIM": "1" if simulate else "0"}
        environment |= {"NUMBA_DISABLE_JIT": "1"} if interpret else {}
        self._child = ChildProcess(leads=True, low=False, ahead=tasks, environment=environment)
        self._opening: Any = partial(tasks.open_file, path, stand_in, memory, interpret)
        self.fault: Fault | None = None

    def open(self) -> tasks.FileFacts:
        """Run the file in it. Raises Fault."""
        facts: tasks.FileFacts = self.ask(self._opening, STARTING)
        return facts

    def ask(self, task: Callable[..., Any], starting: float = 0.0) -> Any:
        """Have `task` done; return what it returns. starting: seconds allowed beside the deadline. Raises Fault."""
        if self.fault:
            raise self.fault
        self._child.give(task)
        last, doing, allowed = monotonic(), "starting", self._deadline + starting
        while not self._child.ended:
            for _, answer in exchange([self._child], TICK):
                match answer:
                    case Progress(words=words):
                        last, doing, allowed = monotonic(), words or doing, self._deadline
                    case Result(value=value):
                        return value
                    case Failure(text=text, error=error):
                        raise error if isinstance(error, Fault) else Fault("raises", f"{text} ({doing})")
            if monotonic() - last > allowed:
                self._child.kill()
                self._child.close()
                self.fault = Fault("hangs", f"it did not end within {allowed:g} s (last heard of at: {doing})")
                raise self.fault
        ending = self._child.close()
        cause = next((f": {text}" for name, text in CAUSES.items() if name in ending), "")
        self.fault = Fault(
            "crashed", f"its process is gone, {ending or 'nobody knows how'}{cause} (last heard of at: {doing})"
        )
        raise self.fault

    def close(self) -> None:
        """End the process."""
        self._child.close()


def free_memory() -> int:
    """Bytes that one way may take."""
    return int(SHARE * available_memory())
