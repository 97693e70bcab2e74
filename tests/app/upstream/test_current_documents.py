"""Each thread has its own current document, also after an error."""

from __future__ import annotations

from threading import Event, Thread

import bokeh.io.doc
import pytest
from bokeh.application.handlers import code
from bokeh.document import Document
from bokeh.document.callbacks import invoke_with_curdoc
from panel.io import handlers

from app.upstream import current_documents


@pytest.fixture
def apart(monkeypatch):
    for module in (bokeh.io.doc, code, handlers):
        monkeypatch.setattr(module, "patch_curdoc", module.patch_curdoc)  # restored afterwards
    monkeypatch.setattr(bokeh.io.doc, "_PATCHED_CURDOCS", [])
    current_documents.install()


def test_a_failing_callback_does_not_leave_its_document_current(apart):
    mine, other = Document(), Document()

    def failing():
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        invoke_with_curdoc(other, failing)
    assert bokeh.io.curdoc() is not other
    assert invoke_with_curdoc(mine, bokeh.io.curdoc) is mine


def test_each_thread_has_its_own_current_document(apart):
    mine, other, inside, leave = Document(), Document(), Event(), Event()

    def elsewhere():
        def callback():
            inside.set()
            leave.wait(30)

        invoke_with_curdoc(other, callback)

    thread = Thread(target=elsewhere)
    thread.start()
    try:

        def here():
            inside.wait(30)
            seen = bokeh.io.curdoc()
            leave.set()
            thread.join(30)
            return seen, bokeh.io.curdoc()

        assert invoke_with_curdoc(mine, here) == (mine, mine)
    finally:
        leave.set()
        thread.join()
