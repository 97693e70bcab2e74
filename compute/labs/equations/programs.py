"""Programs and sliders of a text: parsed, lowered and printed once per process, and kept for the texts used last."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from compute.files.documents import short
from compute.lab.fields import is_finite
from compute.labs.equations.forms import Program
from compute.labs.equations.language import MOST_PARAMETERS, read
from compute.labs.equations.passes import lower, picture
from compute.labs.equations.presets import presets
from compute.labs.equations.tree import IMAGE, Call, Name, Node, Plan, Stage, System, children

KEPT = 32  # programs of each kind, with their compiled kernels
SLOTS = tuple(f"p{number}" for number in range(1, MOST_PARAMETERS + 1))  # names of the lab's parameters
NOISE = 5  # operations that take as long as a random number
_SHOW = re.compile(r"\s*show\s*=")


@dataclass(frozen=True)
class Slot:
    """A number of a text with its slider. slot: the lab's parameter, p1 … p12; name, value, low, high: of the text."""

    slot: str
    name: str
    value: float
    low: float
    high: float

    def require(self, value: Any) -> None:
        """Raise ValueError unless `value` is a finite number in the range."""
        if not (is_finite(value) and self.low <= value <= self.high):
            raise ValueError(f"{self.name} ({self.slot}) must be from {self.low:g} to {self.high:g}, not {value}")


def full_text(text: str) -> str:
    """Return the text of a preset if `text` is its name, otherwise `text`."""
    known = presets()
    return known[text.strip()].text if text.strip() in known else text


@lru_cache(maxsize=KEPT)
def program_of(text: str) -> Program:
    """Return the program of a time step. Raise EquationError for an invalid text, or one that is too large."""
    system = read(text)
    return Program(system, lower(system), _title(text))


@lru_cache(maxsize=KEPT)
def picture_of(text: str, expression: str) -> Program:
    """Return the program that writes the second picture to the array `show`; without passes if it is a field.

    expression: replaces that of the text. Without both, the picture is the second field, or the rate of change of the
    only one. Raise EquationError for an invalid expression.
    """
    system = read(_with_show(text, expression))
    if system.show is None:
        second = Name(system.fields[1]) if len(system.fields) > 1 else system.rates[system.fields[0]]
        system = replace(system, show=second)
    passes = () if isinstance(system.show, Name) and system.show.name in system.fields else tuple(picture(system))
    arrays = dict.fromkeys(target for each in passes for target in each.targets)
    return Program(system, Plan(passes, (Stage(),), tuple(arrays), from_start=False), _title(text))


@lru_cache(maxsize=KEPT)
def alike(text: str, other: str) -> bool:
    """Return whether two valid texts differ in edges, scheme and dt only; False if `text` is empty."""
    return bool(text) and _without_settings(text) == _without_settings(other)


@lru_cache(maxsize=KEPT)
def _without_settings(text: str) -> System:
    return replace(read(text), text="", edges={}, scheme="euler", dt=None, lines={})


def _title(text: str) -> str:
    """Return the title of a preset, without accents for printed programs, or "Equations"."""
    title = next((each.title for each in presets().values() if alike(each.text, text)), "Equations")
    return unicodedata.normalize("NFKD", title.replace("\N{EN DASH}", "-"))


def _with_show(text: str, expression: str) -> str:
    """Return a text in which `show` is this expression; the same text without one."""
    if not expression.strip():
        return text
    if any(sign in expression for sign in "\n\r;#"):
        raise ValueError(f"show must be one expression without line breaks, ';' and '#', not {short(expression)}")
    codes = (line.split("#")[0].split(";") for line in text.split("\n"))
    kept = (";".join(part for part in parts if not _SHOW.match(part)) for parts in codes)
    return "\n".join([*kept, f"show = {expression}"])


@lru_cache(maxsize=KEPT)
def slots_of(text: str) -> tuple[Slot, ...]:
    """Return the numbers of a text in the order of its lines. Raise EquationError for an invalid text."""
    found = program_of(text).system.parameters.items()
    return tuple(
        Slot(slot, name, *(each.value, each.low, each.high)) for slot, (name, each) in zip(SLOTS, found, strict=False)
    )


@lru_cache(maxsize=KEPT)
def names_at_start(text: str) -> frozenset[str]:
    """Return the parameters on which the initial values and the wall depend, and `image` if they depend on it."""
    system = program_of(text).system
    wall = [system.wall] if system.wall is not None else []
    return frozenset(_names([*system.initial.values(), *wall], system)) & {*system.parameters, IMAGE}


def at_start(system: System) -> int:
    """Return the number of operations on a cell for the initial values, at most; a random number counts as NOISE."""
    todo = [*system.initial.values(), *system.named.values(), *([system.wall] if system.wall is not None else [])]
    count = 0
    while todo:
        node = todo.pop()
        operands = children(node)
        todo += operands
        count += NOISE if isinstance(node, Call) and node.name == "noise" else bool(operands)
    return count


def step_system(system: System) -> System:
    """Return a system without the named expressions that only initial values, the wall and the picture use."""
    used = _names(system.rates.values(), system)
    return replace(system, named={name: node for name, node in system.named.items() if name in used})


def _names(nodes: Iterable[Node], system: System) -> set[str]:
    """Return the names in expressions, and those in the named expressions that they use."""
    found: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        todo += children(node)
        if isinstance(node, Name) and node.name not in found:
            found.add(node.name)
            todo += [system.named[node.name]] if node.name in system.named else []
    return found
