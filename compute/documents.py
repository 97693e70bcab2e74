"""JSON that anybody may have written: a link, a file that somebody drops, a record of timings.

`read` bounds a text before it is parsed, and what was parsed before anybody looks at it. `typed` makes one of our
classes of it, a msgspec.Struct, whose annotations say types and bounds; what breaks one is refused in words that name
the entry, what it must be, and its value.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, TextIO, TypeVar

import msgspec

MOST_DEPTH = 24  # of objects and lists in each other: a scene of ours needs 7
MOST_DIGITS = 40  # of a whole number
WORDS = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "an object", "|": "or", ">=": "at least", "<=": "at most", ">": "above", "<": "below",
}  # fmt: skip

T = TypeVar("T")


def short(value: object) -> str:
    """Return `value` as a text of at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"


def readable(text: str) -> str:
    """Return a file's name or an argument as UTF-8 can hold it.

    Bytes that the locale cannot decode reach Python as lone surrogates, which no file takes: as UTF-8 if they are that.
    """
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def as_json(document: object, stream: TextIO) -> str:
    """Return `document` as indented JSON that `stream` can write: in ASCII unless its encoding is UTF-8."""
    ascii_alone = (stream.encoding or "utf-8").lower().replace("-", "") != "utf8"
    return json.dumps(document, indent=1, ensure_ascii=ascii_alone, allow_nan=False)


def measured(value: Any) -> Any:
    """Return a document with None for each number that was not measured: JSON has no NaN."""
    if isinstance(value, dict):
        return {name: measured(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [measured(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def read(text: str, longest: int, what: str, error: type[ValueError]) -> dict[str, Any]:
    """Return the JSON object in `text`, `what` in words; `error` if it is none, or longer than `longest`.

    Its numbers are finite, its texts can be written as UTF-8, and it is at most MOST_DEPTH deep.
    """
    if len(text) > longest:
        raise error(f"{what} has at most {longest:,} characters, not {len(text):,}")
    try:
        found = msgspec.json.decode(text.encode())  # of Pillow it is a kind of text that msgspec does not know
    except (ValueError, RecursionError) as why:
        raise error(f"{what} must be JSON: {why}") from why
    if not isinstance(found, dict):
        raise error(f"{what} must be an object")
    todo: list[tuple[Any, int]] = [(found, 0)]
    while todo:  # not recursive: it is what makes sure that others may be
        value, depth = todo.pop()
        if depth > MOST_DEPTH:
            raise error(f"{what} is at most {MOST_DEPTH} objects and lists deep")
        if isinstance(value, dict | list):
            todo += [(part, depth + 1) for part in (value.values() if isinstance(value, dict) else value)]
        elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
            raise error(f"a whole number has at most {MOST_DIGITS} digits, not {len(str(abs(value)))}")
    return found


def typed(document: object, kind: type[T], what: str, error: type[ValueError]) -> T:
    """Return `document`, `what` in words, as `kind`; `error` names the entry that is wrong, its bound and its value."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as why:
        # a __post_init__ has words of its own
        raise error(str(why.__cause__) if why.__cause__ else _refusal(str(why), document, what)) from why


def _refusal(text: str, document: Any, what: str) -> str:
    """Put into plain words what msgspec says is wrong with `document`.

    Names of entries that are unknown are foreign text: nothing in it is looked up.
    """
    text, _, path = text.removesuffix("`").partition(" - at `$")
    if unknown := re.match("Object contains unknown field `(.*)", text, re.DOTALL):
        return f"{what} has no entry {short(unknown[1].removesuffix('`'))}"
    if missing := re.fullmatch("Object missing required field `(.*)", text.removesuffix("`")):
        return f"{path[1:] or what} must have the entry {missing[1]}"
    if expected := re.fullmatch(r"Expected (.*?)(, got .*)?", text):
        wanted = " ".join(WORDS.get(word, word) for word in expected[1].replace("`", "").split())
        if "[...]" in path:  # in one of a mapping's values, and msgspec does not say in which
            return f"{path[1:]} must be {wanted}"
        for entry, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            document = document[entry or int(index)]
        return f"{path[1:] or what} must be {wanted}, not {short(document)}"
    return f"{what} is not as it must be: {short(text)}"
