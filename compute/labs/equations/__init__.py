"""Equations: a text with partial differential equations becomes one kernel in every language."""

from compute.labs.equations.lab import Equations

__all__ = ["Equations"]
