"""A launch returns before the GPU has done anything."""

from __future__ import annotations

TITLE, CHAPTER = "A missing synchronise", 2
SEEN = {"milliseconds": "what was taken for the time of the product, ms"}
