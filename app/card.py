"""What a card over the page has in common: its content goes to a script, and the script's messages come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import param
from panel.custom import JSComponent

STATIC = Path(__file__).with_name("static")


def card_script(name: str) -> str:
    """Return the script of that name in static/, with `make`, which creates its elements."""
    return "\n".join((STATIC / each).read_text(encoding="utf-8") for each in ("make.js", name))


class Card(JSComponent):
    """A card that a script draws. content: {} while there is nothing to show; told(message): hears the browser, which
    may be anybody's.
    """

    content = param.Dict(default={}, doc="What is shown.")

    _esm = "export function render() { return null; }"

    def __init__(self, told: Callable[[dict[str, Any]], None], **params: Any) -> None:
        super().__init__(margin=0, **params)
        self._told = told

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict):
            self._told(data)
