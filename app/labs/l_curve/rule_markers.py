"""Display of the rules: numbered badges next to the curve, and a list of buttons to its right.

`badge_places` returns places of the badges in px at which they cover neither each other nor the curve; `RuleList`
selects a rule's λ by a click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, sqrt
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray
from panel.custom import JSComponent

from app.labs.l_curve.labels import RULE_HUES, RULE_NAMES, RULE_NUMBERS, LambdaNotation, short, short_reason
from app.tab.curve_plots import separate_labels
from app.tab.plots import Position
from compute.labs.l_curve.rules import RULES

AWAY = 1.2  # distance of a badge's centre from the curve, in badge sizes
SAMPLES = 9  # positions across a badge at which the curve is sampled


def badge_places(points: Sequence[Position], curve: NDArray[np.float64], size: float) -> list[Position]:
    """Return a position for a badge of `size` px for each of `points`, all in px with y upwards.

    curve: float64 (n, 2), the curve through the points. The area above and to the right of an L-curve is free: badges
    are placed there, separated along the other diagonal and outside the curve within their width. They are placed below
    a curve that bends the other way.
    """
    along, out = _along_and_out(curve)
    even = np.interp(np.linspace(along[0], along[-1], SAMPLES), along, out)  # points cluster at the ends
    if even.mean() > (out[0] + out[-1]) / 2:
        return [(-x, -y) for x, y in _beyond_curve([(-x, -y) for x, y in points], -curve, size)]
    return _beyond_curve(points, curve, size)


def _along_and_out(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a curve (n, 2) as (2, n): coordinates along one diagonal, ascending, and along the other."""
    turned = np.stack([curve[:, 0] - curve[:, 1], curve[:, 0] + curve[:, 1]]) / sqrt(2.0)
    return turned[:, np.argsort(turned[0])]


def _beyond_curve(points: Sequence[Position], curve: NDArray[np.float64], size: float) -> list[Position]:
    root = sqrt(2.0)
    along = [(x - y) / root for x, y in points]
    order = sorted(range(len(points)), key=along.__getitem__)
    apart = dict(zip(order, separate_labels([along[i] for i in order], size), strict=True))
    path = _along_and_out(curve)
    places = []
    for i, _ in enumerate(points):
        around = np.linspace(apart[i] - size / 2, apart[i] + size / 2, SAMPLES)
        out = float(np.interp(around, *path).max()) + AWAY * size
        places.append(((out + apart[i]) / root, (out - apart[i]) / root))
    return places


def _hue_style() -> str:
    """Return CSS that sets every rule's hue as a variable, in the light and in the dark scheme."""
    light = "".join(f".r{i} {{ --hue: {colour}; }}\n" for i, colour in enumerate(RULE_HUES[False]))
    dark = (
        f":host-context([data-scheme=dark]) .r{i} {{ --hue: {colour}; }}\n" for i, colour in enumerate(RULE_HUES[True])
    )
    return light + "".join(dark)


STYLE = """
:host { min-width: 0; overflow: hidden; }
.rule-list { width: 100% !important; height: 100% !important; }  /* it would stay as large as at first */
ul { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; height: 100%; gap: 2px;
  font-size: var(--small, 14px); overflow-y: auto; }
ul.more { mask-image: linear-gradient(black calc(100% - 48px), transparent); }   /* it goes on below */
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
    """The rules as a list of buttons: number, name, λ or why it is missing. picked(rule) is called for a click."""

    items = param.List(default=[], item_type=dict, doc="rule, number, name, value, why, title, pressed of each.")
    symbol = param.String(default="λ", doc="What the values are.")

    _stylesheets: ClassVar[list[str]] = [STYLE + _hue_style()]
    _esm = """
    export function render({ model, el }) {
      const list = document.createElement('ul');
      const part = (kind, words) => {
        const made = document.createElement('span');
        made.className = kind;
        made.textContent = words;
        return made;
      };
      const mark = () => list.classList.toggle('more', list.scrollHeight - list.scrollTop - list.clientHeight > 4);
      const sizes = new ResizeObserver(mark);
      sizes.observe(list);
      list.addEventListener('scroll', mark);
      model.on('remove', () => sizes.disconnect());
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
        mark();
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

    def show(self, facts: Mapping[str, float], notes: Mapping[str, str], chosen: str, notation: LambdaNotation) -> None:
        """Show the rules of a frame; `chosen` is the rule of the visible solution, "" for none."""
        items = []
        for rule in RULES:
            lam, reason = facts.get(rule, float("nan")), notes.get(rule, "")
            known = isfinite(lam)
            items.append(
                {
                    "rule": rule,
                    "number": RULE_NUMBERS[rule],
                    "name": RULE_NAMES[rule],
                    "value": short(notation.of(lam)) if known else "",
                    "why": "" if known else short_reason(reason),
                    "title": f"{RULES[rule].title}{': ' if reason else ''}{reason}",
                    "pressed": rule == chosen,
                }
            )
        if items != self.items or notation.label != self.symbol:
            self.param.update(items=items, symbol=notation.label)

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict) and data.get("rule") in RULES:
            self._picked(data["rule"])
