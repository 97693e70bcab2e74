"""What the server does once at its start: bound what strangers may do, keep house, warm the kernels.

Bokeh executes this file twice, so it holds no state.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def on_server_loaded(server_context: Any) -> None:
    """Called before the first request."""
    from app import (
        access,
        admission,
        bokeh_messages,
        log_bounds,
        loop_watch,
        message_bounds,
        panel_workarounds,
        system_card,
    )
    from app.serve import ADDRESS
    from compute import scratch
    from compute.measure.machine_roofs import machine_roofs

    scratch.settle()
    access.install()
    admission.install()
    message_bounds.install()
    log_bounds.install()
    loop_watch.install()
    panel_workarounds.begin_housekeeping()
    bokeh_messages.send_at_once()
    bokeh_messages.one_message_a_turn()
    panel_workarounds.shorten_import_maps()
    panel_workarounds.share_stylesheets()
    system_card.find_machine()
    machine_roofs().start(then=admission.session_limiter().warm)  # measured before anything else loads the machine
    import app.page  # noqa: F401 - in advance: it takes seconds, for which the first visitor would wait

    if address := os.environ.get(ADDRESS):
        sys.stdout.write(f"Fieldlab: {address}   (Ctrl-C stops it)\n")
        sys.stdout.flush()
