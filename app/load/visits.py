"""`python -m app.load.soak --visits 1000`: pages opened and closed one after another; whether the server leaks memory.

A third of the pages are plain, a third use a link (every lab, a painted field, an image in the history), and a third
upload a file (an image to the diffusion lab, A and b to the L-curve lab). Links and files differ from visit to visit,
so that caches cannot hide a leak. TOGETHER pages are open at a time, each with its own cookies.

After a warm-up, and then at regular intervals, the soak closes all pages, waits until the server has discarded them,
and reads four quantities: the resident memory (RSS) of the server process and of its engines, the number of Python's
allocated blocks, and the bytes allocated by the C library (GET /metrics). The growth per visit is the Theil-Sen slope,
the median of the slopes of all pairs of readings, which is insensitive to single steps of an allocator. A quantity
leaks if its slope exceeds ALLOWED and the slope's 95 % interval lies above zero. With fewer than LEAST readings the
verdict is "undecided".
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import psutil
from PIL import Image
from scipy.stats import theilslopes
from tornado.httpclient import AsyncHTTPClient, HTTPClientError

from app.load.client import REJECTED, Client, ClientError
from app.load.server import Server
from compute.export.link import NAME, RUN, packed
from compute.export.scene import Scene
from compute.measure.conditions import provenance

SCHEMA = "fieldlab-visits-soak/1"
WARM = 100  # visits before the first reading
READINGS = 10  # after the warm-up
LEAST = 5  # readings for a verdict
TOGETHER = 4  # pages that are open at a time
MOST = 100_000  # visits
LOOKED_AT = 0.5  # seconds for which a page stays open after its first frame, its link's scene or its upload
PATIENCE = 120.0  # s for a page, its link or its upload
TRIES = 30  # attempts to open a page while the server is full (503)
AGAIN = 2.0  # seconds between them
EMPTY = 300.0  # seconds within which the server must discard all closed pages
COLLECTED = 15.0  # seconds after that for the server's garbage collection
SHARE = 0.02  # of the visits that may fail
SECONDS_A_VISIT = 60.0  # time limit of a soak, divided by its visits
PLAIN, LINK, UPLOAD = "plain", "link", "upload"
IMAGES, MATRICES = "Image as field", "A, or A and b"  # the file fields, by their labels
SIDE = 2000  # pixels; width and height of the grey image in a link's history
ALLOWED = {  # growth per visit
    "server": 16 * 1024,  # bytes of RSS
    "engines": 16 * 1024,
    "blocks": 100,  # of Python
    "malloc": 8 * 1024,  # bytes of the C library
}
UNITS = {"server": 2**20, "engines": 2**20, "blocks": 1000, "malloc": 2**20}  # MB, MB, thousands, MB
WORDS = {
    "server": "server, MB of RSS",
    "engines": "engines, MB of RSS",
    "blocks": "Python's blocks, 1000",
    "malloc": "malloc, MB",
}
FLAT, LEAKS, UNDECIDED = "flat", "leaks", "undecided"


@dataclass(frozen=True)
class MemoryReading:
    """Memory of the server without open pages, after `visits` visits and `minutes` minutes.

    server, engines, others: RSS in bytes of the server process, its engines, and its other child processes; blocks,
    malloc: allocated blocks of Python and bytes of the C library, nan if not reported; restarts: of the engines.
    """

    visits: int
    minutes: float
    server: float
    engines: float
    others: float
    blocks: float
    malloc: float
    restarts: float


@dataclass(frozen=True)
class Slope:
    """The growth per visit of one quantity, its 95 % interval, and the allowed growth."""

    slope: float
    low: float
    high: float
    allowed: float
    readings: int

    @property
    def verdict(self) -> str:
        """Return "leaks", "flat", or "undecided" with fewer than LEAST readings."""
        if self.readings < LEAST:
            return UNDECIDED
        return LEAKS if self.slope > self.allowed and self.low > 0 else FLAT


def judged(readings: Sequence[MemoryReading]) -> dict[str, Slope]:
    """Return the slope of each reported quantity by name."""
    found = {}
    visits = [float(one.visits) for one in readings]
    for name, allowed in ALLOWED.items():
        values = [float(getattr(one, name)) for one in readings]
        if not values or not all(map(isfinite, values)):
            continue
        if len(values) < 2:
            found[name] = Slope(0.0, -inf, inf, allowed, len(values))
            continue
        slope, _, low, high = theilslopes(values, visits, 0.95)
        found[name] = Slope(float(slope), float(low), float(high), allowed, len(values))
    return found


def verdict(readings: Sequence[MemoryReading]) -> str:
    """Return "leaks" if any quantity leaks, "flat" if all are flat, else "undecided"."""
    verdicts = {one.verdict for one in judged(readings).values()}
    return LEAKS if LEAKS in verdicts else FLAT if verdicts == {FLAT} else UNDECIDED


async def visit_all(
    server: Server,
    visits: int,
    report: Callable[[MemoryReading, Counter[str]], object],
    warm: int = WARM,
    readings: int = READINGS,
) -> tuple[list[MemoryReading], Counter[str]]:
    """Open and close `visits` pages; return the readings and the number of visits of each kind.

    report(reading, counts) is called after each reading. warm: visits before the first reading; readings: number of
    readings after it. Raises ClientError if the server keeps closed pages, if too many visits fail, or at the time
    limit.
    """
    warm = min(warm, visits)
    stops = sorted({round(warm + (visits - warm) * part / readings) for part in range(readings + 1)} - {0})
    found: list[MemoryReading] = []
    counts: Counter[str] = Counter()
    start, done = time.monotonic(), 0
    for stop in stops:
        numbers = iter(range(done, stop))
        await asyncio.gather(*(_browse(server, numbers, counts) for _ in range(TOGETHER)))
        done = stop
        failed = sum(count for kind, count in counts.items() if kind.endswith("failed"))
        if failed > max(2, SHARE * done):
            raise ClientError(f"{failed} of {done} visits failed: {dict(counts)}")
        if time.monotonic() - start > SECONDS_A_VISIT * visits + EMPTY:
            raise ClientError(f"{done} visits took {time.monotonic() - start:.0f} s")
        await _emptied(server)
        found.append(await _read(server, done, time.monotonic() - start))
        report(found[-1], counts)
    return found, counts


async def _browse(server: Server, numbers: Any, counts: Counter[str]) -> None:
    """Make the visits with these numbers one after another."""
    for number in numbers:
        kind, visit = visit_of(number)
        try:
            await visit(server.address, number)
        except (ClientError, OSError, HTTPClientError) as error:
            counts[f"{kind} failed"] += 1
            counts[re.sub(r"http\S+", "…", f"{scene_of(number).lab if kind == LINK else kind}: {error}")] += 1
        else:
            counts[kind] += 1


def visit_of(number: int) -> tuple[str, Callable[[str, int], Any]]:
    """Return the kind of visit `number`, and the function for it."""
    kinds = ((PLAIN, _plain), (LINK, _link), (UPLOAD, _upload))
    return kinds[number % len(kinds)]


async def _opened(address: str) -> Client:
    """Open a page with its own cookies; retry while the server is full."""
    for attempt in range(TRIES):
        tab = Client(address, PATIENCE)
        try:
            await tab.open()
        except HTTPClientError as error:
            await tab.close()
            if error.code != 503 or attempt == TRIES - 1:
                raise
            await asyncio.sleep(AGAIN)
        except BaseException:
            await tab.close()
            raise
        else:
            return tab
    raise ClientError(f"the server had no room for the page at {address}")


async def _plain(server: str, _number: int) -> None:
    tab = await _opened(server)
    try:
        await asyncio.sleep(LOOKED_AT)
    finally:
        await tab.close()


async def _link(server: str, number: int) -> None:
    """Open a link and wait until the lab runs: the server starts it after restoring the link's scene."""
    scene = scene_of(number)
    tab = await _opened(f"{server}?{NAME}={packed(scene)}&{RUN}=1")
    try:
        if scene.lab != "crossover":  # starts only at Run
            await tab.run()
        await asyncio.sleep(LOOKED_AT)
    finally:
        await tab.close()


async def _upload(server: str, number: int) -> None:
    """Upload a file and wait until the lab has loaded it."""
    image = number % 2 == 0
    scene = Scene("diffusion", {"ny": 128, "nx": 128}) if image else Scene("l_curve", {"problem": "shaw", "n": 32})
    tab = await _opened(f"{server}?{NAME}={packed(scene)}&{RUN}=1")
    try:
        await tab.run()
        if image:
            answer = await tab.upload(IMAGES, f"{number}.png", noise_image(number))
        else:
            answer = await tab.upload(MATRICES, f"{number}.npz", own_problem(number))
        if f"{number}." not in answer or answer.startswith(REJECTED):
            raise ClientError(f"a file was refused: {answer}")
        await asyncio.sleep(LOOKED_AT)
    finally:
        await tab.close()


def scene_of(number: int) -> Scene:
    """Return the scene of link `number`: six kinds in turn."""
    turn, own = (number // 3) % 6, (number + 1) / (MOST + 2)  # own: unique to this link, between 0 and 1
    match turn:
        case 0:
            return Scene("diffusion", {"ny": 128, "nx": 128, "r": 0.05 + 0.2 * own}, steps=200)
        case 1:
            points = [[40.0 + 40.0 * own, 64.0], [80.0, 64.0]]
            stroke = {"step": 50, "do": "paint", "with": {"points": points, "value": 1.0, "radius": 5.0}}
            return Scene("diffusion", {"ny": 128, "nx": 128}, steps=100, history=(stroke,))
        case 2:
            data = base64.b64encode(grey_image(number)).decode()
            load = {"step": 0, "do": "load_image", "with": {"data": data}}
            return Scene("diffusion", {"ny": 128, "nx": 128}, steps=10, history=(load,))
        case 3:
            return Scene("mandelbrot", {"center": (f"{-0.5 - 0.2 * own:.9f}", "0.0"), "zoom": "4"})
        case 4:
            return Scene("l_curve", {"problem": "heat", "n": 64, "seed": number % 1000})
        case _:
            return Scene("crossover", {})


def grey_image(number: int) -> bytes:
    """Return a PNG of SIDE x SIDE pixels, all equal but one, so that the link stays short."""
    pixels = np.full((SIDE, SIDE), number % 200, np.uint8)
    pixels[0, 0] = 200 + number % 50
    return _png(pixels)


def noise_image(number: int) -> bytes:
    """Return a PNG of 512 x 512 random grey values, which is hardly compressed."""
    return _png(np.random.default_rng(number).integers(0, 256, (512, 512), np.uint8))


def _png(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


def own_problem(number: int) -> bytes:
    """Return an .npz with a well-posed A of 48 x 48 and its b."""
    rng = np.random.default_rng(number)
    matrix = np.eye(48) + 0.1 * rng.standard_normal((48, 48))
    file = io.BytesIO()
    np.savez(file, A=matrix, b=matrix @ rng.standard_normal(48))
    return file.getvalue()


# -- the server's memory


async def _fetch(server: Server, path: str) -> str:
    address = f"{server.address.rpartition('/')[0]}/{path}"
    answer = await AsyncHTTPClient().fetch(address, request_timeout=PATIENCE, raise_error=False)
    return answer.body.decode()


async def _emptied(server: Server) -> None:
    """Wait until the server has discarded all pages and released their memory."""
    end = time.monotonic() + EMPTY
    while kept := json.loads(await _fetch(server, "health"))["pages"]["open"]:
        if time.monotonic() > end:
            raise ClientError(f"the server keeps {kept} pages that were closed {EMPTY:.0f} s ago")
        await asyncio.sleep(AGAIN)
    await asyncio.sleep(COLLECTED)


async def _read(server: Server, visits: int, seconds: float) -> MemoryReading:
    lines = [line for line in (await _fetch(server, "metrics")).splitlines() if line.startswith("fieldlab_")]
    values = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
    return MemoryReading(
        visits,
        seconds / 60,
        **resident(server),
        blocks=values.get("fieldlab_python_blocks", nan),
        malloc=values.get("fieldlab_malloc_bytes", nan),
        restarts=sum(value for name, value in values.items() if name.startswith("fieldlab_engine_restarts_total{")),
    )


def resident(server: Server) -> dict[str, float]:
    """Return the RSS in bytes of a server process, its engines and its other child processes; nan if unknown."""
    if server.process is None:
        return {"server": nan, "engines": nan, "others": nan}
    held = {"server": float(server.process.memory_info().rss), "engines": 0.0, "others": 0.0}
    for child in server.process.children(recursive=True):
        try:
            kind = "engines" if child.name().startswith(("fieldlab host", "fieldlab cuda")) else "others"
            held[kind] += child.memory_info().rss
        except psutil.Error:  # the process has just ended
            continue
    return held


def words(reading: MemoryReading, counts: Counter[str]) -> str:
    """Return a reading as one line of text."""
    failed = sum(count for kind, count in counts.items() if kind.endswith("failed"))
    return (
        f"{reading.minutes:5.1f} min  {reading.visits:6} visits ({failed} failed)"
        f"  server {reading.server / 2**20:6.1f} MB"
        f"  engines {reading.engines / 2**20:6.1f} MB  others {reading.others / 2**20:6.1f} MB"
        f"  blocks {reading.blocks / 1000:7.1f} k  malloc {reading.malloc / 2**20:6.1f} MB"
    )


def record_of(readings: Sequence[MemoryReading], counts: Counter[str], command: str) -> dict[str, Any]:
    """Return the record of a soak: the readings, the slopes and the verdict."""
    slopes = {
        name: {key: value if isfinite(value) else None for key, value in asdict(one).items()} | {"verdict": one.verdict}
        for name, one in judged(readings).items()
    }
    plain = [{key: value if isfinite(value) else None for key, value in asdict(one).items()} for one in readings]
    outcome = {"verdict": verdict(readings), "counts": dict(counts), "slopes_a_visit": slopes, "readings": plain}
    return {"schema": SCHEMA, **provenance(command, len(readings))} | outcome
