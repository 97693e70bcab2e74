"""One data source for a lab's frames: one write a frame, and the browser's answer once it has painted it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from bokeh.core.properties import Float, Int
from bokeh.core.properties import List as ListOf
from bokeh.model import DataModel
from bokeh.models import ColumnDataSource, CustomJS

if TYPE_CHECKING:
    from app.session import Session

ACKNOWLEDGE = """
const number = cb_obj === ticket ? ticket.value[0] : source.data.number[0], began = performance.now();
requestAnimationFrame(() => {            // bokeh paints in this animation frame
  const {port1, port2} = new MessageChannel();
  port1.onmessage = () => { answer.value = [number, (performance.now() - began) / 1000]; };
  port2.postMessage(0);                  // handled once the browser has painted
});
"""


class Acknowledgement(DataModel):
    """What the browser says after a paint: [frame number, seconds it took there]."""

    value = ListOf(Float, default=[])


class Ticket(DataModel):
    """[number, count]: a frame whose pictures are on the screen already, and how many such tickets there were."""

    value = ListOf(Int, default=[0, 0])


class FirstDraw:
    """Plots that the browser has not drawn yet. Changing one before that is an error there."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def wait(self, plot: Any, drawn: Callable[[], object]) -> None:
        """Call drawn() once the browser has laid the Bokeh figure `plot` out for the first time."""

        def tell(attr: str, old: object, new: object) -> None:
            """The browser has found the size of its inside."""
            if plot in self.waiting:
                self.waiting.remove(plot)
                drawn()

        self.waiting.append(plot)
        plot.on_change("inner_width", tell)


class FrameSource:
    """The columns `data` of one row; painted(number, client seconds) is called on the document's loop.

    rest: seconds after each paint before the next frame may come; the gate takes it for the browser's time, so that it
    widens no window.
    """

    def __init__(self, data: Mapping[str, Any], name: str) -> None:
        self.source = ColumnDataSource({"number": [0], **data}, name=name)
        self.painted: Callable[[int, float], None] = _ignore
        self.rest = 0.0
        self._answer, self._ticket = Acknowledgement(), Ticket()
        self._answer.on_change("value", self._acknowledged)
        args = {"source": self.source, "answer": self._answer, "ticket": self._ticket}
        code = CustomJS(args=args, code=ACKNOWLEDGE)
        self.source.js_on_change("data", code)
        self._ticket.js_on_change("value", code)

    def serve(self, session: Session) -> None:
        """Let this source confirm the frames of `session`."""

        def painted(number: int, seconds: float) -> None:
            """Confirm frame `number`, after the rest."""
            confirm = partial(session.gate.acknowledge, number, seconds + self.rest)
            if self.rest:
                session.document.add_timeout_callback(confirm, round(1000 * self.rest))
            else:
                confirm()

        self.painted = painted
        session.on_confirm = self.skip

    def write(self, number: int, data: Mapping[str, Any]) -> None:
        """Show `data` as frame `number`, in a single message."""
        self.source.data = {"number": [number], **data}

    def skip(self, number: int) -> None:
        """Frame `number` looks like the one before, or was sent before: only its acknowledgement is wanted."""
        self._ticket.value = [number, self._ticket.value[1] + 1]

    def _acknowledged(self, attr: str, old: object, new: list[float]) -> None:
        if len(new) == 2:
            self.painted(int(new[0]), float(new[1]))


def _ignore(*anything: object) -> None:
    """What a callback does until somebody listens."""
