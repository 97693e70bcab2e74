"""The page of one browser tab: header, side bar, stage, readout, status bar; and what keys and buttons on it do."""

from __future__ import annotations

from typing import Any

import panel as pn
import panel_material_ui as pmui
from compute.labs import LABS

from app import notices
from app.browser import Browser
from app.controls import Controls
from app.lobby import lobby
from app.readout_slot import make_readout
from app.session import Session
from app.stage import Stage
from app.status import StatusBar
from app.stream import Delivered
from app.theme import ASSETS, THEME, stylesheet
from app.widgets import icon

SIDEBAR, READOUT, HEADER, STATUS, PADDING = 280, 320, 57, 40, 24  # px
ROOMY = 900  # px of window height from which presenter mode keeps the curves below the pictures
TICK = 250  # ms between refreshes of status, curves and readout
HEADER_TABS = {
    "& .MuiTab-root": {"color": "var(--ink)"},
    "& .MuiTab-root.Mui-selected": {"color": "var(--accent)"},
    "& .MuiTabs-indicator": {"backgroundColor": "var(--accent)", "height": "3px"},
}
HELP = """
| Key | does |
| --- | --- |
| **Space** | run or pause |
| **S** | one step |
| **R** | reset to the initial field |
| **P** | presenter mode: larger type, more picture |
| **H** | this help |

Drag on a picture to move it, scroll to zoom; choose *Paint* to draw heat with the pointer. Drag the dashed line to
move the section, click to place the probe.
"""


def full_house() -> pmui.Column:
    """What is shown instead of a lab when the server has as many sessions as it may."""
    words = (
        f"<div class='full'><h1>Every seat is taken</h1><p>This Fieldlab serves {lobby().limit} browser tabs at a time, "
        "so that it stays quick for each of them.</p><p>Close a tab that is no longer needed, wait half a minute and "
        "reload this page. Who runs the server can allow more with <code>FIELDLAB_MAX_SESSIONS</code>.</p></div>"
    )
    return pmui.Column(pn.pane.HTML(words, stylesheets=[stylesheet()]), margin=0, sizing_mode="stretch_both")


class Page:
    """Builds one tab's page; work starts when its browser says that it is ready."""

    def __init__(self) -> None:
        document = pn.state.curdoc
        if document is None:
            raise RuntimeError("a page belongs to a served document; run `panel serve app`")
        self.session = Session(LABS[0], document)
        self.stage = Stage(self.session)
        self.controls = Controls(self.session, self.stage)
        self.status = StatusBar(self.session)
        self.readout = make_readout(self.session)
        self.browser = Browser(self._pressed, self._resized)
        self._window = (1280, 720)
        self.help = pmui.Dialog(
            pn.pane.Markdown(HELP, stylesheets=[stylesheet()]), title="Keys and pointer", close_on_click=True, show_close_button=True
        )
        self.template = self._page()
        self._listen(document)

    def servable(self) -> None:
        """Put the page into the document that is being served."""
        self.template.servable(title="Fieldlab")

    # -- layout

    def _page(self) -> pmui.Page:
        main = pmui.Column(
            self.stage.panel, self.status.panel, self.browser, self.help, margin=0, sizing_mode="stretch_both"
        )
        page = pmui.Page(
            main=[main],
            sidebar=[self.controls.panel],
            contextbar=[self.readout.panel],
            header=[self._header()],
            sidebar_width=SIDEBAR,
            sidebar_resizable=False,
            sidebar_variant="persistent",
            contextbar_width=READOUT,
            contextbar_open=True,
            contextbar_variant="persistent",
            theme_config=THEME,
            theme_toggle=True,
            busy_indicator=None,
            logo=str(ASSETS / "logo.svg"),
            favicon=str(ASSETS / "favicon.svg"),
            meta_title="Fieldlab",
            meta_description="Live simulations for lectures, on CPU and GPU.",
            raw_css=[stylesheet()],
        )
        page.param.watch(self._rearrange, ["sidebar_open", "contextbar_open"])
        page.param.watch(self._dress, "dark_theme")
        return page

    def _header(self) -> pmui.Row:
        self.tabs = pmui.TabMenu(
            items=[{"label": lab.TITLE} for lab in LABS], active=0, margin=(0, 24), align="center", sx=HEADER_TABS
        )
        present = icon("co_present", "Presenter mode (P)", self.present, color="default", align="center")
        helping = icon("help_outline", "Keys and pointer (H)", self.toggle_help, color="default", align="center")
        words = "<div class='wordmark'>Field<b>lab</b></div>"
        name = pn.pane.HTML(words, stylesheets=[stylesheet()], margin=(0, 0, 0, 12), align="center")
        gap = pmui.Row(sizing_mode="stretch_width", margin=0)
        return pmui.Row(name, self.tabs, gap, present, helping, sizing_mode="stretch_width", margin=0)

    def _resized(self, width: int, height: int) -> None:
        self._window = (width, height)
        self._rearrange()

    def _rearrange(self, *events: Any) -> None:
        self.session.later(self._fit)

    def _fit(self) -> None:
        width, height = self._window
        width -= SIDEBAR * self.template.sidebar_open + READOUT * self.template.contextbar_open + PADDING
        self.stage.fit(width, height - HEADER - STATUS - PADDING)

    def _dress(self, *events: Any) -> None:
        """The scheme or the type size has changed."""
        self.browser.dark = self.template.dark_theme
        self.session.later(lambda: self.stage.dress(self.template.dark_theme, self.browser.presenter))

    def toggle_help(self) -> None:
        """Show or hide the list of keys."""
        self.help.open = not self.help.open

    def present(self) -> None:
        """Presenter mode on or off: larger type, no bars beside the picture."""
        on = not self.browser.presenter
        self.browser.presenter = on
        self.template.param.update(sidebar_open=not on, contextbar_open=not on)
        if self._window[1] < ROOMY:
            self.controls.display.curves.value = not on
        self._dress()

    # -- life

    def _listen(self, document: Any) -> None:
        session = self.session
        session.on_delivered = self._delivered
        session.on_event = self._event
        session.on_values = self.controls.follow
        pn.state.onload(self._start)
        pn.state.on_session_destroyed(self._destroyed)
        document.on_event("connection_lost", lambda event: session.connection_lost())
        document.on_event("client_reconnected", lambda event: session.reconnected())

    def _start(self) -> None:
        if not self.session.start():
            self.template.param.update(main=[full_house()], sidebar=[], contextbar=[])
            return
        self.session.document.add_periodic_callback(self._tick, TICK)
        self.session.play(True)

    def _destroyed(self, session_context: Any) -> None:
        self.session.close()
        self.readout.close()

    def _tick(self) -> None:
        self.stage.tick()
        self.status.tick()
        self.readout.tick()

    def _delivered(self, delivered: Delivered) -> None:
        self.readout.frame(delivered.timed)

    def _event(self, event: Any) -> None:
        notices.announce(event)
        self.readout.event(event)

    def _pressed(self, key: str) -> None:
        transport = self.controls.transport
        acts = {
            "play": transport.toggle,
            "step": transport.step,
            "reset": transport.reset,
            "present": self.present,
            "help": self.toggle_help,
        }
        acts[key]()
