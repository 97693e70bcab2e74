"""Startup hook that Python imports first in the servers under test and in all their subprocesses.

It disables changes of priority: a job of the export card runs at low priority and would wait for minutes while the
other half of the tests runs. With FIELDLAB_RECORD_CHANGES=FILE a server also appends each kind of change that a browser
sends to FILE (see tests/browser/recorded.py).
"""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

RECORD = "FIELDLAB_RECORD_CHANGES"


def keep(*_: object) -> int:
    """Change nothing and return niceness 0."""
    return 0


class Recorder(PathFinder):
    """Wraps `allowed_events` of app/server/browser_changes.py when that module is imported."""

    MODULE = "app.server.browser_changes"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return the spec of MODULE with a loader that adds the recording; None for other modules."""
        if name != cls.MODULE:
            return None
        spec = super().find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            """Execute the module, then wrap its function."""
            execute(module)
            record(module)

        spec.loader.exec_module = exec_module
        return spec


def record(module):
    """Wrap `allowed_events`, so that it appends each kind of change to the file once."""
    allowed_events, seen = module.allowed_events, set()

    def recorded(document, events):
        """Record the kinds of the events, then call the original function."""
        for event in events:
            if event["kind"] == "MessageSent":
                line = f"event {event['msg_data']['name']}"
            elif event["kind"] == "ModelChanged" and (model := document.models.get_by_id(event["model"]["id"])):
                line = f"change {module.kind_of(model)} {event['attr']}"
            else:
                line = f"other {event['kind']}"
            if line not in seen:
                seen.add(line)
                with Path(os.environ[RECORD]).open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
        return allowed_events(document, events)

    module.allowed_events = recorded


os.nice = os.sched_setscheduler = keep
if os.environ.get(RECORD):
    sys.meta_path.insert(0, Recorder)
