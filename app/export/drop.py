"""A picture or a JSON file that is dropped anywhere on the page: what it says of how it was made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from panel.custom import JSComponent


class DropZone(JSComponent):
    """An invisible component. dropped(name of the file, its text; None if it has none that could be ours)."""

    _esm = Path(__file__).with_name("drop.js").read_text(encoding="utf-8")

    def __init__(self, dropped: Callable[[str, str | None], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._dropped = dropped
        self.on_msg(self._hear)

    def _hear(self, message: Any) -> None:
        data = getattr(message, "data", message)
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return
        text = data.get("text")
        if text is None or isinstance(text, str):
            self._dropped(data["name"], text)
