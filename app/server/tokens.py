"""Session tokens without secrets.

A token authorizes a browser to connect to its page. It is part of the page's HTML and of the WebSocket handshake, and
is stored as long as the page exists. Bokeh and Panel copy all cookies and headers of the page's request into it, among
them HttpOnly login cookies and the `Authorization` header of a proxy. This module removes both. Code on the server
reads headers and cookies from the WebSocket's own request.

Bokeh also returns tokens from `autoload.js`, a script that any page of the same site can include. This route, and
`metadata`, answer 404: no page of Fieldlab uses them.
"""

from __future__ import annotations

from typing import Any

from bokeh.server.tornado import BokehTornado
from bokeh.server.views.autoload_js_handler import AutoloadJsHandler
from bokeh.server.views.metadata_handler import MetadataHandler

UNUSED = (AutoloadJsHandler, MetadataHandler)  # Bokeh adds these routes to each application


def is_unused(delegate: Any) -> bool:
    """Return whether `delegate`, the result of Tornado's routing, belongs to one of the UNUSED routes."""
    handler = getattr(delegate, "handler_class", None)
    return isinstance(handler, type) and issubclass(handler, UNUSED)


def install() -> None:
    """Exclude all headers and cookies from tokens, regardless of the server's options."""
    for name in ("include_headers", "include_cookies"):  # [], since None includes all
        setattr(BokehTornado, name, property(lambda _server: []))
