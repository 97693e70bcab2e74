"""Frame-rate control: limits frames in flight to those that the browser has time to paint.

The browser confirms frame n; the engine may then compute up to frame n + window (+ `ahead`, prepared while the browser
paints). A frame keeps the engine's number from the kernel to the confirmation, and the limit is an absolute number in
the same count. It can therefore be sent repeatedly and survives an engine's restart, and a lab that moves to another
engine continues from the last number that the old engine may have used: no counter is reset and no frame renumbered.

A frame passes engine -> gate -> browser -> confirmation -> gate. The gate stores at most one unsent frame, which a
later one replaces, and permits at most `window` unconfirmed frames. The window follows the network's delay, measured
only on frames that travelled alone, because the time of a frame that queues behind another in a busy browser includes
more than the network. The browser confirms after painting, so a slow or hidden client stops the supply, and no queue
grows. After a reconnection or a return to the tab, the gate requests another confirmation of the last sent frame.

FrameSource is the browser's end: one write per frame, and the browser's confirmation after painting. There are two
transports, fast and public (docs/architecture.md), with the same numbers and confirmations.
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
from typing import Any, Protocol

from bokeh.core.properties import Float, Int, String
from bokeh.core.properties import List as ListOf
from bokeh.document import Document
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.plotting import figure

from app.tab import frame_channel
from app.upstream.document_changes import keep_data
from compute.lab.frames import Frame
from compute.measure.timing import Span, Timing

log = logging.getLogger(__name__)
FRAME_SOURCE = (Path(__file__).parent.parent / "static" / "frame_source.js").read_text(encoding="utf-8")
PUBLIC, FAST = "public", "fast"
WIDEST = 8  # most frames in flight; the engine's ring has room for one more
TARGET_INTERVAL = 1 / 60  # seconds between frames; a wider window cannot reduce it further
FREE_DELAY = 0.010  # seconds of round trip that a single frame in flight hides
RECENT = 8  # remembered paints, and delays measured on frames that travelled alone
PROBE = 64  # paints between two measurements of the bare delay with several frames in flight
RATE_SPAN = 2.0  # seconds over which painted frames are counted


@dataclass(frozen=True)
class Delivered:
    """A painted frame, its delivery time, and the client's share of that time (seconds).

    at: time of its confirmation, by the gate's clock.
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
    """A frame in flight: time of sending, whether no other was in flight, and whether its time is valid."""

    frame: Frame
    at: float
    alone: bool
    timed: bool = True


class FrameGate:
    """Paces one lab's frames into one browser tab.

    send(number, frame) writes a frame to the browser; permit(number) lets the engine make all frames up to that number;
    schedule(callback) runs a callback soon on the loop that owns the document; confirm(number) requests another
    confirmation of frame `number` from the browser; delivered(Delivered) is called after each paint. `offer` may be
    called from any thread, everything else from that loop.
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
        self._unsent: Frame | None = None
        self._scheduled = self._closed = self._open = False
        self._sent: dict[int, Sent] = {}  # unconfirmed, by number
        self._last = 0  # number of the last sent frame
        self._since_clean = 0
        self._delays: deque[float] = deque(maxlen=RECENT)
        self._client: deque[float] = deque(maxlen=RECENT)
        self._painted: deque[float] = deque(maxlen=256)
        self.newest = self.permitted = 0  # number of the last frame that arrived, and of the last permitted one
        self.window, self.dropped, self.latency = 1, 0, math.nan

    @property
    def under_way(self) -> int:
        """Number of frames that were sent to the browser and are unconfirmed."""
        return len(self._sent)

    @property
    def rate(self) -> float:
        """Painted frames per second, over the last RATE_SPAN seconds."""
        now = self._clock()
        recent = [moment for moment in self._painted if now - moment <= RATE_SPAN]
        if len(recent) < 2:
            return 0.0
        return len(recent) / RATE_SPAN if len(recent) > 2 * RATE_SPAN else (len(recent) - 1) / (now - recent[0])

    def open(self) -> None:
        """Start, or continue after `pause`. Frames sent earlier are confirmed again, without timing."""
        with self._lock:
            if self._open or self._closed:
                return
            self._open = True
            self._sent = {number: replace(sent, timed=False) for number, sent in self._sent.items()}
        if self._sent:
            self._confirm(self._last)
        self._flush()

    def pause(self) -> None:
        """Permit no further frames until `open`, while the client is away."""
        self._open = False

    def refresh(self) -> None:
        """Replace a waiting frame, which shows old values, by permitting another one after a change."""
        with self._lock:
            self.dropped += self._unsent is not None
            self._unsent = None
        self._refill()

    def pass_on(self) -> None:
        """Stop waiting for confirmations: a hidden tab paints nothing, but followers need further frames."""
        with self._lock:
            self._sent = {}
        self._flush()

    def close(self) -> None:
        """Stop permanently: discard the waiting frame and permit no further ones."""
        with self._lock:
            self._closed, self._open, self._unsent = True, False, None
            self._sent.clear()

    def offer(self, frame: Frame) -> None:
        """Store the latest frame, replacing an unsent one, and schedule its sending. Callable from any thread."""
        with self._lock:
            if self._closed:
                return
            self.newest = max(self.newest, frame.number)
            self.dropped += self._unsent is not None
            self._unsent = frame
            if self._scheduled or not self._has_room():
                return
            self._scheduled = True
        self._schedule(self._flush)

    def acknowledge(self, number: int, client_seconds: float = 0.0) -> None:
        """Record that the browser painted frame `number`, and so all earlier ones, in `client_seconds`.

        A number that was never sent is ignored.
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
        """The window, or 1 while the bare delay is due to be measured again."""
        return 1 if self._since_clean >= PROBE else self.window

    def _has_room(self) -> bool:
        return self._open and len(self._sent) < self._width

    def _flush(self) -> None:
        """Send the waiting frame if the window permits, then permit further frames."""
        with self._lock:
            self._scheduled = False
            frame = self._unsent if self._has_room() else None
            if frame is not None:
                self._unsent = None
                self._last = frame.number
                self._sent[frame.number] = Sent(frame, self._clock(), alone=not self._sent)
        if frame is not None:
            self._send(frame.number, frame)
        self._refill()

    def _refill(self) -> None:
        with self._lock:
            room = self._width + self._ahead - len(self._sent) - (self._unsent is not None)
            through = self.newest + room
            if not self._open or through <= self.permitted:
                return
            self.permitted = through
        self._permit(through)


def window_for(delay: float, client_seconds: float) -> int:
    """Return the window: one frame, plus those that hide `delay` seconds of network at the client's pace."""
    pace = max(TARGET_INTERVAL, client_seconds)
    return min(WIDEST - 1, 1 + max(0, math.ceil((delay - FREE_DELAY) / pace)))


def selected_transport() -> str:
    """Return the transport that FIELDLAB_TRANSPORT selects: "public" or "fast", the default; ValueError for others."""
    selected = os.environ.get("FIELDLAB_TRANSPORT", FAST)
    if selected not in (PUBLIC, FAST):
        raise ValueError(f"FIELDLAB_TRANSPORT must be {PUBLIC} or {FAST}, not {selected!r}")
    return selected


class Acknowledgement(DataModel):
    """The browser's confirmation after a paint: [frame number, seconds of painting]; and its transport.

    transport: "" until the browser has received a frame, FAST, or "public: " with the reason.
    """

    value = ListOf(Float, default=[])
    transport = String(default="")


class Ticket(DataModel):
    """[number, count]: a frame with pictures that are already on the screen, and the number of such tickets."""

    value = ListOf(Int, default=[0, 0])


def ignore(*anything: object) -> None:
    """Do nothing; the default of callbacks."""


class FirstDraw:
    """Plots that the browser has not drawn so far. Changing such a plot is an error in the browser."""

    def __init__(self) -> None:
        self.pending: list[Any] = []

    def wait(self, plot: Any, drawn: Callable[[], object]) -> None:
        """Call drawn() after the browser has laid out the Bokeh figure `plot` for the first time."""

        def laid_out(attr: str, old: object, new: object) -> None:
            """Handle the plot's inner width, which is 0 px until the page around it is laid out."""
            if new and plot in self.pending:
                self.pending.remove(plot)
                drawn()

        self.pending.append(plot)
        plot.on_change("inner_width", laid_out)


class FrameSession(Protocol):
    """The session whose frames a source shows; see app.tab.session.Session."""

    document: Document
    gate: FrameGate

    def later(self, callback: Callable[[], object]) -> None:
        """Run `callback` soon with the document's lock."""

    def show_in(self, target: FrameSource) -> None:
        """Let `target` confirm the frames, instead of an earlier one."""


class FrameSource:
    """A data source with one row for each frame, whose paints it confirms to the session (`serve`).

    data: the columns of the row; rest: seconds after each paint before the next frame, which the gate counts as the
    browser's time, so that they do not widen the window; transport: the browser's capability, PUBLIC (the source's
    data, drawn by Bokeh) or FAST (frames of frame_channel.py, painted by static/frame_source.js). The first frame
    is public, and the browser answers it with its capability. Frames are also public while the page has no frame
    channel.
    """

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self.source = ColumnDataSource({"number": [0], **data}, name=name)
        self._painted: Callable[[int, float], None] = ignore
        self.rest = 0.0
        self.transport = PUBLIC
        self._figures: list[str] = []
        self._alone = False
        self._logged = False
        self._answer, self._ticket = Acknowledgement(), Ticket()
        self._answer.on_change("value", self._acknowledged)
        self._answer.on_change("transport", self._set_transport)
        args = {"source": self.source, "answer": self._answer, "ticket": self._ticket, "figures": []}
        self._code = CustomJS(args=args, code=FRAME_SOURCE)
        self._later: Callable[[Callable[[], None]], object] = ignore
        frame_channel.listen(self.source.id, self)
        self.source.js_on_change("data", self._code)
        self._ticket.js_on_change("value", self._code)

    def draw_in(self, *figures: figure) -> None:
        """Declare that only these figures draw the source, and only as images, which permits the fast transport."""
        if selected_transport() == FAST:
            self._figures = [plot.id for plot in figures]
            self._code.args = {**self._code.args, "figures": self._figures}

    @property
    def document(self) -> Document | None:
        """The document of the source; None while its tab is not shown."""
        return self.source.document

    def serve(self, session: FrameSession, alone: bool = False) -> None:
        """Let this source confirm the frames of `session`.

        alone: showing a frame changes only this source, so the fast transport needs no document lock.
        """

        def painted(number: int, seconds: float) -> None:
            """Confirm frame `number`, after the rest."""
            confirm = partial(session.gate.acknowledge, number, seconds + self.rest)
            if self.rest:
                session.document.add_timeout_callback(confirm, round(1000 * self.rest))
            else:
                confirm()

        self._painted = painted
        self._later = session.later
        self._code.args = {**self._code.args, "page": frame_channel.key_of(session.document)}
        self._alone = alone
        session.show_in(self)

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
        """Record that frame `number` is painted. The next one may change models, which requires the lock."""
        if self.lock_free:
            self._painted(number, seconds)
        else:
            self._later(partial(self._painted, number, seconds))

    def lost(self) -> None:
        """Show the latest frame again as public data, because its message may have been lost."""
        if self.transport == FAST:
            self._later(self._show_again)

    def _show_again(self) -> None:
        self.source.data = dict(self.source.data)

    @property
    def _fast(self) -> bool:
        """Whether the browser paints frames, and the page has a frame channel."""
        document = self.source.document
        return self.transport == FAST and document is not None and frame_channel.connected(document)

    @property
    def lock_free(self) -> bool:
        """Whether a frame can be shown without the document's lock."""
        return self._alone and self._fast

    def skip(self, number: int) -> None:
        """Request only a confirmation of frame `number`, which looks like the previous one or was sent before."""
        self._ticket.value = [number, self._ticket.value[1] + 1]

    def _acknowledged(self, attr: str, old: object, new: list[float]) -> None:
        if len(new) == 2:
            self._painted(int(new[0]), float(new[1]))

    def _set_transport(self, attr: str, old: object, new: str) -> None:
        """Record the browser's transport after it has tested its capability."""
        self.transport = FAST if new == FAST and self._figures else PUBLIC
        if self.transport == PUBLIC and not self._logged:
            self._logged = True
            log.info("frames of %s take the public way: %.200r", self.source.name, new)
