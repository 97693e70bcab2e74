"""The notebook canvas of a lab in Chromium, without a notebook: its pixels, and its messages to the lab."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

import compute
from compute.display.palettes import table
from compute.lab.notebook import NotebookStream
from compute.labs.diffusion import Diffusion

CODE = (Path(compute.__file__).parent / "lab" / "notebook.js").read_text(encoding="utf-8")
# The part of a notebook that the canvas needs: `out` collects its messages, `say` sends it a message with bytes.
NOTEBOOK = """async (code) => {
  const { default: { render } } = await import(`data:text/javascript;base64,${code}`);
  const heard = [];
  window.out = [];
  const on = (name, listener) => heard.push(listener), send = (message) => window.out.push(message);
  window.say = ([message, bytes]) => {
    const buffers = [new DataView(new Uint8Array(bytes).buffer)];
    for (const listener of heard) listener(message, buffers);
  };
  const get = (name) => ({ mark: 'fieldlab-0', still: window.still })[name];
  window.end = render({ model: { get, on, send, off: () => {} }, el: document.body });
}"""
PIXEL = "([x, y]) => Array.from(document.querySelector('canvas').getContext('2d').getImageData(x, y, 1, 1).data)"


@pytest.fixture
def lab():
    """Yield a lab with a field of 6 × 8 cells, one of them hot."""
    lab = Diffusion(backend="cpu_numpy", ny=6, nx=8)
    field = np.zeros((6, 8), np.float32)
    field[1, 3] = 1.0
    lab.load(field)
    yield lab
    lab.close()


def test_without_a_kernel_the_canvas_shows_the_saved_picture(page, lab):
    saved = f"data:image/png;base64,{base64.b64encode(lab._repr_png_()).decode()}"
    page.set_content(f'<html><body><img class="fieldlab-0" src="{saved}"></body></html>')
    page.evaluate("(url) => { window.still = url; }", saved)
    page.evaluate(NOTEBOOK, base64.b64encode(CODE.encode()).decode())
    page.wait_for_function("document.querySelector('canvas').width == 640")
    assert page.evaluate(PIXEL, [1, 1]) == [255, 255, 255, 255]  # the margin of the drawing
    assert page.get_by_role("button").count() == 3
    assert all(button.is_disabled() for button in page.get_by_role("button").all())
    assert not page.locator("img").is_visible()
    page.evaluate("window.end()")
    assert page.locator("img").is_visible()


def carry(page, stream, sent) -> None:
    """Deliver the messages of both sides until no message to the browser is left."""
    for message in page.evaluate("window.out.splice(0)"):
        stream.hear(message)
    while sent:
        message, buffers = sent.pop(0)
        page.evaluate("window.say", [message, list(buffers[0])])


def test_a_canvas_paints_the_field_with_the_lowest_row_at_the_bottom_and_plays(page, lab):
    page.set_content("<html><body></body></html>")
    page.evaluate(NOTEBOOK, base64.b64encode(CODE.encode()).decode())
    sent: list = []
    stream = NotebookStream(lab, lambda message, buffers: sent.append((message, buffers)))
    carry(page, stream, sent)  # the canvas reports that it is ready and receives colours and the first frame
    page.wait_for_function("window.out.length > 0")
    colours = table("Viridis")
    assert page.evaluate(PIXEL, [3, 4]) == [*colours[254], 255]  # row 1 of 6, from the bottom
    assert page.evaluate(PIXEL, [3, 1]) == [*colours[0], 255]
    assert "a picture of 8 × 6 pixels" in page.get_by_role("img").get_attribute("aria-label")
    carry(page, stream, sent)

    page.get_by_role("button", name="Run").click()
    carry(page, stream, sent)
    for _ in range(3):
        page.wait_for_function("window.out.length > 0")
        carry(page, stream, sent)
    assert lab.steps >= 3
    page.get_by_role("button", name="Pause").click()
    page.wait_for_function("window.out.some((message) => message.do == 'pause')")
    carry(page, stream, sent)
    assert not stream.playing
    page.get_by_role("button", name="Run").wait_for()
    page.get_by_role("button", name="Reset").click()
    carry(page, stream, sent)
    page.get_by_text("step 0", exact=True).wait_for()
    assert lab.steps == 0
