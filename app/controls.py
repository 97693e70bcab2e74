"""The side bar of a lab: widgets in groups by what they change. A lab's own controls derive from this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import panel_material_ui as pmui

from app.session import Session
from app.widgets import Bound
from compute.export.scene import Look


class Controls(Bound):
    """Controls bound to one session. A subclass sets `panel`, and `keys`: what each key does."""

    panel: Any

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.keys: dict[str, Callable[[], object]] = {}

    def present(self, on: bool, cramped: bool) -> None:
        """Presenter mode goes on or off; `cramped`: in a low window."""

    def style(self, part: str) -> Look:
        """How the picture `part` is coloured; the plain palette in a lab that has no choice."""
        return Look()

    def apply_style(self, look: Look, part: str) -> None:
        """Colour the picture `part` like that, where there is a choice."""

    def tick(self) -> None:
        """A few times a second: show what frames say."""

    def on_event(self, event: Any) -> bool:
        """An engine event; True if a control says what it means, so that no note is needed."""
        return False


def column(*items: Any) -> pmui.Column:
    """The body of a group."""
    return pmui.Column(*items, margin=0, sizing_mode="stretch_width")


def accordion(groups: Mapping[str, Any], opened: Sequence[int]) -> pmui.Accordion:
    """The groups by title, below each other, some of them open."""
    return pmui.Accordion(
        *groups.items(),
        active=list(opened),
        dynamic=True,
        title_variant="h6",
        disable_gutters=True,
        margin=0,
        sizing_mode="stretch_width",
    )
