"""The group "Place": what a drag does, typed coordinates, bookmarks with thumbnails, the user's own among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import panel_material_ui as pmui

from app.controls import column
from app.labs.mandelbrot.bookmarks import FOLDER, Bookmark, file_of, places
from app.labs.mandelbrot.gallery import Gallery
from app.labs.mandelbrot.goto import GoTo
from app.labs.mandelbrot.thumbnails import address, small, webp
from app.palettes import palette
from app.session import Session
from compute.labs.mandelbrot.views import Landmark

MOST = 24  # marks of one's own
DRAG = {"Move": False, "Zoom to a box": True}


class Places:
    """The widgets of one session; `stage` has the navigator and the palette at hand. `panel` is the group's body.

    picked(view) hears which bookmark was chosen.
    """

    def __init__(self, session: Session, stage: Any) -> None:
        self.session, self.stage = session, stage
        self.navigator = stage.navigator
        self.goto = GoTo(session, stage.navigator)
        self._bookmarks = [Bookmark(title, view, thumbnail(title)) for title, view in places().items()]
        self._marked = 0
        self.picked: Callable[[Landmark], object] = _ignore
        self.gallery = Gallery(self.pick, self.drop)
        self.gallery.show(self._bookmarks)
        go = pmui.Button(label="Go to …", icon="my_location", variant="outlined", size="small", margin=(6, 4, 6, 8))
        go.on_click(lambda event: self.goto.open())
        mark = pmui.Button(label="Mark", icon="bookmark_add", variant="outlined", size="small", margin=(6, 4))
        mark.on_click(lambda event: self.mark())
        buttons = pmui.Row(go, mark, margin=0, sizing_mode="stretch_width")
        drag = pmui.RadioButtonGroup(
            label="Drag", options=DRAG, value=False, size="small", margin=(4, 8), sizing_mode="stretch_width"
        )
        drag.param.watch(lambda event: session.later(lambda: stage.box_mode(event.new)), "value")
        self.panel = column(drag, buttons, self.gallery)

    def pick(self, index: int) -> None:
        """Go to a bookmark."""
        view = self._bookmarks[index].view
        self.navigator.go(view.center, view.zoom, view.max_iterations)
        self.picked(view)

    def mark(self) -> None:
        """Remember what is shown, with its picture in the palette at hand, for as long as the page is open."""
        frame = self.session.latest
        if frame is None:
            return
        self._marked += 1
        notes, colours = frame.notes, palette(self.stage.colours.name, self.stage.colours.reverse)
        view = Landmark((notes["center_re"], notes["center_im"]), notes["zoom"], self.session.values["max_iterations"])
        picture = address(webp(small(frame.rasters["escape"].levels), colours))
        own = [bookmark for bookmark in self._bookmarks if bookmark.own]
        if len(own) >= MOST:
            self._bookmarks.remove(own[0])
        self._bookmarks.append(Bookmark(f"Mark {self._marked}", view, picture, own=True))
        self.gallery.show(self._bookmarks)

    def drop(self, index: int) -> None:
        """Forget a mark."""
        if self._bookmarks[index].own:
            del self._bookmarks[index]
            self.gallery.show(self._bookmarks)


def thumbnail(title: str) -> str:
    """The address of a place's picture in assets/."""
    return address((FOLDER / file_of(title)).read_bytes())


def _ignore(*anything: object) -> None:
    """Nobody listens."""
