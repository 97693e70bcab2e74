"""Preset equations: one text file each, with comments as its head. A new file in a folder is a new preset.

# title: Heat
# source: the origin of the equation             any number of times
# try: a change, and its effect                  any number of times
u_t = …                                          the text, to the end of the file
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from compute.labs.equations.language import read

FOLDER = Path(__file__).parent / "presets"
FIRST = ("gray_scott", "heat", "wave")  # in the list; the others follow by title
HEAD = re.compile(r"# (title|source|try): +(.+)")


@dataclass(frozen=True)
class Preset:
    """A text with its origin. name: that of the file. sources, hints: sentences for About."""

    name: str
    title: str
    sources: tuple[str, ...]
    hints: tuple[str, ...]
    text: str


def preset(path: Path) -> Preset:
    """Return the preset of a file. Raise ValueError with the file's name if the head or the text is invalid."""
    lines = path.read_text(encoding="utf-8").splitlines()
    heads = [HEAD.fullmatch(line.rstrip()) for line in lines]
    length = next((number for number, head in enumerate(heads) if head is None), len(heads))
    values: dict[str, list[str]] = {"title": [], "source": [], "try": []}
    for head in heads[:length]:
        if head is not None:
            values[head[1]].append(head[2])
    if len(values["title"]) != 1 or not values["source"]:
        raise ValueError(f"{path.name}: a preset begins with '# title: …' and '# source: …'")
    text = "\n".join(lines[length:]).strip() + "\n"
    try:
        read(text)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return Preset(path.stem, values["title"][0], tuple(values["source"]), tuple(values["try"]), text)


@cache
def presets(folder: Path = FOLDER) -> Mapping[str, Preset]:
    """Return the presets of a folder by name, in the order of the list."""
    found = {path.stem: preset(path) for path in folder.glob("*.txt")}
    order = sorted(found.values(), key=lambda each: (each.name not in FIRST, each.title))
    return {each.name: each for each in order}
