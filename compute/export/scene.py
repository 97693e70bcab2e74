"""One picture, as plain values: the lab, its parameters, what happened to it and how far it has gone, its colours.

A scene is all that is needed to make the picture again (render.py). As JSON it may come from anywhere: a link, a file
that somebody drops on the page. `read` bounds the JSON, `scene_of` checks every entry, history included, and
`Scene.check` the values against the lab's own bounds, before anything of it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

import numpy as np
import param
from numpy.typing import NDArray

from compute.display.palettes import PALETTES, table
from compute.frames import NOT_FINITE
from compute.history import MOST_CHARACTERS, MOST_ENTRIES, Entries
from compute.lab import Lab, View
from compute.labs import lab_class

SCHEMA = "fieldlab-scene/1"
MOST_PIXELS = 7680 * 4320  # of a picture: 8K
LONGEST_WORDS = 300  # characters of `missing`
MOST_BYTES = 64 * 2**30  # of a scene's arrays, wherever they lie
LONGEST_TEXT = 10**6  # characters of a scene as JSON: centres of the deepest views have thousands
MOST_DEPTH = 24  # of objects and lists in each other: a scene of ours needs 7
MOST_DIGITS = 40  # of a whole number
FARTHEST = 1e9  # from 0, of a side of a view, in cells
APART = (255, 0, 200)  # red, green, blue of a level that is no number: in no palette
MOST_STEPS = 10**7  # of a lab that never ends


class SceneError(ValueError):
    """A scene that cannot be used; the text names the entry and what is wrong with it."""


def short(value: object) -> str:
    """Return `value` as a text of at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"


@dataclass(frozen=True)
class Look:
    """How levels become colours. offset: part of the palette by which it is turned, 0 to 1."""

    palette: str = "Viridis"
    reverse: bool = False
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.palette not in PALETTES:
            raise SceneError(f"palette must be one of {', '.join(PALETTES)}, not {self.palette!r}")
        if not 0 <= self.offset <= 1:
            raise SceneError(f"offset must be from 0 to 1, not {self.offset}")


def coloured(levels: NDArray[np.uint8], look: Look, apart: tuple[int, int, int] = APART) -> NDArray[np.uint8]:
    """Return (height, width, 3): `levels` (height, width) in the colours of `look`, those of no number in `apart`.

    Row 0 of `levels` is the lowest, that of the result the highest, as files have it.
    """
    colours = table(look.palette)
    colours = np.roll(colours[::-1] if look.reverse else colours, -round(look.offset * len(colours)), axis=0)
    whole = np.concatenate([colours, np.array([apart], np.uint8)])
    found: NDArray[np.uint8] = whole[np.minimum(levels[::-1], NOT_FINITE)]
    return found


@dataclass(frozen=True)
class Scene:
    """What makes one picture again.

    values: parameters of the lab that are not at their default; size: (height, width) in pixels; steps: how far a lab
    that never ends has gone; part: name of the picture in the lab's frames, "" for the first; view: (x0, y0, x1, y1)
    of it, None for the whole.

    look: None for whichever is usual where it is shown; axes: whether it is drawn with axes and a colour bar; a part
    that is lines always has axes.

    history: what happened on the way, as entries of compute/history.py: `values` are those at step 0 then. missing: in
    words, what the scene does not hold of the state it was taken from; "" if nothing.
    """

    lab: str
    values: Mapping[str, Any]
    size: tuple[int, int] = (1080, 1920)
    steps: int = 0
    part: str = ""
    look: Look | None = None
    history: Entries = ()
    missing: str = ""
    view: View | None = None
    axes: bool = False

    def __post_init__(self) -> None:
        height, width = self.size
        if min(height, width) < 1 or height * width > MOST_PIXELS:
            raise SceneError(f"size must be 1 to {MOST_PIXELS:,} pixels in all, not {width} x {height}")
        if not 0 <= self.steps <= MOST_STEPS:
            raise SceneError(f"steps must be from 0 to {MOST_STEPS}, not {self.steps}")
        if self.view is not None:
            x0, y0, x1, y1 = self.view
            if not (max(map(abs, self.view)) <= FARTHEST and x0 < x1 and y0 < y1):
                raise SceneError(f"view must be x0 < x1 and y0 < y1, up to {FARTHEST:g} from 0, not {self.view}")
        if len(self.missing) > LONGEST_WORDS:
            raise SceneError(f"missing must have at most {LONGEST_WORDS} characters, not {len(self.missing)}")

    @property
    def colours(self) -> Look:
        """The look that a file has: `look`, or the usual one."""
        return self.look or Look()

    @property
    def kind(self) -> type[Lab]:
        """The lab's class; ValueError names the labs there are."""
        return lab_class(self.lab)

    def open(self) -> Lab:
        """Return a lab that shows this scene, at its beginning. ValueError for values that it refuses."""
        return self.opened(self.values)

    def opened(self, values: Mapping[str, Any]) -> Lab:
        """Return the lab with other values, for a picture of this size."""
        return self.kind(**self.kind.pictured(dict(values), self.size))

    def check(self) -> None:
        """Raise ValueError, naming the parameter, the value and the bound, for a scene that could not be shown."""
        try:
            self._check()
        except (TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise SceneError(f"its values are not what {self.lab} takes: {short(str(error))}") from error

    def _check(self) -> None:
        later = list(values_along(self.values, self.history))
        with closing(self.kind(**self.kind.pictured(dict(self.values), (1, 1)))) as lab:
            for values in later:
                lab.require(**values)
        every = (self.kind.pictured(dict(values), self.size) for values in (self.values, *later))
        needed = max(self.kind.predicted_bytes(**values) for values in every)
        if needed > MOST_BYTES:
            raise SceneError(f"this scene needs {needed / 2**30:.1f} GiB; {MOST_BYTES / 2**30:.0f} GiB are allowed")

    def plain(self) -> dict[str, Any]:
        """Return the scene as values for JSON; `scene_of` reads them."""
        own = {"values": dict(self.values), "size": list(self.size), "history": [dict(entry) for entry in self.history]}
        plain = {"schema": SCHEMA, **asdict(self), **own, "view": list(self.view) if self.view else None}
        return plain if self.look else {name: value for name, value in plain.items() if name != "look"}


def values_along(values: Mapping[str, Any], history: Entries) -> Iterator[dict[str, Any]]:
    """Yield all values of the lab after each entry of `history` that sets some."""
    now = dict(values)
    for entry in history:
        if "set" in entry:
            now.update(entry["set"])
            yield dict(now)


def scene_of(document: Mapping[str, Any]) -> Scene:
    """Return the scene that `plain` wrote; SceneError says which entry is wrong. "made", where and when, is not read.

    Bounds of the lab's values are for `check`.
    """
    if document.get("schema") != SCHEMA:
        raise SceneError(f"schema must be {SCHEMA!r}, not {short(document.get('schema'))}")
    known = {entry.name for entry in fields(Scene)} | {"schema", "made"}
    for name in document:
        if name not in known:
            raise SceneError(f"a scene has no entry {short(name)}; it has {', '.join(sorted(known))}")
    lab = _typed(document, "lab", str)
    values = _typed(document, "values", dict)
    size = _typed(document, "size", list)
    if len(size) != 2 or not all(type(side) is int for side in size):
        raise SceneError(f"size must be two whole numbers, not {short(size)}")
    look = _look(document["look"]) if "look" in document else None
    try:
        kind = lab_class(lab)
    except ValueError as error:
        raise SceneError(str(error)) from error
    known_values = {name: _value(kind, name, value) for name, value in values.items()}
    steps, part = _typed(document, "steps", int, 0), _typed(document, "part", str, "")
    history, missing = _history(kind, document.get("history", [])), _typed(document, "missing", str, "")
    view, axes = _view(document.get("view")), _typed(document, "axes", bool, False)
    return Scene(lab, known_values, (size[0], size[1]), steps, part, look, history, missing, view, axes)


def read(text: str) -> Mapping[str, Any]:
    """Return the JSON object in `text`; SceneError if it is none, or longer than LONGEST_TEXT characters.

    Its numbers are finite, its texts can be written as UTF-8, and it is at most MOST_DEPTH deep.
    """
    if len(text) > LONGEST_TEXT:
        raise SceneError(f"a scene has at most {LONGEST_TEXT:,} characters, not {len(text):,}")
    try:
        found = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SceneError(f"this is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise SceneError("a scene must be an object")
    _require_plain(found)
    return found


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise SceneError(f"a whole number has at most {MOST_DIGITS} digits, not {len(text)}")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise SceneError(f"a number must be finite, not {text[:20]}")
    return value


def _require_plain(document: object) -> None:
    """Check depth and texts. Not recursive: it is what makes sure that others may be."""
    todo = [(document, 0)]
    while todo:
        value, depth = todo.pop()
        if depth > MOST_DEPTH:
            raise SceneError(f"a scene is at most {MOST_DEPTH} objects and lists deep")
        if isinstance(value, dict):
            todo += [(part, depth + 1) for part in (*value, *value.values())]
        elif isinstance(value, list):
            todo += [(part, depth + 1) for part in value]
        elif isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
            raise SceneError(f"a text must be of whole characters, not {short(value)}")


def _look(document: object) -> Look:
    if not isinstance(document, dict) or set(document) - {entry.name for entry in fields(Look)}:
        raise SceneError(f"look must be an object with palette, reverse and offset, not {short(document)}")
    offset = document.get("offset", 0.0)
    if isinstance(offset, bool) or not isinstance(offset, int | float):
        raise SceneError(f"offset must be a number, not {short(offset)}")
    return Look(_typed(document, "palette", str, "Viridis"), _typed(document, "reverse", bool, False), float(offset))


def _view(document: object) -> View | None:
    if document is None:
        return None
    sides = document if isinstance(document, list) else []
    if len(sides) != 4 or not all(isinstance(side, int | float) and not isinstance(side, bool) for side in sides):
        raise SceneError(f"view must be null or four numbers, not {short(document)}")
    return float(sides[0]), float(sides[1]), float(sides[2]), float(sides[3])


def _history(kind: type[Lab], document: object) -> Entries:
    """A history from JSON; SceneError says which entry is wrong. Bounds of the values are for `Scene.check`."""
    if not isinstance(document, list) or len(document) > MOST_ENTRIES:
        raise SceneError(f"history must be a list of at most {MOST_ENTRIES} entries, not {short(document)}")
    if len(json.dumps(document)) > MOST_CHARACTERS + 2:
        raise SceneError(f"history has at most {MOST_CHARACTERS:,} characters")
    last = 0
    for number, entry in enumerate(document):
        try:
            last = _entry_step(kind, entry, last, first=not number)
        except ValueError as error:
            raise SceneError(f"history, entry {number}: {error}") from error
    return tuple(document)


def _entry_step(kind: type[Lab], entry: object, last: int, first: bool) -> int:
    """Return the step of an entry of a history; ValueError says what is wrong with it."""
    if not isinstance(entry, dict) or set(entry) not in ({"step", "set"}, {"step", "do", "with"}):
        raise SceneError(f"it must have a step with set, or with do and with, not {short(entry)}")
    step, values = entry["step"], entry.get("set", entry.get("with"))
    if type(step) is not int or not last <= step <= MOST_STEPS:
        raise SceneError(f"step must be a whole number from {last} to {MOST_STEPS}, not {short(step)}")
    if not isinstance(values, dict):
        raise SceneError(f"it must hold an object, not {short(values)}")
    names = set(values) if "set" in entry else {str(entry["do"])}
    known = set(kind.HISTORY_NAMES) & set(kind.param if "set" in entry else kind.ACTIONS)
    if not names or not names <= known:
        raise SceneError(f"it must be of {', '.join(sorted(known)) or 'nothing'}, not {short(sorted(map(str, names)))}")
    if "do" in entry:
        kind.require_entry(entry["do"], values)
        if entry["do"] == kind.FIRST and not (first and step == 0):
            raise SceneError(f"{kind.FIRST} can only be the first entry, at step 0")
    return step


def _value(kind: type[Lab], name: str, value: object) -> Any:
    """A parameter's value from JSON, where a tuple is a list."""
    parameters: Mapping[str, Any] = kind.param.objects("existing")
    if name not in parameters or name == "name":
        raise SceneError(f"{kind.LAB} has no parameter {short(name)}")
    one_of = isinstance(parameters[name], param.Selector) and not isinstance(parameters[name], param.ListSelector)
    if one_of and isinstance(value, list | dict):
        raise SceneError(f"{name} must be one of the choices of {kind.LAB}, not {short(value)}")
    is_tuple = isinstance(parameters[name], param.Tuple)
    return tuple(value) if is_tuple and isinstance(value, list) else value


def _typed(document: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = document.get(name, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SceneError(f"{name} must be of type {kind.__name__}, not {short(value)}")
    return value
