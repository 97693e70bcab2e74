"""Tests; a package, so that they can share helpers."""
