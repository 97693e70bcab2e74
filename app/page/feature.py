"""A feature of the page: a folder of app/features whose package defines `FEATURE`, a subclass of Feature.

The class declares the feature: its name, key, button and rows of the help table. An instance is the feature's part of
one page. The page creates one instance of each feature, adds their components to itself, and calls their methods below
when something has happened; it does not know a feature by name, and works without any of them. A feature that uses
another one looks it up in `FeaturePage.features` by a protocol of its own, and works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import panel as pn
from bokeh.document import Document

from app.page.layout import Layout
from app.page.widgets import icon
from app.tab.open_lab import OpenLab
from compute.export.scene import Scene
from compute.lab.lab import Lab


@dataclass(frozen=True, order=True)
class HelpRow:
    """A row of the help table, in Markdown. order: position among the rows of all features."""

    order: int
    keys: str
    does: str


class FeaturePage(Protocol):
    """The interface of a page to its features.

    current: the shown lab, None before the first; features: all features of the page, complete when `ready` is called;
    visible: whether the browser's tab is visible; presenting: whether the page is in presenter mode.
    """

    document: Document
    visible: bool

    @property
    def current(self) -> OpenLab | None:
        """The shown lab."""

    @property
    def features(self) -> Sequence[Feature]:
        """The features of the page."""

    @property
    def presenting(self) -> bool:
        """Whether the page is in presenter mode."""

    def present(self, on: bool) -> None:
        """Switch presenter mode on or off: larger type, and the bars at the sides closed."""

    def press(self, key: str) -> None:
        """Run the action of a key."""

    def list_keys(self) -> None:
        """Update the keys that the browser reports, after a feature's `keys` have changed."""

    def arrange(self) -> None:
        """Update the layout, after the room that a feature needs has changed."""

    def use_column(self) -> None:
        """Open the right column for a feature that needs it, or restore it; update layout and keys."""

    def focus(self, card: str, opened: bool) -> None:
        """Move the focus to the card with this CSS class as it opens, and back as it closes."""

    def show_soon(self, kind: type[Lab]) -> None:
        """Queue a change to the tab of a lab, which waits for its state; repeated calls have no effect."""

    def show_scene(self, scene: Scene, name: str) -> None:
        """Queue a change to a scene in its lab's tab; name: of its source, for the notice if it cannot be shown."""


class Feature:
    """One feature of one page. Subclasses declare it, and override the methods that they need.

    name: of the feature, in lower case; order: position of its button in the header; key: opens and closes it; symbol,
    tip: icon and tooltip of its button; help: rows of the help table.

    buttons: in the header; parts: in the body of the page; column: at the top of the right column, all from the
    beginning. corner: a card in the corner of the page, among the parts, that gets the focus when it becomes visible
    and that Escape closes.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    key: ClassVar[str] = ""
    symbol: ClassVar[str] = ""
    tip: ClassVar[str] = ""
    help: ClassVar[Sequence[HelpRow]] = ()

    def __init__(self, page: FeaturePage) -> None:
        self.page = page
        self.buttons: Sequence[Any] = ()
        if self.symbol:
            self.buttons = (icon(self.symbol, self.tip, self.toggle, color="default", align="center"),)
        self.parts: Sequence[Any] = ()
        self.column: Sequence[Any] = ()
        self.corner: pn.Column | None = None

    def toggle(self) -> None:
        """Open or close the feature."""

    @property
    def keys(self) -> Mapping[str, Callable[[], None]]:
        """The actions of the keys that have a function now."""
        return {self.key: self.toggle} if self.key else {}

    # -- state that the page reads

    @property
    def in_column(self) -> bool:
        """Whether the right column must be open for the feature."""
        return False

    @property
    def below(self) -> int:
        """Height in px of the feature's bar at the bottom; 0 without one."""
        return 0

    @property
    def covers_status(self) -> bool:
        """Whether this bar takes the place of the status bar."""
        return False

    @property
    def rests(self) -> bool:
        """Whether the shown lab is paused for the feature, which resumes it."""
        return False

    @property
    def viewed(self) -> bool:
        """Whether viewers besides the page's own browser need up-to-date values and pictures."""
        return False

    # -- events of the page

    def ready(self) -> None:
        """The page has all its features, and its browser receives changes."""

    def shown(self, tab: OpenLab) -> None:
        """Another lab is shown."""

    def left(self) -> None:
        """The shown lab is about to be hidden."""

    def discarded(self, tab: OpenLab) -> None:
        """A lab was closed before the page."""

    def ticked(self) -> None:
        """The values of the shown lab were refreshed, a few times a second, or a key of the lab was pressed."""

    def arranged(self, layout: Layout) -> None:
        """The layout of the page has changed."""

    def looked(self, visible: bool) -> None:
        """The browser's tab was hidden or shown. May run without the document's lock."""

    def connected(self, on: bool) -> None:
        """The browser's connection was lost or restored."""

    def ended(self) -> None:
        """The page was closed."""

    # -- of the server

    @classmethod
    def install(cls) -> None:
        """Add the feature's routes to the server, and start its slow preparations; called once, before the pages."""
