"""Parse values of a lab's parameters from command line texts: one value, or many for a sweep."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
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


NOTHING: Mapping[str, Any] = MappingProxyType({})


def values_of(kind: type[Lab], texts: Sequence[str], base: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Return NAME=VALUE texts as values of the lab's parameters.

    NAME may also be that of a number (Lab.named_numbers) at the values `base`, changed by the other texts. Raise
    SceneError for an unknown name, listing the known ones, for a repeated name, and for an invalid value.
    """
    return values_and_axes(kind, texts, (), base)[0]


def parsed(kind: type[Lab], name: str, text: str, called: str = "") -> Any:
    """Parse the value of the parameter `name`; called: its name in errors, if it has another one.

    Booleans, lists and dictionaries are JSON, tuples are separated by commas, a selector accepts one of its choices,
    and any other text is the value. "null" is None where the parameter allows it.
    """
    parameter: Any = kind.param[name]
    if text == NONE and parameter.allow_None:
        return None
    if isinstance(parameter, param.Tuple):
        return _tuple(name, parameter, text)
    if isinstance(parameter, param.Number) and not isinstance(parameter, param.Boolean):
        return _number(called or name, text)
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


def axes_of(kind: type[Lab], texts: Sequence[str], base: Mapping[str, Any] = NOTHING) -> dict[str, tuple[Any, ...]]:
    """Parse NAME=a,b,c, NAME=lo:hi:n (even steps) or NAME=lo:hi:xn (equal factors); return the values by name.

    Tuples, lists and dictionaries are separated by semicolons. base: see values_of. Raise SceneError for a repeated
    name or value, and for no or too many values.
    """
    return values_and_axes(kind, (), texts, base)[1]


def values_and_axes(
    kind: type[Lab], texts: Sequence[str], varied: Sequence[str], base: Mapping[str, Any] = NOTHING
) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Return the values of `texts`, see values_of, and the axes of `varied`, see axes_of.

    A number is known by its name if that is the same at all varied values.
    """
    known = [name for name in kind.param if name != "name"]
    given, axes = ([_split(kind, text, known) for text in each] for each in (texts, varied))
    own = {name: parsed(kind, name, text) for name, text in given if name in known}
    own_axes = {name: _many(kind, name, text) for name, text in axes if name in known}
    states = [{**base, **own, name: value} for name, values in own_axes.items() for value in values]
    named = common_names(kind, states or [{**base, **own}])
    values = {name: parsed(kind, name, *found) for name, found in _by_parameter(kind, given, named).items()}
    return values, {name: _many(kind, name, *found) for name, found in _by_parameter(kind, axes, named).items()}


def common_names(kind: type[Lab], states: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameters of the lab's named numbers by name, those that are the same in all `states`."""
    numbers = [{each.name: each.slot for each in kind.named_numbers(values)} for values in states]
    return {name: slot for name, slot in numbers[0].items() if all(each.get(name) == slot for each in numbers)}


def _many(kind: type[Lab], name: str, spec: str, called: str = "") -> tuple[Any, ...]:
    parameter: Any = kind.param[name]
    called = called or name
    ranged = RANGE.fullmatch(spec)
    if ranged and isinstance(parameter, param.Number | param.String) and not isinstance(parameter, param.Boolean):
        values = [_written(parameter, value) for value in _range(called, ranged)]
        if len(set(values)) < len(values):
            raise SceneError(f"{called} has only {len(set(values))} whole numbers in {ranged[0]!r}, not {len(values)}")
        return tuple(values)
    commas = not isinstance(parameter, param.Tuple | param.List | param.Dict)
    pieces = [piece.strip() for piece in spec.split("," if commas else ";")]
    if not all(pieces) or len(pieces) > MOST_VALUES:
        by = "commas" if commas else "semicolons"
        raise SceneError(f"{called} must be values separated by {by}, at most {MOST_VALUES}, not {short(spec)}")
    values = [parsed(kind, name, piece, called) for piece in pieces]
    keys = [repr(value) for value in values]  # lists are not hashable
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise SceneError(f"{called} is varied over {key} twice")
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


def _split(kind: type[Lab], text: str, known: Sequence[str]) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = readable(text).partition("=")
    if not equals or not name.isidentifier():
        raise SceneError(f"{text!r} must be NAME=VALUE with a parameter of {kind.LAB}: {', '.join(sorted(known))}")
    return name, value


def _by_parameter(
    kind: type[Lab], texts: Sequence[tuple[str, str]], named: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return the text and the given name by parameter; named: the parameters of named numbers.

    Raise SceneError for an unknown or a repeated name, and for one that has two meanings.
    """
    known = [name for name in kind.param if name != "name"]
    found: dict[str, tuple[str, str]] = {}
    for name, value in texts:
        parameter = name if name in known else named.get(name)
        if parameter is None:
            text, every = f"{name}={value}", ", ".join((*named, *sorted(known)))
            raise SceneError(f"{text!r} must be NAME=VALUE with a parameter of {kind.LAB}: {every}")
        if named.get(name, parameter) != parameter:
            raise SceneError(f"{name} is a parameter of {kind.LAB}, and names the number {named[name]}: rename that")
        if parameter in found:
            raise SceneError(f"{name} is set twice, to {short(found[parameter][0])} and to {short(value)}: set it once")
        found[parameter] = value, name
    return found
