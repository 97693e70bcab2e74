"""A connection that ends late does not hide a page that another connection shows."""

from __future__ import annotations

from types import SimpleNamespace

from app.page.page import Page


def test_an_old_connection_that_ends_late_hides_no_page():
    """The page is notified of the end of a connection while another one shows it."""
    shown, session = [], SimpleNamespace(connection_count=1)
    part = SimpleNamespace(show=shown.append, connected=shown.append, rests=False)
    document = SimpleNamespace(session_context=SimpleNamespace(session=session))
    page = SimpleNamespace(document=document, current=part, features=[part])
    Page._connected(page, False)
    assert shown == []
    session.connection_count = 0
    Page._connected(page, False)
    assert shown == [False, False]
    part.rests = True
    Page._connected(page, True)
    assert shown == [False, False, True, False]  # the lab rests while racers run
