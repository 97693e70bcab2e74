"""Workarounds for behaviour of Panel and Bokeh, apart from those in the modules of a single topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
import param
from bokeh.document import Document
from panel.io.resources import LOCAL_DIST
from panel.models.browser import BrowserInfo
from panel.util import edit_readonly
from tornado.ioloop import IOLoop

from app.upstream.internals import set_loaded

HOUR = 3_600_000  # ms; longer than any callback runs


def begin_housekeeping() -> None:
    """Start Panel's process-wide housekeeping task for busy widgets now, before the first page.

    The task never ends. Panel starts it at the first event of any widget, and a task keeps a reference to the context
    in which it was created: the whole page of the first visitor would stay in memory.

    This function causes an event by a callback that Panel calls once and then cancels. Panel cancels it while it waits
    for its next period. A callback that runs for longer than its period never waits, and blocks the loop (a period of
    1 ms did so on a slow computer), so the period is an HOUR.
    """
    IOLoop.current().add_callback(pn.state.add_periodic_callback, _nothing, period=HOUR, count=1)


def load_early(document: Document) -> None:
    """Mark the page of `document` as loaded and run `pn.state.onload` once its browser receives changes.

    Without this, Panel marks the page as loaded when the last component is drawn, 1 to 2 s later. Until then it treats
    the page as not yet sent, and drops changes made under a hold, which include all changes of layouts and components
    (`panel.io.document._drain_unconnected_events`). A browser however receives every change as soon as each root has
    its views. It creates the views one root after the other; Panel's BrowserInfo model, which is a root after the page,
    sends the browser's properties as soon as it has a view. An earlier change could reach views that do not listen yet.
    """

    def load(attr: str, old: object, new: object) -> None:
        """Mark the page as loaded; the document's "ready" event does so again, without effect."""
        set_loaded(document)

    for browser in document.select({"type": BrowserInfo}):
        browser.on_change("device_pixel_ratio", load)


def _nothing() -> None:
    """Do nothing: the event itself is enough."""


class NeverBusy(param.Parameterized):
    """A busy flag of one page. The process-wide flag's watchers would keep every closed page alive."""

    busy = param.Boolean(default=False)


def never_busy(page: Any) -> None:
    """Replace the busy flag of a page template by a separate one that never changes."""
    with edit_readonly(page):
        page.busy = NeverBusy().param.busy


def serve_own_files(document: Document) -> None:
    """Load the style sheets of `document` from this server from the start; Panel does so once it writes the HTML."""
    folder = pn.state.rel_path
    document.template_variables["dist_url"] = f"{folder}/{LOCAL_DIST}" if folder else LOCAL_DIST


def font_files() -> list[str]:
    """Return the addresses, below static/extensions/, of the fonts that every page needs: regular and bold."""
    folder = Path(str(pmui.__file__)).parent / "dist"
    found = [next(iter(sorted(folder.glob(f"roboto-latin-{weight}-normal-*.woff2"))), None) for weight in (400, 700)]
    return [f"panel-material-ui/{path.name}" for path in found if path is not None]
