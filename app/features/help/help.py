"""The dialog with the table of keys, the article about the shown lab, or the numbers behind its plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import panel as pn
import panel_material_ui as pmui

from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.theme import stylesheet
from app.page.widgets import icon
from app.tab.plot_words import numbers_html

DIALOG = "MuiDialog-root"  # CSS class of Material's dialog, which handles Escape without our code
KEYS = """
| Key | does |
| --- | --- |
{lab}
{features}

{pointer}
"""


class Help(Feature):
    """The dialog of one page."""

    name, order, key = "help", 90, "h"
    help = (
        HelpRow(50, "**Shift+N**", "the numbers behind the plots, as tables"),
        HelpRow(110, "**H**", "this help"),
    )

    def __init__(self, page: FeaturePage) -> None:
        super().__init__(page)
        # Not empty: the Markdown parser compiles its patterns for the first text, which takes 30 ms.
        self._words = pn.pane.Markdown("Words", stylesheets=[stylesheet()])
        self.dialog = pmui.Dialog(self._words, close_on_click=True, show_close_button=True, width_option="md")
        self.dialog.param.watch(lambda event: page.focus(DIALOG, event.new), "open")
        self.parts = (self.dialog,)
        self.buttons = (
            icon("info_outline", "About this lab", self.toggle_about, color="default", align="center"),
            icon("help_outline", "Keys and pointer (H)", self.toggle, color="default", align="center"),
        )

    @property
    def keys(self) -> Mapping[str, Callable[[], None]]:
        """The keys of the help and of the numbers."""
        return {**super().keys, "shift+n": self.toggle_numbers}

    def toggle(self) -> None:
        """Show or hide the table of keys."""
        if (tab := self.page.current) is not None:
            rows = sorted(row for feature in self.page.features for row in feature.help)
            features = "\n".join(f"| {row.keys} | {row.does} |" for row in rows)
            words = KEYS.format(lab=tab.parts.help.strip(), features=features, pointer=tab.parts.pointer.strip())
            self._toggle(f"Keys and pointer: {tab.session.lab.TITLE}", words)

    def toggle_about(self) -> None:
        """Show or hide the equation, the method and the sources of the shown lab."""
        if (tab := self.page.current) is not None:
            lab = tab.session.lab
            self._toggle(f"About {lab.TITLE}", tab.parts.about(lab))

    def toggle_numbers(self) -> None:
        """Show or hide the current numbers behind the plots of the shown lab."""
        if (tab := self.page.current) is not None:
            lab = tab.session.lab
            self._toggle(f"Numbers: {lab.TITLE}", numbers_html(lab, tab.session.latest))

    def _toggle(self, title: str, words: str) -> None:
        opens = not (self.dialog.open and self.dialog.title == title)
        if opens:
            self._words.object = words
            self.dialog.title = title
            self.page.focus(DIALOG, True)  # before the dialog gets the focus, which the browser restores later
        self.dialog.open = opens
