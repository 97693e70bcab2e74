"""Compare the allow-list of browser changes with the changes that pages send.

    FIELDLAB_RECORD_CHANGES=/tmp/changes make test ARGS=tests/browser
    python -m tests.browser.recorded /tmp/changes

The first command runs all browser tests, whose servers append each kind of change once (priority/sitecustomize.py). The
second prints changes that were sent but are not in app/server/allowed_changes.py, and entries that were never sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from app.server.allowed_changes import ALLOWED, EVENTS, UNUSED, UNUSED_OF_COMPONENTS


def differences(recorded: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the sent changes that are not allowed, and the allowed ones that were not sent."""
    sent = {tuple(line.split()) for line in recorded}
    allowed = {("change", kind, name) for kind, names in ALLOWED.items() for name in names}
    allowed |= {("event", name) for name in EVENTS}
    unused = {("change", kind, name) for kind, names in UNUSED.items() for name in names}
    others = {line for line in sent - allowed - unused if line[0] != "other" and line[-1] not in UNUSED_OF_COMPONENTS}
    return sorted(map(" ".join, others)), sorted(map(" ".join, allowed - sent))


def main(path: str) -> int:
    """Print the differences; return 1 if a sent change is not allowed."""
    extra, unsent = differences(Path(path).read_text(encoding="utf-8").splitlines())
    sys.stdout.writelines(f"sent, not allowed: {line}\n" for line in extra)
    sys.stdout.writelines(f"allowed, not sent: {line}\n" for line in unsent)
    return 1 if extra else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
