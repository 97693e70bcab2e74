"""All readers of foreign input: valid samples, the reader, and the exceptions of its refusals.

test_parsers.py damages the samples of `PARSERS`; `make fuzz` does so for longer.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from bokeh.protocol.exceptions import ProtocolError
from PIL import Image
from tornado.httputil import HTTPHeaders, HTTPInputError, HTTPServerRequest, RequestStartLine

from app.features.audience import handlers
from app.server import access
from app.server.message_bounds import BoundedProtocol
from app.tab import frame_channel
from app.tab.restore import scene_in
from compute.cli import serve_options
from compute.cli.settings import SettingsError
from compute.engine.recording import FrameRecorder
from compute.export.link import link_in_query, packed, unpacked
from compute.export.recordings import recorded
from compute.export.scene import Scene
from compute.files.images import LoadedPicture
from compute.labs.diffusion import Diffusion
from compute.labs.equations.forms import FORMS, Program
from compute.labs.equations.language import read as read_equations
from compute.labs.equations.passes import lower
from compute.labs.l_curve.problems.own import own
from compute.measure import records
from compute.own import results
from compute.own.exercises import EXERCISES
from compute.stories import read_story
from compute.ways.recorded import of_record

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Parser:
    """read(bytes) accepts all of samples(); for other input it returns, or raises one of `refusals` with a message."""

    samples: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (ValueError,)


_HELD = tempfile.TemporaryDirectory()


def scratch() -> Path:
    """Return a folder for temporary files; it is removed when the process ends."""
    return Path(_HELD.name)


def as_file(read: Callable[[Path], object], name: str = "given") -> Callable[[bytes], object]:
    """Return a function that writes bytes to a file and calls `read` with its path."""

    def of(data: bytes) -> object:
        """Write the bytes, and read the file."""
        path = scratch() / name
        path.write_bytes(data)
        path.chmod(0o600)
        return read(path)

    return of


def as_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """Return `read` for bytes of UTF-8; invalid bytes become surrogates, as from a browser."""
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


def files(*patterns: str) -> Callable[[], list[bytes]]:
    """Return a function that reads up to six files of this repository with these names."""
    return lambda: [path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern))][:6]


def saved(save: Callable[..., Any], *given: Any, **options: Any) -> bytes:
    """Return the bytes that `save` writes to a file."""
    held = io.BytesIO()
    save(held, *given, **options)
    return held.getvalue()


# -- samples


def scenes() -> list[bytes]:
    """Return files of a state."""
    from tests.app.tab.test_hostile_state import GOOD

    return [json.dumps(one).encode() for one in GOOD]


def links() -> list[bytes]:
    """Return links."""
    known = (Scene("diffusion", {"ny": 64, "nx": 64}), Scene("mandelbrot", {"zoom": "1e3"}, steps=0))
    return [packed(scene).encode() for scene in known]


def matrices() -> list[bytes]:
    """Return files of a user's own problem."""
    market = b"%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 1\n2 2 1\n3 3 1\n"
    return [market, saved(np.save, np.eye(3)), saved(np.savez_compressed, A=np.eye(3), b=np.ones(3)),
            saved(sp.save_npz, sp.csr_matrix(np.eye(3)))]  # fmt: skip


def pictures() -> list[bytes]:
    """Return files of an initial field."""
    picture = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    return [saved(picture.save, format=kind) for kind in ("PNG", "JPEG")]


def frames() -> list[bytes]:
    """Return the last frame of a recording of two frames."""
    folder = scratch() / "recording"
    if not folder.exists():
        lab = Diffusion(backend="cpu_numpy", ny=8, nx=9)
        recorder = FrameRecorder(lab, str(folder), 1, (8, 9), 2)
        for _ in range(2):
            recorder.take(lab.frame(None, (8, 9)), lab.values(), resting=False)
            lab.advance(1)
            recorder.advanced(1)
        recorder.finish()
        lab.close()
    return [max(folder.glob("*.frame")).read_bytes()]


def abouts() -> list[bytes]:
    """Return the metadata of a recording."""
    frames()
    return [(scratch() / "recording" / "recording.json").read_bytes()]


RESULT = {"passed": True, "tries": 2, "text": "right", "date": "2026-01-01T00:00:00+00:00", "digest": "0" * 64}
RESULTS = {"schema": results.SCHEMA, "student": "Ada", "exercises": {EXERCISES[0].name: RESULT}}
TOKEN = {"session_id": "abc", "session_expiry": 2_000_000_000, "headers": {}, "cookies": {}, "arguments": {}}
HEAD, CONTENT = {"msgid": "1", "msgtype": "PATCH-DOC"}, {"events": [{"kind": "TitleChanged", "title": "x"}]}
MESSAGE = "\n".join(json.dumps(part) for part in (HEAD, {}, CONTENT))
REQUEST = (
    "GET /app?bokeh-session-id=abc HTTP/1.1\nHost: localhost:5006\nOrigin: http://localhost:5006\nUpgrade: websocket"
)


# -- readers


class Refusing(argparse.ArgumentParser):
    """A parser of options that raises its error messages."""

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise SettingsError(message)


def options(*given: str) -> argparse.Namespace:
    """Read the options of `fieldlab serve`."""
    parser = Refusing()
    serve_options.add(parser)
    return serve_options.parse(parser, given)


def settings_file(path: Path) -> object:
    """Read a settings file, and its resulting limits."""
    return serve_options.settings_of(options("--settings", str(path)))


def token(text: str) -> None:
    """Check a session's token, and the page's address."""
    access._token_is_sound(text)
    link_in_query(text)


def request(text: str) -> None:
    """Check the head of a request, in the form in which Tornado passes it."""
    first, *lines = text.split("\n")
    target = first.split(" ")[1] if first.count(" ") > 1 else "/"
    head = HTTPHeaders()
    try:
        for line in lines:
            name, _, value = line.partition(": ")
            if name and name.isidentifier() and value.isprintable():
                head.add(name, value)
        if len(head.get_list("Host")) != 1:
            return  # refused by Tornado
        parsed = HTTPServerRequest(headers=head, start_line=RequestStartLine("GET", target, "HTTP/1.1"))
    except HTTPInputError:  # refused by Tornado
        return
    access.refusal(parsed, ["localhost:5006", "*.uni.example"])
    for pattern in (handlers.FOLLOW, handlers.LECTURER, handlers.FILE):
        pattern.fullmatch(parsed.path)


def message(text: str) -> None:
    """Assemble a Bokeh message from three lines."""
    head, metadata, content = (*text.split("\n"), "", "", "")[:3]
    BoundedProtocol().assemble(head, metadata, content)


def word(text: str) -> None:
    """Parse confirmations from viewers and browsers."""
    if found := frame_channel.CONFIRMATION.fullmatch(text):
        int(found[2]), float(found[3])
    for pattern in (handlers.CONFIRMED, handlers.ACT, handlers.VOTE):
        pattern.fullmatch(text)


def frame_file(data: bytes) -> None:
    """Read a recording with a damaged frame."""
    max((scratch() / "recording").glob("*.frame")).write_bytes(data)
    recorded(scratch() / "recording")


def about_file(data: bytes) -> None:
    """Read a recording with damaged metadata."""
    (scratch() / "recording" / "recording.json").write_bytes(data)
    recorded(scratch() / "recording")


def record(path: Path) -> None:
    """Read a record, and the displayed numbers in it."""
    found = records.load(path)
    records.recorded(found)
    if found["lab"] == "crossover":
        list(of_record(found))


def kernels(text: str) -> None:
    """Read equations, and print their kernels in all languages."""
    system = read_equations(text)
    program = Program(system, lower(system))
    for form in FORMS:
        program.sources(form)


PARSERS = {
    "state as JSON, dropped or within a PNG": Parser(scenes, as_text(scene_in)),
    "link": Parser(links, as_text(unpacked)),
    "matrix: Matrix Market, NPY, NPZ": Parser(matrices, lambda data: own(None, data, np.ones(3))),
    "picture: PNG, JPEG": Parser(pictures, LoadedPicture.read),
    "settings file, TOML": Parser(
        lambda: [b'preset = "classroom"\nsessions = 30\nembed = ["https://a.example"]\nmetrics = true\n'],
        as_file(settings_file),
    ),
    "passwords, JSON": Parser(lambda: [b'{"ada": "lovelace1815"}'], as_file(lambda path: options("--auth", str(path)))),
    "story, Markdown, with notes": Parser(files("assets/stories/*.md"), as_file(read_story, "story.md")),
    "results of a student, JSON": Parser(lambda: [json.dumps(RESULTS).encode()], as_file(results.load_results)),
    "record of a bench, JSON": Parser(files("assets/timings/*.json"), as_file(record)),
    "recording: a frame": Parser(frames, frame_file),
    "recording: what it is of": Parser(abouts, about_file),
    "session token, and an address's query": Parser(
        lambda: [access.bokeh_token._base64_encode(json.dumps(TOKEN)).encode(), b"scene=1.abc&run=1"], as_text(token)
    ),
    "head of a request, audience's codes": Parser(
        lambda: [REQUEST.encode(), b"GET /follow/BCDFGH/ws HTTP/1.1\nHost: localhost"], as_text(request)
    ),
    "equations, as kernels": Parser(files("compute/labs/equations/presets/*.txt"), as_text(kernels)),
    "message of Bokeh's": Parser(lambda: [MESSAGE.encode()], as_text(message), (ProtocolError,)),
    "word of a viewer, or of a frame": Parser(
        lambda: [b"frame p1 12 0.001", b"ok 12", b"do next", b"vote 3 1 abcdefghij-_0123"], as_text(word)
    ),
}
