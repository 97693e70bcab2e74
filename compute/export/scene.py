"""One picture as plain values: the lab, its parameters, its history, its steps, and its colours.

A scene contains everything needed to render the picture again (render.py). As JSON it may come from untrusted sources:
a link, or a file dropped on the page. Before any use, `read` limits the JSON, `scene_of` checks every entry, history
included, and `Scene.check` the values against the lab's bounds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import Annotated, Any

import numpy as np
import param
from msgspec import Meta, Struct, field, structs
from numpy.typing import NDArray

from compute.display.palettes import PALETTES, table
from compute.files import documents
from compute.files.documents import short, typed
from compute.lab.frames import NOT_FINITE, WAITING, View
from compute.lab.history import MOST_CHARACTERS, MOST_ENTRIES, Entries, Entry
from compute.lab.lab import Lab
from compute.labs import lab_class

SCHEMA = "fieldlab-scene/1"
MOST_PIXELS = 7680 * 4320  # of a picture: 8K
LONGEST_WORDS = 300  # characters of `missing`
MOST_BYTES = 64 * 2**30  # of a scene's arrays, on host or device
LONGEST_TEXT = 10**6  # characters of a scene as JSON: centres of the deepest views have thousands of digits
FARTHEST = 1e9  # of a view's sides from 0, in cells
NOT_COMPUTED = (211, 220, 227)  # RGB of a pixel not computed yet, as on the light page; in no palette
APART = (255, 0, 200)  # RGB of a level that is NaN or infinite; in no palette
MOST_STEPS = 10**7  # of a lab that never ends

StepNumber = Annotated[int, Meta(ge=0, le=MOST_STEPS)]


LONGEST_REFUSAL = 1500  # characters: the text may quote the invalid entry, which may have a megabyte


class SceneError(ValueError):
    """An invalid scene; the text names the entry and the error, in LONGEST_REFUSAL characters at most."""

    def __init__(self, words: str) -> None:
        super().__init__(words if len(words) <= LONGEST_REFUSAL else f"{words[:LONGEST_REFUSAL]}…")


class Style(Struct, frozen=True, forbid_unknown_fields=True):
    """The colours of levels. offset: rotation of the palette, as a fraction from 0 to 1."""

    palette: str = "Viridis"
    reverse: bool = False
    offset: float = 0.0

    def __post_init__(self) -> None:
        if self.palette not in PALETTES:
            raise SceneError(f"palette must be one of {', '.join(PALETTES)}, not {self.palette!r}")
        if not 0 <= self.offset <= 1:
            raise SceneError(f"offset must be from 0 to 1, not {self.offset}")


def colours_of(look: Style, apart: tuple[int, int, int] = APART, waiting: bool = False) -> NDArray[np.uint8]:
    """Return (256, 3) uint8: the colour of each level, `apart` for not finite. waiting: see Raster."""
    colours = table(look.palette)
    colours = np.roll(colours[::-1] if look.reverse else colours, -round(look.offset * len(colours)), axis=0)
    whole: NDArray[np.uint8] = np.concatenate([colours, np.array([apart], np.uint8)])
    if waiting:
        whole[WAITING] = NOT_COMPUTED
    return whole


def coloured(
    levels: NDArray[np.uint8], look: Style, apart: tuple[int, int, int] = APART, waiting: bool = False
) -> NDArray[np.uint8]:
    """Return (height, width, 3): `levels` (height, width) in the colours of `look`, `apart` for not finite.

    waiting: see Raster. Row 0 of `levels` is the lowest, row 0 of the result the highest, as in image files.
    """
    whole = colours_of(look, apart, waiting)
    found: NDArray[np.uint8] = whole[np.minimum(levels[::-1], NOT_FINITE)]
    return found


class Scene(Struct, frozen=True, forbid_unknown_fields=True):
    """The description of one picture.

    values: parameters of the lab that differ from their defaults; size: (height, width) in pixels; steps: of a lab that
    never ends; part: name of the picture in the lab's frames, "" for the first; view: (x0, y0, x1, y1) of it, None for
    the whole.

    look: None for the default of the viewer; axes: draw axes and a colour bar; lines always have axes.

    history: changes and actions, as entries of compute/lab/history.py; with a history, `values` are those at step 0.
    missing: parts of the original state that the scene lacks, as text; "" for a complete scene.
    """

    lab: str
    values: Mapping[str, Any]
    size: tuple[int, int] = (1080, 1920)
    steps: int = 0
    part: str = ""
    look: Style | None = None
    history: Annotated[Entries, Meta(max_length=MOST_ENTRIES)] = ()
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
    def colours(self) -> Style:
        """Return `look`, or the default for files."""
        return self.look or Style()

    @property
    def kind(self) -> type[Lab]:
        """Return the lab's class. Raise ValueError, which lists the labs, for an unknown one."""
        return lab_class(self.lab)

    def open(self) -> Lab:
        """Return a lab for this scene, at step 0. Raise ValueError for values that it refuses."""
        return self.opened(self.values)

    def opened(self, values: Mapping[str, Any]) -> Lab:
        """Return the lab with other values, for a picture of this size."""
        return self.kind(**self._with_size(values, self.size))

    def _with_size(self, values: Mapping[str, Any], size: tuple[int, int]) -> dict[str, Any]:
        """Return the values for a picture of `size`; a lab may have parameters for it."""
        return {**values, **dict(zip(self.kind.PICTURE_SIZE, size, strict=False))}

    def check(self) -> None:
        """Raise ValueError, naming parameter, value and bound, if the scene cannot be shown."""
        try:
            self._check()
        except (TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise SceneError(f"invalid values for {self.lab}: {short(str(error))}") from error

    def _check(self) -> None:
        later = list(values_along(self.values, self.history))
        with closing(self.kind(**self._with_size(self.values, (1, 1)))) as lab:
            for values in later:
                lab.require(**values)
        every = (self._with_size(values, self.size) for values in (self.values, *later))
        needed = max(self.kind.predicted_bytes(**values) for values in every)
        if needed > MOST_BYTES:
            raise SceneError(f"this scene needs {needed / 2**30:.1f} GiB; {MOST_BYTES / 2**30:.0f} GiB are allowed")

    def plain(self) -> dict[str, Any]:
        """Return the scene as values for JSON; `scene_of` reads them."""
        plain: dict[str, Any] = {"schema": SCHEMA, **structs.asdict(self)}
        plain |= {"values": dict(self.values), "size": list(self.size), "view": list(self.view) if self.view else None}
        plain |= {"history": [dict(entry) for entry in self.history], "look": self.look and structs.asdict(self.look)}
        return plain if self.look else {name: value for name, value in plain.items() if name != "look"}


def values_along(values: Mapping[str, Any], history: Entries) -> Iterator[dict[str, Any]]:
    """Yield the lab's values after each entry of `history` that sets some."""
    now = dict(values)
    for entry in history:
        if "set" in entry:
            now.update(entry["set"])
            yield dict(now)


def without(history: Entries, names: Collection[str]) -> Iterator[Entry]:
    """Yield the entries of a history without the values of `names`."""
    for entry in history:
        if "set" not in entry:
            yield entry
        elif kept := {name: value for name, value in entry["set"].items() if name not in names}:
            yield {**entry, "set": kept}


def scene_of(document: object) -> Scene:
    """Return the scene that `plain` wrote. Raise SceneError naming the invalid entry.

    `Scene.check` tests the bounds of the lab's values.
    """
    scene = typed(contents(document, SCHEMA), Scene, "a scene", SceneError)
    try:
        kind = scene.kind
    except ValueError as error:
        raise SceneError(str(error)) from error
    _require_history(kind, scene.history)
    history = tuple(
        {**entry, "set": known_values(kind, entry["set"])} if "set" in entry else entry for entry in scene.history
    )
    return structs.replace(scene, values=known_values(kind, scene.values), history=history)


def contents(document: object, schema: str) -> dict[str, Any]:
    """Return the entries of a document with that schema, without "made", the time and place of its origin."""
    if not isinstance(document, Mapping) or document.get("schema") != schema:
        found = document.get("schema") if isinstance(document, Mapping) else document
        raise SceneError(f"schema must be {schema!r}, not {short(found)}")
    return {name: value for name, value in document.items() if name not in ("schema", "made")}


def read(text: str) -> Mapping[str, Any]:
    """Parse a JSON object. Raise SceneError for invalid JSON, or if it exceeds a limit of files/documents.py."""
    return documents.read(text, LONGEST_TEXT, "a scene", SceneError)


class Change(Struct, forbid_unknown_fields=True):
    """A history entry: values that were set after `step` steps of the lab."""

    step: StepNumber
    values: dict[str, Any] = field(name="set")


class Action(Struct, forbid_unknown_fields=True):
    """A history entry: an action on the lab after `step` steps."""

    step: StepNumber
    name: str = field(name="do")
    arguments: dict[str, Any] = field(name="with")


def _require_history(kind: type[Lab], history: Entries) -> None:
    """Raise SceneError naming the invalid entry. `Scene.check` tests the bounds of the lab's values."""
    if len(json.dumps(history)) > MOST_CHARACTERS + 2:
        raise SceneError(f"history has at most {MOST_CHARACTERS:,} characters")
    last = 0
    for number, document in enumerate(history):
        try:
            form: type[Change | Action] = Action if "do" in document else Change
            entry = typed(document, form, "it", SceneError)
            _require_entry(kind, entry, last, first=not number)
        except ValueError as error:
            raise SceneError(f"history, entry {number}: {error}") from error
        last = entry.step


def _require_entry(kind: type[Lab], entry: Change | Action, last: int, first: bool) -> None:
    if entry.step < last:
        raise SceneError(f"step must be a whole number from {last}, that of the entry before, not {entry.step}")
    names, owned = ({entry.name}, kind.actions()) if isinstance(entry, Action) else (set(entry.values), kind.param)
    known = set(kind.HISTORY_NAMES) & set(owned)
    if not names or not names <= known:
        raise SceneError(f"it must be of {', '.join(sorted(known)) or 'nothing'}, not {short(sorted(names))}")
    if isinstance(entry, Action):
        if entry.name == kind.FIRST and not (first and entry.step == 0):
            raise SceneError(f"{kind.FIRST} can only be the first entry, at step 0")
        kind.HISTORY.require_entry(entry.name, entry.arguments)


def known_values(kind: type[Lab], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameter values from JSON, with lists as tuples where needed. Raise SceneError for unknown names."""
    return {name: _value(kind, name, value) for name, value in values.items()}


def _value(kind: type[Lab], name: str, value: object) -> Any:
    parameters: Mapping[str, Any] = kind.param.objects("existing")
    if name not in parameters or name == "name":
        raise SceneError(f"{kind.LAB} has no parameter {short(name)}")
    one_of = isinstance(parameters[name], param.Selector) and not isinstance(parameters[name], param.ListSelector)
    if one_of and isinstance(value, list | dict):
        raise SceneError(f"{name} must be one of the choices of {kind.LAB}, not {short(value)}")
    is_tuple = isinstance(parameters[name], param.Tuple)
    return tuple(value) if is_tuple and isinstance(value, list) else value
