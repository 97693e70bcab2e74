"""Fieldlab from a Jupyter server: jupyter-server-proxy starts it, shows it in the launcher, and passes on its pages.

The extension finds `server` by the entry point of pyproject.toml. It has authenticated whoever asks; Fieldlab listens
on this machine's loopback alone, and is asked for by that name.
"""

from __future__ import annotations

import sys
from typing import Any

from app.theme import ASSETS

SECONDS = 300  # until it must answer: its first start compiles


def server() -> dict[str, Any]:
    """Return what jupyter-server-proxy needs to know of a server; it puts a free port into "{port}".

    The command is that of this interpreter: a server of an environment that is not activated has no `fieldlab` on PATH.
    """
    local = "localhost:{port}"
    options = ["--laptop", "--port", "{port}", "--address", "127.0.0.1"]
    return {
        "command": [sys.executable, "-P", "-m", "compute", "serve", *options],
        "timeout": SECONDS,
        "launcher_entry": {"title": "Fieldlab", "icon_path": str(ASSETS / "logo.svg"), "path_info": "fieldlab/app"},
        "request_headers_override": {"Host": local, "Origin": f"http://{local}"},
    }
