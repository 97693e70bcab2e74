"""The samples of one way as every export sees them, whether they come from a bench or from a live picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

from compute.bench.rows import Results
from compute.bench.samples import Sample


@dataclass(frozen=True)
class Series:
    """Samples of the same work, in the order they were taken; cold ones are in no median.

    name: case and way; device: as an engine is called; what: what one time is the time of; facts: for an export's
    metadata.
    """

    name: str
    device: str
    what: str
    samples: tuple[Sample, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def warm(self) -> tuple[Sample, ...]:
        """Those that count."""
        return tuple(sample for sample in self.samples if not sample.timing.first_call)

    @property
    def cold(self) -> tuple[Sample, ...]:
        """First calls."""
        return tuple(sample for sample in self.samples if sample.timing.first_call)

    @property
    def seconds(self) -> list[float]:
        """Seconds a step of those that count: what the median and the quartiles are taken of."""
        return [sample.timing.step_seconds for sample in self.warm if isfinite(sample.timing.step_seconds)]


def of_bench(lab: str, results: Results, step: str) -> Iterator[Series]:
    """A series for each way of a bench that was timed."""
    for row in results.rows:
        if row.measurement is None or not row.samples:
            continue
        facts = {name: str(value) for name, value in row.case.facts().items()}
        facts |= {"backend": row.backend, "variant": row.variant, "status": row.status}
        name = " ".join(f"{lab} {row.case.title}, {row.backend} {row.variant}".split())
        yield Series(name, row.device, step, row.samples, facts)
