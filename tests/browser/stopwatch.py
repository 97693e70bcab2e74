"""Measure a new visitor's waiting times: `python -m tests.browser.stopwatch PART…` on a quiet machine.

The script starts a server and a Chromium like the browser tests. Parts: `open-LAB` opens the page with that lab COUNT
times and measures the time to its first picture and first headline number; `tabs` switches between labs; `wheel` zooms
the Mandelbrot lab until the first picture of the new view is painted; `slider` moves λ in the L-curve lab until another
solution is painted. Printed are median and quartiles next to the goal; the exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from compute.export.link import NAME, packed
from compute.export.scene import Scene
from compute.measure.statistics import Spread
from tests.browser.chromium import ADVICE, find
from tests.browser.curve_page import WATCH, CurvePage
from tests.browser.serving import Server, serve
from tests.browser.set_page import SetPage

COUNT = 20
FIELD, HEADLINE, TAB, WHEEL, SLIDER = 3.0, 5.0, 0.7, 0.1, 0.1  # goals in s
LABS = {"diffusion": "Diffusion", "mandelbrot": "Mandelbrot", "l_curve": "L-curve", "crossover": "Crossover"}
MODEL = "Bokeh.documents[0]?.get_model_by_name"
SHOWN = {  # true in the browser once a lab has data to show; for the crossover, recorded lines
    "diffusion": f"{MODEL}('frames')?.data?.number?.[0] > 0",
    "mandelbrot": f"{MODEL}('mandelbrot frames')?.data?.number?.[0] > 0",
    "l_curve": f"{MODEL}('l-curve')?.data?.x?.length > 1",
    "crossover": f"{MODEL}('crossover lines')?.data?.xs?.length > 0",
}
# Whether the plot of the source with this name, rebuilt when its tab is shown again, is drawn.
DRAWN = f"""(name) => {{
  const source = {MODEL}(name), shows = (part) => part.data_source && part.data_source == source;
  const view = source && [...Bokeh.index.query((one) => one.model.renderers?.some?.(shows))][0];
  return Boolean(view?.el.checkVisibility() && view.frame.bbox.width > 0 && view.has_finished());
}}"""
SOURCES = {"diffusion": "frames", "mandelbrot": "mandelbrot frames", "l_curve": "l-curve"}  # of the first plots
PARTS = (*(f"open-{lab}" for lab in LABS), "tabs", "wheel", "slider")
REST = 400  # ms between two actions


@contextmanager
def pages() -> Iterator[tuple[Browser, Server]]:
    """Yield a Chromium and a server that accepts connections."""
    path = find()
    if path is None:
        raise SystemExit(ADVICE)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(Path(folder)) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"]) as browser,
    ):
        yield browser, server


def new_page(browser: Browser) -> Page:
    """Open a laptop-sized tab in a new context, with an empty cache."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.set_default_timeout(120_000)
    return page


def opening(browser: Browser, server: Server, lab: str, count: int) -> dict[str, list[float]]:
    """Return the seconds from the start of navigation to the first picture and to the headline's first number."""
    address = server.url if lab == "diffusion" else f"{server.url}?{NAME}={packed(Scene(lab, {}))}"
    fields, headlines = [], []
    for number in range(count + 1):  # the first round warms the server up and is not counted
        page = new_page(browser)
        began = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.wait_for_function(f"window.Bokeh && {SHOWN[lab]}", polling=20)
        field = time.perf_counter() - began
        page.locator(".readout .headline b", has_text=re.compile(r"\d")).first.wait_for()
        headline = time.perf_counter() - began
        if number:
            fields.append(field)
            headlines.append(headline)
        page.close()
        time.sleep(0.3)
    return {f"{lab}: first picture": fields, f"{lab}: headline": headlines}


def tabs(browser: Browser, server: Server, count: int) -> dict[str, list[float]]:
    """Return the seconds from a click on a lab's tab until the lab is drawn; each lab was shown twice before."""
    page = new_page(browser)
    page.goto(server.url)
    page.wait_for_function(f"window.Bokeh && {SHOWN['diffusion']}")
    found = []
    order = ["mandelbrot", "l_curve", "diffusion"]
    for number in range(count + 2 * len(order)):
        lab = order[number % len(order)]
        began = time.perf_counter()
        page.get_by_role("tab", name=LABS[lab]).click()
        page.wait_for_function(DRAWN, arg=SOURCES[lab], polling=10)
        if number >= 2 * len(order):
            found.append(time.perf_counter() - began)
        page.wait_for_timeout(3 * REST)
    page.close()
    return {"tab switch": found}


def wheel(browser: Browser, server: Server, count: int) -> dict[str, list[float]]:
    """Return the seconds from a turn of the wheel until the first frame of the new view is painted."""
    page = new_page(browser)
    lab = SetPage(page, server)
    lab.listen()
    found = []
    page.mouse.move(*lab.at(0.35, 0.5))
    page.evaluate("document.addEventListener('wheel', () => { window.turned = performance.now(); }, true)")
    for number in range(count):
        lab.until(lambda: "Complete" in lab.status())
        page.wait_for_timeout(REST)
        page.evaluate("window.frames_seen.length = 0")
        page.mouse.wheel(0, -120 if number % 2 == 0 else 120)
        lab.until(lambda: page.evaluate("window.frames_seen.length > 0"))
        found.append(page.evaluate("(window.frames_seen[0].at - window.turned) / 1000"))
    page.close()
    return {"wheel": found}


def slider(browser: Browser, server: Server, count: int) -> dict[str, list[float]]:
    """Return the seconds from a key press on the λ slider until another solution is painted."""
    page = new_page(browser)
    lab = CurvePage(page, server)
    if not page.get_by_label("λ chosen by").count():
        page.get_by_role("button", name="Choice of λ").click()
    page.evaluate(WATCH)
    page.evaluate("document.addEventListener('keydown', () => { window.began = performance.now(); }, true)")
    handle = page.get_by_role("slider", name=re.compile("^λ")).first
    handle.focus()
    found = []
    for number in range(count):
        page.wait_for_timeout(REST)
        page.evaluate("window.painted = []")
        page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight")
        lab.until(lambda: page.evaluate("window.painted.length > 0"))
        found.append(page.evaluate("window.painted[0] / 1000"))
    page.close()
    return {"slider": found}


def goal(name: str) -> float:
    """Return the goal for the median of `name` in seconds."""
    kinds = {"picture": FIELD, "headline": HEADLINE, "tab": TAB, "wheel": WHEEL, "slider": SLIDER}
    return next(limit for kind, limit in kinds.items() if kind in name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested measurements; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.stopwatch", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--count", type=int, default=COUNT)
    chosen = parser.parse_args(arguments)
    missed = 0
    with pages() as (browser, server):
        for part in chosen.parts or PARTS:
            kind, _, lab = part.partition("-")
            if kind == "open":
                found = opening(browser, server, lab, chosen.count)
            else:
                found = {"tabs": tabs, "wheel": wheel, "slider": slider}[kind](browser, server, chosen.count)
            for name, seconds in found.items():
                spread, limit = Spread.of(seconds), goal(name)
                missed += spread.median > limit
                sys.stdout.write(
                    f"{name}: {spread.median:.3f} s ({spread.q1:.3f} … {spread.q3:.3f}, n = {spread.n}), "
                    f"goal {limit:g} s{' MISSED' * (spread.median > limit)}\n"
                )
                sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
