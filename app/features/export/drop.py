"""Files dropped on the page: a picture or JSON of Fieldlab restores the state that made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from panel.custom import JSComponent


class DropZone(JSComponent):
    """Invisible component for files that are dropped on the page.

    dropped(name, text) is called for each file; text is None for a file that cannot contain a scene.
    """

    _esm = Path(__file__).with_name("drop.js").read_text(encoding="utf-8")

    def __init__(self, dropped: Callable[[str, str | None], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._dropped = dropped

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return
        text = data.get("text")
        if text is None or isinstance(text, str):
            self._dropped(data["name"], text)
