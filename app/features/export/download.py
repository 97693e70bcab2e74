"""Downloads: files of any size are sent in pieces, so that frames and clicks are handled in between."""

from __future__ import annotations

import mimetypes
from collections import deque
from collections.abc import Callable
from io import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import param
from panel.custom import JSComponent

from app.server.access import host_name

PIECE = 2**20  # bytes: blocks the server's event loop for a few milliseconds
LONGEST_PAGE = 2000  # characters of a page's URL without the query


class FileDownload(JSComponent):
    """Invisible component that sends files for the browser to save.

    The browser acknowledges each piece before the next one is sent. piece: {"file": number of the file, "number": of
    the piece, "of": number of pieces, "name", "kind", "data"}.
    """

    piece = param.Dict(default={}, doc="The newest piece.")
    query = param.Dict(default={}, doc="What follows the page's address in a link that is to be copied.")

    _esm = Path(__file__).with_name("download.js").read_text(encoding="utf-8")

    def __init__(self, **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._files: deque[tuple[BinaryIO, str, Callable[[], object]]] = deque()
        self._number = self._next = self._count = 0
        self._query, self._copies = "", 0  # of the latest link, stored here because the page can write the parameter
        self._on_copied: Callable[[str, bool], object] | None = None

    def send(self, path: Path, name: str, done: Callable[[], object]) -> None:
        """Send the file `path` to the browser, which saves it as `name`; done() is called when all pieces have arrived.

        Files are sent one after the other. A file that is deleted in the meantime still arrives. Raise OSError if it
        does not exist.
        """
        self._files.append((path.open("rb"), name, done))
        if len(self._files) == 1:
            self._begin()

    def copy_link(self, query: str, done: Callable[[str, bool], object]) -> None:
        """Put the page's URL with `query` into the address bar and on the clipboard.

        done(URL, copied) receives the whole URL and whether the browser allowed the clipboard.
        """
        self._query, self._copies, self._on_copied = query, self._copies + 1, done
        self.query = {"text": query, "again": self._copies}

    def close(self) -> None:
        """Discard unfinished downloads; called when the page is closed."""
        for opened, *_ in self._files:
            opened.close()
        self._files.clear()

    def _begin(self) -> None:
        self._number += 1
        self._next, self._count = 0, max(1, -(-self._files[0][0].seek(0, SEEK_END) // PIECE))
        self._push()

    def _push(self) -> None:
        """Send the next piece, if any is left."""
        if self._next >= self._count:
            return
        opened, name, _ = self._files[0]
        opened.seek(self._next * PIECE)
        data = opened.read(PIECE)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        number, self._next = self._next, self._next + 1
        self.piece = {"file": self._number, "number": number, "of": self._count, "name": name, "kind": kind,
                      "data": data}  # fmt: skip

    def _handle_msg(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        address, on_copied = data.get("address"), self._on_copied
        if on_copied is not None and isinstance(address, str) and is_link(address, self._query):
            self._on_copied = None  # called once, even if the browser repeats its message
            on_copied(address, data.get("copied") is True)
        if data.get("file") != self._number or data.get("number") != self._next - 1 or not self._files:
            return
        if self._next == self._count:
            opened, _, done = self._files.popleft()
            opened.close()
            self.piece = {}  # frees the browser's memory
            done()
            if self._files:
                self._begin()
        else:
            self._push()


def is_link(address: str, query: str) -> bool:
    """Return whether `address`, reported by a browser, is a page URL with this query and of acceptable length."""
    if len(address) > LONGEST_PAGE + len(query) or not (address.isascii() and address.isprintable()):
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(host_name(parts.netloc)) and address.endswith(f"?{query}")
    except ValueError:
        return False
