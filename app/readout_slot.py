"""Where the readout is made; until it exists, an empty column stands in."""

from __future__ import annotations

from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui
from compute.frames import Frame

from app.session import Session


class ReadoutLike(Protocol):
    """What the page asks of a readout."""

    panel: pn.viewable.Viewable

    def frame(self, frame: Frame) -> None:
        """One painted frame, its timing complete with the delivery."""

    def tick(self) -> None:
        """Refresh, four times a second."""

    def event(self, event: Any) -> None:
        """An engine event."""

    def close(self) -> None:
        """The session is over."""


class NoReadout:
    """Shows nothing."""

    def __init__(self) -> None:
        self.panel = pmui.Column(margin=8)

    def frame(self, frame: Frame) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""

    def event(self, event: Any) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def make_readout(session: Session) -> ReadoutLike:
    """The readout of `session`."""
    try:
        from app.readout import Readout
    except ModuleNotFoundError:
        return NoReadout()
    return Readout(session)
