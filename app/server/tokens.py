"""Session tokens: where they come from, and what they do not hold.

A token lets a browser connect to its page. It is part of the page's HTML and of its WebSocket's handshake, and is kept
for as long as the page. Bokeh and Panel copy all cookies and headers of the page's request into it: a login cookie that
scripts must not read, and the password of a proxy (`Authorization`). Here it holds neither. Code on the server that
needs one finds it on the WebSocket's own request.

Bokeh also hands out tokens by `autoload.js`, a script that any page of the same site could include; that route, and
`metadata`, which no page of ours needs either, answer 404.
"""

from __future__ import annotations

from typing import Any

from bokeh.server.tornado import BokehTornado
from bokeh.server.views.autoload_js_handler import AutoloadJsHandler
from bokeh.server.views.metadata_handler import MetadataHandler

UNUSED = (AutoloadJsHandler, MetadataHandler)  # routes that Bokeh adds to each application


def is_unused(delegate: Any) -> bool:
    """Return whether `delegate`, which Tornado found for a request, belongs to one of the UNUSED routes."""
    handler = getattr(delegate, "handler_class", None)
    return isinstance(handler, type) and issubclass(handler, UNUSED)


def install() -> None:
    """Let no token hold a header or a cookie, whatever the server's options say."""
    for name in ("include_headers", "include_cookies"):  # an empty list, as None includes all
        setattr(BokehTornado, name, property(lambda _server: []))
