"""List of a workload's ways: mark, label, state, checkbox.

A way that cannot run here is grey, with the reason. The description of a way, or the reason for a missing time, is
shown on hover and focus and read by screen readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.labs.crossover.labels import duration, way_styles
from app.page.explain import WORDS
from compute.labs.crossover.picture import ShownWay
from compute.ways.workload import Way

TONES = {"disagrees": "bad", "failed": "bad", "noisy": "noisy"}
STYLE = """
:host { min-width: 0; }
ul { list-style: none; margin: 0; padding: 0; font-size: var(--small, 14px); }
label { display: flex; gap: 8px; align-items: center; padding: 4px 8px; border-radius: 6px; cursor: pointer;
  color: var(--ink); line-height: 1.25; }
label:hover { background: var(--ground); }
input { width: 16px; height: 16px; margin: 0; accent-color: var(--accent); flex: none; }
input:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.sign { width: 16px; text-align: center; color: var(--hue); flex: none; }
.cpu { --hue: var(--cpu); }
.gpu { --hue: var(--gpu); }
.name { flex: 1 1 auto; }
.state { color: var(--muted); text-align: right; }
.state.bad { color: var(--bad); font-weight: 700; }
.state.noisy { color: var(--warn); font-weight: 700; }
.off label { color: var(--muted); cursor: default; background: none; }
.off .sign { color: var(--muted); }
.why { color: var(--muted); padding: 0 8px 8px 32px; line-height: 1.35; }
.why summary { cursor: pointer; }
.why summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.why code { display: block; margin-top: 2px; padding: 4px 8px; background: var(--ground); border-radius: 4px;
  overflow-wrap: anywhere; font-size: var(--small, 14px); color: var(--ink); user-select: all; }
"""


class WayList(JSComponent):
    """Shows `items`; switched(way, on) is called when a checkbox changes."""

    items = param.List(
        default=[], item_type=dict, doc="way, name, sign, kind, on, off, state, tone, title, why, install of each."
    )

    _stylesheets: ClassVar[list[str]] = [STYLE]
    _esm = """
    export function render({ model, el }) {
      const list = document.createElement('ul');
      const part = (kind, words, tag = 'span') => {
        const made = document.createElement(tag);
        made.className = kind;
        made.textContent = words;
        return made;
      };
      const entries = new Map();
      const entry = (way) => {
        const item = document.createElement('li'), label = document.createElement('label');
        const box = document.createElement('input'), said = part('why', '', 'details');
        box.type = 'checkbox';
        box.addEventListener('change', () => model.send_msg({ way, on: box.checked }));
        item.append(label, said);
        entries.set(way, { item, label, box, said });
        return entries.get(way);
      };
      const draw = () => {
        const shown = model.items.map((each) => {
          const { item, label, box, said } = entries.get(each.way) ?? entry(each.way);
          item.className = `${each.kind} ${each.off ? 'off' : ''}`;
          box.checked = each.on;
          box.disabled = each.off;
          label.dataset.term = each.way;
          label.dataset.about = each.title;
          box.setAttribute('aria-description', each.title);
          label.replaceChildren(box, part('sign', each.sign), part('name', each.name),
            part(`state ${each.tone}`, each.state));
          said.hidden = !each.why;
          if (said.dataset.why !== each.why) {
            said.dataset.why = each.why;
            const reason = part('', each.why, 'div');
            if (each.install) reason.append(part('', each.install, 'code'));
            reason.hidden = !said.open;
            said.ontoggle = () => { reason.hidden = !said.open; };
            said.replaceChildren(part('', 'not available here', 'summary'), reason);
          }
          return item;
        });
        if (shown.length != list.children.length || shown.some((item, i) => item != list.children[i]))
          list.replaceChildren(...shown);
      };
      model.on('items', draw);
      draw();
      return list;
    }
    """

    def __init__(self, switched: Callable[[str, bool], object], **params: Any) -> None:
        super().__init__(**params)
        self._switched = switched

    def show(self, items: list[dict[str, Any]]) -> None:
        """Update the list if it has changed."""
        if items != self.items:
            self.items = items

    def redraw(self) -> None:
        """Reset the checkboxes to `items`, undoing clicks that were rejected."""
        self.param.trigger("items")

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict) and any(item["way"] == data.get("way") for item in self.items):
            self._switched(data["way"], bool(data.get("on")))


def list_items(
    ways: Sequence[Way], chosen: Sequence[str], states: dict[str, tuple[str, str, str]]
) -> list[dict[str, Any]]:
    """Return the items of a list. chosen: names of drawn ways; states: (words, tone, reason) by way.

    The reason for a missing library appears once, below its last way; a command that installs several also once.
    """
    signs = way_styles(ways)
    helps = {way.backend.install: way.backend for way in ways if way.missing}
    items = []
    for way, following in zip(ways, [*ways[1:], None], strict=True):
        missing = way.missing or ""
        last = following is None or following.backend != way.backend
        words, tone, reason = states.get(way.name, ("if ticked", "", "") if way.exhibit else ("", "", ""))
        about = (reason or way.exhibit or way.summary).removesuffix(".")
        items.append(
            {
                "way": way.name,
                "name": way.label,
                "sign": signs[way.name].sign,
                "kind": signs[way.name].kind,
                "on": way.name in chosen and not missing,
                "off": bool(missing),
                "state": "" if missing else words,
                "tone": tone,
                "title": missing or ". ".join(filter(None, (about, WORDS.get(tone, "")))),
                "why": missing if last else "",
                "install": way.backend.install if last and helps.get(way.backend.install) == way.backend else "",
            }
        )
    return items


def state(line: ShownWay) -> tuple[str, str, str]:
    """Return (text, tone, reason) of a way's current state."""
    timed = [spot for spot in line.points if spot.step is not None]
    noisy = any(spot.noisy for spot in timed)
    words = duration(timed[-1].step.median) if timed and timed[-1].step else line.status
    status = "noisy" if noisy else line.status
    shown = f"{words} noisy" if noisy else words
    return ("" if shown in ("waiting", "missing") else shown), TONES.get(status, ""), line.reason
