"""The centre in full, however long it is, beside a picture whose axes cannot show it; with a button that copies it."""

from __future__ import annotations

from typing import Any

import param
from panel.custom import JSComponent

from app.theme import stylesheet

LOOK = """
:host { min-width: 0; }
.place { font-size: var(--small, 14px); color: var(--ink); height: 100%; display: flex; flex-direction: column;
         gap: 4px; box-sizing: border-box; padding: 4px 0; }
.place .numbers { font-family: 'Roboto Mono', 'Liberation Mono', Consolas, monospace; word-break: break-all;
                  overflow-y: auto; flex: 1 1 auto; min-height: 0; line-height: 1.35; }
.place .numbers span { color: var(--muted); user-select: none; }
.place .row { display: flex; align-items: baseline; gap: 8px; color: var(--muted); }
.place .row .words { flex: 1; }
.place button { font: inherit; color: var(--accent); background: none; border: 1px solid var(--line);
                border-radius: 6px; padding: 2px 10px; cursor: pointer; }
.place button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


class PlaceText(JSComponent):
    """Two numbers in full, and what else there is to say about the view."""

    re = param.String(doc="Real part of the centre.")
    im = param.String(doc="Imaginary part of the centre.")
    zoom = param.String(doc="The zoom, to be copied with the centre.")
    words = param.String(doc="Zoom depth and pixel spacing, for people.")

    _esm = """
    export function render({ model, el }) {
      const root = document.createElement('div');
      root.className = 'place';
      root.innerHTML = `<div class="row"><span class="words"></span><button type="button">Copy</button></div>
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
        const text = `${model.re}\\n${model.im}\\n${model.zoom}\\n`;
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
        super().__init__(stylesheets=[stylesheet(), LOOK], **options)
