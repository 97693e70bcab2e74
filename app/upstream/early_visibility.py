"""Let the visibility of an HTML pane change before the pane is drawn."""

from __future__ import annotations

from app.upstream.fix import PANEL_ESM, Code, Fix

FIX = Fix(
    name="early_visibility",
    package="panel",
    versions="1.9, 1.10",
    kind="fault",
    purpose="the rest of a message was lost if it showed a text in a part of the page that was not drawn yet",
    report=(
        "HTMLView sets the visibility of its container when `visible` changes, but the container exists only after "
        "the first render. A view whose React parent has not rendered it yet (in an Accordion or in Tabs) raises "
        "\"Cannot read properties of undefined (reading 'style')\", and the remaining events of the patch are not "
        "applied. Return from the callback if there is no container, as set_html does."
    ),
    replaces=(Code(f"{PANEL_ESM}/html.js:HTMLView.connect_signals", ("b6fe66b11530", "9c526bedc895")),),
)
