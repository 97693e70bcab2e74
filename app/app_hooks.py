"""Hooks that run once at server start: install limits on clients, fixes and housekeeping, and start the engines.

Bokeh executes this file twice, so it stores no state.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import webbrowser
from typing import Any

from tornado import process
from tornado.ioloop import IOLoop

from app.upstream import one_loop


def refuse_several_processes(number: int | None, *_: object) -> None:
    """Replacement of Tornado's fork_processes, which `panel serve --num-procs N` calls unless N is 1."""
    why = "each process would start its own engines and count its own pages"
    sys.exit(f"Fieldlab runs in one process: --num-procs must be 1, not {number} ({why})")


process.fork_processes = refuse_several_processes  # type: ignore[assignment] # this file runs before the server is created
one_loop.install()  # for the same reason here


def on_server_loaded(server_context: Any) -> None:
    """Prepare the server; Bokeh calls this before the first request."""
    gc.disable()  # see open_doors
    start_engines()
    bound_what_strangers_may_do()
    change_panel_and_bokeh()
    warm(server_context.application_context)
    IOLoop.current().add_callback(open_doors)


def start_engines() -> None:
    """Start the engines of the first page; their processes are ready when the server has imported its modules."""
    from app.server import admission
    from compute.machine import scratch

    scratch.settle()
    admission.session_limiter().warm()


def bound_what_strangers_may_do() -> None:
    """Install the server's additional routes, access control, limits on requests and messages, and the log."""
    from app.server import (
        access,
        admission,
        connections,
        free_loop,
        login,
        message_bounds,
        operations,
        page_ids,
        serve,
        server_log,
    )
    from app.tab import frame_channel

    operations.install()
    frame_channel.install()
    access.install()  # after the routes, so that refused requests do not reach them
    admission.install()
    page_ids.install()
    login.install()
    message_bounds.install()
    server_log.install()
    serve.raise_descriptor_limit()
    connections.install()  # after raise_descriptor_limit
    free_loop.install()


def change_panel_and_bokeh() -> None:
    """Limit the changes that browsers may send, and install the enabled fixes (app/upstream/fixes.py)."""
    from app.server import widget_values
    from app.upstream import document_changes as bokeh_messages
    from app.upstream import fixes, internals, panel_workarounds

    if absent := internals.missing():
        sys.exit(
            f"Fieldlab does not work with these releases of Bokeh, Panel or Tornado: {', '.join(absent)} is missing"
        )
    try:
        fixes.chosen()
    except ValueError as error:
        sys.exit(str(error))
    bokeh_messages.allow_listed_changes()
    widget_values.install()
    panel_workarounds.begin_housekeeping()
    fixes.install()


def warm(application: Any) -> None:
    """Start the slow tasks that the first visitor would otherwise wait for."""
    from app.readout.first_headline import measure_first
    from app.readout.numbers import server_chip
    from app.server import free_loop
    from app.server.builder import builder
    from compute.measure.machine_roofs import machine_roofs

    free_loop.collector().install(application.application)
    builder().install(application.application)
    if not server_chip():
        machine_roofs().start()
        IOLoop.current().add_callback(measure_first)
    import app.page.page  # noqa: F401 - in advance: the import takes seconds
    from app.features import features

    for feature in features():
        feature.install()


def open_doors() -> None:
    """Print the address and open the browser, as set by `python -m app.server.serve`, once the modules are loaded.

    Freeze the 300 000 objects of the modules: traversing them in each garbage collection blocked the loop for 0.25 s.
    """
    from app.server.serve import ADDRESS, BROWSER

    gc.collect()
    gc.freeze()
    gc.enable()
    if address := os.environ.get(ADDRESS):
        sys.stdout.write(f"Fieldlab: {address}   (Ctrl-C stops it)\n")
        sys.stdout.flush()
        if os.environ.get(BROWSER):
            threading.Thread(target=webbrowser.open, args=(address,), name="browser", daemon=True).start()
