"""Every workload there is: the folders of workloads/, and a file of the user's own where the environment names one."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from pkgutil import iter_modules

from compute.arguments import named
from compute.labs.crossover import workloads as folders
from compute.labs.crossover.workload import Workload, declared, own_name

OWN_FILE = "FIELDLAB_OWN_FILE"  # in the environment: a file of one's own, which `fieldlab try FILE --open` names


def workload_names() -> list[str]:
    """The names of all, in that order. A file of one's own is not run for it: it imports what may just be importing."""
    path = os.environ.get(OWN_FILE)
    return [*([own_name(Path(path))] if path else []), *(each.name for each in built_in())]


@cache
def workloads() -> tuple[Workload, ...]:
    """Return every workload, in the order of a lecture; one of the user's own comes first."""
    if path := os.environ.get(OWN_FILE):
        from compute.own.opened import opened  # what runs such files is loaded only where there is one

        return (*opened(Path(path)), *built_in())
    return built_in()


@cache
def built_in() -> tuple[Workload, ...]:
    """Every folder's. Raises TypeError for one that says none."""
    found = [declared(f"{folders.__name__}.{each.name}") for each in iter_modules(folders.__path__) if each.ispkg]
    return tuple(sorted(found, key=lambda w: (w.chapter, w.name)))


def workload(name: str) -> Workload:
    """Return the workload called `name`; ValueError names the ones there are."""
    return named("workload", name, {each.name: each for each in workloads()})
