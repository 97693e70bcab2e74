"""Controls of the settings in the text: edges of the fields, scheme and time step. Each rewrites its statement.

Only the text contains these settings; a control shows the value in the applied text. If the language rejects a change,
the control shows the error below it and returns to that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite, isnan
from typing import cast

import panel as pn
import panel_material_ui as pmui

from app.page.markup import plain
from app.page.widgets import FULL, NumberField, Widget
from app.tab.controls import column
from app.tab.stream import ignore
from compute.labs.equations.rewriting import with_edges, with_scheme
from compute.labs.equations.tree import Edge, EdgeKind, SchemeName, System

Rewriting = Callable[[str], str]  # from a text to another one
Rewrite = Callable[[Rewriting], object]  # applies a rewriting to the text; raises ValueError if that is impossible
KINDS = {"periodic": "periodic", "zero flux": "zero-flux", "fixed value": "fixed"}
EACH = "each"  # value in the list of the edges of all fields: choose those of each field
SCHEME_LABELS = {"Euler": "euler", "Runge–Kutta 3": "rk3", "symplectic Euler": "symplectic"}
VALUE_WIDTH = 88  # px of the field of a fixed value


def attempt(widget: Widget, kept: str, rewrite: Rewrite, change: Rewriting) -> None:
    """Apply a change selected in a list; if it raises ValueError, show `kept` in the list and the error below."""
    try:
        rewrite(change)
    except ValueError as error:
        widget.param.update(value=kept, error_state=True, helper_text=plain(str(error)))
    else:
        widget.param.update(error_state=False, helper_text="")


class EdgeFields:
    """The list of the kinds of edges of one field, or of all fields, and the value of fixed ones.

    name: of the field, "" for all fields; each(chosen): called with whether the edges of each field are to be chosen.
    """

    def __init__(self, rewrite: Rewrite, name: str = "", each: Callable[[bool], object] = ignore) -> None:
        self._rewrite, self.name, self._choose_each = rewrite, name, each
        self._edge: Edge | None = None
        label = f"Edges of {name}" if name else "Edges"
        self.kind = pmui.Select(label=label, options=dict(KINDS), size="small", **FULL)
        self.value = NumberField("Value", 0.0, self._set_value, width=VALUE_WIDTH, sizing_mode="fixed", visible=False)
        self.kind.param.watch(lambda event: self._set_kind(event.new), "value")
        self.panel = pn.Row(self.kind, self.value.panel, margin=0, sizing_mode="stretch_width")

    def show(self, edge: Edge | None, several: bool = False) -> None:
        """Show edges, None if they differ. several: offer to choose those of each field."""
        self._edge = edge
        options = KINDS | ({"for each field …": EACH} if several else {})
        kind = edge.kind if edge is not None else EACH
        self.kind.param.update(options=options, value=kind, error_state=False, helper_text="")
        self.value.panel.visible = edge is not None and edge.kind == "fixed"
        if edge is not None:
            self.value.show(edge.value)

    def _set_kind(self, kind: str) -> None:
        kept = self._edge.kind if self._edge is not None else EACH
        if kind == kept:
            return
        self._choose_each(kind == EACH)
        if kind != EACH:
            edge = Edge(cast(EdgeKind, kind))
            attempt(self.kind, kept, self._rewrite, partial(with_edges, edge=edge, field=self.name))

    def _set_value(self, value: float) -> None:
        if self._edge is not None and value != self._edge.value:
            self._rewrite(partial(with_edges, edge=replace(self._edge, value=value), field=self.name))


class TextSettings:
    """The widgets of one tab: `edges` contains those of the edges, `scheme` is a list, `step` the time step.

    set_step(dt): write a time step into the text, None for an automatic one; raises ValueError if that is impossible.
    """

    def __init__(self, rewrite: Rewrite, set_step: Callable[[float | None], object]) -> None:
        self._rewrite = rewrite
        self._system: System | None = None
        self._each = False  # whether the user has opened the edges of each field
        self.scheme = pmui.Select(label="Scheme", options=SCHEME_LABELS, size="small", **FULL)
        self.scheme.param.watch(lambda event: self._set_scheme(event.new), "value")
        self.step = NumberField("Time step", None, set_step, optional=True)
        self.every = EdgeFields(rewrite, each=self._choose_each)
        self.fields: Mapping[str, EdgeFields] = {}  # by field, while its edges are shown
        self._rows = column()
        self.edges = column(self.every.panel, self._rows)

    def show(self, system: System, step: float | None) -> None:
        """Show the settings of a system. step: the given time step, None for an automatic one."""
        self._each = self._each and self._system is not None and system.fields == self._system.fields
        self._system = system
        self.scheme.param.update(value=system.scheme, error_state=False)
        self.step.show(step)
        self._show_edges(system)

    def tell(self, dt: float, limit: float, advice: str) -> None:
        """Show the bound of the time step below it, and advice below the scheme.

        dt: in use; limit: inf without a bound, nan if it is unknown.
        """
        if not isfinite(limit):
            bound = "No bound is known." if isnan(limit) else "Nothing bounds it."
        elif dt > limit:
            bound = f"Unstable: above its bound, about {limit:.3g}."
        else:
            bound = f"Stable up to about {limit:.3g}."
        self.step.hint(bound if self.step.panel.value else f"{bound} Empty: 90 % of it, now {dt:.3g}.")
        if not self.scheme.error_state:
            self.scheme.helper_text = plain(advice)

    def _show_edges(self, system: System) -> None:
        edges = {name: system.edge(name) for name in system.fields}
        several = len(edges) > 1
        each = several and (self._each or len(set(edges.values())) > 1)
        self.every.show(None if each else edges[system.fields[0]], several)
        if list(self.fields) != (system.fields if each else []):
            self.fields = {name: EdgeFields(self._rewrite, name) for name in system.fields} if each else {}
            self._rows.objects = [one.panel for one in self.fields.values()]
        for name, one in self.fields.items():
            one.show(edges[name])

    def _choose_each(self, chosen: bool) -> None:
        self._each = chosen
        if chosen and self._system is not None:
            self._show_edges(self._system)

    def _set_scheme(self, scheme: str) -> None:
        system = self._system
        if system is not None and scheme != system.scheme:
            attempt(self.scheme, system.scheme, self._rewrite, partial(with_scheme, scheme=cast(SchemeName, scheme)))
