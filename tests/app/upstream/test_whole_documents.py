"""The reply with a document contains its arrays: BokehJS drops separate buffers after a reconnect."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
from bokeh import protocol
from bokeh.document import Document
from bokeh.models import ColumnDataSource

from app.upstream import whole_documents


def test_a_reply_contains_its_arrays(monkeypatch):
    monkeypatch.setitem(protocol.SPEC, "PULL-DOC-REPLY", protocol.SPEC["PULL-DOC-REPLY"])
    whole_documents.install()
    document, x = Document(), np.arange(3.0)
    document.add_root(ColumnDataSource({"x": x}))
    reply = protocol.Protocol().create("PULL-DOC-REPLY", "7", document)
    assert reply.header["msgtype"] == "PULL-DOC-REPLY"
    assert reply.header["reqid"] == "7"
    assert not reply.buffers
    (root,) = json.loads(reply.content_json)["doc"]["roots"]
    ((_, column),) = root["attributes"]["data"]["entries"]
    assert gzip.decompress(base64.b64decode(column["array"]["data"])) == x.tobytes()
