"""Texts with another scheme, time step, edges, wall or initial image: the statement is replaced in place, or appended.

All other statements, comments and blank lines stay. Each function returns a valid text, or raises EquationError.
"""

from __future__ import annotations

import re

from compute.labs.equations.language import read
from compute.labs.equations.tree import IMAGE, Edge, SchemeName

DEFAULT = "edges"  # the name before the edges of all arrays without their own


def with_scheme(text: str, scheme: SchemeName) -> str:
    """Return a text with this scheme."""
    return _checked(_with(text, r"scheme\s*[:=]", f"scheme: {scheme}"))


def with_time_step(text: str, dt: float | None) -> str:
    """Return a text with this time step, None for 90 % of the bound of stability."""
    return _checked(_with(text, r"dt\s*=", "" if dt is None else f"dt = {dt:.12g}"))


def with_edges(text: str, edge: Edge, field: str = "") -> str:
    """Return a text in which `field` has these edges, by default all fields; those of the other fields stay.

    If all fields have the same edges then, one statement for all arrays replaces those of the fields.
    """
    system = read(text)
    changed = [field] if field else system.fields
    edges = {name: system.edge(name) for name in system.fields} | dict.fromkeys(changed, edge)
    if len(set(edges.values())) == 1:
        for name in system.fields:
            text = _with_edge(text, name, None)
        return _checked(_with_edge(text, DEFAULT, edge))
    text = _with_edge(text, field, edge)
    others = system.edge(DEFAULT)  # of all arrays without their own
    return _checked(text if read(text).edge(DEFAULT) == others else _with_edge(text, DEFAULT, others))


def with_wall(text: str) -> str:
    """Return a text with a wall of no cells yet, without flux; a text with a wall is returned as it is."""
    if read(text).wall is not None:
        return text
    return _checked(_with(f"{text.rstrip()}\nwall = 0\n", r"wall\s*:", "wall: zero-flux"))


def with_image(text: str, array: str) -> str:
    """Return a text in which a field begins as the loaded image, or in which dark cells of it are the wall.

    array: a field or "wall".
    """
    if array == "wall":
        return _checked(_with(text, r"wall\s*=", f"wall = 0.5 - {IMAGE}"))
    return _checked(_with(text, rf"{array}\s*\(\s*0\s*\)\s*=", f"{array}(0) = {IMAGE}"))


def _with_edge(text: str, name: str, edge: Edge | None) -> str:
    """Return a text with the edges of `name`; without them if `edge` is None."""
    value = f" {edge.value:.12g}" if edge is not None and edge.kind == "fixed" else ""
    return _with(text, rf"{name}\s*:", "" if edge is None else f"{name}: {edge.kind}{value}")


def _with(text: str, head: str, statement: str) -> str:
    """Return a text in which `statement` replaces the one that begins with the pattern `head`; "" removes it."""
    lines: list[str] = []
    found = False
    for line in text.split("\n"):
        code, sign, comment = line.partition("#")
        parts = code.split(";")
        matching = [re.match(rf"\s*{head}", part) is not None for part in parts]
        if any(matching):
            found = True
            kept = [_in_place(part, statement) if match else part for part, match in zip(parts, matching, strict=True)]
            code = ";".join(part for part in kept if part)
            if not statement:
                code = code.strip() + "  " * bool(code.strip() and sign)
                if not code and not sign:
                    continue
        lines.append(code + sign + comment)
    if statement and not found:
        end = "\n" if text.endswith("\n") else ""
        return f"{text.rstrip()}\n{statement}{end}"
    return "\n".join(lines)


def _in_place(part: str, statement: str) -> str:
    """Return a statement with the white space around the part that it replaces, "" for no statement."""
    bare = part.strip()
    return part.replace(bare, statement) if statement else ""


def _checked(text: str) -> str:
    """Return a text, or raise EquationError if it is invalid, for instance too long."""
    read(text)
    return text
