"""The first call of a compiled function compiles it."""

from __future__ import annotations

TITLE, CHAPTER = "Timing the first call", 1
SEEN = {"milliseconds": "what was taken for the time of one call, ms"}
