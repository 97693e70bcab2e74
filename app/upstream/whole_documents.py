"""Embed the arrays of a document in the reply to a page that reconnects."""

from __future__ import annotations

from typing import Any

from bokeh import protocol
from bokeh.document import Document
from bokeh.protocol.message import Message
from bokeh.protocol.messages.pull_doc_reply import pull_doc_reply

from app.upstream.fix import BOKEHJS, Code, Fix


class WholeReply(pull_doc_reply):
    """Bokeh's reply with a document, with the arrays in base64 instead of separate buffers."""

    @classmethod
    def create(cls, request_id: Any, document: Document, **metadata: Any) -> Message[Any]:
        """Return the reply to the request `request_id`."""
        return cls(cls.create_header(request_id=request_id), metadata, {"doc": document.to_json(deferred=False)})


def install() -> None:
    """Register WholeReply as the reply to requests for a document."""
    protocol.SPEC["PULL-DOC-REPLY"] = WholeReply


FIX = Fix(
    name="whole_documents",
    package="bokeh",
    versions="3.9",
    kind="fault",
    purpose="a page stood still after it had reconnected",
    report=(
        "After a reconnect, BokehJS calls document.replace_with_json(doc_json) without the buffers of the reply: every "
        "deferred array raises 'buffer for id=… not found' and the page keeps its last state."
    ),
    replaces=(
        Code("bokeh.protocol.messages.pull_doc_reply:pull_doc_reply.create", ("f9d88806651e",)),
        Code(f"{BOKEHJS}:ClientConnection._repull_session_doc", ("34ca14fe32c6",)),
    ),
    install=install,
    repaired="3.10",
)
