"""The events that led to a field, and the earlier fields that undo restores.

History: each event is stored with its step; the field can be recomputed from the events bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from compute.lab.history import Entry, HistoryRules, StepHistory
from compute.lab.image_history import LOAD, image_in, require_image
from compute.lab.strokes import require_stroke
from compute.lab.two_runs import SECOND
from compute.labs.diffusion.scheme import WRONG_VARIANTS

if TYPE_CHECKING:
    from compute.lab.lab import Lab
    from compute.labs.diffusion.lab import Diffusion


DYNAMIC = (
    "backend",
    "device_index",
    "variant",
    "dtype",
    "r",
    "unstable",
    "edges",
    SECOND,
)  # parameters on which steps depend
PACE = ("r", "unstable")  # only steps depend on them: before the first step it is irrelevant when they changed
FREE = tuple(name for name in DYNAMIC if name != "dtype")  # no influence on a new field; a dtype rounds it
RACING = "the racing kernel is not deterministic"


@dataclass
class FieldHistory(StepHistory):
    """start: values at step 0, of the initial field and of DYNAMIC; now: the values of DYNAMIC at the last step."""

    @classmethod
    def begun(cls, values: Mapping[str, Any], initial: Sequence[str]) -> FieldHistory:
        """Return the history of a new field; `initial` names the parameters that define the field."""
        start = {name: values[name] for name in (*initial, *DYNAMIC)}
        return cls(start, {name: start[name] for name in DYNAMIC})

    @property
    def drawn(self) -> bool:
        """Whether the history contains a brush stroke."""
        return any(entry.get("do") == "paint" for entry in self.entries)

    def _beginning(self) -> Sequence[str]:
        return PACE if self.entries else FREE

    def _unrepeatable(self) -> str:
        runs = [self.start, self.now, *map(_set, self.entries)]
        kernels = (each.get("variant") for each in (*runs, *(each.get(SECOND, {}) for each in runs)))
        return RACING if any(variant in WRONG_VARIANTS for variant in kernels) else ""


def _set(entry: Entry) -> Mapping[str, Any]:
    changed: Mapping[str, Any] = entry.get("set", {})
    return changed


class FieldHistoryRules(HistoryRules):
    """Strokes and images are entries, too; an image is contained as text."""

    def require_entry(self, action: str, arguments: Mapping[str, Any]) -> None:
        """Raise ValueError unless a history entry, which may be untrusted, has valid arguments for the action."""
        if action == LOAD:
            require_image(arguments)
            return
        wanted = {"paint": {"points", "value", "radius"}, "refit": set[str]()}[action]
        if set(arguments) != wanted:
            needed, given = ", ".join(sorted(wanted)) or "nothing", ", ".join(sorted(map(str, arguments)))
            raise ValueError(f"{action} needs {needed}, not {given}")
        if action == "paint":
            require_stroke(arguments["points"], arguments["value"], arguments["radius"])

    def apply(self, lab: Lab, entry: Entry) -> None:
        """Apply an entry; undo keeps nothing."""
        field = cast("Diffusion", lab)
        if (image := image_in(entry)) is not None:
            field.load_image(image)
        else:
            with field.earlier.resting():
                super().apply(lab, entry)
