"""Check a student's answer in a separate process; results.py stores the results of students."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from compute.devices.backends import REFERENCE, backend
from compute.own import tasks
from compute.own.exercises import Exercise, exercise, seed_of
from compute.own.faults import Fault, fault_of
from compute.own.results import Answer
from compute.own.way_process import STARTING, WayProcess, free_memory
from compute.process.tasks import Report
from compute.ways.comparing import Question
from compute.ways.declaring import FileRefused, OwnFile, OwnWay, read_text

SIMULATED = "gpu_numba"
EMPTY = "the gap is still empty: write it between '# -- your code' and '# -- end'"


def check_answer(path: Path, name: str, student: str, deadline: float = 30.0) -> Answer:
    """Check the file against exercise `name` with the hidden inputs of `student`. Raise ValueError for other names."""
    of = exercise(name)
    process = None
    try:
        text = read_text(path)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if text == of.text:
            return Answer(name, False, "empty", EMPTY, digest)
        process = WayProcess(path.resolve(), stand_in=True, simulate=True, memory=free_memory(), deadline=deadline)
        asked = process.ask(partial(answer_task, path.resolve(), name, seed_of(student, name)), STARTING)
        return Answer(name, True, "", f"right, at n = {', '.join(map(str, asked))}", digest)
    except FileRefused as error:
        return Answer(name, False, "syntax", str(error), "")
    except Fault as fault:
        return Answer(name, False, fault.kind, fault.text, digest)
    finally:
        if process is not None:
            process.close()


def answer_task(path: Path, name: str, seed: int, report: Report) -> tuple[int, ...]:
    """Run the answer at its hidden n and return these; runs in a separate process. Raise Fault."""
    report(0.0, f"importing {path.name}")
    tasks.on_stand_ins()
    return try_answer(path, exercise(name), seed, report)


def try_answer(path: Path, of: Exercise, seed: int, report: Report = lambda *_: None) -> tuple[int, ...]:
    """Check the answer in `path` in this process, which has the stand-ins installed. Raise Fault."""
    sizes = of.sizes(seed)
    file = OwnFile(path, lambda n, _dtype, rng: of.inputs(n, rng), (1, max(sizes)), ("float32",), on=of.on)
    file.ways = {
        "reference": OwnWay("answer", backend(REFERENCE), "", of.reference, 0, is_reference=True),
        "answer": OwnWay("answer", backend(SIMULATED), "", _solve(path)),
    }
    checking = tasks.Checking(file, file.ways["answer"], "float32", seed, stand_in=True)
    for n in sizes:
        report(0.0, f"n = {n}")
        checking.ask(Question(f"n = {n}", n, "random"))
        if missing := of.demand(checking.found.launches, checking.streams, n):
            raise Fault("demand", missing)
    return sizes


def _solve(path: Path) -> Callable[..., Any]:
    """Return the answer's function `solve`. Raise Fault if importing the file fails or `solve` is missing."""
    spec = spec_from_file_location(f"answer_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise Fault("syntax", f"{path.name} is no Python file: its name must end in .py")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # noqa: BLE001 - any error of the file
        raise fault_of(error, path, "importing it") from None
    if not callable(solve := vars(module).get("solve")):
        raise Fault("syntax", f"{path.name} has no function solve, which is given in the exercise")
    return solve  # type: ignore[no-any-return]
