"""A stencil that writes where its neighbours still read."""

from __future__ import annotations

TITLE, CHAPTER = "The race in place", 5
SEEN = {"wrong_cells": "cells that differ from NumPy's result"}
