"""Events and state of the browser: keys, window size, colour scheme, visibility and the address bar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import param
from panel.custom import JSComponent

STATIC = Path(__file__).parent.parent / "static"
PARTS = "make.js", "explain.js", "less_motion.js", "library_words.js"
SCRIPTS = "".join((STATIC / name).read_text(encoding="utf-8") for name in PARTS)
ESCAPE = "escape"  # the key that closes `Browser.card`


class Browser(JSComponent):
    """An invisible component that reports browser events: keys, window size, system colour scheme, visibility, Back.

    It sends key presses, window sizes, whether the system prefers a dark scheme, whether the browser tab is visible,
    and the query of the address that Back or Forward selects. `write_address` changes the address bar.

    Only keys in `wanted` are reported, as `event.key` in lower case. Keys with names of several letters get the prefix
    "shift+", as in "shift+backspace"; a letter gets it if `wanted` contains that form. Ctrl+Z or Command+Z is "ctrl+z";
    with Shift, and for Ctrl+Y, it is "ctrl+shift+z". Arrows, + and - repeat while pressed. The browser itself ignores
    a reported key.

    The page's keys take precedence over the focused element: Space runs or pauses the lab even if a button, a switch
    or a list was clicked before, and Enter presses the button. Elements keep the keys without which they cannot be
    used: all keys in a text field and in an open list or menu; Space in a dialog, and on a switch, a file field or a
    closed list that was focused with Tab; arrows on sliders, in dialogs, and on tabs and lists that were focused with
    Tab; Home and End on sliders.
    """

    wanted = param.List(default=[], item_type=str, doc="Keys that currently have an action.")
    presenter = param.Boolean(default=False, doc="Whether type is scaled up for the back row.")
    address = param.Dict(default={}, doc="Query of the page's address, and whether to add a history entry.")
    card = param.String(default="", doc="CSS class of the latest opened card, which gets the focus; empty: none.")
    ui = param.String(default="", doc="Level of the page in its address; empty: the whole page.")
    recorded = param.String(default="", doc="Chip of the page's numbers in its address; empty: the server's.")
    dark = param.Boolean(default=False, doc="Whether the dark scheme is shown.")

    _esm = (
        SCRIPTS
        + """
    export function render({ model, el }) {
      const forget_words = explainWords(), forget_names = renameLibraryWords();
      lessMotion();
      const UNTYPED = ['range', 'checkbox', 'radio', 'file', 'button', 'submit', 'reset', 'color', 'image'];
      const some = (event, test) => event.composedPath().some((node) => node instanceof Element && test(node));
      const within = (event, ...roles) => some(event, (node) => roles.includes(node.getAttribute('role')));
      const typing = (event) => some(event, (node) => node.isContentEditable ||
        ['TEXTAREA', 'SELECT'].includes(node.tagName) || node.tagName == 'INPUT' && !UNTYPED.includes(node.type));
      const listing = (event) => within(event, 'listbox', 'option', 'menu', 'menuitem');
      const input = (event, ...types) => some(event, (node) => node.tagName == 'INPUT' && types.includes(node.type));
      let tabbed = false, taken = false;      // the focus was moved with Tab; the page handles a pressed Space
      const essential = (event) => {
        if (typing(event) || listing(event)) return true;
        if (event.key == ' ') return within(event, 'dialog', 'alertdialog') ||
          tabbed && (input(event, 'checkbox', 'radio', 'file') || within(event, 'combobox'));
        if (['Home', 'End'].includes(event.key)) return input(event, 'range');
        return event.key.startsWith('Arrow') && (input(event, 'range', 'radio') || within(event, 'dialog') ||
          tabbed && within(event, 'combobox', 'tab', 'tablist'));
      };
      const named = (event) => {
        // On a Cyrillic or Greek layout, a letter counts as the Latin letter at the same place.
        const latin = event.key.length == 1 && event.key > '~' && event.code.match(/^Key([A-Z])$/)?.[1];
        const plain = (latin || event.key).toLowerCase();
        if (event.ctrlKey || event.metaKey) {
          if (event.altKey || !['y', 'z'].includes(plain)) return '';
          return plain == 'y' || event.shiftKey ? 'ctrl+shift+z' : 'ctrl+z';
        }
        const shifted = event.shiftKey && (event.key.length > 1 || model.wanted.includes(`shift+${plain}`));
        return event.altKey ? '' : `${shifted ? 'shift+' : ''}${plain}`;
      };
      const take = (event) => { event.preventDefault(); event.stopPropagation(); };
      // The library's lists open only at a click: make them usable by keyboard.
      const unfold = (event) => {
        const list = event.composedPath().find((node) => node.getAttribute?.('role') == 'combobox');
        if (!tabbed || !list || list.tagName == 'INPUT' || listing(event)) return false;
        if (![' ', 'Enter', 'ArrowDown', 'ArrowUp'].includes(event.key)) return false;
        list.click();
        return true;
      };
      // A card gets the focus as it opens; the previously focused element gets it back. Escape closes the card.
      const seen = (name) => {
        for (const node of everyElement()) if (node.classList.contains(name) && node.checkVisibility()) return node;
        return null;
      };
      let before = null, waiting = null;
      const followCard = () => {
        clearInterval(waiting);
        if (!model.card) {
          before?.focus?.({ preventScroll: true });
          before = null;
          return;
        }
        before ??= focused();
        let looks = 0;
        waiting = setInterval(() => {         // a card is filled when it is opened for the first time
          const card = seen(model.card);
          if (!card && ++looks < 100) return;
          clearInterval(waiting);
          if (!card || card.contains(focused())) return;
          card.tabIndex = -1;
          card.style.outline = 'none';
          card.focus({ preventScroll: true });
        }, 100);
      };
      const opened = (event) => some(event, (node) => node.getAttribute('aria-expanded') == 'true') || listing(event) ||
        within(event, 'dialog', 'alertdialog');
      const keydown = (event) => {
        if (event.key == 'Tab') tabbed = true;
        if (event.key == 'Escape' && model.card && !opened(event)) model.send_msg({ key: 'escape' });
        if (event.key == ' ') taken = false;
        if (unfold(event)) {
          take(event);
          taken = event.key == ' ';
          return;
        }
        const key = named(event);
        if (!model.wanted.includes(key) || essential(event)) return;
        take(event);
        taken = taken || event.key == ' ';
        if (event.repeat && !event.key.startsWith('Arrow') && !['+', '-'].includes(event.key)) return;
        model.send_msg({ key });
      };
      const keyup = (event) => {              // a browser presses a button at keyup
        if (event.key == ' ' && taken) take(event);
      };
      const pointerdown = () => { tabbed = false; };
      const listeners = { keydown, keyup, pointerdown };
      let timer = null;
      const measure = () => model.send_msg({ width: innerWidth, height: innerHeight });
      const travel = () => model.send_msg({ query: location.search.slice(0, 10000) });
      const write = () => {
        const { push } = model.address;
        const kept = ['ui', 'recorded'].map((name) => model[name] ? `${name}=${model[name]}&` : '').join('');
        const query = `${kept}${model.address.query}`;
        if (!model.address.query || location.search == `?${query}`) return;
        const address = `${location.pathname}?${query}`;
        try {
          if (push) history.pushState(null, '', address); else history.replaceState(history.state, '', address);
        } catch (error) {                     // browsers limit changes per minute; the next has this state too
          console.debug(error);
        }
      };
      const look = () => model.send_msg({ visible: !document.hidden });
      const system = matchMedia('(prefers-color-scheme: dark)');
      const prefer = () => model.send_msg({ dark: system.matches });
      const resize = () => { clearTimeout(timer); timer = setTimeout(measure, 150); };
      for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener, true);
      addEventListener('resize', resize);
      system.addEventListener('change', prefer);
      addEventListener('popstate', travel);
      model.on('address', write);
      model.on('card', followCard);
      document.addEventListener('visibilitychange', look);
      model.on('remove', () => {
        clearInterval(waiting);
        for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener, true);
        removeEventListener('resize', resize);
        system.removeEventListener('change', prefer);
        removeEventListener('popstate', travel);
        document.removeEventListener('visibilitychange', look);
        forget_words();
        forget_names();
      });
      const applyTheme = () => {
        document.documentElement.classList.toggle('presenter', model.presenter);
        // not data-theme, from which panel-material-ui reads the scheme of an embedding page: between a press of its
        // switch and the server's answer, new elements would get the previous scheme's colours
        document.documentElement.dataset.scheme = model.dark ? 'dark' : 'light';
      };
      model.on('presenter', applyTheme);
      model.on('dark', applyTheme);
      applyTheme();
      measure();
      if (system.matches) prefer();           // the light scheme is the initial one
      el.style.display = 'none';
      return document.createElement('span');
    }
    """
    )

    def __init__(
        self,
        pressed: Callable[[str], None],
        resized: Callable[[int, int], None],
        looked: Callable[[bool], None],
        travelled: Callable[[str], None],
        preferred: Callable[[bool], None],
        **params: Any,
    ) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._pressed, self._resized, self._looked, self._travelled = pressed, resized, looked, travelled
        self._preferred = preferred

    def write_address(self, query: str, push: bool) -> None:
        """Set the query of the page's address, as a new entry of the browser's history if `push` is true."""
        # A new number sends the same query again: the browser may have moved to another address since
        number = self.address.get("number", 0) + 1
        self.address = {"query": query, "push": push, "number": number}

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        key = data.get("key")
        if isinstance(key, str) and (key in self.wanted or (self.card and key == ESCAPE)):
            self._pressed(key)
        if isinstance(data.get("visible"), bool):
            self._looked(data["visible"])
        if isinstance(data.get("dark"), bool):
            self._preferred(data["dark"])
        if isinstance(data.get("query"), str):
            self._travelled(data["query"])
        width, height = data.get("width"), data.get("height")
        if isinstance(width, (int, float)) and isinstance(height, (int, float)):
            self._resized(_within(width, 320, 8192), _within(height, 240, 8192))


def _within(side: float, least: int, most: int) -> int:
    """Return `side` as an integer within the bounds; `least` for NaN."""
    return int(min(side, most)) if side >= least else least
