"""Notices over a page: how long they are shown."""

from __future__ import annotations

from bokeh.document import Document

from app.page.notices import LIFE, Notices
from compute.engine import LabFailed
from compute.engine.messages import Paused


def test_a_note_counts_from_when_its_page_is_drawn():
    document = Document()
    notices = Notices(document)
    notices.tell("info", "early")
    assert document.session_callbacks == []  # a slow browser may need longer to draw the lab than a notice is shown
    notices.seen()
    notices.tell("info", "late")
    assert [callback.timeout for callback in document.session_callbacks] == [LIFE, LIFE]
    for callback in document.session_callbacks:
        callback.callback()
    assert notices.panel.objects == []


def test_a_repeated_notice_is_shown_once_and_as_the_latest():
    notices = Notices(Document())
    for kind, text in [("error", "b cannot be shown"), ("info", "saved"), ("error", "b cannot be shown")]:
        notices.tell(kind, text)
    notices.tell("warning", "saved")  # another kind of notice
    shown = [(note.severity, note.title) for note in notices.panel.objects]
    assert shown == [("info", "saved"), ("error", "b cannot be shown"), ("warning", "saved")]
    notices.clear()
    for text in ("24 % done", "74 % done"):
        notices.tell("info", text, "restoring")
    notices.tell("success", "Restored", "restoring")  # it replaces the notices about the same process
    assert [note.title for note in notices.panel.objects] == ["b cannot be shown", "Restored"]


def test_a_lab_that_failed_says_how_to_go_on():
    notices = Notices(Document())
    notices.announce(LabFailed("the engine failed twice while it worked for this lab (planted)"))
    (note,) = notices.panel.objects
    assert "failed twice" in note.title
    assert "Press Run" in note.title
    assert note.severity == "error"


def test_notes_on_a_pause_go_when_it_is_over_and_all_but_errors_with_a_step():
    notices = Notices(Document())
    notices.tell("error", "kept")
    notices.announce(Paused("the field holds values that are not finite"))
    notices.tell("info", "saved")
    notices.resumed()
    assert [note.title for note in notices.panel.objects] == ["kept", "saved"]
    notices.announce(Paused("again"))
    notices.clear()
    assert [note.title for note in notices.panel.objects] == ["kept"]
