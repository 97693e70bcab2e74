"""What only the browser knows: keys that are pressed, the size of its window, whether it shows the dark scheme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

KEYS = {" ": "play", "s": "step", "r": "reset", "h": "help", "p": "present"}


class Browser(JSComponent):
    """An invisible component that reports key presses and window sizes.

    Keys typed into a text field, or with a modifier, stay the field's; Space on a focused button stays the button's.
    """

    presenter = param.Boolean(default=False, doc="Whether type is scaled up for the back row.")
    dark = param.Boolean(default=False, doc="Whether the dark scheme is shown.")

    _esm = """
    export function render({ model, el }) {
      const typing = (event) => event.composedPath().some((node) =>
        node.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(node.tagName) && node.type != 'range');
      const pressing = (event) => event.composedPath().some((node) =>
        node.tagName == 'BUTTON' || ['option', 'menuitem', 'combobox'].includes(node.getAttribute?.('role')));
      const keydown = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || typing(event)) return;
        if ([' ', 'Enter'].includes(event.key) && pressing(event)) return;
        if (event.key == ' ') event.preventDefault();
        model.send_msg({ key: event.key.toLowerCase() });
      };
      let timer = null;
      const measure = () => model.send_msg({ width: innerWidth, height: innerHeight });
      const resize = () => { clearTimeout(timer); timer = setTimeout(measure, 150); };
      document.addEventListener('keydown', keydown);
      addEventListener('resize', resize);
      model.on('remove', () => {
        document.removeEventListener('keydown', keydown);
        removeEventListener('resize', resize);
      });
      const dress = () => {
        document.documentElement.classList.toggle('presenter', model.presenter);
        document.documentElement.dataset.theme = model.dark ? 'dark' : 'light';
      };
      model.on('presenter', dress);
      model.on('dark', dress);
      dress();
      measure();
      el.style.display = 'none';
      return document.createElement('span');
    }
    """

    def __init__(self, pressed: Callable[[str], None], resized: Callable[[int, int], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._pressed, self._resized = pressed, resized
        self.on_msg(self._hear)

    def _hear(self, message: Any) -> None:
        data = getattr(message, "data", message)
        if not isinstance(data, dict):
            return
        if data.get("key") in KEYS:
            self._pressed(KEYS[data["key"]])
        width, height = data.get("width"), data.get("height")
        if isinstance(width, (int, float)) and isinstance(height, (int, float)):
            self._resized(int(min(max(width, 320), 8192)), int(min(max(height, 240), 8192)))
