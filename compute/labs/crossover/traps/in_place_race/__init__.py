"""A stencil that writes where its neighbours still read."""

from __future__ import annotations

from compute.labs.crossover.trap import Trap

TRAP = Trap(__name__, "The race in place", 5, {"wrong_cells": "cells that differ from NumPy's result"})
