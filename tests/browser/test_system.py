"""The system panel and saved timings in Chromium on one page, with GPUs from a simulated NVML."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from tests.browser.lab_page import LabPage
from tests.browser.serving import serve

pytestmark = pytest.mark.extended

FIGURE = "dt:text-is('{name}') + dd"
CARD = """() => {  // the one thing on the page that lies that high
  const boxes = [], walk = (node) => {
    if (node.shadowRoot) walk(node.shadowRoot);
    for (const child of node.children || []) {
      if (getComputedStyle(child).zIndex == '1240') boxes.push(child.getBoundingClientRect());
      walk(child);
    }
  };
  walk(document.body);
  return [boxes[0].top, boxes[0].bottom];
}"""


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Return the path of a file; while it exists, NVML reports the GPUs as lost."""
    return tmp_path_factory.mktemp("system") / "lost"


@pytest.fixture(scope="module")
def lab(lasting, lost):
    setup = "tests/browser/system_setup.py"
    with serve(lost.parent, ("--setup", setup), {"LOST_GPU": str(lost)}) as server:
        yield LabPage(lasting(), server)
        lasting.close()


@pytest.fixture(autouse=True)
def no_errors(lasting):
    yield
    lasting.complain([])


def block(lab, title):
    return lab.page.locator(f".system section[aria-label='{title}']")


def figure(lab, title, name):
    return block(lab, title).locator(FIGURE.format(name=name)).inner_text()


def lines(lab, title):
    """Return the points of the utilization history."""
    return block(lab, title).locator("polyline").first.get_attribute("points").split()


def test_the_header_names_the_devices_and_opens_the_card(lab):
    lab.page.get_by_text(re.compile(r"CPU \d+ threads? · GPU H200 \+ A40")).click()
    block(lab, "GPU 1").wait_for()
    lab.until(lambda: figure(lab, "GPU 0", "Clock") == "1755 of 1980 MHz")
    lab.until(lambda: figure(lab, "GPU 0", "Temperature") == "n/a")
    lab.until(lambda: figure(lab, "GPU 1", "Memory") == "3.0 of 140 GiB")
    lab.until(lambda: "Clock held down by the power cap." in block(lab, "GPU 0").inner_text())
    assert re.fullmatch(r"\d+ %", lab.until(lambda: figure(lab, "CPU", "Use").replace("n/a", "")))
    assert "NVIDIA A40" in block(lab, "GPU 1").inner_text()


def test_the_card_is_updated_while_the_lab_streams(lab):
    before, step = len(lines(lab, "GPU 0")), lab.step()
    lab.until(lambda: len(lines(lab, "GPU 0")) > before + 3)
    lab.until(lambda: lab.step() > step)


def test_a_lost_gpu_is_reported_and_the_rest_continues(lab, lost):
    lost.touch()
    lab.page.get_by_text("NVML", exact=False).filter(has_text="GPU is lost").wait_for()
    block(lab, "GPU 0").wait_for(state="detached")
    before = lines(lab, "CPU")
    lab.until(lambda: lines(lab, "CPU") not in ([], before))
    lost.unlink()
    block(lab, "GPU 0").wait_for()


def test_the_card_stays_inside_the_window_and_is_closed_by_its_button(lab):
    size = lab.page.viewport_size

    def inside():
        box = lab.page.locator(".system").bounding_box()  # None while the panel is rewritten
        top, bottom = lab.page.evaluate(CARD)
        across = box and 0 <= box["x"] <= box["x"] + box["width"] <= size["width"]
        return across and 0 < top < bottom <= size["height"] - 40  # the status bar stays visible

    lab.until(inside)
    lab.page.get_by_role("button", name="Close (U)").click()
    block(lab, "CPU").wait_for(state="hidden")


def saved(lab, label):
    button = lab.page.get_by_text(label, exact=True)
    button.evaluate("(node) => node.scrollIntoView({ block: 'center' })")  # the status bar may cover it
    with lab.page.expect_download() as download:
        button.click()
    return download.value.suggested_filename, download.value.path().read_text()


def test_the_displayed_timings_can_be_saved(lab):
    """From the export card, also in a low window."""
    lab.page.set_viewport_size({"width": 1400, "height": 600})
    lab.until(lambda: not lab.page.get_by_text("Measuring").count())
    lab.key("e")
    lab.page.get_by_role("button", name="Timings", exact=True).first.click()
    name, text = saved(lab, "CSV")
    assert re.fullmatch(r"fieldlab-diffusion-\d{8}T\d{6}\.csv", name)
    assert next(csv.DictReader(io.StringIO(text)))["median_s_per_step"]
    for label, ending, holds in (
        ("JSON", ".json", "results"), ("pyperf", ".pyperf.json", "benchmarks"), ("Trace", ".trace.json", "traceEvents"),
    ):  # fmt: skip
        name, text = saved(lab, label)
        assert name.endswith(ending)
        assert json.loads(text)[holds]
