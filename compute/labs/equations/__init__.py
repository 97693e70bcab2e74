"""Equations: a text with partial differential equations becomes one kernel in every language."""
