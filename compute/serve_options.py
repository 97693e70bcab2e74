"""The options of `fieldlab serve` and of `python -m app.serve`, which it becomes: where to serve, and to whom."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

MOST_PORT = 65535
NUMBER = re.compile("[1-9][0-9]{0,5}")


def add(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take them."""
    parser.add_argument("--port", type=_port, default=5006, help="default 5006")
    parser.add_argument("--address", default="localhost", help="to listen on (default localhost)")
    parser.add_argument(
        "--origin", action="append", default=[], metavar="HOST:PORT", help="by which browsers may open it, beside that"
    )
    parser.add_argument("--prefix", type=_prefix, metavar="/PATH", help="of all addresses, behind a proxy")
    parser.add_argument(
        "--behind-proxy", action="store_true",
        help="believe X-Real-Ip and X-Scheme: only where nobody gets past the proxy, which sets them",
    )  # fmt: skip
    parser.add_argument("--sessions", type=_sessions, metavar="N", help="browser tabs at a time (default 64)")
    parser.add_argument(
        "--stories", action="append", type=Path, default=[], metavar="FOLDER", help="a folder with stories of one's own"
    )
    parser.add_argument("--metrics", action="store_true", help="answer /metrics, for Prometheus")


def _port(text: str) -> int:
    if not NUMBER.fullmatch(text) or int(text) > MOST_PORT:
        raise argparse.ArgumentTypeError(f"must be 1 to {MOST_PORT}, not {text[:40]!r}")
    return int(text)


def _sessions(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text[:40]!r}")
    return int(text)


def _prefix(text: str) -> str:
    """It with one slash before it and none behind it."""
    parts = text.strip("/")
    if not re.fullmatch(r"[\w.~-]{1,40}(/[\w.~-]{1,40}){0,4}", parts, re.ASCII) or ".." in parts:
        raise argparse.ArgumentTypeError(f"must be like /lectures/fieldlab (letters, digits, -._~), not {text[:40]!r}")
    return f"/{parts}"
