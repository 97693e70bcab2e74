"""The code panel: its key, the source file, two files side by side, and the assembly with its vector instructions."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from compute.labs.diffusion import gpu_cupy
from compute.own import code_view

pytestmark = pytest.mark.extended

COMPILED = 300_000  # ms: a low-priority process imports, runs a lab and compiles; its limit is 240 s


@pytest.fixture
def lab(resting):
    return resting


def programs(lab):
    return lab.page.locator(".code article")


def test_two_files_are_shown_side_by_side(lab):
    lab.page.keyboard.press("k")
    lab.choose("Program", "CUDA C: gpu_cupy.cu")
    lab.choose("Compare with", "CUDA C: gpu_cupy.py")
    expect(programs(lab)).to_have_count(2)
    expect(lab.page.locator(".code .named").first).to_be_visible()
    rows = programs(lab).first.locator(".row:not(.gap)").all_text_contents()
    assert [row.rstrip("\n") for row in rows] == gpu_cupy.SOURCE.read_text(encoding="utf-8").split("\n")

    def aligned():
        tops = [article.locator(".row.named").first.bounding_box()["y"] for article in programs(lab).all()]
        return abs(tops[0] - tops[1]) < 1  # the same part starts at the same height

    lab.until(aligned)
    lab.choose("Compare with", "none")
    expect(programs(lab)).to_have_count(1)
    lab.page.keyboard.press("k")


def test_assembly_and_its_vectors_are_shown(lab):
    lab.page.keyboard.press("k")
    lab.choose("Program", "Numba: cpu_numba.py")
    lab.page.get_by_role("button", name="Machine code", exact=True).click()
    expect(programs(lab).locator("h4").first).to_contain_text("array(float", timeout=COMPILED)
    expect(programs(lab)).to_contain_text(re.compile(r"Vectors of \d+ bits|No vectors"))
    lab.page.get_by_role("button", name="Source", exact=True).click()
    lab.page.keyboard.press("k")


def test_a_missing_package_is_reported_with_its_install_command(lab):
    lab.page.keyboard.press("k")
    lab.choose("Program", "CUDA C: gpu_cupy.cu")
    lab.page.get_by_role("button", name="Machine code", exact=True).click()
    if code_view.missing():
        expect(programs(lab)).to_contain_text("pip install 'fieldlab[code]'")
    else:
        expect(programs(lab).locator(".row.line").first).to_contain_text("gpu_cupy.cu", timeout=COMPILED)
    lab.page.get_by_role("button", name="Source", exact=True).click()
    lab.page.keyboard.press("k")
