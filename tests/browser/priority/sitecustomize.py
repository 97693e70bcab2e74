"""Python runs this first in the servers under test and in all that they start: jobs keep their server's priority.

A job of the export card lets everything else go first. Beside the other half of the tests it would wait for minutes.
"""

import os


def keep(*_: object) -> int:
    """Change nothing; returns the niceness."""
    return 0


os.nice = os.sched_setscheduler = keep
