"""The conclusions of the live readout from measurements and agreements: plain values, without engine or screen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import isfinite, nan
from typing import Any, Literal

from compute.devices.backends import BACKENDS, BEST_FIRST, backend
from compute.devices.devices import cpu_count
from compute.measure.agreement import Agreement
from compute.measure.statistics import Measurement, SpeedUp
from compute.measure.timing import Timing

MOST_ENTRIES = 400  # results kept a process; the oldest are removed, since any client may request any setting
MOST_RIGHT = 4  # results of the reference kept a process, each a whole field
LAUNCHING = 0.5  # least launch time over the device's time that is stated as the reason
WAKING = 0.3  # least fraction of a step for starting the threads that is stated as the reason
UNKNOWN = "the cause was not measured"
VerdictState = Literal["measuring", "agree", "disagree", "unavailable"]
ResultKey = tuple[Any, ...]


@dataclass(frozen=True)
class Variant:
    """One of several kernels of a backend that compute the same; its name is "" for the default."""

    backend: str
    name: str = ""

    @property
    def label(self) -> str:
        """The display name."""
        label = backend(self.backend).label
        return f"{label}, {self.name}" if self.name else label

    @property
    def kind(self) -> Literal["cpu", "gpu"]:
        """The kind of device it runs on."""
        return backend(self.backend).kind

    @property
    def threads(self) -> int:
        """Number of CPU threads it computes on; 0 on a GPU."""
        if self.kind == "gpu":
            return 0
        return 1 if backend(self.backend).serial else cpu_count()


@dataclass(frozen=True)
class Standing:
    """One variant's line: its measurement and agreement, None until known, and a note.

    timings: the timings of the measurement. doing: the engine's operation that delays the measurement, "compiling …" or
    other measurements, if the engine reports one.
    """

    variant: Variant
    measurement: Measurement | None
    agreement: Agreement | None
    note: str = ""
    timings: tuple[Timing, ...] = ()
    doing: str = ""

    @property
    def waiting(self) -> str:
        """The reason for a missing measurement, as text."""
        disagrees = self.agreement is not None and not self.right
        return self.note or ("results disagree" if disagrees else self.doing or "measuring")

    @property
    def right(self) -> bool:
        """Whether its result has been compared and agrees."""
        return self.agreement is not None and self.agreement.agrees


@dataclass(frozen=True)
class Verdict:
    """The current conclusion: a speed-up only in the state "agree", when both results were compared and are right.

    opponent: for a GPU the fastest measured way of the processor.
    """

    challenger: Variant
    opponent: Variant | None
    state: VerdictState
    speed_up: SpeedUp | None
    agreement: Agreement | None
    standings: tuple[Standing, ...]

    @property
    def early(self) -> bool:
        """Whether the speed-up is a first estimate, from a single timing of one of both.

        The same applies to a GPU while a backend of the processor, which may be faster than the opponent, is untimed.
        """
        if self.speed_up is None:
            return False
        pair = (one.measurement for one in self.standings if one.variant in (self.challenger, self.opponent))
        rivals = (one for one in self.standings if one.variant.kind == "cpu" and not one.variant.name)
        pending = self.challenger.kind == "gpu" and any(
            one.measurement is None and not one.note and (one.agreement is None or one.right) for one in rivals
        )
        return pending or any(one is not None and one.step.n < 2 for one in pair)

    @property
    def title(self) -> str:
        """The title of the speed-up: GPU over CPU, or one way over another.

        The challenger is named if another way of the GPU was measured faster, since "the GPU" then means that way.
        """
        if self.opponent is None:
            return self.challenger.label
        if (self.challenger.kind, self.opponent.kind) == ("gpu", "cpu"):
            gpus = {one.variant: one.measurement for one in self.standings if one.variant.kind == "gpu" and one.right}
            medians = {variant: found.step.median for variant, found in gpus.items() if found and found.step.n}
            fastest = min(medians, key=medians.__getitem__, default=self.challenger)
            return "GPU over CPU" if fastest == self.challenger else f"{self.challenger.label} over CPU"
        return f"{self.challenger.label} over {self.opponent.label}"


def pairing(
    values: Mapping[str, Any], backends: Collection[str] | None = None
) -> tuple[Variant, Variant | None, list[Variant]]:
    """Return (challenger, opponent, all variants) for a lab's values, on this machine.

    backends: names of the backends that the lab has a file for; None for all.

    The challenger is the selected GPU backend, or the best available one, at first against Numba on all cores, later
    against the fastest way of the processor (`judge`); without a GPU Numba against NumPy. All variants: these two
    first, then the other available backends.
    """
    dtype = values.get("dtype")
    able = [b for b in BACKENDS if b.ready and (dtype is None or dtype in b.dtypes)]
    here = [b.name for b in able if backends is None or b.name in backends]
    selected = Variant(values["backend"], values.get("variant", ""))
    gpus, cpus = ([b for b in BEST_FIRST if b in here and Variant(b).kind == kind] for kind in ("gpu", "cpu"))
    if selected.kind == "gpu" and selected.backend in here:
        challenger, rivals = selected, cpus
    elif gpus:
        challenger, rivals = Variant(gpus[0]), cpus
    else:
        challenger, rivals = Variant(cpus[0]), cpus[1:]
    opponent = Variant(rivals[0]) if rivals else None
    others = [Variant(name) for name in here]
    first = [variant for variant in (challenger, opponent) if variant is not None]
    return challenger, opponent, first + [other for other in others if other.backend not in {c.backend for c in first}]


def judge(challenger: Variant, opponent: Variant | None, standings: tuple[Standing, ...]) -> Verdict:
    """Return the verdict that these standings allow."""
    by_name = {standing.variant: standing for standing in standings}
    pair = [by_name[variant] for variant in (challenger, opponent) if variant is not None]
    compared = [standing.agreement for standing in pair if standing.agreement is not None]
    worst = max(compared, key=lambda agreement: agreement.difference / agreement.tolerance, default=None)
    if any(not agreement.agrees for agreement in compared):
        return Verdict(challenger, opponent, "disagree", None, worst, standings)
    measured = {one.variant: one.measurement.step for one in standings if one.right and one.measurement}
    measured = {variant: step for variant, step in measured.items() if step.n > 0}
    if opponent is not None and challenger in measured and opponent in measured:
        if challenger.kind == "gpu":
            cpus = (variant for variant in measured if variant.kind == "cpu")
            opponent = min(cpus, key=lambda variant: measured[variant].median)
        speed_up = SpeedUp.of(measured[opponent], measured[challenger])
        return Verdict(challenger, opponent, "agree", speed_up, worst, standings)
    stuck = opponent is None or any(standing.note for standing in pair)
    return Verdict(challenger, opponent, "unavailable" if stuck else "measuring", None, worst, standings)


def why_slower(verdict: Verdict, waking: float) -> str:
    """Return why the challenger is slower, as text; "" if it is not.

    waking: seconds to start all threads once, nan if unknown.
    """
    speed, opponent = verdict.speed_up, verdict.opponent
    if speed is None or speed.ratio >= 1 or opponent is None:
        return ""
    slow, fast = (
        next(one for one in verdict.standings if one.variant == variant) for variant in (verdict.challenger, opponent)
    )
    return reason_slower(slow, fast, waking)


def reason_slower(slow: Standing, fast: Standing, waking: float = nan) -> str:
    """Return why `slow` takes longer than `fast`, both measured; without evidence the text says that.

    waking: seconds to start all threads once, nan if unknown. A step may start them often: the number of its parallel
    regions counts, if known.
    """
    if slow.measurement is None or fast.measurement is None:
        return ""
    seconds = slow.measurement.step.median
    ratio = seconds / fast.measurement.step.median
    if slow.variant.kind == "gpu":
        return _reason_of_gpu(slow.measurement, ratio)
    return _reason_of_cpu(slow, fast, waking * starts(slow) / seconds, ratio)


def regions(standing: Standing) -> float:
    """Return the parallel regions of a step that started threads, from the latest timing; nan if not counted."""
    return standing.timings[-1].regions if standing.timings else nan


def starts(standing: Standing) -> float:
    """Return how often a step starts the threads: once if unknown."""
    known = regions(standing)
    return known if isfinite(known) else 1.0


def threads(standing: Standing) -> int:
    """Return the CPU threads that a step ran on: 1 if it started none, even if its way may use more."""
    return standing.variant.threads if starts(standing) > 0 else min(1, standing.variant.threads)


def _reason_of_gpu(measurement: Measurement, ratio: float) -> str:
    """Return the reason for a slow GPU. ratio: its time over that of the faster way."""
    share = measurement.parts.get("launch", nan) / (measurement.parts.get("compute", nan) or nan)
    if not isfinite(share):
        return "why was not measured, as its launches were not timed"
    if share >= LAUNCHING:
        return f"launching takes {_percent(share)} of its time: too small for a GPU"
    return _what_takes_the_rest(f"launching takes {_little(share)} of its time", share, ratio, "kernels")


def _reason_of_cpu(slow: Standing, fast: Standing, share: float, ratio: float) -> str:
    """Return the reason for a slow CPU way.

    share: fraction of a step for starting the threads, nan if unknown; ratio: its time over that of the faster way.
    """
    count = threads(slow)
    if count <= max(1, threads(fast)):
        return f"on {_threads(count)} its loops are slower; {UNKNOWN}"
    if not isfinite(share):
        return "why was not measured, as starting its threads was not timed"
    if share >= WAKING:
        often = f" {regions(slow):.0f} times" if regions(slow) >= 2 else ""
        return f"too small for {count} threads: starting them{often} takes {_percent(share)} of a step"
    return _what_takes_the_rest(f"starting its threads takes {_little(share)} of a step", share, ratio, "loops")


def _what_takes_the_rest(words: str, share: float, ratio: float, what: str) -> str:
    """Conclude only as much as a small share of the time allows: without it the rest may be slower, or not."""
    if (1 - share) * ratio > 1:
        return f"{words}, so its {what} are slower; {UNKNOWN}"
    return f"{words}; what takes the rest is not measured"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def _little(share: float) -> str:
    return "less than 1 %" if share < 0.005 else f"only {_percent(share)}"


def _percent(share: float) -> str:
    return "all" if share >= 1 else f"{100 * share:.0f} %"


class ResultCache:
    """Measurements, agreements and failures of this process, by setting, shared by all sessions.

    A session claims a key before it starts the job, so that each job runs once: the other sessions wait for the result.
    A claim ends with its job, and expires if the session does not renew it (its page is hidden, its engine hangs).
    version: increases with every entry; an unchanged version means unchanged verdicts.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[ResultKey, Any] = OrderedDict()
        self._right: OrderedDict[ResultKey, Any] = OrderedDict()
        self._claims: dict[ResultKey, tuple[object, float]] = {}  # owner, None if free; expiry time
        self.version = 0

    def get(self, key: ResultKey) -> Any:
        """Return the entry, or None."""
        return self._entries.get(key)

    def put(self, key: ResultKey, value: Any) -> None:
        """Store an entry; the oldest are removed beyond MOST_ENTRIES."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > MOST_ENTRIES:
            self._entries.popitem(last=False)
        self.version += 1

    def discard(self, key: ResultKey) -> None:
        """Remove an entry, if it exists."""
        if self._entries.pop(key, None) is not None:
            self.version += 1

    def right(self, key: ResultKey) -> Any:
        """Return a reference's result; None if it is unknown, or was removed for newer ones."""
        return self._right.get(key)

    def put_right(self, key: ResultKey, field: Any) -> None:
        """Store a reference's result, which may be large: only the latest MOST_RIGHT are kept."""
        self._right[key] = field
        while len(self._right) > MOST_RIGHT:
            self._right.popitem(last=False)
        self.version += 1

    def claim(self, keys: Iterable[ResultKey], owner: object, now: float, until: float) -> bool:
        """Claim all of `keys`, or renew the claims, until `until`; False if another owner has one of them."""
        if any(self._taken(key, owner, now) for key in keys):
            return False
        self._claims.update((key, (owner, until)) for key in keys)
        if len(self._claims) > MOST_ENTRIES:
            self._claims = {key: claim for key, claim in self._claims.items() if now < claim[1]}
        return True

    def release(self, keys: Iterable[ResultKey], owner: object, free_at: float) -> None:
        """Release the claims of `owner` among `keys`: others may claim them from the moment `free_at`."""
        for key in keys:
            if self._claims.get(key, (None, 0.0))[0] is owner:
                self._claims[key] = (None, free_at)

    def _taken(self, key: ResultKey, owner: object, now: float) -> bool:
        """Whether another owner has the key."""
        holder, until = self._claims.get(key, (owner, 0.0))
        return holder is not owner and now < until


@cache
def shared_results() -> ResultCache:
    """Return this process's results."""
    return ResultCache()
