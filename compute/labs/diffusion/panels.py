"""The plots of the diffusion lab, for files."""

from __future__ import annotations

from collections.abc import Mapping

from compute.frames import Frame
from compute.panels import Line, Panel

ALL: Mapping[str, Panel] = {
    "field": Panel("Field u", "x [cells]", "y [cells]", image="field"),
    "laplacian": Panel("Laplacian ∇²u", "x [cells]", "y [cells]", image="laplacian"),
    "profile": Panel(
        "Profile on the section line", "cell", "u", lines=(Line("profile", "u"), Line("exact", "exact", "dashed"))
    ),
}


def panels(frame: Frame) -> Mapping[str, Panel]:
    """Those that the frame has something for."""
    names = {*frame.rasters, *frame.curves}
    return {name: panel for name, panel in ALL.items() if name in names}
