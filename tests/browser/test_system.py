"""The system panel and saved timings in Chromium on one page, with GPUs from a simulated NVML."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from app.readout import readout_html
from tests.browser.lab_page import LabPage
from tests.browser.serving import serve, slack

pytestmark = pytest.mark.extended

FIGURE = "dt:text-is('{name}') + dd"
TRAFFIC = """() => {
  window.late = [];
  let last = performance.now();
  const source = Bokeh.documents[0].get_model_by_name('frames');
  source.properties.data.change.connect(() => {
    const now = performance.now();
    window.late.push(now - last);
    last = now;
  });
}"""

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
    lab.page.evaluate(TRAFFIC)
    lab.until(lambda: len(lines(lab, "GPU 0")) > before + 3)
    lab.until(lambda: lab.step() > step)
    # ms between two frames; a panel that blocks frames does so each second, a stall of the machine occurs once
    third = "window.late.sort((a, b) => b - a)[2] ?? 0"
    assert lab.page.evaluate(third) < 1500 * slack()
    assert figure(lab, "CPU", "Memory").endswith("GiB")


def test_a_lost_gpu_is_reported_and_the_rest_continues(lab, lost):
    lost.touch()
    lab.page.get_by_text("NVML", exact=False).filter(has_text="GPU is lost").wait_for()
    block(lab, "GPU 0").wait_for(state="detached")
    before = lines(lab, "CPU")
    lab.until(lambda: lines(lab, "CPU") not in ([], before))
    lost.unlink()
    block(lab, "GPU 0").wait_for()


@pytest.mark.parametrize("size", [(1280, 720), (1400, 900)])
def test_the_card_stays_inside_the_window(lab, size):
    lab.page.set_viewport_size({"width": size[0], "height": size[1]})

    def inside():
        box = lab.page.locator(".system").bounding_box()  # None while the panel is rewritten
        top, bottom = lab.page.evaluate(CARD)
        across = box and 0 <= box["x"] <= box["x"] + box["width"] <= size[0]
        return across and 0 < top < bottom <= size[1] - 40  # the status bar stays visible

    lab.until(inside)
    header = lab.page.get_by_role("button", name=": use, memory and temperature (U)").bounding_box()
    tabs = lab.page.get_by_role("tab").last.bounding_box()
    assert tabs["x"] + tabs["width"] < header["x"]


def test_a_key_and_the_close_button_close_the_card(lab):
    lab.key("u")
    block(lab, "CPU").wait_for(state="hidden")
    lab.key("u")
    block(lab, "CPU").wait_for()
    lab.page.get_by_role("button", name="Close (U)").click()
    block(lab, "CPU").wait_for(state="hidden")


def saved(lab, label):
    button = lab.page.get_by_text(label, exact=True)
    button.evaluate("(node) => node.scrollIntoView({ block: 'center' })")  # the status bar may cover it
    with lab.page.expect_download() as download:
        button.click()
    return download.value.suggested_filename, download.value.path().read_text()


def words(lab):
    return " ".join(lab.page.locator(".readout").all_inner_texts()).replace("\N{NO-BREAK SPACE}", " ")


def duration(seconds):
    return readout_html.duration(float(seconds)).replace("&nbsp;", " ")


def test_the_displayed_timings_can_be_saved(lab):
    """From the export card, also in a low window."""
    lab.page.set_viewport_size({"width": 1400, "height": 600})
    lab.unfold()
    lab.until(lambda: "NumPy" in words(lab) and "a step" in words(lab))
    lab.key("e")
    lab.page.get_by_role("button", name="Timings", exact=True).first.click()

    def as_shown():
        """Return whether the file agrees with the readout, which is rewritten each second, perhaps in between."""
        before = words(lab)
        name, text = saved(lab, "CSV")
        assert re.fullmatch(r"fieldlab-diffusion-\d{8}T\d{6}\.csv", name)
        *ways, live = csv.DictReader(io.StringIO(text))
        assert ways
        expected = [f"compute {duration(live['compute_per_frame_s'])}"]
        expected += [f"{duration(row['median_s_per_step'])} a step" for row in ways] + [f"n {row['n']}" for row in ways]
        return any(all(number in shown for number in expected) for shown in (before, words(lab)))

    lab.until(as_shown)
    files = {}
    for label, ending, holds in (
        ("JSON", ".json", "results"), ("pyperf", ".pyperf.json", "benchmarks"), ("Trace", ".trace.json", "traceEvents"),
    ):  # fmt: skip
        name, text = saved(lab, label)
        assert name.endswith(ending)
        files[label] = json.loads(text)[holds]
    assert files["Trace"]
    for result in files["JSON"]:
        assert sum(not sample["first_call"] for sample in result["samples"]) == result["n"]
    for benchmark in files["pyperf"]:
        assert len(benchmark["runs"][0]["values"]) > 0
