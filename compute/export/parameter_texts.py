"""Parse values of a lab's parameters from command line texts: one value, or many for a sweep."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import param

from compute.export.scene import SceneError
from compute.files.documents import readable, short
from compute.lab.lab import Lab

RANGE = re.compile(r"(?P<low>[^:,]+):(?P<high>[^:,]+):(?P<by_factors>x?)(?P<count>\d+)")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
MOST_VALUES = 10_000  # of one parameter
NONE = "null"  # as in JSON


def values_of(kind: type[Lab], texts: Sequence[str]) -> dict[str, Any]:
    """Return NAME=VALUE texts as values of the lab's parameters.

    Raise SceneError for an unknown name, listing the known ones, for a repeated name, and for an invalid value.
    """
    return {name: parsed(kind, name, text) for name, text in _texts_by_name(kind, texts).items()}


def parsed(kind: type[Lab], name: str, text: str) -> Any:
    """Parse the value of the parameter `name`.

    Booleans, lists and dictionaries are JSON, tuples are separated by commas, a selector accepts one of its choices,
    and any other text is the value. "null" is None where the parameter allows it.
    """
    parameter: Any = kind.param[name]
    if text == NONE and parameter.allow_None:
        return None
    if isinstance(parameter, param.Tuple):
        return _tuple(name, parameter, text)
    if isinstance(parameter, param.Number) and not isinstance(parameter, param.Boolean):
        return _number(name, text)
    if isinstance(parameter, param.Boolean | param.List | param.Dict):
        return _json(name, parameter, text)
    return _chosen(kind, name, text) if type(parameter) is param.Selector else text


def _json(name: str, parameter: Any, text: str) -> Any:
    """Parse a boolean, a list or a dictionary."""
    try:
        value = json.loads(text, parse_constant=_not_finite)
    except ValueError:
        value = None
    if value is None:
        raise SceneError(f"{name} must be a value such as {json.dumps(parameter.default)}, not {text!r}")
    return value


def _not_finite(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _tuple(name: str, parameter: Any, text: str) -> tuple[Any, ...]:
    """Parse a tuple: strings where the default has strings, else numbers; those without a point are int."""
    parts = [part.strip() for part in text.split(",")]
    if parameter.length is not None and len(parts) != parameter.length:
        raise SceneError(f"{name} must be {parameter.length} values separated by commas, not {text!r}")
    defaults = parameter.default or (None,) * len(parts)
    return tuple(
        part if isinstance(default, str) else _number(name, part) for part, default in zip(parts, defaults, strict=True)
    )


def _chosen(kind: type[Lab], name: str, text: str) -> str:
    """Return one of a parameter's choices by its name or its label on the page. Raise SceneError with the choices."""
    choices = {str(one): "" for one in kind.param[name].objects}
    if name == "backend":
        choices = {one.name: one.label for one in kind.backends()}
    for choice, label in choices.items():
        if text == choice or text.casefold() in (choice.casefold(), label.casefold() or None):
            return choice
    known = ", ".join(f"{choice} ({label})" if label else choice for choice, label in choices.items())
    raise SceneError(f"{name} must be one of {known}, not {short(text)}")


def axes_of(kind: type[Lab], texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse NAME=a,b,c, NAME=lo:hi:n (even steps) or NAME=lo:hi:xn (equal factors); return the values by name.

    Tuples, lists and dictionaries are separated by semicolons. Raise SceneError for a repeated name or value, and for
    no or too many values.
    """
    return {name: _many(kind, name, text) for name, text in _texts_by_name(kind, texts).items()}


def _many(kind: type[Lab], name: str, spec: str) -> tuple[Any, ...]:
    parameter: Any = kind.param[name]
    ranged = RANGE.fullmatch(spec)
    if ranged and isinstance(parameter, param.Number | param.String) and not isinstance(parameter, param.Boolean):
        values = [_written(parameter, value) for value in _range(name, ranged)]
        if len(set(values)) < len(values):
            raise SceneError(f"{name} has only {len(set(values))} whole numbers in {ranged[0]!r}, not {len(values)}")
        return tuple(values)
    commas = not isinstance(parameter, param.Tuple | param.List | param.Dict)
    pieces = [piece.strip() for piece in spec.split("," if commas else ";")]
    if not all(pieces) or len(pieces) > MOST_VALUES:
        by = "commas" if commas else "semicolons"
        raise SceneError(f"{name} must be values separated by {by}, at most {MOST_VALUES}, not {short(spec)}")
    values = [parsed(kind, name, piece) for piece in pieces]
    keys = [repr(value) for value in values]  # lists are not hashable
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise SceneError(f"{name} is varied over {key} twice")
    return tuple(values)


def _range(name: str, ranged: re.Match[str]) -> list[float]:
    low, high, count = _number(name, ranged["low"]), _number(name, ranged["high"]), int(ranged["count"])
    if not 2 <= count <= MOST_VALUES:
        raise SceneError(f"{name} must be 2 to {MOST_VALUES} values, not {count}")
    if not ranged["by_factors"]:
        return [_short_float(value) for value in np.linspace(low, high, count)]
    if not (low > 0 and high > 0):
        raise SceneError(f"{name} by equal factors must be above 0 at both ends, not {ranged[0]!r}")
    return [_short_float(value) for value in np.geomspace(low, high, count)]


def _short_float(value: float) -> float:
    """Round away floating-point noise: 0.15 instead of 0.15000000000000002."""
    return float(f"{value:.15g}")


def _written(parameter: Any, value: float) -> Any:
    """Return a number in the type of the parameter."""
    if isinstance(parameter, param.Integer):
        return round(value)
    return f"{value:.15g}" if isinstance(parameter, param.String) else value


def _number(name: str, text: str) -> float:
    """Parse a number; an integer without a point is an int."""
    value = math.nan
    if NUMBER.fullmatch(text := text.strip()):
        value = int(text) if WHOLE.fullmatch(text) else float(text)
    if not math.isfinite(value):
        raise SceneError(f"{name} must be a finite number, not {text!r}")
    return value


def _texts_by_name(kind: type[Lab], texts: Sequence[str]) -> dict[str, str]:
    """Split NAME=VALUE texts. Raise SceneError for an unknown and for a repeated name."""
    known: Mapping[str, Any] = kind.param.objects("existing")
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = readable(text).partition("=")
        if not equals or name not in known or name == "name":
            raise SceneError(f"{text!r} must be NAME=VALUE with a parameter of {kind.LAB}: {', '.join(sorted(known))}")
        if name in found:
            raise SceneError(f"{name} is set twice, to {short(found[name])} and to {short(value)}: set it once")
        found[name] = value
    return found
