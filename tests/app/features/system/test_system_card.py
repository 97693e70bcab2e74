"""The system card's texts and lines, and its requests to the server, without a browser."""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace

import pytest

from app.features.system.system_card import SystemCard, device_names, readings_html, sparkline
from compute.machine.system import CpuReading, GpuReading, GpuUser, Reading
from compute.measure.conditions import Sampler
from tests.waiting import until

CPU = CpuReading("CPU <b>", (10.0, 90.0), 3 * 2**30, 24 * 2**30, 1.25)
FULL = GpuReading(
    0, "NVIDIA H200", 87.0, 3 * 2**30, 140 * 2**30, 1.755e9, 1.98e9, 61.0, 512.5, 700.0, ("the power cap",), 1.0,
    (GpuUser(1, "p<i>", None), GpuUser(2, "python", 2**31, mine=True), GpuUser(3, "c"), GpuUser(4, "d")),
)  # fmt: skip


class Document:
    """Records its callbacks."""

    def __init__(self):
        self.periodic = []

    def add_periodic_callback(self, call, _period):
        self.periodic.append(call)
        return call

    def remove_periodic_callback(self, call):
        self.periodic.remove(call)

    def add_timeout_callback(self, call, _wait):
        return call


def test_every_figure_is_shown_with_its_unit_and_limit():
    html = readings_html([Reading(100.0, CPU, (FULL,))], 100.5)
    for words in ("87 %", "3.0 of 140 GiB", "1755 of 1980 MHz", "61 °C", "512 of 700 W", "50 %", "3.0 of 24 GiB"):
        assert f"<dd>{words}</dd>" in html
    assert "Clock held down by the power cap." in html
    assert "Processes: p&lt;i&gt; (pid 1), Fieldlab, 2.0 GiB, c (pid 3) and 1 more" in html
    assert "CPU &lt;b&gt;" in html
    assert "load 1.2" in html
    assert html.index("GPU 0") < html.index("CPU")
    cores = re.search("<div class='cores'[^>]*>", html)[0]  # can be reached by keyboard and screen reader
    assert "aria-label='Use of each thread in %, the first first: 10, 90.'" in cores
    assert "tabindex='0'" in cores
    assert "data-term=" in cores  # with which explain.js shows it


def test_what_is_not_known_is_not_available_and_never_zero():
    html = readings_html([Reading(100.0, CpuReading("CPU"), (GpuReading(0, "GPU"),))], 100.5)
    gpu, cpu = html.split("</section>")[:2]
    assert gpu.count("<dd class='quiet'>n/a</dd>") == 5  # use, memory, clock, temperature, power
    assert "Processes: n/a" in gpu
    assert cpu.count("<dd class='quiet'>n/a</dd>") == 3  # the memory of a CPU is always known
    assert not re.search(r"<dd[^>]*>0 (%|°C|MHz|W)", html)
    assert "<polyline" not in gpu


def test_a_history_is_a_line_for_each_stretch_of_readings():
    points = [(-59.0, 0.0), (-58.0, 0.5), (-57.0, None), (-20.0, 2.0), (-19.0, 1.0), (-80.0, 1.0)]
    lines = re.findall(r"<polyline points='([^']*)'", sparkline(points))
    assert [line.split() for line in lines] == [["2.0,21.0", "4.0,11.0"], ["80.0,1.0", "82.0,1.0"]]  # 120 px a minute


def test_an_old_reading_is_said_to_be_old():
    assert "No reading for 12 s" in readings_html([Reading(100.0, CPU)], 112.0)
    assert "No reading" not in readings_html([Reading(100.0, CPU)], 102.0)
    assert "Reading …" in readings_html([], 0.0)
    assert "GPU is &lt;lost&gt;" in readings_html([Reading(100.0, CPU, (), "GPU is <lost>")], 100.0)


def test_the_devices_fit_into_a_few_words():
    h200 = {"name": "NVIDIA H200"}
    assert device_names(None, 1) == "CPU 1 thread"
    assert device_names({"gpus": [h200]}, 16) == "CPU 16 threads · GPU H200"
    assert device_names({"gpus": [h200, {"name": "NVIDIA A40"}, h200]}, 2) == "CPU 2 threads · GPU 2 × H200 + A40"


def test_a_panel_looks_only_while_it_is_open_and_its_tab_is_there():
    document, source = Document(), Sampler(lambda: Reading(time.monotonic(), CPU), period=0.02)
    panel, other = (SystemCard(SimpleNamespace(document=each), source) for each in (document, Document()))
    assert not source.working
    panel.toggle()
    other.toggle()
    assert (panel.card.visible, source.working, len(document.periodic)) == (True, True, 1)
    panel.looked(False)
    other.ended()
    until(lambda: not source.working)
    panel.looked(True)
    assert source.working
    panel.toggle()
    assert (panel.card.visible, document.periodic) == (False, [])
    until(lambda: not source.working)
    panel.looked(True)  # its tab is shown again, but the card is closed
    assert not source.working


def test_a_driver_that_hangs_holds_up_no_page():
    go = threading.Event()
    source = Sampler(lambda: go.wait() and Reading(time.monotonic(), CPU), period=0.02)
    document = Document()
    panel = SystemCard(SimpleNamespace(document=document), source)
    panel.toggle()
    document.periodic[0]()
    panel.toggle()
    assert "Reading …" in panel.card[-1].object
    go.set()
    until(lambda: not source.working)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "system"])
