"""Setup file for `panel serve --setup`: at SIGUSR1 the server prints how many lab views, sessions and pages exist."""

import gc
import os
import signal
import threading


def _tell(number: int, frame: object) -> None:
    from bokeh.server.session import ServerSession

    from app.server.builder import builder
    from app.tab.lab_tab import LabTab
    from app.tab.session import Session

    if builder().busy:  # inspecting a tuple under construction corrupts it
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        return
    gc.collect()
    alive = gc.get_objects()  # not isinstance: it returns True for weak proxies, too
    sessions = [thing for thing in alive if type(thing) is Session]
    tabs = [thing for thing in alive if type(thing) is LabTab]
    pages = [thing for thing in alive if type(thing) is ServerSession and hasattr(thing, "_document")]  # fully built
    print(f"alive: {len(tabs)} views, {len(sessions)} sessions, {len(pages)} pages", flush=True)


signal.signal(signal.SIGUSR1, _tell)
