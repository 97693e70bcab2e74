"""Untrusted JSON: a link, a dropped file, a record of timings.

`read` limits the length of a text before parsing, and the parsed values before use. `typed` converts them into one of
our classes, a msgspec.Struct, whose annotations define types and bounds. The message of a refusal names the entry, the
required type or bound, and the value.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, TextIO, TypeVar

import msgspec

MOST_DEPTH = 24  # of nested objects and lists: a scene of ours needs 7
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
    """Return a file's name or an argument in a form that UTF-8 can encode.

    Bytes that the locale cannot decode become lone surrogates in Python, which cannot be written to a file; they are
    decoded as UTF-8, and escaped where that fails.
    """
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def as_json(document: object, stream: TextIO) -> str:
    """Return `document` as indented JSON that `stream` can write: in ASCII unless its encoding is UTF-8."""
    ascii_alone = (stream.encoding or "utf-8").lower().replace("-", "") != "utf8"
    return json.dumps(document, indent=1, ensure_ascii=ascii_alone, allow_nan=False)


def measured(value: Any) -> Any:
    """Return a document with None in place of non-finite numbers (not measured): JSON has no NaN."""
    if isinstance(value, dict):
        return {name: measured(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [measured(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def read(text: str, longest: int, what: str, error: type[ValueError]) -> dict[str, Any]:
    """Return the JSON object in `text`; `error` for anything else, or more than `longest` characters.

    Its numbers are finite, its texts can be encoded as UTF-8, and it is at most MOST_DEPTH deep. what: name of the
    document in messages.
    """
    if len(text) > longest:
        raise error(f"{what} has at most {longest:,} characters, not {len(text):,}")
    try:
        found = msgspec.json.decode(text.encode())  # Pillow's texts are a str subclass, which msgspec refuses
    except (ValueError, RecursionError) as why:
        raise error(f"{what} must be JSON: {why}") from why
    if not isinstance(found, dict):
        raise error(f"{what} must be an object")
    todo: list[tuple[Any, int]] = [(found, 0)]
    while todo:  # not recursive, because it makes recursion safe elsewhere
        value, depth = todo.pop()
        if depth > MOST_DEPTH:
            raise error(f"{what} is at most {MOST_DEPTH} objects and lists deep")
        if isinstance(value, dict | list):
            todo += [(part, depth + 1) for part in (value.values() if isinstance(value, dict) else value)]
        elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
            raise error(f"a whole number has at most {MOST_DIGITS} digits, not {len(str(abs(value)))}")
    return found


def typed(document: object, kind: type[T], what: str, error: type[ValueError]) -> T:
    """Return `document`, called `what` in messages, as `kind`; `error` names the wrong entry, bound and value."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as why:
        # a __post_init__ raises its own message
        raise error(str(why.__cause__) if why.__cause__ else _refusal(str(why), document, what)) from why


def _refusal(text: str, document: Any, what: str) -> str:
    """Rewrite msgspec's error about `document` in plain English.

    Names of unknown entries are untrusted text, so they are never used for a lookup.
    """
    text, _, path = text.removesuffix("`").partition(" - at `$")
    if unknown := re.match("Object contains unknown field `(.*)", text, re.DOTALL):
        return f"{what} has no entry {short(unknown[1].removesuffix('`'))}"
    if missing := re.fullmatch("Object missing required field `(.*)", text.removesuffix("`")):
        return f"{path[1:] or what} must have the entry {missing[1]}"
    if expected := re.fullmatch(r"Expected (.*?)(, got .*)?", text):
        expected_words = " ".join(WORDS.get(word, word) for word in expected[1].replace("`", "").split())
        if "[...]" in path:  # in one of a mapping's values; msgspec does not state which
            return f"{path[1:]} must be {expected_words}"
        for entry, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            document = document[entry or int(index)]
        return f"{path[1:] or what} must be {expected_words}, not {short(document)}"
    return f"{what} is invalid: {short(text)}"
