"""Where a lab computes: backend, kernel, device. Absent backends are greyed, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any

import panel as pn
import panel_material_ui as pmui

from app.session import Session
from app.theme import stylesheet
from app.widgets import FULL, Bound
from compute.backends import Backend, preferred
from compute.gpu_devices import cuda_count


class Machine(Bound):
    """The widgets `items` of one session. A lab without kernels to choose from shows none.

    words: names a kernel; reasons: what to say of some of them while they are chosen, by their names.
    """

    def __init__(
        self, session: Session, words: Callable[[str], str] = str, reasons: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(session)
        self._words, self._reasons = words, reasons
        known = session.lab.backends()
        absent = [b for b in known if b.missing is not None]
        self.backend = pmui.Select(
            label=self.parameter("backend").label,
            value=session.values["backend"],
            options={b.label: b.name for b in known},
            disabled_options=[b.name for b in absent],
            helper_text=f"{preferred(known).label} is the best that is ready here: the page opens with it.",
            size="small",
            **FULL,
        )
        self.backend.param.watch(lambda event: self._use(event.new), "value")
        self.kernel = self.choice("variant", self._kernels()) if "variant" in session.values else None
        if self.kernel is not None:
            self.kernel.param.watch(lambda event: self._say_why(event.new), "value")
        devices = {f"GPU {index}": index for index in range(max(1, cuda_count()))}
        device = self.choice("device_index", devices, visible=len(devices) > 1)
        notes = [absentees(absent)] if absent else []
        self.items: list[Any] = [self.backend, *notes, *([self.kernel] if self.kernel else []), device]

    def _kernels(self) -> dict[str, str]:
        """The present backend's kernels in words; the first is the default and has no name of its own."""
        names = self.session.lab.variants(self.session.values["backend"])
        return {self._words(name): "" if name == names[0] else name for name in names}

    def _use(self, backend: str) -> None:
        """Another backend, with its default kernel; the list of kernels follows."""
        if backend != self.session.values["backend"]:
            default = {} if self.kernel is None else {"variant": ""}
            self.session.change(backend=backend, **default)
            self._list_kernels()

    def _list_kernels(self) -> None:
        if self.kernel is not None:
            self.kernel.param.update(options=self._kernels(), value=self.session.values["variant"])
            self._say_why(self.session.values["variant"])

    def _say_why(self, variant: str) -> None:
        """Below the list: why the chosen kernel is slow, where it is so on purpose."""
        if self.kernel is not None:
            self.kernel.helper_text = self._reasons.get(variant, "")

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show `values`, which the session took without these widgets."""
        super().show_values({name: value for name, value in values.items() if name != "variant"})
        if "backend" in values or "variant" in values:
            self.backend.value = self.session.values["backend"]
            self._list_kernels()


def absentees(backends: Sequence[Backend]) -> pn.pane.HTML:
    """Backends this machine lacks, greyed, each with its reason, and the lines that install them."""
    reasons = "".join(f"<p><b>{escape(b.label)}</b> is off: {escape(b.missing or '')}</p>" for b in backends)
    lines = dict.fromkeys(b.install for b in backends if b.install)
    installs = "".join(f"<code>{escape(line)}</code>" for line in lines)
    html = f"<div class='absent'>{reasons}{installs}</div>"
    return pn.pane.HTML(html, stylesheets=[stylesheet()], sizing_mode="stretch_width", margin=(2, 8))
