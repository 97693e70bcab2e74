"""The race card in Chromium without a server: its display of received content, and the messages that it sends."""

from __future__ import annotations

from typing import Any

import pytest

from app.features.race.race import STYLE, RaceCard
from app.page.explain import WORDS

# Draw the card; `update(content)` replaces its content, `sent` collects its messages.
DRAW = """async ([esm, style, content]) => {
  const script = await import(URL.createObjectURL(new Blob([esm], {type: 'text/javascript'})));
  const heard = [];
  window.sent = [];
  const model = {content, send_msg: (each) => sent.push(each),
    on: (name, call) => name == 'content' && heard.push(call)};
  window.update = (now) => { model.content = now; heard.forEach((call) => call()); };
  const host = document.createElement('div'), sheet = document.createElement('style');
  sheet.textContent = style;
  document.body.append(host);
  host.attachShadow({mode: 'open'}).append(sheet, script.render({model}));
  script.explainWords();
}"""
# Percent of the track that the first lane has covered.
WIDTH = "parseFloat(document.querySelector('div').shadowRoot.querySelector('.track i').style.width)"
PIXEL = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'/>"
REFUSED = "Another race cannot be run: t = 1000 needs <b>5 000</b> steps. This one stays."


def content(answer: int, **more: Any) -> dict[str, Any]:
    """Return the card's content for a race of NumPy and Numba over 100 steps; by default it is still being run."""
    lanes = [{"key": key, "words": key, "on": on, "recorded": False}
             for key, on in (("NumPy", True), ("Numba", True), ("one-step", False))]  # fmt: skip
    options = [{"value": value, "words": words, "on": not value} for value, words in ((0, "steps"), (20, "t = 20"))]
    setup = {"lanes": lanes, "fewest": 2, "most": 4, "finish": {"label": "Finish", "options": options}}
    choices = [{"words": f"{steps} steps", "message": {"steps": steps}, "on": steps == 100} for steps in (100, 1000)]
    shown = {"title": "Diffusion", "choices": choices, "setup": setup, "answer": answer, "refused": ""}
    return shown | {"part": 0.5, "doing": "leg 1 of 2"} | more


def over(answer: int, seconds: float = 30.0, **more: Any) -> dict[str, Any]:
    """Return the card's content after that race; seconds: time of the slower lane."""
    lanes = [{"name": name, "kind": "cpu", "recorded": False, "clock": [0.0, time], "place": place, "time": f"{time} s",
              "details": []} for name, time, place in (("NumPy", seconds, 2), ("Numba", seconds / 2, 1))]  # fmt: skip
    result = {"steps": 100, "unit": "step", "marks": [0, 100], "pictures": [PIXEL] * 2, "lanes": lanes}
    return content(answer) | result | {"note": "A time is the median.", "words": {"median": WORDS["median"]}} | more


@pytest.fixture
def drawn(new_page):
    """Return a page with the card of a race that is being run."""
    page = new_page()
    page.set_default_timeout(15_000)  # ms: short, because there is no server and no computation
    page.goto("about:blank")
    page.evaluate(DRAW, [RaceCard._esm, STYLE, content(1)])
    page.locator(".race h2").wait_for()
    return page


def ticked(page) -> tuple[list[bool], str]:
    """Return the states of the checkboxes, and the selected finish line."""
    boxes = page.locator(".race .setup input").evaluate_all("(boxes) => boxes.map((box) => box.checked)")
    return boxes, page.locator(".race .setup select").input_value()


RACED = [True, True, False], "0"


def test_checkboxes_and_finish_line_match_the_displayed_race_after_every_reply(drawn):
    for answer, now in ((2, content(2)), (3, content(3, refused=REFUSED)), (4, over(4)), (5, over(5, refused=REFUSED))):
        drawn.get_by_role("checkbox", name="NumPy").uncheck()
        drawn.get_by_role("checkbox", name="one-step").check()
        drawn.get_by_role("combobox", name="Finish").select_option("20")
        drawn.evaluate("update", content(answer - 1, part=0.75))  # progress keeps the user's choices
        assert ticked(drawn) == ([False, True, True], "20")
        drawn.get_by_role("checkbox", name="one-step").focus()
        drawn.evaluate("update", now)  # another race, perhaps started by another page, or a refusal
        assert ticked(drawn) == RACED
        assert drawn.evaluate("document.querySelector('div').shadowRoot.activeElement.ariaLabel") == "one-step"


def test_a_refusal_is_shown_as_text_while_the_replay_continues(drawn):
    refused = drawn.get_by_role("alert")
    drawn.evaluate("update", over(1))
    assert refused.count() == 0
    picture = drawn.locator(".race img").first.element_handle()
    drawn.wait_for_function(f"{WIDTH} > 2")
    drawn.evaluate("update", over(2, refused=REFUSED))
    assert refused.text_content() == REFUSED
    assert picture.evaluate("(node) => node.isConnected")
    before = drawn.evaluate(WIDTH)
    assert before > 2  # not from the start
    drawn.wait_for_function(f"{WIDTH} > {before}")
    drawn.evaluate("update", over(3, seconds=40.0))
    assert refused.count() == 0
    assert not picture.evaluate("(node) => node.isConnected")
