"""The system card: live readings of the machine, in a card over the page that its user opens and closes.

The readings come from one sampler for the whole server, which runs in a separate thread and only while a card is open.
This module formats them once a second: a block for each device, a line and a minute of history for each figure. Names
from outside are escaped. An unknown figure is shown as "n/a", never as 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.page.feature import Feature, FeaturePage, HelpRow
from app.page.layout import Layout
from app.page.theme import CARD, stylesheet
from app.page.widgets import icon
from compute.devices.devices import cpu_count
from compute.machine.system import CpuReading, GpuReading, GpuUser, Reading
from compute.measure.conditions import PERIOD, SPAN, Sampler, sampler, software

UNKNOWN = "n/a"
WIDTH, HEIGHT = 120, 22  # px of a history
GAP = 3 * PERIOD  # seconds without a reading that interrupt a line
STALE = 5 * PERIOD  # seconds without a reading after which a warning is shown
HOTTEST = 100.0  # °C at the top of a history
MOST_CORES = 256  # bars of cores that are drawn
MOST_USERS = 3  # processes listed per GPU


@dataclass(frozen=True)
class Gauge:
    """One line. text: of the latest reading; share: 0 to 1 of its scale for any reading, None if unknown."""

    name: str
    text: Callable[[Any], str]
    share: Callable[[Any], float | None]


def part(value: float | None, whole: float | None) -> float | None:
    """Return value / whole; None if either is unknown."""
    return value / whole if value is not None and whole else None


def percent(value: float | None) -> str:
    """Return `value` as text, in whole percent."""
    return UNKNOWN if value is None else f"{value:.0f} %"


def of(value: float | None, limit: float | None, unit: str, size: float, digits: int = 0) -> str:
    """Return text such as "3.1 of 140 GiB", without an unknown limit."""
    if value is None:
        return UNKNOWN
    most = f" of {limit / size:.0f}" if limit else ""
    return f"{value / size:.{digits}f}{most} {unit}"


def _clock(device: Any) -> str:
    return of(device.clock, device.clock_limit, "MHz", 1e6)


def _temperature(device: Any) -> str:
    return UNKNOWN if device.temperature is None else f"{device.temperature:.0f} °C"


def _memory(device: Any) -> str:
    return of(device.memory_used, device.memory_total, "GiB", 2**30, 1)


COMMON = (
    Gauge("Memory", _memory, lambda d: part(d.memory_used, d.memory_total)),
    Gauge("Clock", _clock, lambda d: part(d.clock, d.clock_limit)),
    Gauge("Temperature", _temperature, lambda d: part(d.temperature, HOTTEST)),
)
GPU = (
    Gauge("Use", lambda gpu: percent(gpu.use), lambda gpu: part(gpu.use, 100.0)),
    *COMMON,
    Gauge("Power", lambda gpu: of(gpu.power, gpu.power_limit, "W", 1.0), lambda gpu: part(gpu.power, gpu.power_limit)),
)
CPU = (Gauge("Use", lambda cpu: percent(cpu.mean_use), lambda cpu: part(cpu.mean_use, 100.0)), *COMMON)


def readings_html(history: Sequence[Reading], now: float) -> str:
    """Return all readings as HTML, GPUs first; `now` by the readings' clock."""
    if not history:
        return "<p class='quiet'>Reading …</p>"
    newest = history[-1]
    late = now - newest.moment
    blocks = [_late(late)] if late > STALE else []
    if newest.problem:
        blocks.append(f"<p class='warn' role='status'>{escape(newest.problem)}</p>")
    for index, gpu in enumerate(newest.gpus):
        past = [(r.moment - now, r.gpus[index]) for r in history if index < len(r.gpus)]
        blocks.append(_block("gpu", f"GPU {gpu.index}", gpu, GPU, past, _gpu_notes(gpu)))
    past_cpu = [(reading.moment - now, reading.cpu) for reading in history]
    blocks.append(_block("cpu", "CPU", newest.cpu, CPU, past_cpu, _cpu_notes(newest.cpu)))
    return "".join(blocks)


def device_names(machine: Mapping[str, Any] | None, threads: int) -> str:
    """Return the device names for the header; machine: facts from compute.machine.machine, None while unknown."""
    gpus = [str(gpu["name"]).removeprefix("NVIDIA ") for gpu in (machine or {}).get("gpus", ())]
    words = f"CPU {threads} thread{'s' * (threads != 1)}"
    if not gpus:
        return words
    names = " + ".join(f"{gpus.count(name)} × {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus))
    return f"{words} · GPU {names}"


def described(words: str) -> str:
    """Return the tip of the button labelled `words`, which is also its accessible name and begins with the label."""
    return f"{words}: use, memory and temperature (U)"


def _block(
    kind: str, title: str, device: Any, figures: Iterable[Gauge], past: Sequence[tuple[float, Any]], notes: str
) -> str:
    rows = "".join(_row(figure, device, past) for figure in figures)
    head = f"<h3><b>{escape(title)}</b> <span>{escape(device.name)}</span></h3>"
    return f"<section class='{kind}' aria-label='{escape(title)}'>{head}<dl>{rows}</dl>{notes}</section>"


def _row(figure: Gauge, device: Any, past: Sequence[tuple[float, Any]]) -> str:
    text = figure.text(device)
    points = [(moment, figure.share(then)) for moment, then in past]
    quiet = " class='quiet'" if text == UNKNOWN else ""
    return f"<dt>{figure.name}</dt><dd{quiet}>{escape(text)}</dd><dd>{sparkline(points)}</dd>"


def sparkline(points: Iterable[tuple[float, float | None]]) -> str:
    """Return the last SPAN seconds as lines of an SVG, 0 to 1 from bottom to top.

    points: (seconds relative to now, at most 0; share, None if unknown).
    """
    lines: list[list[tuple[float, float]]] = []
    last = -2 * SPAN
    for moment, share in points:
        if share is None or moment < -SPAN:
            continue
        if moment - last > GAP:
            lines.append([])
        lines[-1].append((WIDTH * (1 + moment / SPAN), 1 + (HEIGHT - 2) * (1 - min(max(share, 0.0), 1.0))))
        last = moment
    drawn = "".join(_line(line) for line in lines)
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' aria-hidden='true'>{drawn}</svg>"


def _line(points: Sequence[tuple[float, float]]) -> str:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {corners} {points[-1][0]:.1f},{HEIGHT}"
    return f"<polygon points='{area}'/><polyline points='{corners}'/>"


def _cpu_notes(cpu: CpuReading) -> str:
    """Return the cores as bars, and the load."""
    shown = cpu.use[:MOST_CORES]
    bars = "".join(f"<i style='height:{max(use, 2):.0f}%'></i>" for use in shown)
    each = f"Use of each thread in %, the first first: {', '.join(f'{use:.0f}' for use in shown)}."
    load = UNKNOWN if cpu.load is None else f"{cpu.load:.1f}"
    words = f"{len(cpu.use)} threads, load {load} in the last minute"
    named = f"role='img' tabindex='0' aria-label='{each}' data-term='cores'"  # has a tip: app/page/explain.py
    return f"<div class='cores' {named}>{bars}</div><p class='quiet'>{words}</p>"


def _gpu_notes(gpu: GpuReading) -> str:
    """Return the reasons for a reduced clock, and the processes on the GPU."""
    held = f"<p class='warn'>Clock held down by {escape(' and '.join(gpu.held_down))}.</p>" if gpu.held_down else ""
    if gpu.users is None:
        return f"{held}<p class='quiet'>Processes: {UNKNOWN}</p>"
    named = ", ".join(_user(user) for user in gpu.users[:MOST_USERS]) or "none"
    more = f" and {len(gpu.users) - MOST_USERS} more" if len(gpu.users) > MOST_USERS else ""
    return f"{held}<p class='quiet'>Processes: {escape(named)}{more}</p>"


def _user(user: GpuUser) -> str:
    memory = f", {user.memory / 2**30:.1f} GiB" if user.memory is not None else ""
    return f"{'Fieldlab' if user.mine else f'{user.name} (pid {user.pid})'}{memory}"


def _late(seconds: float) -> str:
    return f"<p class='warn' role='status'>No reading for {seconds:.0f} s: a driver does not answer.</p>"


SOON = 400  # ms until the second update, which has the first values of use
LABEL = {"color": "var(--ink)", "fontSize": "0.875rem", "textTransform": "none", "whiteSpace": "nowrap"}
TITLE = "<h2 id='system'>This machine, now</h2>"


class SystemCard(Feature):
    """The card of one page, and the button with the names of the devices."""

    name, order, key = "system", 10, "u"
    help = (HelpRow(40, "**U**", "use of the machine: processor, GPUs, memory"),)

    def __init__(self, page: FeaturePage, source: Sampler | None = None) -> None:
        super().__init__(page)
        self._sampler = source or sampler()
        self._ticking: Any = None
        self.open = False
        words = device_names(machine(), cpu_count())
        self.button = pmui.Button(
            label=words, icon="speed", variant="text", color="default", size="small", margin=2, align="center",
            description=described(words), description_delay=400, sx=LABEL,
        )  # fmt: skip
        self.button.on_click(lambda event: self.toggle())
        self.buttons = (self.button,)
        sheets = [stylesheet(), Path(__file__).with_name("system.css").read_text(encoding="utf-8")]
        self._text = pn.pane.HTML("", stylesheets=sheets, margin=(0, 16, 12, 16), sizing_mode="stretch_width")
        title = pn.pane.HTML(TITLE, stylesheets=sheets, margin=(8, 0, 0, 16), align="center")
        close = icon("close", "Close (U)", self.toggle, color="default", align="center")
        gap = pn.Spacer(sizing_mode="stretch_width", margin=0)
        head = pn.Row(title, gap, close, margin=(4, 8, 0, 0), sizing_mode="stretch_width")
        self.card = pn.Column(head, self._text, styles=CARD, margin=0, visible=False)
        self.parts, self.corner = (self.card,), self.card

    def toggle(self) -> None:
        """Open or close the card."""
        self.open = self.card.visible = not self.open
        self.looked(True)
        if self.open:
            self._ticking = self.page.document.add_periodic_callback(self._draw, round(1000 * PERIOD))
            self.page.document.add_timeout_callback(self._draw, SOON)
            self._draw()
        else:
            self.page.document.remove_periodic_callback(self._ticking)

    def looked(self, visible: bool) -> None:
        """Subscribe to the sampler while the browser tab is visible. The document is not changed."""
        if self.open and visible:
            self._sampler.look(self)
        else:
            self._sampler.leave(self)

    def connected(self, on: bool) -> None:
        """Subscribe to the sampler while the browser is connected."""
        self.looked(on)

    def ready(self) -> None:
        """Update the button after the devices' names have become available."""
        words = device_names(machine(), cpu_count())
        if words != self.button.label:
            self.button.param.update(label=words, description=described(words))

    def arranged(self, layout: Layout) -> None:
        """Hide the button in presenter mode, in which the header is too narrow."""
        self.button.visible = not layout.presenting

    def ended(self) -> None:
        """Unsubscribe from the sampler when the page closes."""
        self._sampler.leave(self)

    @classmethod
    def install(cls) -> None:
        """Begin to collect the facts of the machine."""
        find_machine()

    def _draw(self) -> None:
        if self.open:
            text = f"<div class='system'>{readings_html(self._sampler.history(), time.monotonic())}</div>"
            self._text.object = text


_facts: dict[str, Any] = {}  # of this machine; empty until `find_machine` has them


def find_machine() -> None:
    """Collect the facts of the machine in the background; querying the driver's programs can take seconds."""
    threading.Thread(target=lambda: _facts.update(software()["machine"]), name="machine", daemon=True).start()


def machine() -> dict[str, Any] | None:
    """Return the facts of the machine from compute.machine.machine; None until the driver's programs have answered."""
    return _facts or None
