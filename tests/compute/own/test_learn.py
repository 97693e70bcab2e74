"""The ten exercises: solutions are right, typical mistakes are distinguished; files of results."""

from __future__ import annotations

import json
import re

import pytest

from compute.__main__ import main
from compute.own import learning, results
from compute.own.exercises import EXERCISES, exercise, files, seed_of
from compute.own.results import (
    Answer,
    ExerciseResult,
    ResultsRefused,
    StudentResults,
    load_results,
    save_answer,
    table,
)
from tests.compute.own.answers import ANSWERS
from tests.simulator import simulate

pytestmark = pytest.mark.extended


def filled(name, answer):
    """Return the exercise's file with the answer in its gap."""
    text, found = re.subn(r"# -- your code\n.*?# -- end", lambda _: answer, exercise(name).text, flags=re.DOTALL)
    assert found == 1
    return text


def answers():
    """Yield (exercise, text, kind of the fault, message) of every answer; the solution's kind is ""."""
    for name, (right, wrong) in ANSWERS.items():
        yield name, right, "", ""
        for old, new, kind, words in wrong:
            assert old in right, (name, old)
            text = right.replace(old, new)
            if "def finish(" in text:
                launch = "root[blocks, 64](a, b, c, out)"
                text = text.replace(launch, f"{launch}\n    finish[blocks, 64](a, b, out)")
            yield name, text, kind, words


PROGRAM = """
import json, sys, tempfile
from pathlib import Path
from compute.own.tasks import on_stand_ins
on_stand_ins()
from compute.own.exercises import exercise, seed_of
from compute.own.faults import Fault
from compute.own.learning import try_answer
from tests.compute.own.test_learn import answers, filled
found, folder = [], Path(tempfile.mkdtemp(dir=sys.argv[1]))
for number, (name, text, _, _) in enumerate(answers()):
    path = folder / f"{name}_{number}.py"
    path.write_text(filled(name, text))
    of = exercise(name)
    try:
        try_answer(path, of, seed_of(f"student {number}", name))
        found.append(["", ""])
    except Fault as fault:
        found.append([fault.kind, fault.text])
print(json.dumps(found))
"""


def test_solutions_are_right_and_mistakes_are_distinguished(tmp_path):
    found = json.loads(simulate(PROGRAM, tmp_path))
    for (name, text, kind, words), (found_kind, found_words) in zip(answers(), found, strict=True):
        assert (found_kind, words in found_words) == (kind, True), (name, text, found_words)


def test_every_exercise_has_a_gap_and_known_answers():
    assert [one.name for one in EXERCISES] == list(ANSWERS)
    for one in EXERCISES:
        assert one.text.count("# -- your code") == 1
        assert "..." in one.text


def test_hidden_sizes_depend_on_the_student_alone():
    for one in EXERCISES:
        sizes = {student: one.sizes(seed_of(student, one.name)) for student in ("Ada", "Grace", "Alan", "Edsger")}
        assert len(set(sizes.values())) > 1
        assert sizes["Ada"] == one.sizes(seed_of("Ada", one.name))
        for found in sizes.values():
            assert found[0] == 1
            assert any(n % 2 for n in found[1:])
            assert found[-1] % 16


def test_an_answer_is_checked_in_a_process_of_its_own(tmp_path, capsys):
    assert main(["learn", "start", str(tmp_path)]) == 0
    path, result = tmp_path / "add_one.py", tmp_path / "ada.json"
    command = ["learn", "check", str(path), "--student", "Ada", "--result", str(result)]
    assert main(command) == 1
    assert "the gap is still empty" in capsys.readouterr().out
    path.write_text(filled("add_one", ANSWERS["add_one"].right))
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert re.search(r"add_one: right, at n = 1, .*\nWhat for\? An estimate, .*\n1 of 10 are right", printed)
    assert load_results(result).exercises["add_one"].tries == 2
    path.write_text("def f(:\n")
    assert main(command) == 1
    assert load_results(result).exercises["add_one"].passed  # a passed exercise stays passed
    assert main([*command[:3], "--student", "Grace", "--result", str(result)]) == 2
    assert "is of 'Ada', not of 'Grace'" in capsys.readouterr().err
    assert main(["learn", "check", str(tmp_path / "other.py"), "--student", "Ada"]) == 2
    assert "exercise must be one of add_one, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "kind"), [("import no_such_library_for_fieldlab\n", "missing"), ("while True: pass\n", "hangs")]
)
def test_an_answer_that_never_ends_or_cannot_be_imported_is_reported(tmp_path, text, kind):
    path = tmp_path / "add_one.py"
    path.write_text(text)
    answer = learning.check_answer(path, "add_one", "Ada", deadline=1.0 if kind == "hangs" else 60.0)
    assert (answer.passed, answer.kind) == (False, kind)


def test_the_exercises_are_listed_and_existing_files_kept(tmp_path, capsys):
    assert main(["learn"]) == 0
    printed = capsys.readouterr().out
    assert all(f" {one.name} " in printed for one in EXERCISES)
    (tmp_path / "tile.py").write_text("mine")
    assert main(["learn", "start", str(tmp_path)]) == 0
    assert (tmp_path / "tile.py").read_text() == "mine"
    assert len(list(tmp_path.glob("*.py"))) == 10


# -- results


def some(student, digest="d", passed=True, name="tile"):
    return StudentResults(results.SCHEMA, student, {name: ExerciseResult(passed, 3, "right", "now", digest)})


def test_a_table_of_many(tmp_path, capsys):
    rows = table([some("Grace"), some("Ada"), some("Alan", "e"), some("=Eve()", "f", passed=False)])
    at = rows[0].index("tile")
    assert [row[0] for row in rows] == ["student", "=Eve()", "Ada", "Alan", "Grace"]
    assert [row[at] for row in rows[1:]] == ["wrong, 3", "right, 3 (same text)", "right, 3", "right, 3 (same text)"]
    assert [row[1] for row in rows[1:]] == ["0 of 10", "1 of 10", "1 of 10", "1 of 10"]
    for student in ("Ada", "=Eve()"):
        save_answer(tmp_path / f"{student[1]}.json", student, Answer("tile", True, "", "right", "d"))
    files = [str(path) for path in tmp_path.glob("*.json")]
    assert main(["learn", "report", *files, "--csv", str(tmp_path / "all.csv")]) == 0
    assert "Ada" in capsys.readouterr().out
    assert "\n'=Eve()," in (tmp_path / "all.csv").read_text()
    (tmp_path / "bad.json").write_text("[]")
    assert main(["learn", "report", str(tmp_path / "bad.json"), *files]) == 2
    assert "bad.json must be an object" in capsys.readouterr().err


ENTRY = {"passed": True, "tries": 1, "text": "", "date": "", "digest": ""}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "schema is 'other'"),
        ({"student": ""}, "student must have 1 to 80 characters, not 0"),
        ({"student": 3}, "student must be a text, not 3"),
        ({"exercises": {"other": ENTRY}}, "no exercise 'other'"),
        ({"exercises": {"tile": {**ENTRY, "passed": 1}}}, "must be true or false"),
        ({"more": 1}, "has no entry 'more'"),
    ],
)  # fmt: skip
def test_a_damaged_file_of_results_is_refused(tmp_path, change, message):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schema": results.SCHEMA, "student": "Ada", "exercises": {}, **change}))
    with pytest.raises(ResultsRefused, match=re.escape(message)):
        load_results(path)
    path.write_text(" " * (2**20 + 1))
    with pytest.raises(ResultsRefused, match="more than 1048576 bytes"):
        load_results(path)


# -- exercises from a folder

AXPY = '''"""Add a multiple of x to y.

One thread an element: y = 3 x + y.
"""

from numba import cuda


# -- your code
@cuda.jit
def axpy(x, y):
    i = cuda.grid(1)
    ...
# -- end


def solve(x, y):
    axpy[-(-x.size // 64), 64](x, y)
'''
CHECK = """
def inputs(n, rng):
    return rng.random(n, dtype="float32"), rng.random(n, dtype="float32")

def reference(x, y):
    y += 3 * x

def demand(launches, streams, n):
    reads = sum(one.reads for one in launches)
    return "" if reads <= 2 * n else f"there are {reads} reads; {2 * n} would do"
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Return a teacher's folder with the exercise axpy; the environment is restored afterwards."""
    monkeypatch.setenv(files.VARIABLE, "")
    folder = tmp_path / "course"
    folder.mkdir()
    (folder / "axpy.py.txt").write_text(AXPY)
    (folder / "axpy.check.py").write_text(CHECK)
    return folder


def test_an_exercise_from_a_folder_is_listed_written_and_checked(course, tmp_path, capsys):
    learn = ["learn", "--exercises", str(course)]
    assert main(learn) == 0
    assert re.search(r"^11  axpy +Add a multiple of x to y$", capsys.readouterr().out, re.MULTILINE)
    answers, result = tmp_path / "answers", tmp_path / "ada.json"
    answers.mkdir()
    assert main([*learn, "start", str(answers)]) == 0
    path, said = answers / "axpy.py", []
    assert path.read_text() == AXPY
    right = "    if i < x.size:\n        y[i] += 3 * x[i]"
    for gap in ("    ...", "    y[i] += 3 * x[i]", right.replace("3 *", "2 *"), f"{right} + 0 * x[i]", right):
        path.write_text(AXPY.replace("    ...", gap))
        capsys.readouterr()
        code = main([*learn, "check", str(path), "--student", "Ada", "--result", str(result)])
        said.append((code, capsys.readouterr().out.partition("\n")[0]))
    assert [code for code, _ in said] == [1, 1, 1, 1, 0]
    for (_, found), words in zip(
        said, ("still empty", "thread 1 of", "axpy: ", "would do", "right, at n = 1"), strict=True
    ):
        assert words in found
    assert "axpy" in load_results(result).exercises
    assert main([*learn, "report", str(result)]) == 0


@pytest.mark.parametrize(
    ("name", "text", "check", "words"),
    [
        ("axpy", AXPY, None, "axpy.check.py must be in the same folder"),
        ("tile", AXPY, CHECK, "an exercise of this name exists already"),
        ("Axpy 2", AXPY, CHECK, "its name must have lower-case letters"),
        ("axpy", "def f(:", CHECK, "must be Python"),
        ("axpy", AXPY.replace("# -- end", ""), CHECK, "must have one gap"),
        ("axpy", "# -- your code\n# -- end\n", CHECK, "must be a title"),
        ("axpy", AXPY + "#" * files.LONGEST, CHECK, f"at most {files.LONGEST} bytes"),
    ],
)
def test_an_invalid_exercise_of_a_folder_is_refused(tmp_path, monkeypatch, capsys, name, text, check, words):
    monkeypatch.setenv(files.VARIABLE, "")
    (tmp_path / f"{name}.py.txt").write_text(text)
    if check is not None:
        (tmp_path / f"{name}.check.py").write_text(check)
    assert main(["learn", "--exercises", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert main(["learn", "--exercises", str(tmp_path / "absent")]) == 2


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (CHECK.replace("def reference", "def other"), "must have a function reference"),
        (f"{CHECK}\nLARGE = 5, 9", "130 <= lowest < highest <= 4096, not (5, 9)"),
        (f"{CHECK}\nON = 'moon'", "ON must be 'device' or 'host', not 'moon'"),
        ("import no_such_library_for_fieldlab", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_an_invalid_hidden_part_is_refused(course, capsys, check, words):
    (course / "axpy.check.py").write_text(check)
    path = course / "axpy.py"
    path.write_text(AXPY)
    assert main(["learn", "--exercises", str(course), "check", str(path), "--student", "Ada"]) == 2
    assert words in capsys.readouterr().err
