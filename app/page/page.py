"""The page of one browser tab: a light shell first, then the labs once the browser reports that it is ready.

A bare HTTP request never reports this: it costs one shell and starts no engine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import panel as pn
import panel_material_ui as pmui
from panel.io.resources import _env

from app.features.audience.mode import AudienceMode
from app.features.code.code_panel import CodePanel
from app.features.export.card import ExportCard
from app.features.presenter.presenter import MINIMAL, NARROW, PRESENTING, STATEMENT, PresenterBar
from app.features.race.race import RaceTrack
from app.features.stories.stories import StoryTeller
from app.features.system.system_card import SystemCard
from app.page.address import CSS, FULL, asked_level, asked_to_run
from app.page.browser import ESCAPE, Browser
from app.page.markup import filled, plain
from app.page.notices import Notices
from app.page.theme import ASSETS, GRID, THEME, html_pane, stylesheet
from app.page.widgets import icon
from app.server.admission import server_full, session_limiter
from app.server.builder import builder
from app.tab.lab_tab import ACROSS, HEADER, LEAST_VIEW, PADDING, READOUT, SIDEBAR, STATUS, LabTab, view_size
from app.tab.lab_view import Size, labs_with_tabs
from app.tab.plot_words import numbers_html
from app.tab.restore import asked_for, scene_in
from app.upstream import fixes
from app.upstream.document_changes import changed_together
from app.upstream.panel_workarounds import font_files, load_early, never_busy
from compute.export.link import asked_in, unpacked
from compute.export.scene import Scene, SceneError
from compute.lab.lab import Lab

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent.parent / "static"
HEAD = "".join((STATIC / name).read_text(encoding="utf-8") for name in ("head.html", "loading.html"))
TEMPLATE = _env.from_string("{% extends base %}\n" + HEAD)  # compiled once; Panel compiles text for each page
DRAWN = 5000  # ms to wait for a lab to be drawn before another lab replaces it
SIDE_ROOM, READOUT_ROOM = 900, 1180  # least window widths in px for the side bar, and for the readout as well
# Least window widths in px for a story to the right of the picture, in portrait and in landscape windows. In narrower
# windows the story is a sheet below the picture.
STORY_ROOM, STORY_ROOM_TURNED = 700, LEAST_VIEW[0] + READOUT + PADDING
STORY_SHEET = (0.28, 0.42)  # least and greatest height of the sheet, relative to the window's height
SQUARE = 1.08  # ratio of height to width of a square picture with its title, axis and colour bar
DIALOG = "MuiDialog-root"  # CSS class of Material's dialog, which handles Escape without our code
ROOM_FOR_LARGE = (600, 560)  # px of window size below which presenter mode keeps its type small, as in style.css
WITHOUT_NAME = "@media (max-width: 1099px)"  # as for the wordmark in assets/style.css
IN_NARROW = f"@media (max-width: {SIDE_ROOM - 1}px)"
HEADER_ROW = "@media (max-width: 899px) { * { margin-left: 0 !important; margin-right: 0 !important; } }"
# On a phone the header scrolls to the right of its first button, labs first, and fades out at the right edge. Elsewhere
# it fits, and must not scroll: a scrolling container clips the tooltips.
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
    IN_NARROW: {"& .MuiTab-root": {"minWidth": 0, "padding": "8px 7px", "fontSize": "0.875rem"}},
    "& .MuiTab-root": {"color": "var(--ink)"},
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
    # The right column while it contains only a story below the picture: see static/stories.js.
    "& .contextbar[data-sheet]": {
        "position": "fixed",
        "top": "auto",
        "bottom": "var(--bar-high, 0px)",
        "left": 0,
        "width": "100%",
        "height": "var(--story-sheet)",
        "padding": "0 !important",
        "overflow": "hidden",
        "borderLeft": 0,
        "& > .MuiToolbar-root, & > div:last-of-type": HIDDEN,  # the spacer below the header, the readout
    },
    "@media (max-width: 700px)": HEADER_SCROLLS,
}
WITHOUT_HEADER = {"& > header": HIDDEN, "& > main > div > .MuiToolbar-root": HIDDEN}  # also the spacer below it
HELP = """
| Key | does |
| --- | --- |
{rows}
| **P** | presenter mode: full screen, larger type, the main controls in a bar at the bottom |
| **Z**, **V**, **D**, **X**, **.** | in presenter mode: freeze, spotlight, pen, wipe what it drew, hide the bar |
| **E** | take it along: link, picture, film, recording, numbers |
| **U** | use of the machine: processor, GPUs, memory |
| **Shift+N** | the numbers behind the plots, as tables |
| **Shift+R** | a race: the same work on NumPy, Numba and a GPU, side by side |
| **T** | stories; then **←** **→** or a remote's keys: the steps, **B**: back to the step |
| **K** | the code that runs: source, PTX, machine code |
| **Q** | audience: a room that phones follow, by a QR code |
| **W** | the lecturer's second window: notes, the next step, a clock |
| **H** | this help |

{pointer}
"""


def server_full_page() -> pn.Column:
    """Return the content of a page that is refused because the server is at its session limit."""
    title, words = server_full(session_limiter().limit, "Then reload this page.")
    words = filled("<div class='full'><h1>{title}</h1><p>{words}</p></div>", title=title, words=words)
    return pn.Column(pn.pane.HTML(words, stylesheets=[stylesheet()]), margin=0, sizing_mode="stretch_both")


def cannot_show(problems: Sequence[str]) -> pn.Column:
    """Return the content of a page on which no lab can be shown; the problems are displayed as plain text."""
    alerts = [
        pmui.Alert(title=plain(problem), severity="error", margin=(GRID, 2 * GRID), sizing_mode="stretch_width")
        for problem in problems
    ]
    return pn.Column(*alerts, margin=0, sizing_mode="stretch_both")


class OpenedCard(Protocol):
    """A card in the corner of the page that a key opens and closes."""

    card: pn.Column
    open: bool

    def toggle(self) -> None:
        """Open or close the card."""


class Page:
    """The shell of one browser tab, and the labs opened in it."""

    def __init__(self) -> None:
        if pn.state.curdoc is None:
            raise RuntimeError("a page belongs to a served document; run `panel serve app`")
        self.document = pn.state.curdoc
        self.labs, self._problems = labs_with_tabs()
        try:
            self.level = asked_level(self.document)
        except ValueError as error:
            self.level = FULL
            self._problems = [*self._problems, f"All of the page is shown: {error}."]
        self.lab_tabs: dict[str, LabTab] = {}
        self.current: LabTab | None = None
        whole = self.level == FULL
        kept = "" if whole else self.level
        self.browser = Browser(self._pressed, self._resized, self._looked, self._travelled, self._preferred, ui=kept)
        self._window = (1280, 720)
        self._bars_open = (whole, whole)  # side bar and readout, restored after presenter mode
        self.bar = PresenterBar(self._pressed, self._arrange)
        self.visible = True  # whether the browser's tab is visible
        self._system_dark = False  # whether the visitor's system uses a dark scheme
        self._waiting = False  # whether a change of lab waits until the browser has drawn the current one
        self._choosing = False  # whether the chosen lab is still to be built
        self._meant: list[str] = []  # keys pressed during that time, passed to the chosen lab
        self._wanted: type[Lab] | None = None  # the lab requested by show_soon
        self._failed: set[str] = set()  # names of labs whose tabs could not be built
        self._begun = False  # whether a lab is shown and the initial problems have been reported
        self.system = SystemCard(self.document)
        self.export = ExportCard(self.document, self._notices, self._dropped)
        self.stories, self.race = StoryTeller(self), RaceTrack(self)
        self.code, self.audience = CodePanel(self.document), AudienceMode(self)
        toggles = {"e": self.export.toggle, "h": self.toggle_help, "p": self.present, "u": self.system.toggle}
        toggles |= {"t": self.stories.toggle, "shift+r": self.race.toggle, "k": self.code.toggle}
        self._keys: dict[str, Callable[[], None]] = toggles  # keys common to all labs
        self._cards: dict[str, OpenedCard]
        self._cards = {"system-card": self.system, "export-card": self.export, "code-card": self.code}
        for name, card in self._cards.items():
            card.card.css_classes = [name]
            card.card.param.watch(partial(self._card_toggled, name), "visible")
        self._keys |= {"q": self.audience.toggle, "w": self.audience.open_window, "shift+n": self.toggle_numbers}
        self.browser.wanted = list(self._keys)
        self.template = self._shell()
        pn.state.onload(self._start)
        pn.state.on_session_destroyed(self._destroyed)
        for event, there in (("connection_lost", False), ("client_reconnected", True)):
            self.document.on_event(event, partial(self._show_soon, there))

    def servable(self) -> None:
        """Add the page to the current document, with the fonts and fixes that its template loads."""
        self.template.servable(title="Fieldlab")
        page = self.document.roots[0]
        self.document.template_variables.update(
            components=page.esm,
            extensions=page.esm.partition("panel-material-ui/")[0],
            fonts=font_files(),
            fixes=fixes.script(),
        )
        self.document.template = TEMPLATE
        load_early(self.document)

    # -- layout

    def _shell(self) -> pmui.Page:
        words = "<div class='status'><span class='state starting' role='status'>Starting</span></div>"
        waiting = html_pane(words, styles=ACROSS, sizing_mode=None)
        # Bokeh's columns render a plot immediately when it is added. Material's columns read its size before they
        # render it, which raises an error in the browser.
        # Panel would set min-height to the height of the initial children: a window made lower would scroll.
        self._main = pn.Column(waiting, margin=0, sizing_mode="stretch_both", styles={"min-height": "0"})
        self._opening = html_pane("", margin=24, visible=False)  # shown instead of a lab while that is built
        self._bars = [pn.Column(margin=margin, sizing_mode="stretch_width") for margin in (0, (8, 16))]
        # Part of the page from the start: adding a component later triggers a new layout of the page, which takes 1 s.
        # Not empty: the Markdown parser compiles its patterns for the first text, which takes 30 ms.
        self._words = pn.pane.Markdown("Words", stylesheets=[stylesheet()])
        self._dialog = pmui.Dialog(self._words, close_on_click=True, show_close_button=True, width_option="md")
        self._dialog.param.watch(partial(self._card_toggled, DIALOG), "open")
        cards = self.race.card, self.code.card, self.audience.card, self.bar
        page = pmui.Page(
            main=[self._main, self._opening, self.browser, self._dialog, self.system.card, *self.export.parts, *cards],
            header=[self._header()],
            sidebar=[self._bars[0]],
            contextbar=[self.stories.card, self._bars[1]],
            sidebar_width=SIDEBAR,
            sidebar_resizable=False,
            sidebar_variant="persistent",
            contextbar_width=READOUT,
            sidebar_open=self.level == FULL,
            contextbar_open=self.level == FULL,
            contextbar_variant="persistent",
            theme_config=THEME,
            busy_indicator=None,
            logo=str(ASSETS / "logo.svg"),
            favicon=str(ASSETS / "favicon.svg"),
            meta_title="Fieldlab",
            meta_description="Live simulations for lectures, on CPU and GPU.",
            raw_css=[stylesheet(), CSS[self.level]],
            sx=OVER_PICTURE if self.level == FULL else OVER_PICTURE | WITHOUT_HEADER,
        )
        never_busy(page)
        page.param.watch(self._arrange, ["sidebar_open", "contextbar_open", "dark_theme"])
        return page

    def _header(self) -> pn.Row:
        self.tabs = pmui.TabMenu(
            items=[{"label": lab.TITLE} for lab in self.labs], active=0, margin=0, align="center", sx=HEADER_TABS
        )
        self.tabs.param.watch(lambda event: self._choose_soon(), "active")
        present = icon("co_present", "Presenter mode (P)", self.present, color="default", align="center")
        about = icon("info_outline", "About this lab", self.toggle_about, color="default", align="center")
        helping = icon("help_outline", "Keys and pointer (H)", self.toggle_help, color="default", align="center")
        words = "<h1 class='wordmark'>Field<b>lab</b></h1>"
        name = html_pane(words, align="center", sizing_mode=None)
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        cards = self.system.button, self.race.button, self.stories.button, self.code.button, self.export.button
        buttons = *cards, self.audience.button, present, about, helping, *self._log_out()
        for button in buttons:
            button.sx = {**(button.sx or {}), **HEADER_ICONS}
        shown = name, self.tabs, gap, *buttons
        return pn.Row(*shown, sizing_mode="stretch_width", margin=0, stylesheets=[HEADER_ROW])

    def _log_out(self) -> list[pmui.IconButton]:
        """Return a button that logs out, if the server requires a password; otherwise an empty list."""
        endpoint = getattr(self.document.session_context, "logout_url", None)
        if not endpoint:
            return []
        where = endpoint.rpartition("/")[2]  # relative to the page, so that a proxy's path prefix is kept
        return [icon("logout", "Log out", lambda: None, href=where, color="default", align="center")]

    def _resized(self, width: int, height: int) -> None:
        """Handle a new window size: open or close the bars if their room has changed."""
        before, now = self._roomy, bars_with_room(width) if self.level == FULL else (False, False)
        self._window = (width, height)
        if now != before and self.browser.presenter:
            self._bars_open = now
        elif now != before:
            self.template.param.update(sidebar_open=now[0], contextbar_open=now[1] or self.stories.open)
            self.bar.show(self._bar_mode)
        self._arrange()

    @property
    def _roomy(self) -> tuple[bool, bool]:
        """Whether the page has bars and the window has room for the side bar, and for the readout as well."""
        return bars_with_room(self._window[0]) if self.level == FULL else (False, False)

    @property
    def _bar_mode(self) -> str:
        """Mode of the bar at the bottom outside of presenter mode; "" hides it."""
        return bar_mode(self._window[0], self.level, self.template.contextbar_open)

    @property
    def _room(self) -> Size:
        """(width, height) in px of the main area."""
        page, overlaid, sheet = self.template, self._window[0] < SIDE_ROOM, self._sheet
        beside = page.contextbar_open and not sheet and (self.stories.open or not overlaid)
        return view_size(self._window, page.sidebar_open and not overlaid, beside, self._below + sheet, self._above)

    @property
    def _sheet(self) -> int:
        """Height in px of the story sheet below the picture; 0 without a story, or with one next to the picture."""
        told = self.stories.open and self.template.contextbar_open
        return story_sheet(self._window, self._above, self._below) if told else 0

    @property
    def _above(self) -> int:
        """Height in px of the header."""
        return HEADER if self.level == FULL else 0

    @property
    def _below(self) -> int:
        """Height in px of the bars at the bottom."""
        below = self.bar.height_px if self.bar.mode else 0
        if self.bar.mode == STATEMENT or (not self.bar.mode and self.level != "none"):
            below += STATUS
        return below

    def _looked(self, visible: bool) -> None:
        """Handle a change of the browser tab's visibility: a hidden tab gets no updates."""
        self.visible = visible
        self.system.show(visible)
        if self.current is not None:
            self.current.look(visible)

    def _arrange(self, *events: Any) -> None:
        """Refit the lab after a change of the room, the colour scheme or the type size, once all of them are set."""
        self.browser.dark = self.template.dark_theme
        self.stories.card.sheet = self._sheet
        if self.current is not None:
            if not self.browser.presenter:
                self.bar.show(self._bar_mode)
            self.current.session.later(partial(self._fit, self.current))

    def _fit(self, tab: LabTab) -> None:
        if tab is self.current:
            tab.fit(self._room, self.template.dark_theme, self._large)

    def _preferred(self, dark: bool) -> None:
        """Follow the colour scheme of the visitor's system, unless the visitor has chosen the other one."""
        if self.template.dark_theme == self._system_dark:
            self.template.dark_theme = dark
        self._system_dark = dark

    @property
    def _large(self) -> bool:
        """Whether type is scaled up: in presenter mode, unless the window is smaller than ROOM_FOR_LARGE."""
        width, height = self._window
        return self.browser.presenter and width >= ROOM_FOR_LARGE[0] and height >= ROOM_FOR_LARGE[1]

    # -- labs

    def _start(self) -> None:
        """Open the page's first lab; called once the browser receives changes of the document."""
        self.system.name_devices()
        if session_limiter().full:
            self._turn_away()
        else:
            session_limiter().add(self, self.document.session_context.id)
            self.bar.show(self._bar_mode)
            self._choosing = True
            self._build(self._begin)

    def _build(self, change: Callable[[], object]) -> None:
        """Queue a slow change of the page for the builder."""
        builder().change(self.document, change)

    def _begin(self) -> None:
        self._chosen_there()
        self._open()
        self._choose_soon()  # a tab may have been chosen before the first lab existed
        if self.current is not None:
            for problem in self._problems:
                self._notices().tell("warning", problem)
            self._begun = True

    def _turn_away(self) -> None:
        """Show that the server is full, instead of a lab."""
        self._main.objects = [server_full_page()]

    def _open(self) -> None:
        """Show the scene in the page's address, or the first lab; an invalid link causes a notice and the first lab."""
        try:
            scene = asked_for(self.document)
        except SceneError as error:
            self._choose(0)
            if self.current is not None:
                words = f"The link cannot be shown, here is the page as it always begins: {error}."
                self._notices().tell("warning", words)
            return
        if scene is None:
            self._choose(0)
        else:
            self._restore(scene, "The link", asked_to_run(self.document))

    def _travelled(self, query: str) -> None:
        """Handle the browser's Back or Forward: show the scene in the new address."""
        text, plays = asked_in(query)
        if self.current is None or not text:
            return
        self.current.address.left()
        self._build(partial(self._travel, text, plays))

    def _travel(self, text: str, plays: bool) -> None:
        """Show the scene in an address; if a tab still has exactly this state, only switch to that tab."""
        shown = next((tab for tab in self.lab_tabs.values() if tab.address.text == text), None)
        try:
            if shown is None:
                self._restore(unpacked(text), "The address", plays)
            elif shown is not self.current:
                index = self.labs.index(shown.session.lab)
                self._choose(index, back=True)
                self.tabs.active = index
        except SceneError as error:
            self._notices().tell("warning", f"The address cannot be shown: {error}.")
            self._current_tab().address.enter(push=False)  # which restores the address of the current state

    def _restore(self, scene: Scene, what: str, plays: bool = False) -> None:
        """Show `scene` in its lab's tab, and run it if `plays` is true."""
        if scene.kind not in self.labs:  # a plug-in without a tab, already listed among the problems
            self._choose(0)
            return
        tab = self.show_lab(scene.kind)
        if tab is None:
            return
        try:
            tab.restorer.restore(scene, plays)
        except ValueError as error:
            self._notices().tell("warning", f"{what} cannot be shown: {error}.")
            tab.wait_no_longer()

    def show_soon(self, kind: type[Lab]) -> None:
        """Queue a change to the tab of this lab; repeated calls before it is shown have no effect."""
        if kind is not self._wanted:
            self._wanted = kind
            self._build(self._show_wanted)

    def _show_wanted(self) -> None:
        kind, self._wanted = self._wanted, None
        if kind is not None:
            self.show_lab(kind)

    def show_lab(self, kind: type[Lab]) -> LabTab | None:
        """Show the tab of this lab, which waits for a scene, and return it; None if it cannot be built."""
        if self.current is None or kind is not self.current.session.lab:
            index = self.labs.index(kind)
            self._choose(index, back=True)
            if self.current is None or self.current.session.lab is not kind:
                return None
            self.tabs.active = index
        return self._current_tab()

    def make_room(self) -> None:
        """Handle a story that was opened or closed: it uses the right column, and its keys override the lab's."""
        self._list_keys()
        roomy = not self.browser.presenter and self._roomy[1]
        self.template.contextbar_open = self.stories.open or roomy
        self._arrange()  # needed if contextbar_open has not changed

    def _list_keys(self) -> None:
        """Send the browser the list of keys that have a function now."""
        own = self.current.controls.keys if self.current is not None else ()
        tools = self.bar.tool_keys if self.browser.presenter else ()
        self.browser.wanted = list(dict.fromkeys([*self._keys, *self.stories.keys, *tools, *own]))

    def _dropped(self, name: str, text: str | None) -> None:
        """Show the scene in a file that was dropped on the page."""
        if self.current is None:
            return
        try:
            scene = scene_in(text)
        except SceneError as error:
            self._notices().tell("warning", f"{name} cannot be shown: {error}.")
            return
        self._build(partial(self._restore, scene, name))

    def _notices(self) -> Notices:
        return self._current_tab().notices

    def _current_tab(self) -> LabTab:
        if self.current is None:
            raise RuntimeError("no lab is shown yet")
        return self.current

    def _choose_soon(self) -> None:
        """Show the chosen tab's lab once the browser has drawn the current lab.

        If several tabs are chosen in quick succession, only the last one is built: each lab makes the browser create
        some hundred models.
        """
        tab, chosen = self.current, self._chosen()
        if tab is None or chosen is None or tab is self.lab_tabs.get(self.labs[chosen].LAB):
            return  # shown already, or the page has no lab yet
        if tab.drawn:
            self._show_chosen_soon()
        elif not self._waiting:
            self._waiting = True
            self.document.add_timeout_callback(partial(self._stop_waiting, tab), DRAWN)

    def _choose_now(self) -> None:
        if self._waiting:
            self._waiting = False
            self._show_chosen_soon()

    def _show_chosen_soon(self) -> None:
        self._veil()
        if not self._choosing:
            self._choosing = True
            self._build(self._show_chosen)

    def _veil(self) -> None:
        """Hide the current lab while the chosen one is built, which may take seconds."""
        chosen = self.tabs.active
        if not self._is_tab(chosen) or self.labs[chosen].LAB in self.lab_tabs:
            return
        self._opening.object = filled("<div role='status'>Opening {lab} …</div>", lab=self.labs[chosen].TITLE)
        for part, visible in ((self._main, False), (self._opening, True), *((bar, False) for bar in self._bars)):
            part.visible = visible

    def _unveil(self) -> None:
        """Show the current lab again after `_veil`, because it was chosen again or the chosen lab cannot be shown."""
        if self._opening.visible:
            for part, visible in ((self._main, True), (self._opening, False), *((bar, True) for bar in self._bars)):
                part.visible = visible

    def _chosen_there(self) -> None:
        """End the wait for the chosen lab, and pass it the keys pressed during the wait once it is shown."""
        self._choosing, keys, self._meant = False, self._meant, []
        for key in keys:
            self.document.add_next_tick_callback(partial(self._pressed, key))

    def _show_chosen(self) -> None:
        """Show the lab of the tab chosen by now, unless it is already shown."""
        self._chosen_there()
        chosen = self._chosen()
        if chosen is not None and self.current is not self.lab_tabs.get(self.labs[chosen].LAB):
            self._choose(chosen)
        else:
            self._unveil()

    def _chosen(self) -> int | None:
        """Return the index of the chosen tab; log an invalid value, which a browser may send, and return None."""
        chosen = self.tabs.active
        if self._is_tab(chosen):
            return int(chosen)
        log.warning("tab must be from 0 to %d, not %.99r", len(self.labs) - 1, chosen)
        return None

    def _is_tab(self, chosen: object) -> bool:
        return type(chosen) is int and 0 <= chosen < len(self.labs)

    def _stop_waiting(self, tab: LabTab, _: None = None) -> None:
        """Show the chosen lab when `tab` is drawn, or has not been drawn for DRAWN ms, for example in a hidden tab."""
        if tab is self.current:  # otherwise another lab is shown, and `_put` has ended the wait
            self._choose_now()

    def _choose(self, index: int, back: bool = False) -> None:
        """Show the lab of this tab, building it at first use, and suspend the previous one.

        back: whether a scene from an address will be restored; this adds no entry to the browser's history.
        """
        lab = self.labs[index]
        tab = self.lab_tabs.get(lab.LAB) or self._made(lab)
        if tab is None:
            self._stay()
            return
        chosen = self.current not in {None, tab} and not back
        if tab is not self.current:
            if self.current is not None:
                self._leave(self.current)
            self._put(tab)
        if tab.started:
            tab.show(True)
        else:
            tab.start(awaits_scene=back)
        tab.address.enter(push=chosen)

    def _put(self, tab: LabTab) -> None:
        """Show the view of `tab` now and queue its bars, so that the browser draws the view first."""
        self.current, self._waiting = tab, False
        self.lab_tabs[tab.session.lab.LAB] = tab
        self._fit(tab)
        self._main.objects = list(tab.main)
        self._main.visible, self._opening.visible = True, False
        for bar in self._bars:
            bar.visible = False  # hidden until `_fill`, so that the controls of another lab are not shown
        bars = [tab.controls.panel], [*tab.readout.panel, *tab.questions]
        for number, bar in enumerate(bars):
            self._build(partial(self._fill, tab, number, bar))
        self._list_keys()
        self.bar.follow(tab)
        tab.look(self.visible)
        self.export.show(tab)
        self.code.show(tab)

    def _fill(self, tab: LabTab, bar: int, parts: list[Any]) -> None:
        """Show `parts` in a bar next to the view, unless another tab is current by now."""
        if tab is self.current:
            self._bars[bar].objects, self._bars[bar].visible = parts, True

    def _write_address(self, lab: type[Lab], query: str, push: bool) -> None:
        """Write the state of a lab to the browser's address, if its tab is current."""
        if self.current is not None and self.current.session.lab is lab:
            self.browser.write_address(query, push)

    def _made(self, lab: type[Lab]) -> LabTab | None:
        """Return the lab's new tab; if building it raises, report the error and return None."""
        try:
            tab = LabTab(
                lab, self.document, self._window, self.level != FULL,
                write_address=partial(self._write_address, lab), followed=lambda: self.audience.viewed,
            )  # fmt: skip
        except Exception as error:
            self._failed.add(lab.LAB)
            problem = f"The lab {lab.LAB} cannot be shown: {type(error).__name__}: {error}"
            if problem not in self._problems:
                log.exception("the tab of the lab %s", lab.LAB)
                self._problems.append(problem)
            if self._begun:  # otherwise `_begin` reports it once a lab is shown
                self._notices().tell("error", problem)
            return None
        tab.first_drawn.subscribe(partial(self._stop_waiting, tab))
        tab.refreshed.subscribe(lambda _: self.bar.refresh())
        return tab

    def _stay(self) -> None:
        """Handle a lab that cannot be shown: keep the current one, or show the first that works, or the problems."""
        while self.current is None:
            index = next((i for i, lab in enumerate(self.labs) if lab.LAB not in self._failed), None)
            if index is None:
                self._main.objects = [cannot_show(self._problems)]
                return
            self._choose(index)
        self._unveil()
        self.tabs.active = self.labs.index(self.current.session.lab)

    def _leave(self, tab: LabTab) -> None:
        """Suspend `tab` as another lab is shown; close it if it was never drawn, since it cannot be resumed then."""
        self.race.close()
        if tab.drawn:
            tab.show(False)
        else:
            self.export.forget(tab)
            tab.close()
            del self.lab_tabs[tab.session.lab.LAB]

    def _show_soon(self, shown: bool, event: Any) -> None:
        """Handle a browser that disconnected or reconnected, after the changes that are being built."""
        self.document.add_next_tick_callback(partial(self._show, shown))

    def _show(self, shown: bool) -> None:
        session = self.document.session_context.session if self.document.session_context else None
        if not shown and session is not None and session.connection_count:
            return  # reconnected by another connection
        self.system.show(shown)
        self.audience.away = not shown
        if self.current is not None:
            self.current.show(shown and not self.race.rests)  # a resting race resumes the lab when it closes

    def _destroyed(self, session_context: Any) -> None:
        session_limiter().remove(self)
        self.race.give_up()
        self.audience.close()
        self.system.close()
        self.export.close()
        for tab in self.lab_tabs.values():
            tab.close()

    # -- keys and buttons

    def _card_toggled(self, name: str, event: Any) -> None:
        """Set the browser's focused card after a card was opened or closed."""
        left = [other for other, card in self._cards.items() if card.open and other != name]
        self.browser.card = name if event.new else left[-1] if left else ""

    def _pressed(self, key: str) -> None:
        keys = self._keys | self.stories.keys
        if self._choosing:
            self._meant.append(key)
        elif key == ESCAPE and self.browser.card in self._cards:
            self._cards[self.browser.card].toggle()
        elif key in keys:
            keys[key]()
        elif self.browser.presenter and key in self.bar.tool_keys:
            self.bar.tool_keys[key]()
        elif self.current is not None:
            self.current.press(key)
            self.bar.refresh()

    def toggle_help(self) -> None:
        """Show or hide the list of keys."""
        if self.current is not None:
            parts = self.current.parts
            words = HELP.format(rows=parts.help.strip(), pointer=parts.pointer.strip())
            self._toggle(f"Keys and pointer: {self.current.session.lab.TITLE}", words)

    def toggle_about(self) -> None:
        """Show or hide the equation, the method and the sources of the current lab."""
        if self.current is not None:
            lab = self.current.session.lab
            self._toggle(f"About {lab.TITLE}", self.current.parts.about(lab))

    def toggle_numbers(self) -> None:
        """Show or hide the current numbers behind the plots of the current lab."""
        if self.current is not None:
            session = self.current.session
            self._toggle(f"Numbers: {session.lab.TITLE}", numbers_html(session.lab, session.latest))

    def _toggle(self, title: str, words: str) -> None:
        shown = self._dialog.open and self._dialog.title == title
        if not shown:
            self._words.object = words
            self._dialog.title = title
            self.browser.card = DIALOG  # before the dialog gets the focus, which the browser restores later
        self._dialog.open = not shown

    def present(self) -> None:
        """Toggle presenter mode: larger type, and the main controls in a bar below the picture."""
        on, page = not self.browser.presenter, self.template
        if on:
            self._bars_open = page.sidebar_open, page.contextbar_open
        with changed_together(self.document):
            self.browser.presenter = on
            self._list_keys()
            sidebar, readout = (False, False) if on else self._bars_open
            page.param.update(sidebar_open=sidebar, contextbar_open=readout or self.stories.open)
            self.bar.show(PRESENTING if on else self._bar_mode)
            self.system.present(on)
            self._arrange()


def bar_mode(width: int, level: str, readout_open: bool) -> str:
    """Return the mode of the bar at the bottom in a window of `width` px outside of presenter mode; "" hides it.

    While the readout is closed, the bar shows its number and its sentence, the most important result for an audience.
    level: see app.page.address.
    """
    if level != FULL:
        return MINIMAL if level == "minimal" else ""
    if width < SIDE_ROOM:
        return NARROW
    return "" if readout_open else STATEMENT


def bars_with_room(width: int) -> tuple[bool, bool]:
    """Return whether a window of `width` px has room for the side bar, and for the readout as well."""
    return width >= SIDE_ROOM, width >= READOUT_ROOM


def story_sheet(window: Size, above: int, below: int) -> int:
    """Return the height in px of the story sheet below the picture; 0 if the story is placed next to the picture.

    window: (width, height) in px; above, below: height in px of the bars at the top and the bottom. Within the bounds
    of STORY_SHEET, the sheet leaves room for a square picture of the window's full width.
    """
    width, height = window
    if width >= STORY_ROOM or (width > height and width >= STORY_ROOM_TURNED):
        return 0
    least, most = (round(part * height) for part in STORY_SHEET)
    return min(max(height - above - below - PADDING - round(SQUARE * width), least), most)
