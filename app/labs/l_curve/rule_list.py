"""The rules as a list beside the curve: number, name, λ or why there is none. A click takes the rule's λ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.labs.l_curve.words import HUES, NUMBERS, SHORT, Strength, reason_in_brief, short
from compute.labs.l_curve.rules import RULES


def _hues() -> str:
    """Every rule's hue as a CSS variable, in the light and in the dark scheme."""
    light = "".join(f".r{i} {{ --hue: {colour}; }}\n" for i, colour in enumerate(HUES[False]))
    dark = (f":host-context([data-theme=dark]) .r{i} {{ --hue: {colour}; }}\n" for i, colour in enumerate(HUES[True]))
    return light + "".join(dark)


STYLE = """
:host { min-width: 0; }
ul { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; height: 100%; gap: 2px;
  font-size: var(--small, 14px); overflow-y: auto; }
li { flex: 0 0 auto; }
button { font: inherit; color: var(--ink); background: none; border: 0; border-radius: 6px; width: 100%;
  padding: 3px 8px; cursor: pointer; display: flex; flex-wrap: wrap; column-gap: 8px;
  align-items: center; text-align: left; line-height: 1.25; }
button:hover { background: var(--ground); }
:host-context(.presenter) button { padding: 1px 8px; }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: -3px; }
button[aria-pressed=true] { background: var(--ground); box-shadow: inset 3px 0 0 var(--hue); }
button:disabled { color: var(--muted); cursor: default; background: none; }
.badge { width: 1.4em; height: 1.4em; border-radius: 50%; background: var(--hue); color: var(--paper);
  display: grid; place-items: center; font-weight: 700; line-height: 1; }
button:disabled .badge { background: none; color: var(--muted); box-shadow: inset 0 0 0 1.5px var(--muted); }
.name { white-space: nowrap; flex: 1 0 auto; }
.value { font-weight: 500; font-variant-numeric: tabular-nums; white-space: nowrap; }
.why { white-space: nowrap; margin-left: auto; }
.head { padding: 0 8px 4px; color: var(--muted); display: flex; justify-content: space-between; }
"""


class RuleList(JSComponent):
    """Shows `items`; picked(rule) is called when one is clicked."""

    items = param.List(default=[], item_type=dict, doc="rule, number, name, value, why, title, pressed of each.")
    symbol = param.String(default="λ", doc="What the values are.")

    _stylesheets: ClassVar[list[str]] = [STYLE + _hues()]
    _esm = """
    export function render({ model, el }) {
      const list = document.createElement('ul');
      const part = (kind, words) => {
        const made = document.createElement('span');
        made.className = kind;
        made.textContent = words;
        return made;
      };
      const entries = new Map();
      const entry = (rule, index) => {
        const item = document.createElement('li'), button = document.createElement('button');
        button.type = 'button';
        button.className = `r${index}`;
        button.addEventListener('click', () => model.send_msg({ rule }));
        item.append(button);
        list.append(item);
        entries.set(rule, button);
        return button;
      };
      const head = document.createElement('li');
      head.className = 'head';
      list.append(head);
      const draw = () => {
        head.replaceChildren(part('', 'Rule'), part('', model.symbol));
        model.items.forEach((item, index) => {
          const button = entries.get(item.rule) ?? entry(item.rule, index);
          button.disabled = item.value == '';
          button.title = item.title;
          button.setAttribute('aria-pressed', String(item.pressed));
          const said = item.value ? part('value', item.value) : part('why', item.why);
          button.replaceChildren(part('badge', item.number), part('name', item.name), said);
        });
      };
      model.on('items', draw);
      model.on('symbol', draw);
      draw();
      return list;
    }
    """

    def __init__(self, picked: Callable[[str], object], **params: Any) -> None:
        super().__init__(margin=0, **params)
        self._picked = picked
        self.on_msg(self._hear)

    def show(self, facts: Mapping[str, float], notes: Mapping[str, str], chosen: str, strength: Strength) -> None:
        """The rules of a frame; `chosen` is the one whose solution is shown, "" for none."""
        items = []
        for rule in RULES:
            lam, reason = facts.get(rule, float("nan")), notes.get(rule, "")
            known = isfinite(lam)
            items.append(
                {
                    "rule": rule,
                    "number": NUMBERS[rule],
                    "name": SHORT[rule],
                    "value": short(strength.of(lam)) if known else "",
                    "why": "" if known else reason_in_brief(reason),
                    "title": f"{RULES[rule].title}{': ' if reason else ''}{reason}",
                    "pressed": rule == chosen,
                }
            )
        if items != self.items or strength.label != self.symbol:
            self.param.update(items=items, symbol=strength.label)

    def _hear(self, message: Any) -> None:
        data = getattr(message, "data", message)
        if isinstance(data, dict) and data.get("rule") in RULES:
            self._picked(data["rule"])
