"""`panel serve --setup` runs this: at SIGUSR1 the server prints how many labs and pages of its tabs are alive."""

import gc
import os
import signal
import threading


def _tell(number: int, frame: object) -> None:
    from bokeh.server.session import ServerSession

    from app.builder import builder
    from app.lab_tab import LabTab
    from app.session import Session

    if builder().busy:  # who looks at a tuple that is just being made breaks it
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        return
    gc.collect()
    alive = gc.get_objects()  # not isinstance: weak proxies answer for their things
    sessions = [thing for thing in alive if type(thing) is Session]
    tabs = [thing for thing in alive if type(thing) is LabTab]
    pages = [thing for thing in alive if type(thing) is ServerSession and hasattr(thing, "_document")]  # none half made
    print(f"alive: {len(tabs)} views, {len(sessions)} sessions, {len(pages)} pages", flush=True)


signal.signal(signal.SIGUSR1, _tell)
