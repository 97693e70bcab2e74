"""The samples that a view records from its frames: values over time at a probe, or of a total."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

MOST_SAMPLES = 1200
Sample = tuple[float, ...]  # a step, then numbers at that step


class Samples:
    """The samples of one unbroken run of steps, the oldest first; at most MOST_SAMPLES, the newest.

    origin: identifies what is sampled, for instance the run and the cell of a probe; None before the first sample.
    """

    def __init__(self) -> None:
        self.origin: Hashable | None = None
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)

    def add(self, origin: Hashable, sample: Sample) -> None:
        """Append a sample; discard those of another origin.

        After an engine failure or an undo the run continues from an earlier step: later samples are discarded. A stroke
        of the brush is a discontinuity: of all samples with the same step, the first and the last are kept.
        """
        samples = self._samples
        if origin != self.origin:
            self.origin = origin
            samples.clear()
        while samples and samples[-1][0] > sample[0]:
            samples.pop()
        if len(samples) > 1 and samples[-2][0] == sample[0]:
            samples.pop()
        if not samples or samples[-1] != sample:
            samples.append(sample)

    def column(self, index: int) -> NDArray[np.float64]:
        """Return one number of every sample; 0 is the step."""
        return np.array([sample[index] for sample in self._samples], float)

    def csv(self, names: Sequence[str]) -> str:
        """Return the samples as CSV with these column names; "" without samples. The first column is the step."""
        if not self._samples:
            return ""
        rows = (",".join((f"{step:.0f}", *map(repr, rest))) for step, *rest in self._samples)
        return "\n".join((",".join(names), *rows)) + "\n"
