"""The source of a page's timings: measured here, or the records of one chip, for a quiet and repeatable lecture.

With a chip, a page starts no measurement, and its right column shows the records of that chip and of its CPU. One
object per page holds the choice. The list "Numbers" under Details sets it; the query `recorded=CHIP` of the address,
which the page keeps, and the option `--recorded CHIP` of the server set its initial value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import param
from bokeh.document import Document

NAME = "recorded"  # of the entry in the address
VARIABLE = "FIELDLAB_RECORDED"  # environment variable: the chip of the option --recorded, "" for none
NONE = "none"  # in an address: measured here, whatever the server's option
MOST_TOLD = 40  # characters of an unknown value that the message quotes


class Numbers(param.Parameterized):
    """The source of the timings of one page. names: of the chips with records, by key."""

    chip = param.String(default="", doc="Key of the chip whose records are shown; empty: measured here.")

    def __init__(self, names: Mapping[str, str] | None = None, chip: str = "") -> None:
        super().__init__(chip=chip)
        self.names = dict(names or {})

    @property
    def options(self) -> dict[str, str]:
        """The choices by label."""
        return {"Measured here": ""} | {f"Recorded: {name}": key for key, name in self.names.items()}


def asked_chip(document: Document, names: Mapping[str, str]) -> str:
    """Return the chip that the page's address requests, by default the server's; ValueError names the known ones."""
    request = document.session_context.request if document.session_context else None
    given = request.arguments.get(NAME, []) if request else []
    text = given[0].decode("utf-8", "replace") if given else server_chip()
    if text in ("", NONE):
        return ""
    if text not in names:
        raise ValueError(f"{NAME} must be one of {', '.join([NONE, *names])}, not {text[:MOST_TOLD]!r}")
    return text


def kept_chip(chip: str) -> str:
    """Return the entry of the page's address that requests `chip`; "" if the page shows it without an entry."""
    return "" if chip == server_chip() else chip or NONE


def server_chip() -> str:
    """Return the chip of the server's option --recorded, "" without it."""
    return os.environ.get(VARIABLE, "")
