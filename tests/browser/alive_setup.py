"""`panel serve --setup` runs this: at SIGUSR1 the server prints how many labs its closed and open tabs keep alive."""

import gc
import signal


def _tell(number: int, frame: object) -> None:
    gc.collect()
    alive = [type(thing).__name__ for thing in gc.get_objects()]  # not isinstance: weak proxies answer for their things
    print(f"alive: {alive.count('LabTab')} views, {alive.count('Session')} sessions", flush=True)


signal.signal(signal.SIGUSR1, _tell)
