"""Stories: a lecture's steps as a Markdown file, each with the state of a lab that it describes.

A file begins with its front matter, followed by its steps, each closed off by a line `---`:

    ---
    title: The chequerboard at r = 1/4
    minutes: 4
    lab: diffusion
    ---
    Every step turns the finest pattern over: it is multiplied by [−1](claim:factor).

    [state](?scene=1.abc&run=1 "r")
    ---
    …

A step has one link to a state, copied from the page's address or the card "Export"; host and path before the question
mark are ignored. Its title may name a target to point at: a part of the page (AREAS), a parameter of the lab, or a
number of its text, such as F. After "r; go on" the field also continues from its current state instead of restarting:
only the link's values apply. A tested figure is a link to `claim:` and a name. One line `ask: …` of a step begins a
vote (compute/votes.py). Text after a line `???` is notes, for the lecturer alone. Everything else is Markdown; HTML in
it is text.

The stories are those in assets/stories and in the folders that `fieldlab serve --stories FOLDER`, or the environment
variable FIELDLAB_STORIES (paths, separated as in PATH), names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Meta, Struct, convert, structs
from msgspec import ValidationError as NotValid

from compute.export.link import NAME, link_in_query, unpacked
from compute.export.scene import Scene, values_along
from compute.files.documents import short
from compute.lab.lab import Lab
from compute.labs import lab_class
from compute.measure.records import timings_folder
from compute.votes import ASK, VoteQuestion, question

VARIABLE = "FIELDLAB_STORIES"
AREAS = ("picture", "controls", "readout", "status", "labs")  # of the page, to point at
GO_ON = "go on"
CLAIM = "claim:"  # prefix of the address of a tested figure
TESTED = "This figure is tested against theory, a headless run or a record."
RULE = "---"
NOTES = "???"  # begins a step's notes, as in other Markdown presentation tools
MOST_STORIES = 100  # files of a folder
LARGEST_FILE = 200_000  # bytes
MOST_STEPS = 60
LONGEST_STEP = 3000  # characters of a step without its link, the text for the audience; also of its notes
MOST_HEADER = 20  # lines of the front matter

# The spaces of a formula at which lines must not break: around a sign, between a number and its letter or its "%".
FORMULA = re.compile(r"(?<=\S) (?=[=−+×·/≤≥] )|(?<=[=−+×·/≤≥]) (?=\S)|(?<=\d) (?=%|[b-zλ]\b)")
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


class StoryError(ValueError):
    """An invalid story; the text names the file, the step and the bound."""


class Header(Struct, frozen=True):
    """The front matter. minutes: length of the story; lab: of its first step."""

    title: Annotated[str, Meta(min_length=1, max_length=80)]
    minutes: Annotated[int, Meta(ge=1, le=180)]
    lab: Annotated[str, Meta(min_length=1, max_length=40)]


@dataclass(frozen=True)
class StoryClaim:
    """A figure in a step's text that a test checks, by its name."""

    name: str
    text: str


@dataclass(frozen=True)
class StoryStep:
    """One step of a story.

    html: its text; notes: text for the lecturer alone, also as HTML; plays: whether its lab runs; goes_on: whether it
    continues from the current field instead of the link's; ask: the question on which the audience votes, or None.

    points: one of AREAS, a parameter of the lab, or one of its named numbers, "" for nothing.
    """

    html: str
    scene: Scene
    plays: bool
    points: str = ""
    goes_on: bool = False
    claims: tuple[StoryClaim, ...] = ()
    notes: str = ""
    ask: VoteQuestion | None = None


@dataclass(frozen=True)
class Story:
    """A story. name: of its file, without its ending."""

    name: str
    title: str
    minutes: int
    lab: type[Lab]
    steps: tuple[StoryStep, ...]


@dataclass(frozen=True)
class FoundStories:
    """The stories, and the reasons for missing ones as text."""

    stories: tuple[Story, ...]
    problems: tuple[str, ...]


def own_folder() -> Path:
    """Return the path of assets/stories in the checkout or in the installed app."""
    return timings_folder().parent / "stories"


def name_folders(folders: Iterable[Path]) -> None:
    """Make the stories in `folders` known to this process and its child processes, after folders named earlier.

    Raise StoryError for a missing folder, or one with an invalid story.
    """
    named = [folder.resolve() for folder in folders]
    for folder in named:
        if os.pathsep in str(folder):
            raise StoryError(f"the path of the folder {folder} must not contain {os.pathsep!r}")
        found = stories_in((folder,))
        if found.problems:
            raise StoryError(found.problems[0])
    if named:
        os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(map(str, [*_named(), *named])))


def stories() -> FoundStories:
    """Return the stories of this repository, then those of the named folders; they are read once."""
    return _found((own_folder(), *_named()))


@cache
def _found(folders: tuple[Path, ...]) -> FoundStories:
    return stories_in(folders)


def _named() -> tuple[Path, ...]:
    return tuple(Path(path).resolve() for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path)


def stories_in(folders: Iterable[Path]) -> FoundStories:
    """Return the stories of the .md files in `folders`, sorted by number and name within each folder."""
    by_name: dict[str, Story] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            files = _files(folder)
        except StoryError as error:
            problems.append(str(error))
            continue
        for path in files:
            try:
                story = read_story(path)
                if story.name in by_name:
                    raise StoryError(f"{path.name}: another story has the same name")  # noqa: TRY301 - as others
                by_name[story.name] = story
            except StoryError as error:
                problems.append(str(error))
    return FoundStories(tuple(by_name.values()), tuple(problems))


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise StoryError(f"{folder}: the folder of stories does not exist")
    files = sorted((path for path in folder.glob("*.md") if path.is_file()), key=_place)
    if len(files) > MOST_STORIES:
        raise StoryError(f"{folder}: a folder has at most {MOST_STORIES} stories, not {len(files)}")
    return files


def _place(path: Path) -> tuple[float, str]:
    """Return the place of a file in the list: by the number before its name, then by its name."""
    number = re.match("[0-9]{1,9}(?=-)", path.name)
    return float(number[0]) if number else inf, path.name


def read_story(path: Path) -> Story:
    """Return the story in a file; StoryError names the file, the step and the bound that it breaks."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise StoryError(f"{path.name}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise StoryError(f"{path.name}: must be UTF-8") from error
    if len(data) > LARGEST_FILE:
        raise StoryError(f"{path.name}: a story has at most {LARGEST_FILE:,} bytes")
    header, parts = _parts(path.name, text.replace("\r\n", "\n").splitlines())
    steps = []
    for number, (part, line) in enumerate(parts, start=1):
        try:
            steps.append(_step(part, line))
        except ValueError as error:
            raise StoryError(f"{path.name}, step {number}: {error}") from error
    if steps[0].scene.lab != header.lab:
        raise StoryError(f"{path.name}: lab must be that of step 1, {steps[0].scene.lab}, not {header.lab}")
    return Story(path.stem, header.title, header.minutes, lab_class(header.lab), tuple(steps))


def _parts(name: str, lines: list[str]) -> tuple[Header, list[tuple[str, int]]]:
    """Return the front matter, and of each step the text and the number of its first line, from 1."""
    rules = [number for number, line in enumerate(lines) if line.rstrip() == RULE]
    if len(rules) < 2 or rules[0] != 0 or rules[1] > MOST_HEADER:
        raise StoryError(f"{name}: must begin with {RULE}, title, minutes, lab, {RULE}: {MOST_HEADER} lines at most")
    entries: dict[str, str] = {}
    for line in lines[1 : rules[1]]:
        key, colon, value = (part.strip() for part in line.partition(":"))
        known = key in Header.__struct_fields__ and key not in entries
        if not colon or not line.isprintable() or not known:
            raise StoryError(f"{name}: {short(line)} is not a line of the front matter, such as title: …, each once")
        entries[key] = value
    try:
        header = convert(entries, Header, strict=False)
        lab_class(header.lab)
    except NotValid as error:
        raise StoryError(f"{name}: its front matter: {error}") from error
    except ValueError as error:
        raise StoryError(f"{name}: {error}") from error
    ends = [*rules[2:], len(lines)]
    starts = [rule + 1 for rule in rules[1:]]
    parts = [("\n".join(lines[start:end]).rstrip(), start + 1) for start, end in zip(starts, ends, strict=True)]
    if len(parts) > 1 and not parts[-1][0]:  # the last step may also end with a rule
        parts.pop()
    if len(parts) > MOST_STEPS:
        raise StoryError(f"{name}: a story has at most {MOST_STEPS} steps, not {len(parts)}")
    return header, parts


def _step(text: str, line: int) -> StoryStep:
    """Return a step; raise ValueError for an invalid one. line: number of its first line in the file."""
    text, notes = _without_notes(text)
    text, ask = _without_question(text, line)
    blocks = _MARKDOWN.parse(text)
    states: list[tuple[str, str]] = []
    claims: list[StoryClaim] = []
    for block in blocks:
        _require_text(block)
        if block.children:
            block.children = list(_inline(block.children, states, claims))
            _join_formulas(block.children)
    if len(states) != 1:
        raise ValueError(f"it must have one link to a state, [state](?{NAME}=1.…), not {len(states)}")
    ((address, title),) = states
    if len(text) - len(address) > LONGEST_STEP:
        raise ValueError(f"a step has at most {LONGEST_STEP} characters, not {len(text) - len(address)}")
    link, plays = link_in_query(address.partition("?")[2].partition("#")[0])
    scene = unpacked(link)
    points, goes_on = _title(title, scene)
    scene = values_alone(scene) if goes_on else scene
    html = str(_MARKDOWN.renderer.render(list(_kept(blocks)), _MARKDOWN.options, {}))
    return StoryStep(html, scene, plays, points, goes_on, tuple(claims), notes, ask)


def _without_notes(text: str) -> tuple[str, str]:
    """Return a step's text, and its notes as HTML; ValueError for notes that are too long or have hidden characters."""
    lines = text.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.rstrip() == NOTES), len(lines))
    notes = "\n".join(lines[begin + 1 :])
    if len(notes) > LONGEST_STEP:
        raise ValueError(f"a step's notes have at most {LONGEST_STEP} characters, not {len(notes)}")
    for block in _MARKDOWN.parse(notes):
        _require_text(block)
    return "\n".join(lines[:begin]), str(_MARKDOWN.render(notes))


def _without_question(text: str, first: int) -> tuple[str, VoteQuestion | None]:
    """Return a step's text and the question that it asks; ValueError names the line. first: of its first line."""
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(ASK)]
    if not places:
        return text, None
    place = places[-1]
    try:
        if len(places) > 1:
            raise ValueError(f"a step has at most 1 line {ASK}, not {len(places)}")  # noqa: TRY301 - as others
        ask = question(lines[place].rstrip())
        ask = VoteQuestion(_joined(ask.text), tuple(_joined(choice) for choice in ask.choices))
    except ValueError as error:
        raise ValueError(f"line {first + place}: {error}") from error
    return "\n".join(lines[:place] + lines[place + 1 :]), ask


def _require_text(block: Token) -> None:
    for token in (block, *(block.children or ())):
        for text in (token.content, *map(str, token.attrs.values())):
            hidden = next((one for one in text if not one.isprintable() and one != "\n"), None)
            if hidden is not None:
                raise ValueError(f"its text must be visible: it has the character {ord(hidden):#x}")


def _join_formulas(tokens: list[Token]) -> None:
    """Replace the spaces in each formula of a paragraph by no-break spaces."""
    for token in tokens:
        if token.type == "text":
            token.content = _joined(token.content)


def _joined(text: str) -> str:
    """Return `text` with no-break spaces in its formulas."""
    return FORMULA.sub("\N{NO-BREAK SPACE}", text)


def _inline(tokens: list[Token], states: list[tuple[str, str]], claims: list[StoryClaim]) -> Iterator[Token]:
    """Yield the tokens of a paragraph without its link to a state, which is added to `states`; mark claims as spans."""
    inside = ""  # address of the open link
    for token in tokens:
        if token.type == "link_open":
            inside = str(token.attrs["href"])
            if inside.startswith(CLAIM):
                claims.append(StoryClaim(inside.removeprefix(CLAIM), ""))
                token.tag, token.attrs = "span", {"class": "claim", "title": TESTED}
            elif f"{NAME}=" in inside.partition("?")[2]:
                states.append((inside, str(token.attrs.get("title") or "")))
            elif inside.startswith(("https://", "http://")):
                token.attrs |= {"target": "_blank", "rel": "noopener noreferrer"}
            else:
                raise ValueError(f"a link must lead to a state, {CLAIM}, http:// or https://, not {short(inside)}")
        elif inside.startswith(CLAIM) and token.type == "link_close":
            token.tag = "span"
        elif inside.startswith(CLAIM):
            claims[-1] = StoryClaim(claims[-1].name, claims[-1].text + token.content)
        if not states or inside != states[-1][0]:
            yield token
        if token.type == "link_close":
            inside = ""


def _kept(blocks: list[Token]) -> Iterator[Token]:
    """Yield the blocks without paragraphs that have become empty."""
    for number, block in enumerate(blocks):
        empty = [
            near for near in blocks[max(0, number - 1) : number + 2] if near.type == "inline" and not near.children
        ]
        if not (empty and block.type in ("paragraph_open", "inline", "paragraph_close")):
            yield block


def values_alone(scene: Scene) -> Scene:
    """Return `scene` without steps and with its final values: a field that continues has its own steps."""
    if not scene.steps and not scene.history:
        return scene
    *_, values = (dict(scene.values), *values_along(scene.values, scene.history))
    return structs.replace(scene, values=values, steps=0, history=())


def _title(title: str, scene: Scene) -> tuple[str, bool]:
    """Return the target that a link's title points at, and whether its field continues."""
    words = [word.strip() for word in title.split(";") if word.strip()]
    points = [word for word in words if word != GO_ON]
    known = {name for name in scene.kind.param if name != "name"}
    known |= {each.name for each in scene.kind.named_numbers(scene.values)}
    if len(points) > 1 or not set(points) <= {*AREAS, *known}:
        raise ValueError(
            f"the spotlight must be one of {', '.join(AREAS)} or a parameter of {scene.lab}, not {short(title)}"
        )
    return "".join(points), GO_ON in words
