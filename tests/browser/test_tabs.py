"""Quick changes of tab while labs compute: the last lab is shown, without errors."""

from __future__ import annotations

import re

import pytest

from app.page.theme import DARK, LIGHT
from tests.browser.lab_page import DEEP, PAINTED, LabPage
from tests.browser.labs import GROUPS

pytestmark = pytest.mark.extended

# The colour of a marker in a lab's plot, which must exist, by lab.
INKS = {
    "Crossover": "model('crossover plot')?.center.find((part) => part.type == 'Span').line_color",
    "L-curve": (
        "model('l-curve plot')?.renderers.find((part) => part.data_source.name == 'picked').glyph.line_color.value"
    ),
}


# The number of models that the browser stores, and the number in the page.
MODELS = """() => { const page = Bokeh.documents[0], used = page.roots().flatMap((root) => [...root.references()]);
  return [page._all_models.size, new Set(used).size]; }"""

INK = "getComputedStyle(document.documentElement).getPropertyValue('--ink')"


@pytest.fixture
def lab(opened, lasting, allowed_errors):
    yield opened
    lasting.complain(allowed_errors)


def test_quick_changes_of_tab_show_the_last_lab(lab) -> None:
    """An error on the page, for example about an unknown reference, fails this test in the page fixture.

    The browser discards the models of other labs while the lab runs: a lecture has hundreds of changes per hour.
    """
    lab.until(lambda: lab.step() > 20)
    lab.page.evaluate("Bokeh.documents[0]._recompute_timeout = 3000")  # ms, longer than between two messages
    names = list(GROUPS)
    for turn in range(12):
        name = names[(3 * turn + 1) % 4]
        lab.page.get_by_role("tab", name=name).click()
        for _ in range(turn % 4):  # leave it at once, or after some paintings
            lab.page.evaluate(PAINTED)
        if turn % 4 == 3:
            lab.show_lab(name)
    for name in ("Mandelbrot", "Diffusion"):
        lab.page.get_by_role("tab", name=name).click()
        lab.page.get_by_role("button", name=GROUPS[name]).first.wait_for()
    lab.steps_on(20)
    assert "Running" in lab.status()
    lab.until(lambda: (found := lab.page.evaluate(MODELS)) and found[0] <= 1.2 * found[1])
    assert "Running" in lab.status()


def test_plots_have_the_scheme_that_was_chosen_while_another_lab_was_shown(lab) -> None:
    model = "const model = (name) => Bokeh.documents[0]?.get_model_by_name(name);"
    for hue in (DARK["ink"], LIGHT["ink"]):
        lab.page.get_by_role("tab", name="Diffusion").click()
        lab.page.get_by_role("button", name="Physics").first.wait_for()
        lab.page.get_by_label("Toggle theme").click()
        for name, ink in INKS.items():
            lab.page.get_by_role("tab", name=name).click()
            lab.until(lambda ink=ink, hue=hue: lab.page.evaluate(f"() => {{ {model} return {ink}; }}") == hue)


def test_a_page_follows_the_systems_scheme_until_one_is_chosen(page, server) -> None:
    page.emulate_media(color_scheme="dark")
    lab = LabPage(page, server)

    def comes(scheme: str) -> None:
        """Wait until the page and its text have this scheme."""
        ink = {"dark": DARK, "light": LIGHT}[scheme]["ink"]
        lab.until(lambda: page.evaluate("document.documentElement.dataset.scheme") == scheme)
        lab.until(lambda: page.evaluate(INK) == ink)

    comes("dark")
    page.emulate_media(color_scheme="light")
    comes("light")
    page.get_by_label("Toggle theme").click()
    comes("dark")
    page.emulate_media(color_scheme="dark")
    comes("dark")
    page.get_by_label("Toggle theme").click()
    comes("light")
    page.emulate_media(color_scheme="light")
    lab.still(lambda: page.evaluate(INK), 0.5)
    comes("light")


# The number of panel-material-ui components drawn in each scheme.
SCHEMES = f"""() => {{ {DEEP}
  return ['mui-light', 'mui-dark'].map((name) => all.filter((node) => node.classList.contains(name)).length);
}}"""


def test_a_tab_drawn_during_a_change_of_scheme_has_the_new_one(page, server):
    """The tab's messages are received after the switch was pressed, but before the server knows of it."""
    held, holding = [], False

    def connect(browser):
        upstream = browser.connect_to_server()
        browser.on_message(upstream.send)
        upstream.on_message(lambda message: held.append((browser, message)) if holding else browser.send(message))

    page.route_web_socket(re.compile("/ws"), connect)
    lab = LabPage(page, server)
    assert page.evaluate(SCHEMES)[0] > 0
    holding = True
    page.get_by_role("tab", name="Crossover").click()
    lab.until(lambda: lab.still(lambda: any("crossover plot" in str(message) for _, message in held)))
    page.get_by_role("button", name="Toggle theme").click()
    lab.until(lambda: page.evaluate(SCHEMES)[0] == 0)
    answer = lab.until(lambda: [i for i, (_, message) in enumerate(held) if '"attr":"dark"' in str(message)])[0]
    for browser, message in held[:answer]:
        browser.send(message)
    page.locator(".sentence").wait_for()
    drawn = lab.still(lambda: page.evaluate(SCHEMES))
    for browser, message in held[answer:]:
        browser.send(message)
    assert drawn[0] == 0
    assert drawn[1] > 0
