"""What is wrong with a scene, in words."""

from __future__ import annotations


class SceneError(ValueError):
    """A scene that cannot be used; the text names the entry and what is wrong with it."""


def short(value: object) -> str:
    """`value` as a text of at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
