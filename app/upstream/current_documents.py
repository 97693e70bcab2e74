"""Keep the current document per thread, and reset it when a callback raises."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bokeh.io.doc
from bokeh.application.handlers import code
from panel.io import handlers

from app.upstream.fix import Code, Fix


class ThreadStack(threading.local):
    """A stack of documents for each thread, with the methods of a list that `bokeh.io.doc` uses."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: int) -> Any:
        return self._entries[place]

    def append(self, entry: Any) -> None:
        """Push `entry`."""
        self._entries.append(entry)

    def pop(self) -> Any:
        """Pop and return the last entry."""
        return self._entries.pop()


def install() -> None:
    """Replace Bokeh's stack of current documents, and the context manager that pushes to it."""
    stack = ThreadStack()

    @contextmanager
    def patch_curdoc(document: Any) -> Iterator[None]:
        """Make `document` the current document within the block."""
        stack.append(weakref.ref(document))
        try:
            yield
        finally:
            stack.pop()

    bokeh.io.doc._PATCHED_CURDOCS = stack  # type: ignore[assignment] # noqa: SLF001 - Bokeh has no public name for it
    for module in (bokeh.io.doc, code, handlers):
        module.patch_curdoc = patch_curdoc  # type: ignore[attr-defined]


FIX = Fix(
    name="current_documents",
    package="bokeh",
    versions="3.9",
    kind="fault",
    purpose="an error in one page's callback drew the plots of other pages into its document",
    report=(
        "bokeh.io.doc keeps one stack of patched documents for all threads, and patch_curdoc does not pop it when its "
        "block raises: curdoc() then returns another page's document in every thread."
    ),
    replaces=(
        Code("bokeh.io.doc:patch_curdoc", ("cac767db7326",)),
        Code("bokeh.io.doc:curdoc", ("ffe121f74532",)),
    ),
    install=install,
    repaired="3.10",
)
