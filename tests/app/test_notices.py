"""Notes over a page: how long they stay."""

from __future__ import annotations

from bokeh.document import Document

from app.notices import LIFE, Notices


def test_a_note_counts_from_when_its_page_is_drawn():
    document = Document()
    notices = Notices(document)
    notices.tell("info", "early")
    assert document.session_callbacks == []  # a slow browser may need longer to draw the lab than a note stays
    notices.seen()
    notices.tell("info", "late")
    assert [callback.timeout for callback in document.session_callbacks] == [LIFE, LIFE]
    for callback in document.session_callbacks:
        callback.callback()
    assert notices.panel.objects == []
