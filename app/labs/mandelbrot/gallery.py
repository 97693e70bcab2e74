"""Bookmarks as pictures to click on: a list of buttons, each with its thumbnail and its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.labs.mandelbrot.bookmarks import Bookmark

STYLE = """
.places { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; overflow-y: auto;
  max-height: max(296px, 100vh - 600px); padding: 4px 2px 4px 4px; margin: 0; list-style: none; }
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


class Gallery(JSComponent):
    """Shows `items`; picked(index) and dropped(index) are called when one is chosen, or an own one is removed."""

    items = param.List(default=[], item_type=dict, doc="title, picture and own of each bookmark.")

    _stylesheets: ClassVar[list[str]] = [STYLE]
    _esm = """
    export function render({ model, el }) {
      const list = document.createElement('ul');
      list.className = 'places';
      const button = (kind, words, act) => {
        const made = document.createElement('button');
        made.type = 'button';
        made.className = kind;
        made.setAttribute('aria-label', words);
        made.title = words;
        made.addEventListener('click', act);
        return made;
      };
      const draw = () => list.replaceChildren(...model.items.map((item, index) => {
        const entry = document.createElement('li'), image = document.createElement('img');
        const place = button('place', `Go to ${item.title}`, () => model.send_msg({ pick: index }));
        const words = document.createElement('span');
        image.src = item.picture;
        image.alt = '';
        words.textContent = item.title;
        place.append(image, words);
        entry.append(place);
        if (item.own) {
          const drop = button('drop', `Remove ${item.title}`, () => model.send_msg({ drop: index }));
          drop.textContent = '×';
          entry.append(drop);
        }
        return entry;
      }));
      model.on('items', () => { draw(); list.scrollTop = list.scrollHeight; });
      draw();
      return list;
    }
    """

    def __init__(self, picked: Callable[[int], object], dropped: Callable[[int], object], **params: Any) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(4, 8), **params)
        self._picked, self._dropped = picked, dropped
        self.on_msg(self._hear)

    def show(self, bookmarks: Sequence[Bookmark]) -> None:
        """Show these."""
        self.items = [{"title": b.title, "picture": b.picture, "own": b.own} for b in bookmarks]

    def _hear(self, message: Any) -> None:
        data = getattr(message, "data", message)
        if not isinstance(data, dict):
            return
        for key, act in (("pick", self._picked), ("drop", self._dropped)):
            index = data.get(key)
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self.items):
                act(index)
