"""What the server does once at its start: bound what strangers may do, keep house, warm the engines.

Bokeh executes this file twice, so it holds no state.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from functools import partial
from typing import Any

from tornado import process
from tornado.ioloop import IOLoop


def refuse_several_processes(number: int | None, *_: object) -> None:
    """Replacement of Tornado's fork_processes, which `panel serve --num-procs N` calls unless N is 1."""
    why = "each process would start its own engines and count its own pages"
    sys.exit(f"Fieldlab runs in one process: --num-procs must be 1, not {number} ({why})")


process.fork_processes = refuse_several_processes  # type: ignore[assignment] # this file runs before the server is created


def on_server_loaded(server_context: Any) -> None:
    """Called before the first request."""
    gc.disable()  # see open_doors
    bound_what_strangers_may_do()
    change_panel_and_bokeh()
    warm(server_context.application_context)
    IOLoop.current().add_callback(open_doors, server_context.application_context)


def bound_what_strangers_may_do() -> None:
    """Addresses of the server's own, who may ask for what, how much of it, and what the log says of it."""
    from app import access, admission, frame_channel, free_loop, message_bounds, operations, serve, server_log
    from app.audience import handlers
    from app.ready_page import ready_page
    from app.server import connections, login, page_ids
    from compute import scratch

    scratch.settle()
    operations.install()
    handlers.install()
    frame_channel.install()
    access.install()  # after them: requests that it refuses do not reach them
    admission.install(ready_page())
    page_ids.install()
    login.install()
    message_bounds.install()
    server_log.install()
    serve.raise_descriptor_limit()
    connections.install()  # after raise_descriptor_limit
    free_loop.install()


def change_panel_and_bokeh() -> None:
    """Install the limits of what browsers may change, and the fixes that are switched on (app/upstream/fixes.py)."""
    from app import bokeh_messages, panel_workarounds
    from app.upstream.fixes import chosen

    try:
        names = chosen()
    except ValueError as error:
        sys.exit(str(error))
    bokeh_messages.allow_listed_changes()
    panel_workarounds.refuse_what_is_no_option()
    panel_workarounds.refuse_what_no_field_sends()
    known = installers()
    for name in known:
        if name in names:
            known[name]()


def installers() -> dict[str, Callable[[], object]]:
    """Return what installs the server's part of each fix, by the fix's name."""
    from app import bokeh_messages, lean_bookkeeping, panel_workarounds
    from app.builder import builder

    return {
        "housekeeping": panel_workarounds.begin_housekeeping,
        "whole_messages": bokeh_messages.send_at_once,
        "dead_connections": bokeh_messages.give_up_dead_connections,
        "few_references": bokeh_messages.name_few_models,
        "one_message": bokeh_messages.one_message_a_turn,
        "pull_beside": partial(bokeh_messages.pull_beside, builder()),
        "import_maps": panel_workarounds.shorten_import_maps,
        "shared_stylesheets": panel_workarounds.share_stylesheets,
        "fonts": panel_workarounds.load_fonts_for_their_letters,
        "plain_scripts": panel_workarounds.leave_own_scripts_as_they_are,
        "no_webgl": panel_workarounds.leave_webgl_out,
        "pages_beside": partial(panel_workarounds.write_pages_beside, builder()),
        "html_text": panel_workarounds.write_html_alone,
        "event_pause": panel_workarounds.shorten_pause_before_events,
        "event_lock": panel_workarounds.hold_documents_for_events,
        "current_documents": panel_workarounds.keep_current_documents_apart,
        "lean_bookkeeping": lean_bookkeeping.install,
    }


def warm(application: Any) -> None:
    """Begin what takes long and what the first visitor would wait for."""
    from app import admission, free_loop, system_card
    from app.builder import builder
    from compute.measure.machine_roofs import machine_roofs

    free_loop.collector().install(application.application)
    builder().install(application.application)
    system_card.find_machine()
    admission.session_limiter().warm()  # the first visitor needs them as soon as the page
    machine_roofs().start()
    import app.page  # noqa: F401 - in advance: it takes seconds, for which the first visitor would wait
    from compute.stories import stories

    stories()  # reads them, once


async def open_doors(application: Any) -> None:
    """Have the first visitor's page ready, then print the address, which `python -m app.serve` has set.

    The modules' objects, 300 000, are left out of all collections from here on: they stay, and looking through them
    held the loop for a quarter of a second each time. While they are made nothing is collected at all, so that the page
    is young as a whole: it is looked through before anybody is there.
    """
    from app.ready_page import ready_page
    from app.serve import ADDRESS, BROWSER

    gc.freeze()
    try:
        await ready_page().build(application)
    finally:
        gc.enable()
        gc.collect(1)
    if address := os.environ.get(ADDRESS):
        sys.stdout.write(f"Fieldlab: {address}   (Ctrl-C stops it)\n")
        sys.stdout.flush()
        if os.environ.get(BROWSER):
            threading.Thread(target=webbrowser.open, args=(address,), name="browser", daemon=True).start()
