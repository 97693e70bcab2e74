"""A file that comes in pieces, from a browser that may not be ours."""

from __future__ import annotations

import pytest

from app.message_bounds import MOST_BYTES
from app.upload import PIECE, FileField, Upload
from compute import settings

MOST = 3 * PIECE


@pytest.fixture
def field():
    field = FileField(max_file_size=MOST, label="A", accept=".npz")
    field._send_msg = lambda message: None
    return field


def piece(number, of, data=b"x", name="A.npz", **others):
    return {"type": "status", "status": "upload_event", "chunk": number, "total_chunks": of, "data": data, "name": name,
            "mime_type": "", **others}  # fmt: skip


def send(field, *messages):
    for message in ({"status": "initializing"}, *messages, {"status": "finished"}):
        field._handle_msg(message)


def kept(field):
    pieces = [data for file in field._file_buffer.values() for data in file["chunks"].values()]
    return sum(map(len, pieces)) + sum(len(file["value"]) for file in field._buffer)


def test_a_piece_as_text_fits_a_message():
    assert FileField(max_file_size=MOST).chunk_size * 4 / 3 < MOST_BYTES / 2


def test_pieces_become_the_file(field):
    send(field, piece(1, 3, b"a"), piece(2, 3, b"b"), piece(3, 3, b"c"))
    assert (field.value, field.filename) == (b"abc", "A.npz")
    send(field, piece(1, 1, b"other", name="B.npz"))
    assert (field.value, field.filename) == (b"other", "B.npz")


def test_no_more_is_kept_than_a_file_may_have(field):
    for file in range(20):
        for number in range(1, 5):
            field._handle_msg(piece(number, 10**6, bytes(PIECE), name=f"{file}.npz"))
            assert kept(field) <= MOST
    assert field.value is None


def test_a_browser_that_sets_the_bound_gets_no_further(field):
    field._process_events({"max_file_size": 2**40})
    for number in range(1, 6):
        field._handle_msg(piece(number, 10**6, bytes(PIECE)))
        assert kept(field) <= MOST


@pytest.mark.parametrize(
    "message",
    [
        piece(2, 3), piece(0, 3), piece("1", 3), piece(1, "3"), piece(1, 0), piece(1, 2, "text"), piece(1, 2, None),
        piece(1, 2, name=5), piece(1, 2, name="n" * 300), piece(1, 2, mime_type=None), piece(1, 2, bytes(MOST + 1)),
        {"status": "upload_event"}, {"status": "?"}, {}, None, [], "finished",
    ],
)  # fmt: skip
def test_what_is_no_next_piece_is_dropped(field, message):
    send(field, message)
    assert field.value is None
    assert kept(field) == 0
    send(field, piece(1, 1, b"good"))
    assert field.value == b"good"


def test_a_server_may_take_less(monkeypatch):
    monkeypatch.setenv(settings.VARIABLE, "")
    settings.hand_on(settings.Settings(upload=1))
    taken = []
    upload = Upload("A", ".npz", "A", lambda data, name: taken.append(data))
    assert upload.field.max_file_size == settings.MIB
    upload.field.value = bytes(settings.MIB + 1)
    assert "at most 1 MiB." in upload.words.object
    upload.field.value = bytes(settings.MIB)
    assert [len(data) for data in taken] == [settings.MIB]
