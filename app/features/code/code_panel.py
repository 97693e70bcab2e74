"""The code panel: one or two source files over a part of the page, with PTX, machine code and tables.

Before it is opened (K), it costs a page one empty column. Machine code comes from jobs in separate processes
(compute.own.code_tasks), and a thread renders the HTML: the page's event loop only checks for new content while the
panel is open. The files are those of available labs; no path comes from the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.features.code.code_html import SOURCE, TABS, CodeSide, page_html
from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.theme import CARD, html_pane
from app.page.widgets import icon, set_options
from app.server.builder import builder
from app.tab.open_lab import OpenLab
from compute.export.jobs import Job
from compute.own.code_files import CodeFile, files_of_lab
from compute.own.code_tasks import LISTINGS, Asked
from compute.own.code_view import ARCHITECTURES, INSTALL, CodeUnavailable, missing

TICK = 250  # ms
NONE = "none"
USUAL = "sm_90"
NARROW, WIDE = "min(680px, calc(100vw - 32px))", "calc(100vw - 32px)"  # of the panel with one file and with two
PLACE = {**CARD, "z-index": "1245", "width": NARROW, "height": CARD["max-height"], "overflow-x": "hidden"}
HEAD = {"position": "sticky", "top": "0", "z-index": "2", "background": "var(--paper)", "padding-bottom": "4px"}
FIELD = {"size": "small", "margin": (8, 4), "sizing_mode": "stretch_width"}
PLAIN = {
    "& .MuiToggleButton-root": {"whiteSpace": "nowrap", "padding": "4px 10px", "lineHeight": 1.3},
    "@media (max-width: 599px)": {  # several rows next to the title and Close
        "flexWrap": "wrap",
        "maxWidth": "calc(100vw - 148px)",
        "& .MuiToggleButton-root": {"flex": "0 0 auto", "width": "auto"},
    },
}
QUIET = {"color": "var(--muted)", "fontStyle": "italic"}
GREY = {"& .MuiToggleButton-root:nth-of-type(n+2)": QUIET}  # all except the source
MOST = 8  # jobs that a panel remembers; others are in the store, or are made again
RENDERING = ThreadPoolExecutor(1, thread_name_prefix="code")


class CodePanel(Feature):
    """The panel of one page."""

    name, order, key = "code", 40, "k"
    symbol, tip = "code", "The code that runs (K)"
    help = (HelpRow(80, "**K**", "the code that runs: source, PTX, machine code"),)

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        self._tab: OpenLab | None = None
        self.open = False
        self.card = pn.Column(styles=PLACE, margin=0, visible=False)  # filled when it is opened for the first time
        self.parts, self.corner = (self.card,), self.card
        self._files: dict[str, CodeFile] = {}
        self._ticking: Any = None
        self._making: Future[str] | None = None
        self._shown: tuple[Any, ...] = ()
        self._jobs: dict[Asked, Job] = {}

    def shown(self, tab: OpenLab) -> None:
        """Show the files of this tab's lab."""
        self._tab = tab
        if self.open:
            self._find_files()

    def toggle(self) -> None:
        """Open or close the panel."""
        if self._tab is None:
            return
        self.open = not self.open
        if not self.open:
            self.card.visible = False
            self.page.document.remove_periodic_callback(self._ticking)
            return
        self._ticking = self.page.document.add_periodic_callback(self._tick, TICK)
        if self.card.objects:
            self._fill()
        else:  # for the first time, which would block the event loop for too long
            builder().queue_or_call(self.page.document, self._fill)

    def _fill(self) -> None:
        if not self.open:  # closed before the thread was ready
            return
        if not self.card.objects:
            self._build()
        self._find_files()
        self.card.visible = True

    # -- components

    def _build(self) -> None:
        greyed = GREY if missing() else {}
        self.tab = pmui.RadioButtonGroup(
            options=list(TABS), value=SOURCE, size="small", margin=(6, 8), sx={**PLAIN, **greyed}
        )
        self.choices = [pmui.Select(label=label, options={}, **FIELD) for label in ("Program", "Compare with")]
        self.kernels = [pmui.Select(label=label, options=[], **FIELD) for label in ("Kernel", "Compare with kernel")]
        self.architecture = pmui.Select(
            label="GPU architecture",
            options=list(ARCHITECTURES),
            value=USUAL,
            **{**FIELD, "sizing_mode": "fixed"},
            width=140,
        )
        for field in (self.tab, *self.choices, *self.kernels, self.architecture):
            field.param.watch(lambda event: self._tick(), "value")
        close = icon("close", "Close (K)", self.toggle, color="default", align="center")
        title = html_pane("<h2>Code</h2>", margin=(0, 0, 0, 0), align="center", sizing_mode=None)
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        first = pn.Row(title, self.tab, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        second = pn.Row(*self.choices, margin=(0, 12), sizing_mode="stretch_width")
        self._third = pn.Row(
            *self.kernels, self.architecture, margin=(0, 12), sizing_mode="stretch_width", visible=False
        )
        head = pn.Column(first, second, self._third, styles=HEAD, margin=0, sizing_mode="stretch_width")
        self._text = html_pane("", Path(__file__).with_name("code.css").read_text(encoding="utf-8"))
        self.card.objects = [head, self._text]

    def _find_files(self) -> None:
        """Update the lists of files to the shown lab; the running one is selected unless the user chose another."""
        tab = self._tab
        if tab is None:
            return
        session = tab.session
        found = tab.parts.code(session) if tab.parts.code else files_of_lab(session.lab)
        files = {file.key: file for file in found}
        if files == self._files or not files:
            return
        self._files = files
        options = {file.label: key for key, file in files.items()}
        running = next(
            (k for k, file in files.items() if file.backend.name == session.values["backend"]), next(iter(files))
        )
        first, second = (field.value if field.value in files else "" for field in self.choices)
        set_options(self.choices[0], options, first or running)
        set_options(self.choices[1], {NONE: "", **options}, second)
        self._tick()

    # -- content

    def _tick(self) -> None:
        """Render the panel again if its content has changed."""
        if not self.open or not self._files:
            return
        self._find_files()
        chosen = [self._files[field.value] for field in self.choices if field.value in self._files]
        sides = [self._side(number, file) for number, file in enumerate(chosen)]
        state = (self.tab.value, *((s.file, s.listing, s.refused, s.doing, s.kernel) for s in sides))
        if state != self._shown:
            self._shown = state
            self._arrange(sides)
            self._making = RENDERING.submit(partial(page_html, self.tab.value, sides, self._dtype))
        if self._making is not None and self._making.done():
            made, self._making = self._making, None
            self._text.object = made.result()

    @property
    def _dtype(self) -> str:
        values = self._tab.session.values if self._tab else {}
        return str(values.get("dtype", "float64"))

    def _arrange(self, sides: Sequence[CodeSide]) -> None:
        """Set the width for one file or two, and list the kernels of each."""
        self.card.styles = {**PLACE, "width": WIDE if len(sides) == 2 else NARROW}
        self._third.visible = self.tab.value != SOURCE
        for number, field in enumerate(self.kernels):
            listing = sides[number].listing if number < len(sides) else None
            names = list(listing.names) if listing else []
            field.visible = bool(names)
            if names and names != field.options:
                field.param.update(options=names, value=field.value if field.value in names else names[0])

    def _side(self, number: int, file: CodeFile) -> CodeSide:
        """Return the content of one side, or the reason why its file cannot be shown."""
        try:
            return self._known(number, file)
        except (CodeUnavailable, OSError) as error:
            return CodeSide(file, refused=str(error))

    def _known(self, number: int, file: CodeFile) -> CodeSide:
        """Return one side. The source tab requests machine code only for CUDA C, which compiles quickly."""
        if self.tab.value == SOURCE and file.made != "cuda":
            return CodeSide(file)
        if file.made == "cuda" and (reason := missing()):
            return CodeSide(file, refused=reason.partition(";")[0] + ".", install=INSTALL)
        job = self._job(file)
        if job.state == "done":
            field = self.kernels[number]
            kernel = field.value if field.visible and field.value in job.result.names else ""
            return CodeSide(file, job.result, kernel=kernel)
        if job.over:
            return CodeSide(file, refused=job.text or "It was not made.")
        return CodeSide(file, doing=f"Compiling: {job.words or 'waiting for its turn'} …")

    def _job(self, file: CodeFile) -> Job:
        """Return the job for a file. A failed job is kept until the next request, so that its error can be read."""
        asked = Asked(file, self._dtype, self.architecture.value, file.saved)
        known = self._jobs.get(asked)
        if known is None or known.state == "cancelled":
            kept = [(k, job) for k, job in self._jobs.items() if job.state != "failed"]
            self._jobs = dict(kept[-MOST:])
            known = self._jobs[asked] = LISTINGS.ask(file, self._dtype, self.architecture.value, self)
        return known
