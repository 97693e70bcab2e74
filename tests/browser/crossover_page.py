"""Page object of the crossover lab: reads its marks, texts and views, and writes a planted record."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.lab_page import OPENING, SideBar
from tests.browser.serving import Server

MODEL = "const model = (name) => Bokeh.documents[0]?.get_model_by_name(name);"
DOTS = f"""() => {{ {MODEL}
  const {{x, y, key, fill, hue}} = model('crossover dots').data;
  return Array.from(x).map((n, i) => ({{n, seconds: y[i], key: key[i], full: fill[i] == hue[i]}}));
}}"""
PLACE = f"""(i) => {{ {MODEL}
  const view = Bokeh.index.find_one(model('crossover plot')), {{x, y}} = model('crossover dots').data;
  const box = view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(x[i]), box.y + view.frame.y_scale.compute(y[i])];
}}"""

SIGNS = {  # selectors that match in one view only
    "Crossover": ".says, .taught",
    "Programs": ".program pre",
    "Traps": ".program.wrong",
    "Claims checked": ".held article",
}
ROOFLINE = f"""() => {{ {MODEL}
  const plot = Bokeh.index.find_one(model('roofline plot'))?.el;
  return !!plot?.checkVisibility({{visibilityProperty: true}}) && plot.getBoundingClientRect().width > 50; }}"""


def plant(folder: Path, way: str, seconds: Mapping[int, float], workload: str = "add_one") -> None:
    """Write a record of one way into `folder`; seconds: time per call, by n."""
    backend = way
    results = [
        {"backend": backend, "variant": "", "status": "measured", "device": "cuda:0", "workload": workload, "way": way,
         "size": n, "dtype": "float64", "settings": "", "evict": False, "noisy": False, "median": t, "q1": 0.98 * t,
         "q3": 1.03 * t, "n": 31, "things_per_second": n / t, "bytes_per_second": None, "percent_of_copy": None}
        for n, t in seconds.items()
    ]  # fmt: skip
    rate = {"unit": "Gthing/s", "work": "things", "step": "call", "roof": "copy", "counted": "bytes"}
    record = {
        "schema": "fieldlab-timings/2", "lab": "crossover", "date": "2026-11-20T10:00:00+00:00", "command": "planted",
        "commit": None, "machine": {"cpu": "a CPU", "gpus": [{"name": "NVIDIA H200"}]}, "versions": {},
        "parameters": {}, "copy_bandwidth": {}, "rate": rate, "results": results,
    }  # fmt: skip
    (folder / "planted-crossover.json").write_text(json.dumps(record), encoding="utf-8")


class CrossoverPage(SideBar):
    """Opens the app in `page` and shows the crossover lab."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        page.goto(server.url)
        page.get_by_role("tab", name="Crossover").click()
        page.locator(".sentence").wait_for(timeout=1000 * OPENING)
        self.until(lambda: "Not run yet" in self.status())
        self.until(lambda: page.evaluate(f"() => {{ {MODEL} return model('crossover plot')?.inner_width > 50; }}"))

    def says(self) -> str:
        """Return the sentence above the plot and the text below it on one line."""
        return " ".join((self.page.locator(".sentence").first.text_content() or "").replace("\u202f", " ").split())

    def dots(self, full: bool | None = None) -> list[dict[str, Any]]:
        """Return the marks as dicts of n, seconds, key and full; full: only filled (True) or hollow ones (False)."""
        found = self.page.evaluate(DOTS)
        return [dot for dot in found if full is None or dot["full"] == full]

    def tap(self, key: str) -> None:
        """Click the mark of line `key` that is farthest from other lines' marks, which could cover it."""
        keys = [dot["key"] for dot in self.dots()]
        places = [self.page.evaluate(PLACE, i) for i in range(len(keys))]
        others = [place for place, other in zip(places, keys, strict=True) if other != key]
        mine = [place for place, other in zip(places, keys, strict=True) if other == key]
        self.page.mouse.click(*max(mine, key=lambda place: min(math.dist(place, other) for other in others)))

    def turn(self, view: str) -> None:
        """Press the button of a view."""
        self.page.get_by_role("button", name=view, exact=True).click()

    def shows(self, view: str) -> None:
        """Wait until a view is visible: its button changes before the server responds."""
        if view == "Roofline":
            self.until(lambda: self.page.evaluate(ROOFLINE))
        else:
            self.page.locator(SIGNS[view]).filter(visible=True).first.wait_for()
