"""Collect the console errors and uncaught exceptions of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from playwright.sync_api import ConsoleMessage, Error, Page


class ConsoleErrors:
    """Collects the errors of each page that it watches."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def watch(self, page: Page) -> None:
        """Collect this page's console errors and uncaught exceptions from now on."""
        page.on("console", self._console)
        page.on("pageerror", self._uncaught)

    def unexpected(self, allowed: Iterable[str]) -> list[str]:
        """Return the errors that match none of the regular expressions."""
        patterns = [re.compile(pattern) for pattern in allowed]
        return [text for text in self.texts if not any(pattern.search(text) for pattern in patterns)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.texts.append(f"{message.text} ({message.location.get('url', '')})")

    def _uncaught(self, error: Error) -> None:
        self.texts.append(f"uncaught: {error.stack or error}")
