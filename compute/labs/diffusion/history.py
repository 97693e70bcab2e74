"""What happened to a field since its reset, and the field that was replaced last.

History: each event with its step; the field can be made again from that, bit for bit.

Undo: the field that was replaced last is kept on the host, so that it can be brought back once. Actions of LOSING,
another preset and a restored state replace the field. It is kept if more than a press of a button has gone into it: a
preset as it was made is not, so that looking through presets drops nothing that was computed. What is kept outlasts
neither another grid nor another engine.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import param

from compute.devices import Host
from compute.history import MOST_CHARACTERS, Entry, StepHistory
from compute.images import read_image
from compute.labs.diffusion.initial import LoadedImage, require_stroke
from compute.labs.diffusion.scheme import WRONG_VARIANTS

if TYPE_CHECKING:
    from compute.labs.diffusion.lab import Diffusion


DYNAMIC = ("backend", "device_index", "variant", "dtype", "r", "unstable", "edges")  # parameters that steps depend on
PLACE = ("backend", "device_index")  # those that the brush depends on
PACE = ("r", "unstable")  # those that steps alone depend on: before the first step it does not matter when they changed
FREE = tuple(name for name in DYNAMIC if name != "dtype")  # those that leave a new field as it is; a dtype rounds it
RACING = "the racing kernel computes something else each time"
LARGE = "the image that was loaded is too large for a file"

LOSING = ("reset", "rollback", "load_image", "forget_image")
KEPT_SHARE = 0.25  # of the free main memory, that a field may take which is kept


@dataclass
class FieldHistory(StepHistory):
    """start: values at step 0, of the initial field and of DYNAMIC; now: those of DYNAMIC that the last step had."""

    @classmethod
    def begun(cls, values: Mapping[str, Any], initial: Sequence[str]) -> FieldHistory:
        """Of a field that was made just now; `initial` names the parameters it was made of."""
        start = {name: values[name] for name in (*initial, *DYNAMIC)}
        return cls(start, {name: start[name] for name in DYNAMIC})

    def _beginning(self) -> Sequence[str]:
        return PACE if self.entries else FREE

    def loaded(self, image: LoadedImage, ny: int, nx: int) -> None:
        """The field is that image."""
        data = image.small(ny, nx, MOST_CHARACTERS // 2)
        if data is None:
            self.lose(LARGE)
        else:
            self.did(0, "load_image", {"data": base64.b64encode(data).decode("ascii")})

    def _unrepeatable(self) -> str:
        kernels = (each.get("variant") for each in (self.start, self.now, *map(_set, self.entries)))
        return RACING if any(variant in WRONG_VARIANTS for variant in kernels) else ""


def _set(entry: Entry) -> Mapping[str, Any]:
    changed: Mapping[str, Any] = entry.get("set", {})
    return changed


def require_entry(action: str, arguments: Mapping[str, Any]) -> None:
    """Raise ValueError unless an entry of a history, which may come from anywhere, has arguments the action takes."""
    wanted = {"paint": {"points", "value", "radius"}, "load_image": {"data"}}[action]
    if set(arguments) != wanted:
        raise ValueError(f"{action} needs {', '.join(sorted(wanted))}, not {', '.join(sorted(map(str, arguments)))}")
    if action == "paint":
        require_stroke(arguments["points"], arguments["value"], arguments["radius"])
    else:
        read_image(decoded(arguments["data"]))


def decoded(text: object) -> bytes:
    """The bytes of an image from a history; ValueError if the text is not base64."""
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"data of load_image must be base64: {error}") from error


# -- the field that was replaced last


@dataclass(frozen=True)
class ReplacedField:
    """A field that was replaced. initial: the parameters of INITIAL that it began with; snapshot: the state."""

    initial: Mapping[str, Any]
    snapshot: dict[str, Any]

    @property
    def words(self) -> str:
        """As in "gaussian at step 500"."""
        source = "your image" if self.snapshot["image"] else self.initial["preset"]
        return f"{source} at step {self.snapshot['steps']}"


class UndoSlot:
    """Of one lab. lost: what can come back, None for nothing; name: of the last undo, "" before the first."""

    def __init__(self, lab: Diffusion) -> None:
        self._lab = lab
        self.lost: ReplacedField | None = None
        self.name = ""

    @property
    def words(self) -> str:
        """What would come back, "" for nothing."""
        return self.lost.words if self.lost else ""

    def keep(self, *events: param.parameterized.Event) -> None:
        """The field is about to be replaced, after `events`, which have changed parameters already."""
        lab = self._lab
        if lab.steps or lab.history.entries or lab.history.missing:
            self.lost = self._present({event.name: event.old for event in events})

    @contextmanager
    def around(self, action: str) -> Iterator[None]:
        """The lab's `action` is done in the block; what it replaces is kept, unless it is refused."""
        before = self.lost
        if action in LOSING:
            self.keep()
        try:
            yield
        except Exception:
            self.lost = before
            raise

    def back(self) -> ReplacedField:
        """What is to come back, which the present state takes the place of; ValueError if nothing is kept."""
        if self.lost is None:
            raise ValueError("undo needs a field that was lost; none is kept")
        lost, self.lost, self.name = self.lost, self._present({}), uuid4().hex
        return lost

    def _present(self, before: Mapping[str, Any]) -> ReplacedField | None:
        """The lab as it is, `before` the values that have changed since; None if memory is short."""
        lab = self._lab
        if lab.ny * lab.nx * np.dtype(lab.dtype).itemsize > KEPT_SHARE * Host().free_bytes():
            return None
        return ReplacedField({name: before.get(name, getattr(lab, name)) for name in lab.INITIAL}, lab.snapshot())
