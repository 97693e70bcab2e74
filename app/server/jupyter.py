"""Entry point for jupyter-server-proxy, which starts Fieldlab, lists it in the launcher and proxies its pages.

The entry point in pyproject.toml names `server`. The Jupyter server authenticates its users; Fieldlab listens only on
this machine's loopback, and proxied requests carry that host name.
"""

from __future__ import annotations

import sys
from typing import Any

from app.page.theme import ASSETS

SECONDS = 300  # until the server must answer: its first start compiles kernels


def server() -> dict[str, Any]:
    """Return the server description for jupyter-server-proxy, which replaces "{port}" with a free port.

    The command uses this interpreter: in an environment that is not activated, `fieldlab` is not on PATH.
    """
    local = "localhost:{port}"
    options = ["--laptop", "--port", "{port}", "--address", "127.0.0.1"]
    return {
        "command": [sys.executable, "-P", "-m", "compute", "serve", *options],
        "timeout": SECONDS,
        "launcher_entry": {"title": "Fieldlab", "icon_path": str(ASSETS / "logo.svg"), "path_info": "fieldlab/app"},
        "request_headers_override": {"Host": local, "Origin": f"http://{local}"},
    }
