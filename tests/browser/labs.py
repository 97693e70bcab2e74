"""The labs of the page, for tests that visit each of them."""

from __future__ import annotations

from compute.labs import LABS

NAMES = tuple(lab.LAB for lab in LABS)
TITLES = tuple(lab.TITLE for lab in LABS)
