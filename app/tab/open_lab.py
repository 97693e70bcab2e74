"""The interface of an open lab: the members of a lab's tab that the page and its features may use."""

from __future__ import annotations

from typing import Protocol

from app.page.notices import Notices
from app.tab.controls import Controls
from app.tab.lab_view import LabView, Parts, ReadoutPanel
from app.tab.session import Session
from compute.export.scene import Scene


class SceneRestorer(Protocol):
    """Restores a lab from a scene; see app.tab.restore.Restorer."""

    @property
    def busy(self) -> bool:
        """Whether a scene is being restored."""

    def restore(self, scene: Scene, plays: bool = False, pace: str = "") -> None:
        """Restore `scene`; raise SceneError if this machine cannot. plays: run the lab afterwards; pace: its speed."""

    def fitting(self, scene: Scene) -> tuple[Scene, str]:
        """Return the scene with available backends, and the names of its unavailable backends as text."""

    def names(self) -> list[str]:
        """Return the parameters that belong to a scene."""


class LabLink(Protocol):
    """The link to the current state of a lab; see app.page.address.LabAddress."""

    text: str  # the link that was written last, "" before the first

    @property
    def query(self) -> str:
        """The address query that shows the lab's state; "" before the first link."""

    def enter(self, push: bool) -> None:
        """Show the link in the address bar. push: as a new entry of the browser's history."""

    def left(self) -> None:
        """Record that the bar now shows another address."""

    def forget(self) -> None:
        """Discard the link: another state is about to be loaded."""


class OpenLab(Protocol):
    """One lab in one tab; see app.tab.lab_tab.LabTab.

    parts: the lab's description; drawn: whether the browser has drawn the plots, after which frames are sent;
    awaits_scene: whether the lab runs only after its scene is restored.
    """

    parts: Parts
    session: Session
    lab_view: LabView
    controls: Controls
    readout: ReadoutPanel
    notices: Notices
    drawn: bool
    awaits_scene: bool

    @property
    def restorer(self) -> SceneRestorer:
        """Restores the lab from a scene."""

    @property
    def address(self) -> LabLink:
        """The link to the lab's state."""

    def show(self, shown: bool) -> None:
        """Show or hide the lab. A hidden lab keeps its state, computes nothing and streams nothing."""

    def expect_no_scene(self) -> None:
        """Run as usual if no scene arrives, unless the lab has begun."""
