"""All workloads: the folders of workloads/, and a user's file if the environment names one."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from compute.cli.arguments import named
from compute.ways.declaring import built_in_workload
from compute.ways.opened import opened
from compute.ways.workload import BUILT_IN, Workload, own_name

OWN_FILE = "FIELDLAB_OWN_FILE"  # environment variable: the user's file, set by `fieldlab try FILE --open`


def workload_names() -> list[str]:
    """Return all names in order. A user's file is not executed for this: it may import the module being imported."""
    path = os.environ.get(OWN_FILE)
    return [*([own_name(Path(path))] if path else []), *(each.name for each in built_in())]


@cache
def workloads() -> tuple[Workload, ...]:
    """Return every workload in the order of a lecture, after those of a user's file."""
    if path := os.environ.get(OWN_FILE):
        return (*opened(Path(path)), *built_in())
    return built_in()


@cache
def built_in() -> tuple[Workload, ...]:
    """Return the workload of every folder. Raise TypeError for a folder without one."""
    folders = iter_modules(import_module(BUILT_IN).__path__)
    found = [built_in_workload(f"{BUILT_IN}.{each.name}") for each in folders if each.ispkg]
    return tuple(sorted(found, key=lambda w: (w.chapter, w.name)))


def workload(name: str) -> Workload:
    """Return the workload called `name`. Raise ValueError, with the known names, for an unknown one."""
    return named("workload", name, {each.name: each for each in workloads()})
