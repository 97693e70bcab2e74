"""Compare the allow-list of browser changes with what pages really send.

    FIELDLAB_RECORD_CHANGES=/tmp/changes make test ARGS=tests/browser
    python -m tests.browser.recorded /tmp/changes

The first command runs all browser tests; their servers append each kind of change once (priority/sitecustomize.py). The
second prints what was sent and is not on the list of app/server/allowed_changes.py, and what is on it and was not sent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from app.server.allowed_changes import ALLOWED, EVENTS, UNUSED, UNUSED_OF_COMPONENTS


def differences(recorded: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the kinds of changes that were sent and are not allowed, and those that are allowed and were not sent."""
    sent = {tuple(line.split()) for line in recorded}
    allowed = {("change", kind, name) for kind, names in ALLOWED.items() for name in names}
    allowed |= {("event", name) for name in EVENTS}
    unused = {("change", kind, name) for kind, names in UNUSED.items() for name in names}
    others = {line for line in sent - allowed - unused if line[0] != "other" and line[-1] not in UNUSED_OF_COMPONENTS}
    return sorted(map(" ".join, others)), sorted(map(" ".join, allowed - sent))


def main(path: str) -> int:
    """Print the differences; return 1 if something was sent that is not allowed."""
    extra, unsent = differences(Path(path).read_text(encoding="utf-8").splitlines())
    sys.stdout.writelines(f"sent, not allowed: {line}\n" for line in extra)
    sys.stdout.writelines(f"allowed, not sent: {line}\n" for line in unsent)
    return 1 if extra else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
