"""Files uploaded in pieces, also from a hostile browser."""

from __future__ import annotations

import pytest

from app.server.message_bounds import MOST_BYTES
from app.tab.upload import PIECE, FileField, Upload
from compute.cli.settings import MIB
from compute.export.jobs import JobLane
from tests.app.tab import upload_chores as chores
from tests.direct import read

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


def test_pieces_become_the_file(field):
    assert field.chunk_size * 4 / 3 < MOST_BYTES / 2  # a piece in base64 fits a message
    send(field, piece(1, 3, b"a"), piece(2, 3, b"b"), piece(3, 3, b"c"))
    assert (field.value, field.filename) == (b"abc", "A.npz")
    send(field, piece(1, 1, b"other", name="B.npz"))
    assert (field.value, field.filename) == (b"other", "B.npz")


def test_no_more_is_kept_than_a_file_may_have(field):
    field._process_events({"max_file_size": 2**40})  # forged by the browser
    for file in range(5):
        for number in range(1, 5):
            field._handle_msg(piece(number, 10**6, bytes(PIECE), name=f"{file}.npz"))
            assert kept(field) <= MOST
    assert field.value is None


@pytest.mark.parametrize(
    "message",
    [
        piece(2, 3), piece("1", 3), piece(1, "3"), piece(1, 0), piece(1, 2, "text"), piece(1, 2, name=5),
        piece(1, 2, name="n" * 300), piece(1, 2, mime_type=None), piece(1, 2, bytes(MOST + 1)),
        {"status": "upload_event"}, {"status": "?"}, None, "finished",
    ],
)  # fmt: skip
def test_a_malformed_piece_discards_the_file_and_the_next_file_arrives(field, message):
    send(field, message)
    assert field.value is None
    assert kept(field) == 0
    send(field, piece(1, 1, b"good"))
    assert field.value == b"good"


def test_a_server_may_accept_smaller_files(limited):
    limited(upload=1)
    page = Page()
    assert page.upload.field.max_file_size == MIB
    page.upload.field.value = bytes(MIB + 1)
    assert "at most 1 MiB." in page.said[1]
    page.upload.field.value = bytes(MIB)
    read(page.upload)
    assert [size for _, size in page.taken] == [MIB]


class Page:
    """A file field and the files that it passes on."""

    def __init__(self, task=chores.measured):
        self.taken = []
        self.upload = Upload("A", "A", task, lambda file, name: self.taken.append((name, file.size)))

    def give(self, name, data):
        self.upload.field._update_file(name, "", data)
        return self.upload._job

    @property
    def said(self):
        return self.upload.field.uploaded_label, self.upload.words.object if self.upload.words.visible else ""


def test_a_file_is_read_elsewhere_and_passed_on_once():
    page = Page()
    job = page.give("A.npz", bytes(30))
    assert page.said == ("Reading A.npz …", "")
    assert page.upload.busy
    assert job.join(120)
    assert page.taken == []  # the page has not polled, as while another tab is shown
    for _ in range(3):
        page.upload.tick()
    assert page.taken == [("A.npz", 30)]
    assert not page.upload.busy
    assert job.client is None


def test_remarks_on_an_older_file_are_not_shown_while_another_is_read():
    page = Page()
    page.give("A.npz", bytes(30))
    page.upload.reset()
    page.upload.taken("Shown.")
    page.upload.prompt("Choose b.")
    assert page.said == ("Reading A.npz …", "")
    read(page.upload)
    page.upload.taken("Shown.")
    assert page.said[0] == "A: A.npz"
    assert "Shown." in page.said[1]


def test_a_second_file_replaces_one_that_is_being_read():
    page = Page(chores.slow_if_long)
    first = page.give("slow.npz", bytes(1000))
    second = page.give("B.npz", bytes(5))
    assert first.state == "cancelled"
    assert second is not first
    assert page.said == ("Reading B.npz …", "")
    read(page.upload)
    assert page.taken == [("B.npz", 5)]


@pytest.mark.parametrize("end", ["close", "stop"])
def test_a_page_that_is_closed_or_a_field_that_is_hidden_reads_no_further(end):
    page = Page(chores.slow_if_long)
    job = page.give("slow.npz", bytes(1000))
    getattr(page.upload, end)()
    assert job.join(120)
    assert job.state == "cancelled"
    page.upload.tick()
    assert page.taken == []
    if end == "stop":
        assert page.said == ("A", "")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (chores.refused, "matrix must be a matrix"),
        (chores.hungry, "matrix must be readable in 64 MiB of memory"),
        (chores.gone, "its process ended before it was done"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(task, words):
    page = Page(task)
    page.give("A.npz", bytes(10))
    read(page.upload)
    label, below = page.said
    assert label == "Rejected: A.npz"
    assert words in below
    assert page.taken == []
    page.upload._task = chores.measured  # the next file is not affected
    page.give("B.npz", bytes(10))
    read(page.upload)
    assert page.taken == [("B.npz", 10)]


def test_a_file_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr("app.tab.upload.DECODE", JobLane("decode", 2, 1.0))
    page = Page(chores.slow_if_long)
    page.give("slow.npz", bytes(1000))
    read(page.upload)
    assert page.said[0] == "Rejected: slow.npz"
    assert "The file was not read: it took longer than the allowed 1 s" in page.said[1]


def test_files_beyond_the_bound_of_all_pages_are_refused_until_others_are_released(limited):
    limited(memory=64)
    held = [chores.Measured(n, f"held {n}", bytes(20 * MIB)) for n in range(4)]
    page = Page()
    page.give("A.npz", bytes(10))
    read(page.upload)
    assert page.taken == []
    assert "64 MiB are allowed on this server (its setting memory)" in page.said[1]
    held.clear()
    page.give("A.npz", bytes(10))
    read(page.upload)
    assert page.taken == [("A.npz", 10)]
