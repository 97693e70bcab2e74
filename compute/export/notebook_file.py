"""A notebook (.ipynb) that restores the state of a scene: "Open in Jupyter" on the export card.

The notebook is a short program: it creates the lab, repeats its history and shows it. Values of a scene may come from
anyone, through a link. They are written as Python literals alone, each of which is read back and compared.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pprint import pformat
from typing import Any

from compute.devices.backends import kind_of
from compute.export.scene import Scene, SceneError, scene_of
from compute.lab.history import Entries, Entry

ENDING = ".ipynb"
WIDTH = 100  # characters of a line
INSTALL = """try:
    import compute  # noqa: F401
except ImportError:
    %pip install -q 'fieldlab[notebook]'"""
FINISH = """from compute.export.render import Replay

Replay(lab).to(0)  # to its end
lab"""
PLAY = "# lab.play()  # runs it here; lab.pause() stops it"
PLACE = ("backend", "variant", "device_index")  # parameters that depend on the machine


def notebook_of(scene: Scene) -> dict[str, Any]:
    """Return the notebook (nbformat 4.5) whose last state is that of `scene`.

    On a machine without the scene's GPU backend its lab computes on the host. Raise SceneError for values that have no
    Python literal.
    """
    plain = scene_of(json.loads(json.dumps(scene.plain())))  # checked, and without the types of NumPy
    steps = "" if plain.kind.ENDS else f", step {plain.steps:,}"
    about = f"# {plain.kind.TITLE}{steps}\n\nSaved by Fieldlab. The next cells compute this state again."
    cells = [_cell(0, "markdown", about), _cell(1, "code", INSTALL), _cell(2, "code", _creation(plain))]
    cells += [_cell(3, "code", FINISH if plain.kind.ENDS else _repetition(plain)), _cell(4, "code", PLAY)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def _creation(scene: Scene) -> str:
    """Return the program that creates the lab at step 0."""
    size = dict(zip(scene.kind.PICTURE_SIZE, scene.size, strict=False))
    values = {**scene.values, **size}
    made = str(values.pop("backend", scene.kind.param["backend"].default))
    lines = [f"from compute.labs import lab_class\n\nLab = lab_class({literal(scene.lab)})"]
    if scene.missing:
        lines.append(f"# The file does not include everything: {literal(scene.missing[:WIDTH])}")
    if kind_of(made) == "gpu":
        values = {name: value for name, value in values.items() if name not in PLACE}
        host = scene.kind.param["backend"].default
        lines = [f"from compute.devices.backends import backend\n{lines[0]}", *lines[1:]]
        lines.append(f"name = {literal(made)} if backend({literal(made)}).ready else {literal(host)}")
    else:
        lines.append(f"name = {literal(made)}")
    lines.append(f"values = {literal(values)}")
    lines.append("lab = Lab(backend=name, **values)\nlab")
    return "\n".join(lines)


def _repetition(scene: Scene) -> str:
    """Return the program that repeats the history up to the scene's step."""
    history = literal([dict(entry) for entry in _portable(scene.history)])
    return (
        f"from compute.export.render import Replay\n\nhistory = {history}\nReplay(lab, history).to({scene.steps})\nlab"
    )


def _portable(history: Entries) -> Entries:
    """Return the history without changes of backend and kernel: the notebook computes with one."""
    found: list[Entry] = []
    for entry in history:
        if "set" not in entry:
            found.append(entry)
        elif rest := {name: value for name, value in entry["set"].items() if name not in PLACE}:
            found.append({**entry, "set": rest})
    return tuple(found)


def literal(value: object) -> str:
    """Return `value` as a Python literal, on several lines if it is long. Raise SceneError for one that has none."""
    plain = dict(value) if isinstance(value, Mapping) else value
    text = pformat(plain, width=WIDTH, sort_dicts=False)
    try:
        same = ast.literal_eval(text) == plain
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        same = False
    if not same:
        raise SceneError("the state contains a value that cannot be written as a Python literal")
    return text
