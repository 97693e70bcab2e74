"""An array of zeros is not there until something is written to it."""

from __future__ import annotations

TITLE, CHAPTER = "Timing zeros", 3
SEEN = {"gigabytes_per_second": "what was taken for the speed of reading memory, GB/s"}
