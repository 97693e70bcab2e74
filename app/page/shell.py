"""The shell of one page: header, side bar, right column, main area, and the features' components around them.

The shell is sent before the first lab is built, and everything in it exists from the beginning: adding a component
later triggers a new layout of the page in the browser, which takes 1 s. Presenter mode, the window's size and the
features determine which bars are open (app/page/layout.py); every change ends in `arrange`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui
from bokeh.document import Document
from panel.io.resources import _env

from app.page.address import CSS, FULL, Level
from app.page.browser import Browser
from app.page.feature import Feature
from app.page.layout import SIDE_ROOM, Layout, bars_with_room, status_height
from app.page.markup import filled
from app.page.theme import ASSETS, THEME, html_pane, stylesheet
from app.page.widgets import icon
from app.tab.lab_tab import ACROSS, READOUT, SIDEBAR
from app.upstream import fixes
from app.upstream.document_changes import changed_together
from app.upstream.panel_workarounds import font_files, load_early, never_busy
from compute.lab.lab import Lab

STATIC = Path(__file__).parent.parent / "static"
HEAD = "".join((STATIC / name).read_text(encoding="utf-8") for name in ("head.html", "loading.html"))
TEMPLATE = _env.from_string("{% extends base %}\n" + HEAD)  # compiled once; Panel compiles text for each page
WITHOUT_NAME = "@media (max-width: 1239px)"  # as for the wordmark in assets/style.css
IN_NARROW = f"@media (max-width: {SIDE_ROOM - 1}px)"
WITH_SHORT_TABS = "@media (max-width: 1279px)"  # five tabs and all buttons need this width otherwise
HEADER_ROW = "@media (max-width: 899px) { * { margin-left: 0 !important; margin-right: 0 !important; } }"
# In a narrow window the header scrolls to the right of its first button, labs first, and fades out at the right edge.
# Elsewhere it fits, and must not scroll: a scrolling container clips the tooltips.
HEADER_SCROLLS = {
    "& > header .MuiToolbar-root": {
        "overflowX": "auto", "overflowY": "hidden", "scrollbarWidth": "none", "padding": "0 40px 0 0 !important",
        "maskImage": "linear-gradient(to right, black calc(100% - 40px), transparent)",
        "scrollPadding": "0 40px 0 48px",
    },
    "& > header .MuiToolbar-root > *": {"flexShrink": 0},
    "& > header .MuiIconButton-edgeStart": {
        "position": "sticky", "left": 0, "zIndex": 1, "marginLeft": 0, "borderRadius": 0,
        "backgroundColor": "var(--paper) !important",
    },
}  # fmt: skip
HEADER_TABS = {
    "flexShrink": 0,
    # In presenter mode 1rem is 23 px, for which a projector of 1280 px has no room.
    "& .MuiTab-root": {
        "color": "var(--ink)",
        "minWidth": 0,
        "padding": "8px min(16px, 0.8vw)",
        "fontSize": "min(1rem, 1.35vw)",
    },
    WITH_SHORT_TABS: {  # after the rule for all widths, which it replaces
        "& .MuiTab-root": {"padding": "8px 4px", "fontSize": "max(14px, min(0.875rem, 1.3vw))", "letterSpacing": 0}
    },
    "& .MuiTab-root.Mui-selected": {"color": "var(--accent)"},
    "& .MuiTabs-indicator": {"backgroundColor": "var(--accent)", "height": "3px"},
}
# Presenter mode would enlarge the icons beyond the width of a narrow window.
HEADER_ICONS = {WITHOUT_NAME: {"& .material-icons": {"fontSize": "22px"}}}
HIDDEN = {"display": "none !important"}
OVER_PICTURE = {  # in a narrow window an open bar overlays the picture and does not move it
    # The padding lets the content scroll clear of the status bar, which overlays the bars.
    "& > nav .MuiDrawer-paper": {"boxSizing": "border-box", "paddingBottom": "max(48px, 8px + var(--bar-high, 0px))"},
    "& > nav .bk-panel-models-layout-Column": {"maxHeight": "none"},  # or higher content overflows into the padding
    IN_NARROW: {
        "& > header .MuiToolbar-root": {"paddingLeft": "14px", "paddingRight": "14px"},
        "& > header .MuiIconButton-edgeStart": {"marginRight": "4px"},
        "& > header .MuiToolbar-root > .MuiBox-root": {"minWidth": 0},
        "& > nav": {"position": "fixed", "left": 0, "top": 0, "zIndex": 1200, "pointerEvents": "none"},
        "& > nav:last-of-type": {"left": "auto", "right": 0},
        "& > nav .MuiDrawer-paper": {"pointerEvents": "auto"},
        "& > main": {"marginLeft": "0 !important", "marginRight": "0 !important", "width": "100%"},
    },
    WITHOUT_NAME: {"& > header a:has(img.logo)": HIDDEN},
    # The right column while it is only the sheet of a feature below the picture: see app/page/layout.py.
    "& .contextbar[data-sheet]": {
        "position": "fixed",
        "top": "auto",
        "bottom": "var(--bar-high, 0px)",
        "left": 0,
        "width": "100%",
        "height": "var(--sheet)",
        "padding": "0 !important",
        "overflow": "hidden",
        "borderLeft": 0,
        "& > .MuiToolbar-root, & > div:last-of-type": HIDDEN,  # the spacer below the header, the readout
    },
    "@media (max-width: 839px)": HEADER_SCROLLS,
}
WITHOUT_HEADER = {"& > header": HIDDEN, "& > main > div > .MuiToolbar-root": HIDDEN}  # also the spacer below it


class Shell:
    """The components of one page. They belong to `template`; `tabs` lists the labs.

    choose(): called after a click on a tab; arranged(): after a change of the layout, the colour scheme or the type
    size, once all of them are set.
    """

    def __init__(
        self,
        document: Document,
        labs: Sequence[type[Lab]],
        level: Level,
        browser: Browser,
        features: Sequence[Feature],
        choose: Callable[[], None],
        arranged: Callable[[], None],
    ) -> None:
        self._document, self._level, self.browser, self._features = document, level, browser, features
        self._arranged = arranged
        self._window = (1280, 720)
        self._system_dark = False  # whether the visitor's system uses a dark scheme
        self._begun = False  # whether features follow the layout
        whole = level == FULL
        self._bars_open = (whole, whole)  # side bar and readout, restored after presenter mode
        self.tabs = pmui.TabMenu(
            items=[{"label": lab.TITLE} for lab in labs], active=0, margin=0, align="center", sx=HEADER_TABS
        )
        self.tabs.param.watch(lambda event: choose(), "active")
        words = "<div class='status'><span class='state starting' role='status'>Starting</span></div>"
        starting = html_pane(words, styles=ACROSS, sizing_mode=None)
        # Bokeh's columns render a plot immediately when it is added. Material's columns read its size before they
        # render it, which raises an error in the browser.
        # Panel would set min-height to the height of the initial children: a window made lower would scroll.
        self._main = pn.Column(starting, margin=0, sizing_mode="stretch_both", styles={"min-height": "0"})
        self._opening = html_pane("", margin=24, visible=False)  # shown instead of a lab while that is built
        self._bars = [pn.Column(margin=margin, sizing_mode="stretch_width") for margin in (0, (8, 16))]
        self.template = self._page()
        never_busy(self.template)
        self.template.param.watch(self.arrange, ["sidebar_open", "contextbar_open", "dark_theme"])

    def _page(self) -> pmui.Page:
        whole = self._level == FULL
        return pmui.Page(
            main=[self._main, self._opening, self.browser, *(part for each in self._features for part in each.parts)],
            header=[self._header()],
            sidebar=[self._bars[0]],
            contextbar=[*(part for each in self._features for part in each.column), self._bars[1]],
            sidebar_width=SIDEBAR,
            sidebar_resizable=False,
            sidebar_variant="persistent",
            contextbar_width=READOUT,
            sidebar_open=whole,
            contextbar_open=whole,
            contextbar_variant="persistent",
            theme_config=THEME,
            busy_indicator=None,
            logo=str(ASSETS / "logo.svg"),
            favicon=str(ASSETS / "logo.svg"),
            meta_title="Fieldlab",
            meta_description="Live simulations for lectures, on CPU and GPU.",
            raw_css=[stylesheet(), CSS[self._level]],
            sx=OVER_PICTURE if whole else OVER_PICTURE | WITHOUT_HEADER,
        )

    def _header(self) -> pn.Row:
        buttons = *(button for each in self._features for button in each.buttons), *self._log_out()
        for button in buttons:
            button.sx = {**(button.sx or {}), **HEADER_ICONS}
        name = html_pane("<h1 class='wordmark'>Field<b>lab</b></h1>", align="center", sizing_mode=None)
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        shown = name, self.tabs, gap, *buttons
        return pn.Row(*shown, sizing_mode="stretch_width", margin=0, stylesheets=[HEADER_ROW])

    def _log_out(self) -> list[pmui.IconButton]:
        """Return a button that logs out, if the server requires a password; otherwise an empty list."""
        endpoint = getattr(self._document.session_context, "logout_url", None)
        if not endpoint:
            return []
        where = endpoint.rpartition("/")[2]  # relative to the page, so that a proxy's path prefix is kept
        return [icon("logout", "Log out", lambda: None, href=where, color="default", align="center")]

    def servable(self) -> None:
        """Add the page to the current document, with the fonts and fixes that its template loads."""
        self.template.servable(title="Fieldlab")
        page = self._document.roots[0]
        self._document.template_variables.update(
            components=page.esm,
            extensions=page.esm.partition("panel-material-ui/")[0],
            fonts=font_files(),
            fixes=fixes.script(),
        )
        self._document.template = TEMPLATE
        load_early(self._document)

    # -- what the main area and the bars contain

    def show(self, main: Sequence[Any]) -> None:
        """Show the components of a lab, with both bars hidden until `fill`: they contain the controls of another."""
        self._main.objects = list(main)
        self._main.visible, self._opening.visible = True, False
        for bar in self._bars:
            bar.visible = False

    def fill(self, bar: int, components: Sequence[Any]) -> None:
        """Show components in the side bar (0), or in the right column (1)."""
        self._bars[bar].objects, self._bars[bar].visible = list(components), True

    def veil(self, title: str) -> None:
        """Hide the current lab while the chosen one of this title is built, which may take seconds."""
        self._opening.object = filled("<div role='status'>Opening {lab} …</div>", lab=title)
        self._veil(True)

    def unveil(self) -> None:
        """Show the current lab again after `veil`."""
        if self._opening.visible:
            self._veil(False)

    def _veil(self, on: bool) -> None:
        for part, visible in ((self._main, not on), (self._opening, on), *((bar, not on) for bar in self._bars)):
            part.visible = visible

    # -- layout

    @property
    def presenting(self) -> bool:
        """Whether the page is in presenter mode."""
        return bool(self.browser.presenter)

    @property
    def dark(self) -> bool:
        """Whether the page shows the dark scheme."""
        return bool(self.template.dark_theme)

    @property
    def window(self) -> tuple[int, int]:
        """(width, height) in px of the browser's window."""
        return self._window

    @property
    def layout(self) -> Layout:
        """The state of the bars."""
        below = sum(feature.below for feature in self._features)
        if not any(feature.covers_status for feature in self._features):
            below += status_height(self._level)
        bars = self.template.sidebar_open, self.template.contextbar_open
        return Layout(self._window, self._level, self.presenting, *bars, self._in_column, below)

    @property
    def _in_column(self) -> bool:
        return any(feature.in_column for feature in self._features)

    @property
    def _bars_with_room(self) -> tuple[bool, bool]:
        """Whether the page has bars and the window has room for the side bar, and for the readout as well."""
        return bars_with_room(self._window[0]) if self._level == FULL else (False, False)

    def begin(self) -> None:
        """Let the features follow the layout from now on."""
        self._begun = True
        self.arrange()

    def arrange(self, *events: Any) -> None:
        """Pass a new layout on to the features, and to the lab."""
        self.browser.dark = self.dark
        if self._begun:
            # A sheet in the column is above the bars at the bottom, which may change first.
            for feature in sorted(self._features, key=lambda feature: feature.in_column):
                feature.arranged(self.layout)
        self._arranged()

    def resize(self, width: int, height: int) -> None:
        """Follow the window's size: open or close the bars if their room has changed."""
        before = self._bars_with_room
        self._window = (width, height)
        now = self._bars_with_room
        if now != before and self.presenting:
            self._bars_open = now
        elif now != before:
            self.template.param.update(sidebar_open=now[0], contextbar_open=now[1] or self._in_column)
        self.arrange()

    def use_column(self) -> None:
        """Open the right column if a feature needs it, or restore it."""
        has_room = not self.presenting and self._bars_with_room[1]
        self.template.contextbar_open = self._in_column or has_room
        self.arrange()  # needed if contextbar_open has not changed

    def present(self, on: bool) -> None:
        """Switch presenter mode on or off: larger type, and the bars at the sides closed."""
        page = self.template
        if on and not self.presenting:
            self._bars_open = page.sidebar_open, page.contextbar_open
        with changed_together(self._document):
            self.browser.presenter = on
            side_bar, readout = (False, False) if on else self._bars_open
            page.param.update(sidebar_open=side_bar, contextbar_open=readout or self._in_column)
            self.arrange()

    def prefer(self, dark: bool) -> None:
        """Follow the colour scheme of the visitor's system, unless the visitor has chosen the other one."""
        if self.template.dark_theme == self._system_dark:
            self.template.dark_theme = dark
        self._system_dark = dark
