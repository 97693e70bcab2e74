"""Prints as JSON the faults in the parallel loops of a file's ways; run it with Numba's compiler disabled."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from compute.own import tasks
from compute.own.faults import Fault


def main(path: Path, names: list[str]) -> None:
    """Watch the ways with these names."""
    facts = tasks.open_file(path, stand_in=False, memory=0, interpret=True, report=lambda *_: None)
    found = {}
    for name in names:
        try:
            watched = tasks.watch_threads(name, facts.dtypes[0], 0, 5.0, lambda *_: None)
            found[name] = ["", list(watched.asked), watched.unwatched]
        except Fault as fault:
            found[name] = [fault.kind, [], fault.text]
    print(json.dumps(found))


main(Path(sys.argv[1]), sys.argv[2:])
