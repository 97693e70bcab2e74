"""What a sweep is asked to measure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compute.labs.crossover.catalogue import Case, Way, Workload
from compute.labs.crossover.ecosystems import Extra

PATIENCE = 2.0  # a call may take so many times the budget of its point before larger n are skipped


@dataclass(frozen=True)
class Plan:
    """What to measure. budget: seconds of sampling in all; evict: each call on empty caches; split: transfers too.

    longest: seconds that anything in one piece may take, longest_call: that a call may; larger n are skipped. Without
    them a call may take PATIENCE times its share of the budget, and nothing else is limited. listen: note when parts of
    a sample ran. early: for who watches, ways that are quick to start are timed once before the others are checked.
    """

    workload: Workload
    ways: tuple[Way, ...]
    sizes: tuple[int, ...]
    dtype: str = "float64"
    settings: dict[str, Any] = field(default_factory=dict)
    budget: float = 30.0
    evict: bool = False
    split: bool = False
    seed: int = 0
    longest: float | None = None
    longest_call: float | None = None
    listen: bool = False
    early: bool = False

    def __post_init__(self) -> None:
        if not self.sizes or not self.ways:
            raise ValueError("a sweep needs at least one n and one way")
        if not self.budget > 0:
            raise ValueError(f"budget must be more than 0 seconds, not {self.budget}")
        for name, most in (("longest", self.longest), ("longest_call", self.longest_call)):
            if most is not None and not most > 0:
                raise ValueError(f"{name} must be more than 0 seconds, not {most}")
        for n in self.sizes:
            self.case(n)

    def case(self, n: int) -> Case:
        """The workload at this n."""
        return self.workload.case(n, self.dtype, **self.settings)

    @property
    def groups(self) -> tuple[tuple[Way, ...], ...]:
        """The ways in the order in which they are checked, together or apart: extras may compile for seconds."""
        if not self.early:
            return (self.ways,)
        found: dict[tuple[bool, bool], list[Way]] = {}
        for way in self.ways:
            slow = isinstance(way.backend, Extra), way.backend.device != "host"
            found.setdefault((False, False) if way.missing else slow, []).append(way)
        return tuple(tuple(found[key]) for key in sorted(found))

    @property
    def call_allowed(self) -> float:
        """Seconds that a call may take."""
        return self.longest_call or self.longest or PATIENCE * self.budget / len(self.ways) / len(set(self.sizes))
