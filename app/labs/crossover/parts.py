"""The parts of the crossover lab's tab: view, controls, help, and facts for the status bar."""

from __future__ import annotations

from app.labs.crossover.controls import CrossoverControls
from app.labs.crossover.labels import duration
from app.labs.crossover.readout import CrossoverReadout
from app.labs.crossover.view import CrossoverView
from app.tab.lab_view import Parts
from compute.devices.backends import backend
from compute.lab.frames import Frame
from compute.labs.crossover import Crossover
from compute.own.code_files import files_of_workload
from compute.ways.catalogue import workload


def facts(frame: Frame) -> list[tuple[str, str, str]]:
    """Return (label, value, kind) for each fact; kind is "", "warn" or "bad"."""
    known = frame.facts
    return [
        ("done", f"{100 * known['progress']:.0f} %", ""),
        ("measuring for", duration(known["elapsed"]), ""),
        ("of", f"{frame.notes['workload']} {frame.notes['dtype']}", ""),
    ]


HELP = """
| **Space** | run, or pause |
| **R** | restart |
| **1** … **5** | the views: crossover, programs, roofline, traps, claims checked |
"""
POINTER = """
Tap a line to read its program; point at a mark for its time, its quartiles and where it is from. Full marks are
measured here, hollow ones were recorded elsewhere, hatched ones are cited.
"""

PARTS = Parts(
    CrossoverView,
    CrossoverControls,
    facts,
    HELP,
    POINTER,
    values=lambda: {"dtype": backend(Crossover.home()).dtypes[-1]},  # so that the GPU's ways can be timed
    pace=None,
    plays=False,
    readout=lambda session, lab_view: CrossoverReadout(session, lab_view.model),
    code=lambda session: files_of_workload(workload(session.values["workload"])),
)
