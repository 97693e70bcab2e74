"""The dialog of the exercises: texts, commands and results; nothing of a folder's exercise runs."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from app.features.exercises.exercises import Exercises
from compute.own.exercises import EXERCISES, files
from compute.own.results import Answer, save_answer

HOSTILE = '"""Close </pre><script>alert(1)</script>.\n\n\u202etext"""\n# -- your code\n...\n# -- end\n'


@pytest.fixture
def dialog(monkeypatch):
    """Return a function that opens the dialog and returns its HTML."""
    monkeypatch.setenv(files.VARIABLE, "")
    monkeypatch.setenv(files.RESULTS, "")
    feature = Exercises(SimpleNamespace(focus=lambda *_: None))

    def opened():
        feature.dialog.open = False
        feature.toggle()
        assert feature.dialog.open
        return feature._words.object

    return opened


def test_every_exercise_is_shown_with_its_text_and_its_command(dialog):
    html = dialog()
    assert re.findall(r"check exercises/(\w+)\.py --student", html) == [one.name for one in EXERCISES]
    assert "cuda.grid(1)" in html
    assert "--exercises" not in html
    assert "right" not in re.sub(r"<pre.*?</pre>", "", html, flags=re.DOTALL)


def test_a_folder_s_exercise_is_shown_as_text_and_never_run(dialog, tmp_path):
    (tmp_path / "mine.py.txt").write_text(HOSTILE, encoding="utf-8")
    (tmp_path / "mine.check.py").write_text("raise SystemExit('the hidden part was run')")
    files.name_folders([tmp_path])
    html = dialog()
    assert "fieldlab learn --exercises FOLDER check exercises/mine.py" in html
    assert "<script" not in html
    assert "&lt;/pre&gt;&lt;script&gt;" in html
    assert "\u202e" not in html


def test_results_are_read_whenever_the_dialog_opens(dialog, tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    monkeypatch.setenv(files.RESULTS, str(path))
    assert "Ada" not in dialog()
    save_answer(path, "Ada <b>", Answer("tile", False, "race", "a race", "d"))
    save_answer(path, "Ada <b>", Answer("fused", True, "", "right", "e"))
    html = dialog()
    assert "Ada &lt;b&gt;: 1 of 10 right." in html
    assert re.findall(r"<span class='solved (\w+)'>(.*?)</span>", html) == [
        ("wrong", "not yet right, 1 try"),
        ("right", "✓ right, 1 try"),
    ]
    path.write_text("[]")
    assert "No results are shown: results.json must be an object" in dialog()
