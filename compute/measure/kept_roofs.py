"""Cache of this machine's roofs next to Numba's cache: measuring them takes some three seconds of all its cores.

They are measured again if the machine, the libraries or the measuring code have changed, and for `fieldlab info
--roofs`. They expire after a WEEK, or after an HOUR if other processes used part of the processors during the
measurement. Roofs measured while other processes used more than HALF of the processors are far too low, and not stored.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from compute.devices import kernel_cache
from compute.files.files import whole
from compute.machine import machine

log = logging.getLogger(__name__)

Rates: TypeAlias = dict[str, dict[str, float]]  # by device, then by quantity (compute/measure/machine_roofs.py)

FILE = "fieldlab-roofs.json"
WEEK, HOUR = timedelta(days=7), timedelta(hours=1)  # lifetimes
CALM, HALF = 0.1, 0.5  # most use by others, as a fraction of all processors, for a lifetime of a week, and of an hour
SOURCES = ("roofs.py", "machine_roofs.py", "fma.cu")  # the measuring code
LIBRARIES = ("numpy", "numba", "llvmlite", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda")


@dataclass(frozen=True)
class KeptRoofs:
    """Roofs, the time of their measurement, and the fraction of all processors used by others; nan if unknown."""

    rates: Rates
    date: datetime
    others: float

    def holds(self, now: datetime) -> bool:
        """Whether the roofs are still valid; False for a date in the future."""
        return self.worth_keeping and timedelta(0) <= now - self.date <= (WEEK if self.others <= CALM else HOUR)

    @property
    def worth_keeping(self) -> bool:
        """Whether others used at most HALF of the processors; False if unknown."""
        return self.others <= HALF


def read(now: datetime | None = None) -> KeptRoofs | None:
    """Return the stored roofs; None without any, or if they have expired or belong to another machine."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
        rates = {device: {kind: float(rate) for kind, rate in of.items()} for device, of in found["rates"].items()}
        kept = KeptRoofs(rates, datetime.fromisoformat(found["date"]), float(found["others"]))
        right = found["of"] == identity() and kept.holds(now or datetime.now(UTC))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return kept if right else None


def measured(measure: Callable[[], Rates]) -> KeptRoofs:
    """Measure and store the roofs; a failure to write is logged, and the next process measures again."""
    before, own = psutil.cpu_times(), _own()
    rates = measure()
    after, own = psutil.cpu_times(), _own() - own
    passed = sum(after) - sum(before)
    busy = passed - (after.idle - before.idle) - getattr(after, "iowait", 0.0) + getattr(before, "iowait", 0.0)
    kept = KeptRoofs(rates, datetime.now(UTC), max(busy - own, 0.0) / passed if passed > 0 else float("nan"))
    if not kept.worth_keeping:
        log.info("the roofs of this machine are not kept: others had %.0f %% of the processors", 100 * kept.others)
        return kept
    try:
        with whole(path()) as out:
            date = kept.date.isoformat(timespec="seconds")
            json.dump({"of": identity(), "date": date, "others": round(kept.others, 3), "rates": rates}, out, indent=1)
    except OSError as error:
        log.warning("the roofs of this machine are not kept: %s", error)
    return kept


def path() -> Path:
    """Return the path of the file."""
    return kernel_cache.folder() / FILE


def identity() -> Mapping[str, Any]:
    """Return the origin of the roofs: the machine, the libraries, and a digest of the measuring code."""
    versions = machine.versions()
    digest = sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in SOURCES)).hexdigest()[:16]
    return {
        "machine": machine.machine(),
        "versions": {name: versions[name] for name in LIBRARIES if name in versions},
        "measured_by": digest,
    }


def _own() -> float:
    used = psutil.Process().cpu_times()
    return float(used.user + used.system)
