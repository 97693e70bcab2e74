"""Addresses that the server answers in addition to Bokeh's pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bokeh.server.tornado import BokehTornado
from tornado.httputil import HTTPServerRequest

# Returns the delegate that answers a request, None for the requests of other routes.
Route = Callable[[BokehTornado, HTTPServerRequest], Any]
_routes: dict[str, Route] = {}


def add(name: str, route: Route) -> None:
    """Try `route` for each request before Bokeh's handlers; it replaces a route of the same name."""
    if not _routes:
        _install()
    _routes[name] = route


def _install() -> None:
    find = BokehTornado.find_handler

    def find_handler(server: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
        """Return the delegate of the first route that has one, else that of Bokeh's find_handler."""
        for route in _routes.values():
            if (found := route(server, request)) is not None:
                return found
        return find(server, request, **options)

    BokehTornado.find_handler = find_handler
