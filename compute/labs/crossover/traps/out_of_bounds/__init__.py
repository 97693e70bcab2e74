"""An index beyond the end: an error, another element, or anything."""

from __future__ import annotations

TITLE, CHAPTER = "Out of bounds", 4
SEEN = {"element": "what a[n + 1] of the numbers 0 to n - 1 gave; nan for an IndexError"}
