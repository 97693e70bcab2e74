"""`python -m app.server.serve`: compile the kernels of the first screens (first_screens.py), then become the server.

`make serve` and `fieldlab serve` run it. The server prints its address when it is ready (app_hooks.py).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the slow imports
    from compute.start import start

    raise SystemExit(start("app.server.serve"))

import argparse
import importlib
import ipaddress
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from app.server import server_log
from app.server.first_screens import compile_first
from compute import stories
from compute.cli import serve_options, settings
from compute.cli.serve_options import LOOPBACK
from compute.own.exercises import files as exercises
from compute.start import become

SESSIONS = "FIELDLAB_MAX_SESSIONS"  # see app/server/admission.py
METRICS = "FIELDLAB_METRICS"  # see app/server/operations.py
RECORDED = "FIELDLAB_RECORDED"  # see app/readout/numbers.py
ADDRESS = "FIELDLAB_ADDRESS"  # environment variable: the address that the server prints when it is ready
PANEL = "panel.command"  # its `main` is run by `python -m panel`
BROWSER = "FIELDLAB_BROWSER"  # environment variable: whether the server opens that address in the user's browser
ORIGINS = "BOKEH_ALLOW_WS_ORIGIN"  # environment variable: origins that Bokeh allows, in place of its options
INTERRUPTED = 130
DESCRIPTORS = 2**16  # open files and connections: seven for each of 9,000 browsers
MACOS_DESCRIPTORS = 10_240  # its OPEN_MAX: macOS may refuse a higher soft limit, whatever the hard limit is
CONNECTIONS = 7  # per browser: six for files, kept open for a while, and its WebSocket
log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Compile and serve; return an exit code only if interrupted before the server starts."""
    parser = _parser()
    try:
        chosen = serve_options.parse(parser, list(sys.argv[1:] if argv is None else argv))
        settings.hand_on(serve_options.settings_of(chosen))
        serve_options.require_address(chosen.address)
        stories.name_folders(chosen.stories)
        exercises.name_folders(chosen.exercises)
    except ValueError as error:  # includes StoryError and SettingsError
        parser.error(str(error))
    try:
        compile_first()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; compiled kernels are cached, the server was not started\n")
        return INTERRUPTED
    os.environ |= environment(chosen)
    origins = allowed_origins(chosen.address, chosen.port, chosen.origin)
    own = ["--address", chosen.address, "--port", str(chosen.port)]
    if any(origin.startswith("[") for origin in origins):
        os.environ.setdefault(ORIGINS, ",".join(origins))  # Bokeh's option accepts no IPv6 address
    else:
        own += [part for origin in origins for part in ("--allow-websocket-origin", origin)]
    own += ["--prefix", chosen.prefix] if chosen.prefix else []
    own += ["--use-xheaders"] if chosen.behind_proxy else []
    if chosen.auth:
        own += ["--basic-auth", str(chosen.auth)]
    return become("compute.start", PANEL, "serve", str(Path(__file__).resolve().parent.parent), *own)


def environment(chosen: argparse.Namespace) -> dict[str, str]:
    """Return the environment variables by which the server's processes receive the options."""
    given = {
        ADDRESS: address(chosen.address, chosen.port, chosen.origin, chosen.prefix or "") + chosen.show,
        SESSIONS: "" if chosen.sessions is None else str(chosen.sessions),
        exercises.RESULTS: "" if chosen.results is None else str(chosen.results.resolve()),
        METRICS: "1" * chosen.metrics,
        RECORDED: chosen.recorded or "",
        server_log.LOG_VARIABLE: chosen.log or "",
        BROWSER: "1" * chosen.browser,
    }
    return {name: value for name, value in given.items() if value}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m app.server.serve", description=__doc__.partition("\n")[0])
    serve_options.add(parser)
    parser.add_argument("--show", default="", metavar="?QUERY", help="what follows the address that is printed")
    parser.add_argument("--browser", action="store_true", help="open that address in the user's browser")
    return parser


def address(listening: str, port: int, origins: Sequence[str], prefix: str = "") -> str:
    """Return the address to open in a browser: that of the first origin, or else the listening address."""
    return f"http://{origins[0] if origins else f'{_host(listening)}:{port}'}{prefix}/app"


def allowed_origins(listening: str, port: int, origins: Sequence[str]) -> list[str]:
    """Return the origins that the server allows; an empty list for Bokeh's default, this machine.

    These are the chosen `origins`; without any, the listening address, if other machines can reach it. Any explicit
    origin replaces Bokeh's default, so localhost is appended.
    """
    host = _host(listening)
    found = list(origins) or ([] if host in LOOPBACK else [f"{host}:{port}"])
    return [*found, f"localhost:{port}"] if found else []


def _host(listening: str) -> str:
    """Return the host by which a browser reaches the listening address."""
    try:
        parsed = ipaddress.ip_address(listening)
    except ValueError:
        return listening  # a name
    if parsed.is_unspecified:  # all addresses of this machine
        return "localhost"
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)


def raise_descriptor_limit() -> None:
    """Raise the limit of open files and connections of this process and its children, at most to DESCRIPTORS.

    A shell sets 1,024, which 200 phones use up; all further connections then fail. A limit that may be too low for this
    server's settings is logged. Windows has no such limit.
    """
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return
    allowed, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    for most in (DESCRIPTORS, MACOS_DESCRIPTORS):
        limit = most if hard == unbounded else min(most, hard)
        if allowed == unbounded or allowed >= limit:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            allowed = limit
        except (OSError, ValueError) as error:
            log.info("the limit of open files stays %d: %d was refused: %s", allowed, limit, error)
    chosen = settings.current()
    needed = min(DESCRIPTORS, CONNECTIONS * (chosen.sessions + chosen.followers))
    if allowed != unbounded and allowed < needed:
        log.warning(
            "%d files and connections are allowed, and %d tabs and %d followers may need %d: raise the hard limit "
            "(LimitNOFILE= of a service, ulimit -Hn of a shell)",
            allowed, chosen.sessions, chosen.followers, needed,
        )  # fmt: skip
