"""The dialog with the exercises of `fieldlab learn`: their texts, the commands to run, and which are solved.

The page shows texts only. An answer, and the hidden part of a teacher's exercise, run on the command line of the
student's computer, never in the server. The solved exercises are those of the results file that `fieldlab serve
--results FILE` names, read whenever the dialog opens: a student who serves the page to herself sees her progress.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import panel_material_ui as pmui

from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.markup import filled, shown
from app.page.theme import html_pane
from compute.own.exercises import EXERCISES, listed
from compute.own.exercises.files import RESULTS, ExerciseText
from compute.own.results import ExerciseResult, ResultsRefused, load_results

DIALOG = "MuiDialog-root"  # CSS class of Material's dialog
STYLE = """
.exercises { color: var(--ink); line-height: 1.45; }
.exercises p { margin: 0 0 8px; }
.exercises h3 { margin: 16px 0 4px; font-size: var(--body, 16px); }
.exercises details { border-top: 1px solid var(--line); }
.exercises summary { cursor: pointer; padding: 8px 4px; display: flex; gap: 12px; align-items: baseline; }
.exercises summary:hover { background: var(--wash, transparent); }
.exercises summary .number { min-width: 20px; text-align: right; }
.exercises summary .title { flex: 1; }
.exercises summary .solved { color: var(--muted); font-size: var(--small, 14px); white-space: nowrap; }
.exercises summary .solved.right { color: var(--good); }
.exercises pre { overflow-x: auto; padding: 12px; margin: 0 0 8px; border: 1px solid var(--line); }
.exercises pre, .exercises code { font-family: var(--mono, monospace); font-size: var(--small, 14px); }
"""
NO_ROOM = {"@media (min-width: 840px) and (max-width: 939px)": {"display": "none"}}  # in the header, for its button
INTRODUCTION = """<p>Kernels to write, from array + 1 to streams; no GPU is needed. Answers run on your own computer,
never in this page: install Fieldlab there, fill the gaps in the files, and let it check them.</p>
<pre>{command}</pre>"""
ENTRY = """<details><summary><span class='number'>{number}</span><span class='title'>{title}</span>
<span class='solved {kind}'>{state}</span></summary>
<pre>{command}</pre>"""


class Exercises(Feature):
    """The dialog of one page."""

    name, order, key = "exercises", 45, "x"
    symbol, tip = "school", "Exercises: kernels to write (X)"
    help = (HelpRow(85, "**X**", "exercises: kernels to write, and the commands that check them"),)

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self._words = html_pane("", STYLE, sizing_mode="stretch_width")
        self.dialog = pmui.Dialog(
            self._words, title="Exercises", close_on_click=True, show_close_button=True, width_option="md"
        )
        self.dialog.param.watch(lambda event: page.focus(DIALOG, event.new), "open")
        self.parts = (self.dialog,)
        self.buttons[0].sx = NO_ROOM

    def toggle(self) -> None:
        """Open the dialog with the present texts and results, or close it."""
        if not self.dialog.open:
            self._words.object = exercises_html(listed(), *progress())
        self.dialog.open = not self.dialog.open

    @classmethod
    def install(cls) -> None:
        """Refuse invalid folders before the first page."""
        listed()


def progress() -> tuple[Mapping[str, ExerciseResult], str]:
    """Return the results by exercise, and a sentence: whose they are, or why there are none; "" without a file."""
    path = os.environ.get(RESULTS)
    if not path or not Path(path).exists():
        return {}, ""
    try:
        found = load_results(Path(path))
    except ResultsRefused as error:
        return {}, f"No results are shown: {error}."
    right = sum(one.passed for one in found.exercises.values())
    return found.exercises, f"{found.student}: {right} of {len(listed())} right."


def exercises_html(every: Sequence[ExerciseText], results: Mapping[str, ExerciseResult], words: str) -> str:
    """Return the HTML of the dialog. words: about the results."""
    own = [one for one in every if one not in EXERCISES]
    body = [filled(INTRODUCTION, command=command("start exercises", bool(own)))]
    if words:
        body.append(filled("<p>{words}</p>", words=words))
    for number, one in enumerate(every, start=1):
        if own and one is own[0]:
            body.append("<h3>Of this course</h3>")
        state, kind = state_of(results.get(one.name))
        check = command(f'check exercises/{one.name}.py --student "NAME"', one in own)
        body.append(filled(ENTRY, number=number, title=one.title, kind=kind, state=state, command=check))
        body.append(f"<pre class='text'>{escape(shown(one.text))}</pre></details>")
    return f"<div class='exercises'>{''.join(body)}</div>"


def command(what: str, of_course: bool) -> str:
    """Return a command of `fieldlab learn`; of_course: for the exercises of a folder."""
    return f"fieldlab learn {'--exercises FOLDER ' if of_course else ''}{what}"


def state_of(result: ExerciseResult | None) -> tuple[str, str]:
    """Return (words, CSS class) for a result."""
    if result is None:
        return "", ""
    tries = f"{result.tries} {'try' if result.tries == 1 else 'tries'}"
    return (f"✓ right, {tries}", "right") if result.passed else (f"not yet right, {tries}", "wrong")
