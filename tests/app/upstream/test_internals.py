"""The private names of libraries exist, and the server does not start without them."""

from __future__ import annotations

import re
from functools import partial

import pytest
from bokeh.document import Document
from panel.io.document import _destroy_document

from app import app_hooks
from app.upstream import internals


def test_all_names_exist_and_a_missing_one_keeps_the_server_from_starting(monkeypatch):
    assert internals.missing() == []
    absent = "bokeh.server.session:ServerSession._no_such_name"
    monkeypatch.setattr(internals, "NAMES", (*internals.NAMES, absent))
    assert internals.missing() == [absent]
    with pytest.raises(SystemExit, match=re.escape(absent)):
        app_hooks.change_panel_and_bokeh()


def test_the_end_of_a_document_is_seen():
    document = Document()
    assert not internals.is_destroyed(document)
    document.destroy = partial(_destroy_document, document)  # as Panel does for the documents that it makes
    document.destroy(None)
    assert internals.is_destroyed(document)
