"""All engines of one server process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from compute.engine.supervisor import Supervisor


class EngineRoom:
    """Engines by device name ("host", "cuda:0" …), each started when it is first asked for; closed at exit.

    options: passed to every Supervisor (deadline, labs).
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._engines: dict[str, Supervisor] = {}
        self._closed = False

    def get(self, name: str) -> Supervisor:
        """The engine of that device, started if need be. Does not wait for it. RuntimeError after `close`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine room is closed")
            if name not in self._engines:
                self._engines[name] = Supervisor(name, **self._options)
                self._engines[name].start()
            return self._engines[name]

    def list(self) -> Mapping[str, Supervisor]:
        """The engines that were started, by name."""
        with self._lock:
            return dict(self._engines)

    def close(self) -> None:
        """End every engine's process and thread; returns when they are gone."""
        with self._lock:
            self._closed = True
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            engine.ask_to_stop()
        for engine in engines:
            engine.close()
