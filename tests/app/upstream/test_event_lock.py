"""Callbacks of events run with the document's lock."""

from __future__ import annotations

from tests.app.served_page import CLIENT, run_script

# A page with a slider and a button that change a model directly. Its browser sends both changes in quick succession, so
# that the button's event arrives while the slider's value is still pending.
HASTY = (
    CLIENT
    + """
import panel as pn, panel_material_ui as pmui
from bokeh.models import Div
from app.upstream import event_lock, patches
patches.install()
event_lock.install()
LAST = "moved to 5.0 and pressed"

def page():
    pn.extension()
    div = Div(text="-")
    slider, button = pmui.FloatSlider(name="slider", start=0, end=9), pmui.Button(name="button")

    def moved(event):
        div.text = f"moved to {event.new}"

    def pressed(event):
        div.text += " and pressed"

    slider.param.watch(moved, "value")
    button.on_click(pressed)
    pn.Row(slider, button, pn.pane.Bokeh(div)).servable()

def models(part):
    if isinstance(part, dict):
        if part.get("type") == "object" and "id" in part:
            yield part
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from models(inner)

async def main():
    send, message, ask = await opened(page)
    await message()
    _, reply = await ask("1", "PULL-DOC-REQ", {})
    found = {part["attributes"].get("class_name"): part for part in models(reply) if "attributes" in part}
    await send("2", "PATCH-DOC", event("document_ready", []))
    await send("3", "PATCH-DOC", changed(found["FloatSlider"]["attributes"]["data"], "value", 5.0))
    model = ["model", {"id": found["Button"]["id"]}]
    await send("4", "PATCH-DOC", event("dom_event", [model, ["node", "click"], ["data", {"type": "map"}]]))
    while LAST not in [event.get("new") for event in (await message())[1].get("events", ())]:
        pass
    print("both")

asyncio.run(main())
"""
)


def test_a_button_pressed_right_after_a_slider_handles_both() -> None:
    """Found by `make fuzz`: Panel held no lock here, although a plot must not be changed without it."""
    done = run_script(HASTY)
    assert done.stdout.split() == ["both"]
    assert "without its lock" not in done.stderr
