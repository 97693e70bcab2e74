"""Check a student's answer in a separate process, and store the results of students."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import msgspec

from compute.devices.backends import REFERENCE, backend
from compute.files import documents
from compute.files.files import whole
from compute.own import tasks
from compute.own.exercises import EXERCISES, Exercise, exercise, seed_of
from compute.own.faults import Fault, fault_of
from compute.own.way_process import STARTING, WayProcess, free_memory
from compute.process.tasks import Report
from compute.ways.comparing import Question
from compute.ways.declaring import FileRefused, OwnFile, OwnWay, read_text

SIMULATED = "gpu_numba"
LONGEST_FILE, LONGEST_NAME, MOST_RESULTS = 2**20, 80, 1000
SCHEMA = "fieldlab-learn 1"
EMPTY = "the gap is still empty: write it between '# -- your code' and '# -- end'"


@dataclass(frozen=True)
class Answer:
    """The verdict on an answer. passed: whether the answer is right; kind: of the fault, or ""."""

    exercise: str
    passed: bool
    kind: str
    text: str
    digest: str


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


# -- results


class ExerciseResult(msgspec.Struct, forbid_unknown_fields=True):
    """The result of a student in one exercise. tries: checks up to the first right answer."""

    passed: bool
    tries: int
    text: str
    date: str
    digest: str


class StudentResults(msgspec.Struct, forbid_unknown_fields=True):
    """A student's results file, by exercise."""

    schema: str
    student: str
    exercises: dict[str, ExerciseResult]


class ResultsRefused(ValueError):
    """A results file is invalid; the text states the reason."""


def load_results(path: Path) -> StudentResults:
    """Read a results file. Raise ResultsRefused with the reason for an invalid file."""
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise ResultsRefused(f"{path.name} has more than {LONGEST_FILE} bytes")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ResultsRefused(f"{path.name} cannot be read: {error.strerror}") from error
    found = documents.typed(
        documents.read(text, LONGEST_FILE, path.name, ResultsRefused), StudentResults, path.name, ResultsRefused
    )
    if found.schema != SCHEMA:
        raise ResultsRefused(f"{path.name}: schema is {documents.short(found.schema)}, not {SCHEMA!r}")
    known = {one.name for one in EXERCISES}
    if other := set(found.exercises) - known:
        raise ResultsRefused(f"{path.name} has no exercise {documents.short(min(other))}")
    if not 0 < len(found.student) <= LONGEST_NAME:
        raise ResultsRefused(f"{path.name}: student must have 1 to {LONGEST_NAME} characters, not {len(found.student)}")
    return found


def save_answer(path: Path, student: str, answer: Answer) -> StudentResults:
    """Add an answer to the student's file. Raise ResultsRefused if the file belongs to another student."""
    results = load_results(path) if path.exists() else StudentResults(SCHEMA, student, {})
    if results.student != student:
        raise ResultsRefused(f"{path.name} is of {documents.short(results.student)}, not of {student!r}")
    before = results.exercises.get(answer.exercise)
    if not (before and before.passed):
        date = datetime.now(UTC).isoformat(timespec="seconds")
        tries = (before.tries if before else 0) + 1
        results.exercises[answer.exercise] = ExerciseResult(answer.passed, tries, answer.text, date, answer.digest)
    with whole(path) as out:
        json.dump(msgspec.to_builtins(results), out, indent=1, ensure_ascii=False)
        out.write("\n")
    return results


def table(every: Sequence[StudentResults]) -> list[list[str]]:
    """Return a header and a row per student: number of right answers; result and tries of each exercise.

    Right answers with the same text as another student's are marked.
    """
    digests = Counter(
        (name, one.digest) for results in every for name, one in results.exercises.items() if one.passed and one.digest
    )
    rows = [["student", "right", *(of.name for of in EXERCISES)]]
    for results in sorted(every, key=lambda one: one.student):
        cells = []
        for of in EXERCISES:
            one = results.exercises.get(of.name)
            same = " (same text)" if one and one.passed and digests[of.name, one.digest] > 1 else ""
            cells.append("" if one is None else f"{'right' if one.passed else 'wrong'}, {one.tries}{same}")
        right = sum(one.passed for one in results.exercises.values())
        rows.append([results.student, f"{right} of {len(EXERCISES)}", *cells])
    return rows
