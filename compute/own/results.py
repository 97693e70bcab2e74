"""The results of students: one file for each, which `fieldlab learn check` writes, and a table of many."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from compute.files import documents
from compute.files.files import whole
from compute.own.exercises import listed

LONGEST_FILE, LONGEST_NAME = 2**20, 80
SCHEMA = "fieldlab-learn 1"


@dataclass(frozen=True)
class Answer:
    """The verdict on an answer. passed: whether the answer is right; kind: of the fault, or ""."""

    exercise: str
    passed: bool
    kind: str
    text: str
    digest: str


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
    known = {one.name for one in listed()}
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
    every_exercise = listed()
    digests = Counter(
        (name, one.digest) for results in every for name, one in results.exercises.items() if one.passed and one.digest
    )
    rows = [["student", "right", *(of.name for of in every_exercise)]]
    for results in sorted(every, key=lambda one: one.student):
        cells = []
        for of in every_exercise:
            one = results.exercises.get(of.name)
            same = " (same text)" if one and one.passed and digests[of.name, one.digest] > 1 else ""
            cells.append("" if one is None else f"{'right' if one.passed else 'wrong'}, {one.tries}{same}")
        right = sum(one.passed for one in results.exercises.values())
        rows.append([results.student, f"{right} of {len(every_exercise)}", *cells])
    return rows
