"""The options of `fieldlab serve`, which becomes `python -m app.server.serve`: address, allowed origins, and limits.

The limits are a preset, `--laptop`, `--classroom` or `--public`, and changes to it: one option for each setting of
settings.py. A file, `--settings FILE`, may contain all options, including where to serve, as TOML: each entry is the
option of that name. A command-line option has precedence over the file's entry, and the entry over the preset.
"""

from __future__ import annotations

import argparse
import re
import socket
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from msgspec import structs

from compute.cli import settings
from compute.cli.settings import PRESETS, Settings, SettingsError
from compute.files.documents import short, typed
from compute.measure.records import chip_names, library

MOST_PORT = 65535
LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}  # names that always refer to this machine: always allowed
ORIGIN = re.compile(r"(?P<host>[A-Za-z0-9.*_-]{1,200}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
NUMBER = re.compile("0|[1-9][0-9]{0,9}")
LARGEST_FILE = 2**16  # bytes
SHORTEST_PASSWORD = 8  # characters
FLAGS = ("behind_proxy", "metrics")  # options without a value


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options to `parser`."""
    parser.add_argument("--port", type=port, default=5006, help="default 5006")
    parser.add_argument("--address", default="localhost", help="address to listen on (default localhost)")
    parser.add_argument(
        "--origin",
        type=origin,
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="additional host name for browsers; the port is optional if it is 80 or 443",
    )
    parser.add_argument("--prefix", type=_prefix, metavar="/PATH", help="path prefix of all addresses, behind a proxy")
    parser.add_argument(
        "--behind-proxy", action="store_true",
        help="trust X-Real-Ip and X-Scheme; only if every request passes through the proxy that sets them",
    )  # fmt: skip
    parser.add_argument(
        "--stories", action="append", type=Path, default=[], metavar="FOLDER", help="folder of additional stories"
    )
    parser.add_argument(
        "--exercises", action="append", type=Path, default=[], metavar="FOLDER",
        help="folder of further exercises of fieldlab learn, whose texts the page lists",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=Path, metavar="FILE",
        help="results of fieldlab learn, which every visitor's list of exercises shows: for a page of your own",
    )  # fmt: skip
    parser.add_argument(
        "--recorded", type=_chip, metavar="CHIP",
        help="measure nothing on pages, and show the recorded timings of a chip, such as nvidia-h200",
    )  # fmt: skip
    parser.add_argument("--metrics", action="store_true", help="serve /metrics for Prometheus")
    parser.add_argument("--log", choices=("text", "json"), help="log format; json: one object per line (default text)")
    parser.add_argument(
        "--auth",
        type=_passwords,
        metavar="FILE",
        help='require a password: JSON file, {"name": "password"}, readable only by its owner',
    )
    parser.add_argument("--num-procs", type=_one_process, metavar="1", help="number of server processes, must be 1")
    _add_settings(parser)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the presets, and an option for each setting."""
    parser.add_argument("--settings", type=Path, metavar="FILE", help="TOML file with any of these options")
    presets = parser.add_mutually_exclusive_group()
    for name in PRESETS:
        words = f"limits {settings.PRESET_WORDS[name]}"
        presets.add_argument(f"--{name}", dest="preset", action="store_const", const=name, help=words)
    for limit in settings.limits().values():
        usual = ", ".join(f"{name} {getattr(preset, limit.name)}" for name, preset in PRESETS.items())
        parser.add_argument(
            _option(limit.name), type=_whole(limit), metavar="N",
            help=f"{limit.least} to {limit.most} {limit.words} ({usual})",
        )  # fmt: skip
    parser.add_argument("--embed", action="append", metavar="ORIGIN", help=f"{settings.embed_words()} (none)")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse `argv` and the settings file that it names with `parser`, to which `add` has added the options.

    Raise SettingsError for an unusable file; the parser itself reports errors in `argv`.
    """
    chosen = parser.parse_args(argv)
    if chosen.settings is None:
        return chosen
    path = chosen.settings
    given = vars(parser.parse_args(argv, argparse.Namespace(**dict.fromkeys(vars(chosen)))))  # None: it is a default
    words = [word for name, value in _entries(path) if given[name] is None for word in _as_options(path, name, value)]
    _FileParser(path).parse_args(words)  # errors are the file's
    return parser.parse_args([*words, *argv])


def settings_of(chosen: argparse.Namespace) -> Settings:
    """Return the limits of the parsed options; SettingsError for an invalid one."""
    given = {field: getattr(chosen, field) for field in Settings.__struct_fields__}
    found = {name: value for name, value in given.items() if value is not None}
    preset = structs.asdict(PRESETS[chosen.preset or "laptop"])
    return typed({**preset, **found}, Settings, "the settings", SettingsError)


class _FileParser(argparse.ArgumentParser):
    """Parses the entries of a settings file, and names the file in its errors."""

    def __init__(self, path: Path) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._path = path
        add(self)

    def error(self, message: str) -> NoReturn:
        """Raise SettingsError instead of ending the process."""
        raise SettingsError(f"{self._path}: {message.removeprefix('argument --')}")


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a settings file; SettingsError for an invalid one."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise SettingsError(f"{path}: a settings file has at most {LARGEST_FILE} bytes")
        entries = tomllib.loads(data.decode())
    except OSError as error:
        raise SettingsError(f"settings: {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}" if not isinstance(error, SettingsError) else str(error)) from error
    known = set(vars(_FileParser(path).parse_args([]))) - {"settings"}
    for name, value in entries.items():
        if name not in known:
            raise SettingsError(f"{path}: unknown setting {short(name)}; known settings: {', '.join(sorted(known))}")
        yield name, value


def _as_options(path: Path, name: str, value: object) -> list[str]:
    """Return the command-line words for an entry."""
    if name == "preset":
        if value not in PRESETS:
            raise SettingsError(f"{path}: preset must be one of {', '.join(PRESETS)}, not {short(value)}")
        return [f"--{value}"]
    if name in FLAGS:
        if not isinstance(value, bool):
            raise SettingsError(f"{path}: {name} must be true or false, not {short(value)}")
        return [_option(name)] * value
    match value:
        case int() | str() if not isinstance(value, bool):
            return [f"{_option(name)}={value}"]
        case list() if all(isinstance(one, str) for one in value):
            return [f"{_option(name)}={one}" for one in value]
    raise SettingsError(f"{path}: {name} must be a number, a text, or a list of texts, not {short(value)}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _chip(text: str) -> str:
    """Return the key of a chip, which must have a record of a lab on a page."""
    known = chip_names(library()[0])
    if text not in known:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(known)}, not {text[:40]!r}")
    return text


def _one_process(text: str) -> int:
    """Return 1; refuse several processes, since they would not share the engines' turns and the cap on tabs."""
    if text != "1":
        why = "the processes would share neither engines nor the limit on tabs"
        raise argparse.ArgumentTypeError(f"must be 1, not {text[:40]!r}: {why}")
    return 1


def _passwords(text: str) -> Path:
    """Return the path of a JSON file of names and passwords that only its owner can read."""
    path = Path(text)
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            found = msgspec.json.decode(file.read(LARGEST_FILE), type=dict[str, str])
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[:200]} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'{text[:200]} must be JSON, {{"name": "password"}}: {error}') from error
    if mode & 0o077:
        raise argparse.ArgumentTypeError(f"{text[:200]} is readable by other users: run chmod 600")
    if not found or not all(name and len(word) >= SHORTEST_PASSWORD for name, word in found.items()):
        raise argparse.ArgumentTypeError(
            f"each password needs at least {SHORTEST_PASSWORD} characters, each name at least one"
        )
    return path.resolve()


def _whole(limit: settings.Limit) -> Callable[[str], int]:
    """Return a parser for one whole number."""

    def read(text: str) -> int:
        """Return the number, which must be within its bounds."""
        if not NUMBER.fullmatch(text) or not limit.least <= int(text) <= limit.most:
            bounds = f"from {limit.least} to {limit.most}"
            raise argparse.ArgumentTypeError(f"must be a whole number {bounds}, not {text[:40]!r}")
        return int(text)

    return read


def port(text: str) -> int:
    """Return the number of a TCP port from its text."""
    if not NUMBER.fullmatch(text) or not 1 <= int(text) <= MOST_PORT:
        raise argparse.ArgumentTypeError(f"must be 1 to {MOST_PORT}, not {text[:40]!r}")
    return int(text)


def origin(text: str) -> str:
    """Return a host and port in browsers' addresses; without a port, a name with a dot, an address or localhost."""
    found = ORIGIN.fullmatch(text)
    host, number = (found["host"], found["port"]) if found else ("", None)
    alone = number is None and not ("." in host or "*" in host or host.startswith("[") or host == "localhost")
    if not host or alone or (number is not None and not 1 <= int(number) <= MOST_PORT):
        like = "lecture:5006, 192.168.1.20:5006 or lectures.example"
        raise argparse.ArgumentTypeError(f"must be HOST:PORT without a scheme, like {like}, not {text[:80]!r}")
    return text


def _prefix(text: str) -> str:
    """Return a path without a trailing slash."""
    path = text.rstrip("/")
    if not re.fullmatch(r"(/[\w.~-]{1,40}){1,5}", path, re.ASCII) or ".." in path:
        raise argparse.ArgumentTypeError(f"must be like /lectures/fieldlab (letters, digits, -._~), not {text[:40]!r}")
    return path


def require_address(address: str) -> None:
    """Raise ValueError unless this machine can listen on `address`, a name or IP address; called before compiling."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a host name"
        raise ValueError(f"address: {address[:80]!r} cannot be resolved: {why}") from error
    why = ""
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as trial:
                trial.bind((place[0], 0, *place[2:]))
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise ValueError(f"address: {address[:80]!r} cannot be bound on this machine: {why}")
