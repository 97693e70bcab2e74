"""The roofs of this machine, kept beside Numba's cache: measuring them takes some three seconds of all its cores.

They are measured anew when the machine, the libraries or how they are measured is another one, when they are older than
a WEEK, or than an HOUR if others had part of the processors meanwhile, and when `fieldlab info --roofs` asks for it.
Those that were measured while others had more than HALF of them are too low by far, and are not kept.
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

from compute import kernel_cache, machine
from compute.files import whole

log = logging.getLogger(__name__)

Rates: TypeAlias = dict[str, dict[str, float]]  # by device, then by what is measured (compute/measure/machine_roofs.py)

FILE = "fieldlab-roofs.json"
WEEK, HOUR = timedelta(days=7), timedelta(hours=1)  # how long they hold
CALM, HALF = 0.1, 0.5  # of all processors, that others may have had for roofs that hold for a week, and for an hour
SOURCES = ("roofs.py", "machine_roofs.py", "fma.cu")  # how they are measured
LIBRARIES = ("numpy", "numba", "llvmlite", "cupy-cuda12x", "cupy-cuda13x", "numba-cuda")


@dataclass(frozen=True)
class KeptRoofs:
    """Roofs, when they were measured, and what part of all processors others had meanwhile; nan if nobody looked."""

    rates: Rates
    date: datetime
    others: float

    def holds(self, now: datetime) -> bool:
        """Whether they are still to be used; not those of a moment that is to come."""
        return self.worth_keeping and timedelta(0) <= now - self.date <= (WEEK if self.others <= CALM else HOUR)

    @property
    def worth_keeping(self) -> bool:
        """Whether others left enough of the processors; not if nobody looked."""
        return self.others <= HALF


def read(now: datetime | None = None) -> KeptRoofs | None:
    """Return what is kept; None if there is nothing, or nothing that holds here and now."""
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
        rates = {device: {kind: float(rate) for kind, rate in of.items()} for device, of in found["rates"].items()}
        kept = KeptRoofs(rates, datetime.fromisoformat(found["date"]), float(found["others"]))
        right = found["of"] == identity() and kept.holds(now or datetime.now(UTC))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return kept if right else None


def measured(measure: Callable[[], Rates]) -> KeptRoofs:
    """Measure and keep them; where they cannot be written that is logged, and they are measured again next time."""
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
    """Where they are kept."""
    return kernel_cache.folder() / FILE


def identity() -> Mapping[str, Any]:
    """Of what they are the roofs: the machine, the libraries, and how they are measured."""
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
