"""Never more frames under way than the browser can paint.

The browser confirms frame n; the engine may compute through frame n + window (+ `ahead`, prepared while the browser
paints). Frames have one number, the engine's own, from the kernel to the confirmation, and the limit is an absolute
number of that count. So it can be said twice, it outlives an engine that is restarted, and a lab that moves to another
engine goes on counting where the old one may have come to: there is nothing to reset, and nothing to count anew.

A frame goes engine -> gate -> browser -> confirmation -> gate. The gate holds at most one unsent frame (a newer one
replaces it) and lets at most `window` frames be unconfirmed. The window follows the network's delay, measured on
frames that travelled alone: one that waits behind another in a busy browser says nothing about the network. The
browser confirms after its paint, so a slow or hidden client simply stops the supply: nothing queues anywhere. A page
that comes back (another tab was shown, the connection was lost) is asked to confirm once more what it was sent last.

FrameSource is the end at the browser: one write a frame, and the browser's answer once it has painted it. There are two
ways for that, fast and public (docs/architecture.md), with the same numbers and the same answers.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bokeh.core.properties import Float, Int, String
from bokeh.core.properties import List as ListOf
from bokeh.document import Document
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.plotting import figure

from app import frame_channel
from app.bokeh_messages import keep_data
from compute.frames import Frame
from compute.measure.timing import Span, Timing

if TYPE_CHECKING:
    from app.session import Session


log = logging.getLogger(__name__)
FRAME_SOURCE = (Path(__file__).parent / "static" / "frame_source.js").read_text(encoding="utf-8")
PUBLIC, FAST = "public", "fast"
WIDEST = 8  # frames under way at most; the engine's ring has room for one more
TARGET_INTERVAL = 1 / 60  # seconds between frames beyond which a wider window buys nothing
FREE_DELAY = 0.010  # seconds of round trip that one frame under way hides by itself
RECENT = 8  # clean samples of the network's delay, and paints, that are remembered
PROBE = 64  # paints between two looks at the bare delay when several frames are under way
RATE_SPAN = 2.0  # seconds over which painted frames are counted


@dataclass(frozen=True)
class Delivered:
    """One painted frame: how long it was under way and how much of that the client itself took (seconds).

    at: when its acknowledgement came, by the gate's clock.
    """

    frame: Frame
    seconds: float
    client_seconds: float
    at: float = math.nan

    @property
    def timing(self) -> Timing:
        """The frame's timing, completed by the delivery."""
        timing = self.frame.timing
        spans = (*timing.spans, Span("delivery", self.at, self.seconds))
        return replace(timing, delivery=self.seconds, spans=spans)


@dataclass(frozen=True)
class Sent:
    """A frame on its way to the browser: since when, whether nothing else was, whether its time says anything."""

    frame: Frame
    at: float
    alone: bool
    timed: bool = True


class FrameGate:
    """Paces one lab's frames into one browser tab.

    send(number, frame) writes a frame to the browser; permit(number) lets the engine make all frames up to that number;
    schedule(callback) runs a callback soon on the loop that owns the document; confirm(number) asks the browser to
    confirm frame `number` again; delivered(Delivered) is called for each paint. `offer` may be called from any thread,
    everything else from that loop.
    """

    def __init__(
        self,
        send: Callable[[int, Frame], None],
        permit: Callable[[int], None],
        schedule: Callable[[Callable[[], None]], object],
        confirm: Callable[[int], None],
        delivered: Callable[[Delivered], None] | None = None,
        clock: Callable[[], float] = time.perf_counter,
        ahead: int = 1,
    ) -> None:
        self._send, self._permit, self._schedule, self._confirm = send, permit, schedule, confirm
        self._delivered, self._clock, self._ahead = delivered, clock, ahead
        self._lock = threading.Lock()
        self._waiting: Frame | None = None
        self._scheduled = self._closed = self._open = False
        self._sent: dict[int, Sent] = {}  # not yet confirmed, by number
        self._last = 0  # number of the last frame that was sent
        self._since_clean = 0
        self._delays: deque[float] = deque(maxlen=RECENT)
        self._client: deque[float] = deque(maxlen=RECENT)
        self._painted: deque[float] = deque(maxlen=256)
        self.newest = self.permitted = 0  # numbers of the last frame that came, and of the last that may come
        self.window, self.dropped, self.latency = 1, 0, math.nan

    @property
    def under_way(self) -> int:
        """Frames written to the browser and not yet acknowledged."""
        return len(self._sent)

    @property
    def rate(self) -> float:
        """Frames painted a second, over the last RATE_SPAN seconds."""
        now = self._clock()
        recent = [moment for moment in self._painted if now - moment <= RATE_SPAN]
        if len(recent) < 2:
            return 0.0
        return len(recent) / RATE_SPAN if len(recent) > 2 * RATE_SPAN else (len(recent) - 1) / (now - recent[0])

    def open(self) -> None:
        """Start, or go on after a `pause`. What was sent before that is confirmed once more, and not timed."""
        with self._lock:
            if self._open or self._closed:
                return
            self._open = True
            self._sent = {number: replace(sent, timed=False) for number, sent in self._sent.items()}
        if self._sent:
            self._confirm(self._last)
        self._flush()

    def pause(self) -> None:
        """The client is gone for now: permit nothing more, until `open`."""
        self._open = False

    def refresh(self) -> None:
        """Values have changed: a frame that waits shows the old ones, so permit another instead."""
        with self._lock:
            self.dropped += self._waiting is not None
            self._waiting = None
        self._refill()

    def pass_on(self) -> None:
        """Wait for no confirmation of what was sent. A hidden tab paints nothing, while others follow its frames."""
        with self._lock:
            self._sent = {}
        self._flush()

    def close(self) -> None:
        """For good: drop what waits, permit nothing more."""
        with self._lock:
            self._closed, self._open, self._waiting = True, False, None
            self._sent.clear()

    def offer(self, frame: Frame) -> None:
        """Take the newest frame; an older one that was not yet written is dropped. Callable from any thread."""
        with self._lock:
            if self._closed:
                return
            self.newest = max(self.newest, frame.number)
            self.dropped += self._waiting is not None
            self._waiting = frame
            if self._scheduled or not self._has_room():
                return
            self._scheduled = True
        self._schedule(self._flush)

    def acknowledge(self, number: int, client_seconds: float = 0.0) -> None:
        """The browser has painted frame `number` (and so every older one), taking `client_seconds` for it.

        A number that was never sent says nothing.
        """
        now = self._clock()
        with self._lock:
            if number > self._last:
                return
            painted = self._sent.get(number)
            self._sent = {later: sent for later, sent in self._sent.items() if later > number}
        if painted is not None and painted.timed:
            self._measure(now, now - painted.at, client_seconds, painted.alone)
            if self._delivered is not None:
                self._delivered(Delivered(painted.frame, now - painted.at, client_seconds, now))
        self._flush()

    def _measure(self, now: float, seconds: float, client_seconds: float, alone: bool) -> None:
        client = min(max(client_seconds, 0.0), seconds) if math.isfinite(client_seconds) else 0.0
        self._painted.append(now)
        self._client.append(client)
        self.latency = seconds
        self._since_clean += 1
        if alone:
            self._since_clean = 0
            self._delays.append(seconds - client)
            self.window = window_for(min(self._delays), sorted(self._client)[len(self._client) // 2])

    @property
    def _width(self) -> int:
        """The window, but 1 where the bare delay is to be measured again."""
        return 1 if self._since_clean >= PROBE else self.window

    def _has_room(self) -> bool:
        return self._open and len(self._sent) < self._width

    def _flush(self) -> None:
        """Write the waiting frame if there is room for it, then permit what is missing."""
        with self._lock:
            self._scheduled = False
            frame = self._waiting if self._has_room() else None
            if frame is not None:
                self._waiting = None
                self._last = frame.number
                self._sent[frame.number] = Sent(frame, self._clock(), alone=not self._sent)
        if frame is not None:
            self._send(frame.number, frame)
        self._refill()

    def _refill(self) -> None:
        with self._lock:
            room = self._width + self._ahead - len(self._sent) - (self._waiting is not None)
            through = self.newest + room
            if not self._open or through <= self.permitted:
                return
            self.permitted = through
        self._permit(through)


def window_for(delay: float, client_seconds: float) -> int:
    """How many frames may be under way: one, plus those that hide `delay` seconds of network at the client's pace."""
    pace = max(TARGET_INTERVAL, client_seconds)
    return min(WIDEST - 1, 1 + max(0, math.ceil((delay - FREE_DELAY) / pace)))


def wanted_transport() -> str:
    """The way frames are to take: FIELDLAB_TRANSPORT, "public" or "fast", which it is by itself."""
    wanted = os.environ.get("FIELDLAB_TRANSPORT", FAST)
    if wanted not in (PUBLIC, FAST):
        raise ValueError(f"FIELDLAB_TRANSPORT must be {PUBLIC} or {FAST}, not {wanted!r}")
    return wanted


class Acknowledgement(DataModel):
    """What the browser says after a paint: [frame number, seconds it took there]; transport: which way frames may take.

    transport: "" until the browser has seen a frame, FAST, or "public: " and why not.
    """

    value = ListOf(Float, default=[])
    transport = String(default="")


class Ticket(DataModel):
    """[number, count]: a frame whose pictures are on the screen already, and how many such tickets there were."""

    value = ListOf(Int, default=[0, 0])


def ignore(*anything: object) -> None:
    """Do nothing: what a callback is until it is set."""


class FirstDraw:
    """Plots that the browser has not drawn yet. Changing one before that is an error there."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def wait(self, plot: Any, drawn: Callable[[], object]) -> None:
        """Call drawn() once the browser has laid the Bokeh figure `plot` out for the first time."""

        def tell(attr: str, old: object, new: object) -> None:
            """The browser has found the size of its inside; 0 px while the page around it is not laid out."""
            if new and plot in self.waiting:
                self.waiting.remove(plot)
                drawn()

        self.waiting.append(plot)
        plot.on_change("inner_width", tell)


class FrameSource:
    """The columns `data` of one row; painted(number, client seconds) is called on the document's loop.

    rest: seconds after each paint before the next frame may come; the gate takes it for the browser's time, so that it
    widens no window. transport: what the browser can paint, PUBLIC (the source's data, which Bokeh draws) or FAST
    (frames of app/frame_channel.py, which static/frame_source.js paints). The first frame is public: with it the
    browser says which. Frames are public, too, while the page has no connection for frames.
    """

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self.source = ColumnDataSource({"number": [0], **data}, name=name)
        self.painted: Callable[[int, float], None] = ignore
        self.rest = 0.0
        self.transport = PUBLIC
        self._figures: list[str] = []
        self._alone = False
        self._complained = False
        self._answer, self._ticket = Acknowledgement(), Ticket()
        self._answer.on_change("value", self._acknowledged)
        self._answer.on_change("transport", self._told)
        args = {"source": self.source, "answer": self._answer, "ticket": self._ticket, "figures": []}
        self._code = CustomJS(args=args, code=FRAME_SOURCE)
        self._later: Callable[[Callable[[], None]], object] = ignore
        frame_channel.listen(self.source.id, self)
        self.source.js_on_change("data", self._code)
        self._ticket.js_on_change("value", self._code)

    def draw_in(self, *figures: figure) -> None:
        """Say which figures draw the source, and nothing else of it than images: frames may take the fast way there."""
        if wanted_transport() == FAST:
            self._figures = [plot.id for plot in figures]
            self._code.args = {**self._code.args, "figures": self._figures}

    @property
    def document(self) -> Document | None:
        """The document that the source is in; None while its tab is not shown."""
        return self.source.document

    def serve(self, session: Session, alone: bool = False) -> None:
        """Let this source confirm the frames of `session`.

        alone: showing a frame changes nothing but this source, so on the fast way it needs no lock of the document.
        """

        def painted(number: int, seconds: float) -> None:
            """Confirm frame `number`, after the rest."""
            confirm = partial(session.gate.acknowledge, number, seconds + self.rest)
            if self.rest:
                session.document.add_timeout_callback(confirm, round(1000 * self.rest))
            else:
                confirm()

        self.painted = painted
        self._later = session.later
        self._code.args = {**self._code.args, "page": frame_channel.key_of(session.document)}
        self._alone = alone
        session.on_confirm = self.skip
        session.lock_free = self._lock_free

    def write(self, number: int, data: Mapping[str, Any]) -> None:
        """Show `data` as frame `number`, in a single message."""
        columns = {"number": [number], **data}
        document = self.source.document
        if document is not None and self._fast:
            keep_data(self.source, columns)
            frame_channel.send(document, frame_channel.pack(self.source.id, self._figures, columns))
        else:
            self.source.data = columns

    def confirm(self, number: int, seconds: float) -> None:
        """Hear that frame `number` is painted. What is sent next may change models, which needs the document's lock."""
        if self._lock_free():
            self.painted(number, seconds)
        else:
            self._later(partial(self.painted, number, seconds))

    def lost(self) -> None:
        """Show the newest frame again, as public data: its message may not have arrived."""
        if self.transport == FAST:
            self._later(self._show_again)

    def _show_again(self) -> None:
        self.source.data = dict(self.source.data)

    @property
    def _fast(self) -> bool:
        """Whether the browser paints frames, and the page has a connection for them."""
        document = self.source.document
        return self.transport == FAST and document is not None and frame_channel.connected(document)

    def _lock_free(self) -> bool:
        """Whether a frame can be shown without the document's lock."""
        return self._alone and self._fast

    def skip(self, number: int) -> None:
        """Frame `number` looks like the one before, or was sent before: only its acknowledgement is wanted."""
        self._ticket.value = [number, self._ticket.value[1] + 1]

    def _acknowledged(self, attr: str, old: object, new: list[float]) -> None:
        if len(new) == 2:
            self.painted(int(new[0]), float(new[1]))

    def _told(self, attr: str, old: object, new: str) -> None:
        """The browser has looked whether it can paint frames by itself."""
        self.transport = FAST if new == FAST and self._figures else PUBLIC
        if self.transport == PUBLIC and not self._complained:
            self._complained = True
            log.info("frames of %s take the public way: %.200r", self.source.name, new)
