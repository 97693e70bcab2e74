"""Page object of the export card."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TimedOut

from tests.browser.lab_page import SideBar

ACTS = {
    "Link": "Copy the link", "Picture": "Save the picture", "Film": "Make the film", "Record": "Record",
    "Numbers": "Save the numbers",
}  # fmt: skip
LONG = 240_000  # ms: films are rendered at low priority, on two cores
DROP = """([name, kind, base64]) => {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)), data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: kind }));
  for (const event of ['dragover', 'drop'])
    document.body.dispatchEvent(new DragEvent(event, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


class ExportPage(SideBar):
    """The export card of `page`, which shows a lab."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page, self.folder = page, folder

    def show(self, section: str) -> None:
        """Open a section of the card, and the card if it is closed."""
        self.drawn()  # a key that is pressed before is lost
        if not self.page.locator(".export-card").is_visible():
            self.key("e")
            self.page.locator(".export-card").wait_for()
        self.page.get_by_role("button", name=section, exact=True).first.click()
        self.page.get_by_role("button", name=ACTS[section], exact=True).last.wait_for()  # before its fields
        self.transitions()

    def download(self, button: str, before: Callable[[], object] = lambda: None) -> Path:
        """Press the button, call `before`, and return the path of the downloaded file."""
        try:
            with self.page.expect_download(timeout=LONG) as download:
                self.page.get_by_role("button", name=button, exact=True).click()
                before()
        except TimedOut as error:
            jobs = self.page.locator(".job").all_inner_texts()
            raise AssertionError(f"no file came; jobs: {jobs}; notes: {self.notes()!r}; {self.status()}") from error
        path = self.folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def fill(self, label: str, value: object) -> None:
        """Type into a field and leave it with Tab."""
        field = self.page.get_by_label(label, exact=True).first
        field.fill(str(value))
        field.press("Tab")

    def notes(self) -> str:
        """Return the texts of the page's notices."""
        return " ".join(self.page.locator("[role=alert]").all_inner_texts())

    def drop(self, path: Path, kind: str) -> None:
        """Drop a file on the page; kind: its MIME type."""
        self.page.evaluate(DROP, [path.name, kind, base64.b64encode(path.read_bytes()).decode()])
