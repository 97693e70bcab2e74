"""The group "Place" (mode of dragging, bookmarks, typed coordinates), and the full centre as text.

An invalid number is reported next to its field and does not move the view. The centre is written with all digits, as
the axes of a deep picture cannot show them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import panel as pn
import panel_material_ui as pmui
import param
from panel.custom import JSComponent

from app.labs.mandelbrot.bookmarks import FOLDER, Bookmark, data_url, file_of, places, small, webp
from app.labs.mandelbrot.navigator import Navigator
from app.page.theme import stylesheet
from app.page.widgets import FULL, card_script
from app.tab.controls import column
from app.tab.plots import palette
from app.tab.session import Session
from compute.cli import settings
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import short
from compute.labs.mandelbrot.views import Landmark

if TYPE_CHECKING:
    from app.labs.mandelbrot.view import MandelbrotView

MOST_MARKS = 24  # marks of the user
DRAG = {"Move": False, "Zoom to a box": True}
GALLERY_STYLE = """
.places { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; overflow: hidden auto;
  scrollbar-width: thin; max-height: max(296px, 100vh - 600px); padding: 4px 2px 4px 4px; margin: 0; list-style: none; }
li { position: relative; }
button { font: inherit; font-size: var(--small, 14px); color: var(--ink); background: none; border: 0; padding: 0;
  cursor: pointer; border-radius: 6px; }
.place { display: block; width: 100%; text-align: left; }
.place img { display: block; width: 100%; aspect-ratio: 16 / 9; border-radius: 6px; background: var(--line); }
.place span { display: block; line-height: 1.4; padding: 0 2px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.place:hover img { outline: 2px solid var(--accent); }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 1px; }
.drop { position: absolute; right: 4px; top: 4px; width: 24px; height: 24px; border-radius: 12px;
  background: var(--paper); line-height: 24px; text-align: center; }
"""
FIELDS = {  # start of the lab's error message -> label of the field
    "center[0]": "Centre, real part",
    "center[1]": "Centre, imaginary part",
    "zoom": "Zoom (the view is 4 / zoom high)",
    "max_iterations": "Maximum iterations",
}
HINT = 'Decimal numbers of any length, such as "-0.75" or "5e113". Paste what Copy gives into any field.'
NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE | re.ASCII)
TEXT_STYLE = """
:host { min-width: 0; }
.place { font-size: var(--small, 14px); color: var(--ink); height: 100%; display: flex; flex-direction: column;
         gap: 4px; box-sizing: border-box; padding: 4px 0; }
.place .numbers { font-family: 'Roboto Mono', 'Liberation Mono', Consolas, monospace; word-break: break-all;
                  overflow-y: auto; flex: 1 1 auto; min-height: 0; line-height: 1.35; }
.place .numbers span { color: var(--muted); user-select: none; }
.place .row { display: flex; align-items: baseline; gap: 8px; color: var(--muted); }
.place .row .words { flex: 1; }
.place .means { flex-wrap: wrap; row-gap: 0; color: var(--ink); }
.place math { font-family: inherit; }
.place mi { text-transform: none; font-style: italic; }
.place .inside { display: inline-block; width: 12px; height: 12px; background: #000; border: 1px solid var(--muted); }
.place button { font: inherit; color: var(--accent); background: none; border: 1px solid var(--line);
                border-radius: 6px; padding: 2px 10px; cursor: pointer; }
.place button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


class PlaceGroup:
    """The widgets of one session; `panel` is the group's body. `lab_view` provides navigator and palette.

    picked(view) is called with the chosen bookmark.
    """

    def __init__(self, session: Session, lab_view: MandelbrotView, picked: Callable[[Landmark], object]) -> None:
        self.session, self.lab_view, self._picked = session, lab_view, picked
        self.navigator = lab_view.navigator
        self.goto = GoToDialog(session, lab_view.navigator)
        self._bookmarks = [Bookmark(title, view, thumbnail(title)) for title, view in places().items()]
        self._marked = 0
        self.gallery = Gallery(self.pick, self.drop)
        self.gallery.show(self._bookmarks)
        go = pmui.Button(label="Go to …", icon="my_location", variant="outlined", size="small", margin=(6, 4, 6, 8))
        go.on_click(lambda event: self.goto.open())
        mark = pmui.Button(label="Mark", icon="bookmark_add", variant="outlined", size="small", margin=(6, 4))
        mark.on_click(lambda event: self.mark())
        buttons = pn.Row(go, mark, margin=0, sizing_mode="stretch_width")
        drag = pmui.RadioButtonGroup(
            label="Drag", options=DRAG, value=False, size="small", margin=(4, 8), sizing_mode="stretch_width"
        )
        drag.param.watch(lambda event: session.later(lambda: lab_view.box_mode(event.new)), "value")
        self.panel = column(drag, buttons, self.gallery)

    def pick(self, index: int) -> None:
        """Go to a bookmark."""
        view = self._bookmarks[index].view
        self.navigator.go(view.center, view.zoom, view.max_iterations)
        self._picked(view)

    def mark(self) -> None:
        """Store the current view with its picture in the current palette, until the page is closed."""
        frame = self.session.latest
        if frame is None:
            return
        self._marked += 1
        notes, colours = frame.notes, palette(self.lab_view.colours.name, self.lab_view.colours.reverse)
        view = Landmark((notes["center_re"], notes["center_im"]), notes["zoom"], self.session.values["max_iterations"])
        raster = frame.rasters["escape"]
        picture = data_url(webp(small(raster.levels), colours, raster.waiting))
        own = [bookmark for bookmark in self._bookmarks if bookmark.own]
        if len(own) >= MOST_MARKS:
            self._bookmarks.remove(own[0])
        self._bookmarks.append(Bookmark(f"Mark {self._marked}", view, picture, own=True))
        self.gallery.show(self._bookmarks)

    def drop(self, title: str) -> None:
        """Remove the user's mark with this title; unknown titles are ignored."""
        left = [bookmark for bookmark in self._bookmarks if not (bookmark.own and bookmark.title == title)]
        if len(left) < len(self._bookmarks):
            self._bookmarks = left
            self.gallery.show(left)


def thumbnail(title: str) -> str:
    """Return the data URL of a place's thumbnail in assets/."""
    return data_url((FOLDER / file_of(title)).read_bytes())


class Gallery(JSComponent):
    """Shows `items`; picked(index) is called when a bookmark is chosen, dropped(title) when a mark is removed."""

    items = param.List(default=[], item_type=dict, doc="title, picture and own of each bookmark.")

    _stylesheets: ClassVar[list[str]] = [GALLERY_STYLE]
    _esm = card_script(Path(__file__).with_name("gallery.js"))

    def __init__(self, picked: Callable[[int], object], dropped: Callable[[str], object], **params: Any) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 8), **params)
        self._picked, self._dropped = picked, dropped

    def show(self, bookmarks: Sequence[Bookmark]) -> None:
        """Show `bookmarks` in this order."""
        self.items = [{"title": b.title, "picture": b.picture, "own": b.own} for b in bookmarks]

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        index, title = data.get("pick"), data.get("drop")
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self.items):
            self._picked(index)
        if isinstance(title, str):
            self._dropped(title)


class GoToDialog:
    """The dialog `panel`, opened by `open`."""

    def __init__(self, session: Session, navigator: Navigator) -> None:
        self._session, self._navigator = session, navigator
        self.fields = {name: pmui.TextInput(label=label, size="small", **FULL) for name, label in FIELDS.items()}
        for field in self.fields.values():
            field.param.watch(lambda event: self.go(), "enter_pressed")
            field.param.watch(lambda event: self._paste(event.new), "value_input")
        button = pmui.Button(label="Go", icon="arrow_forward", margin=(12, 8))
        button.on_click(lambda event: self.go())
        hint = pmui.Typography(HINT, variant="body2", margin=(0, 8, 8, 8))
        self.panel = pmui.Dialog(
            hint,
            *self.fields.values(),
            button,
            title="Go to coordinates",
            close_on_click=True,
            show_close_button=True,
            width_option="sm",
        )

    def open(self) -> None:
        """Open the dialog with the current view in its fields."""
        texts = (*self._navigator.center, self._navigator.zoom, str(self._session.values["max_iterations"]))
        for field, text in zip(self.fields.values(), texts, strict=True):
            field.param.update(value=text, value_input=text, error_state=False, helper_text="")
        self.panel.open = True

    def _paste(self, text: str) -> None:
        """Distribute a pasted line of the button Copy over all fields."""
        parts = re.split(r"[\s,;]+", text.strip())
        if 2 <= len(parts) <= len(self.fields) and all(map(NUMBER.fullmatch, parts)):
            for field, part in zip(self.fields.values(), parts, strict=False):
                field.param.update(value=part, value_input=part)

    def go(self) -> None:
        """Go to the typed place, or show the error at its field."""
        for field in self.fields.values():
            field.param.update(error_state=False, helper_text="")
        re, im, zoom, count = (typed(field) for field in self.fields.values())
        try:
            self._navigator.go((re, im), zoom, iterations(count))
        except ValueError as error:
            self._complain(str(error))
        else:
            self.panel.open = False

    def _complain(self, text: str) -> None:
        name = next((name for name in self.fields if text.startswith(name)), "zoom")
        self.fields[name].param.update(error_state=True, helper_text=text)


def typed(field: Any) -> str:
    """Return the text of `field` in the lab's number format."""
    text = field.value_input or field.value or ""
    return str(text).strip().replace("\N{MINUS SIGN}", "-")


def iterations(text: str) -> int:
    """Return typed iterations, "5000" or "1e7"; raise ValueError with the valid range."""
    low, high = Mandelbrot.param["max_iterations"].bounds
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high or value != int(value):
        raise ValueError(f"max_iterations must be a whole number from {low} to {high}, not {short(text)!r}")
    most = settings.bound("iterations")
    if most is not None and value > most:
        raise ValueError(f"max_iterations must be at most {most:,} on this server, not {int(value):,}")
    return int(value)


class PlaceText(JSComponent):
    """The centre with all digits, and more information about the view."""

    re = param.String(doc="Real part of the centre.")
    im = param.String(doc="Imaginary part of the centre.")
    zoom = param.String(doc="The zoom, to be copied with the centre.")
    iterations = param.Integer(default=1000, doc="Maximum iterations, to be copied with them.")
    words = param.String(doc="Zoom depth and pixel spacing, for people.")

    _esm = """
    export function render({ model, el }) {
      const root = document.createElement('div');
      root.className = 'place';
      root.innerHTML = `<div class="row means"><math aria-label="z becomes z squared plus c"><mi>z</mi><mo>←</mo>
        <mi>z²</mi><mo>+</mo><mi>c</mi></math>
        <span><i class="inside" aria-hidden="true"></i> black: inside the set, z stays bounded</span></div>
        <div class="row"><span class="words"></span><button type="button">Copy</button></div>
        <div class="numbers" tabindex="0" aria-label="Centre of the view"></div>`;
      const [words, button, numbers] = ['.words', 'button', '.numbers'].map((name) => root.querySelector(name));
      const show = () => {
        words.textContent = model.words;
        numbers.replaceChildren(...[['re ', model.re], ['im ', model.im]].map(([name, value]) => {
          const line = document.createElement('div'), head = document.createElement('span');
          head.textContent = name;
          line.append(head, value);
          return line;
        }));
      };
      const by_hand = (text) => {              // without https a page has no clipboard
        const area = document.createElement('textarea');
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
      };
      button.addEventListener('click', async () => {
        const text = [model.re, model.im, model.zoom, model.iterations].join(', ');
        try { await navigator.clipboard.writeText(text); } catch { by_hand(text); }
        button.textContent = 'Copied';
        setTimeout(() => { button.textContent = 'Copy'; }, 1500);
      });
      for (const name of ['re', 'im', 'words']) model.on(name, show);
      show();
      return root;
    }
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(stylesheets=[stylesheet(), TEXT_STYLE], **options)
