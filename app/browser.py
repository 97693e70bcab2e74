"""What only the browser knows: keys that are pressed, the size of its window, whether it shows the dark scheme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

KEYS = {"e": "export", "h": "help", "p": "present", "u": "system"}  # of every lab


class Browser(JSComponent):
    """An invisible component that reports key presses and window sizes.

    Of all keys only those in `wanted` are reported: their `event.key` in lower case, with "shift+" before those of
    several letters, such as "shift+backspace". Keys typed into a text field, or with another modifier, stay the
    field's; Space on a focused button stays the button's, arrows stay a slider's, a menu's or a dialog's. Arrows, + and
    - are repeated while they are held.
    """

    wanted = param.List(default=list(KEYS), item_type=str, doc="Keys that mean something now.")
    presenter = param.Boolean(default=False, doc="Whether type is scaled up for the back row.")
    dark = param.Boolean(default=False, doc="Whether the dark scheme is shown.")

    _esm = """
    export function render({ model, el }) {
      const typing = (event) => event.composedPath().some((node) =>
        node.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(node.tagName) && node.type != 'range');
      const within = (event, roles) => event.composedPath().some((node) => roles.includes(node.getAttribute?.('role')));
      const pressing = (event) => within(event, ['option', 'menuitem', 'combobox']) ||
        event.composedPath().some((node) => node.tagName == 'BUTTON');
      const steering = (event) => within(event, ['option', 'menuitem', 'combobox', 'tab', 'tablist', 'dialog']) ||
        event.composedPath().some((node) => node.tagName == 'INPUT');
      const keydown = (event) => {
        const arrow = event.key.startsWith('Arrow');
        if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
        if (event.repeat && !arrow && !['+', '-'].includes(event.key)) return;
        if ([' ', 'Enter'].includes(event.key) && pressing(event)) return;
        if (arrow && steering(event)) return;
        const shift = event.shiftKey && event.key.length > 1 ? 'shift+' : '';
        const key = shift + event.key.toLowerCase();
        if (!model.wanted.includes(key)) return;
        if (key == ' ' || arrow) event.preventDefault();
        model.send_msg({ key });
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
        if data.get("key") in self.wanted:
            self._pressed(data["key"])
        width, height = data.get("width"), data.get("height")
        if isinstance(width, (int, float)) and isinstance(height, (int, float)):
            self._resized(int(min(max(width, 320), 8192)), int(min(max(height, 240), 8192)))
