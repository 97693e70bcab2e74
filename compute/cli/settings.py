"""Limits for each visitor of a server: the table of limits, and their values in each preset.

`Settings` is the table. Its fields define each limit, its unit and its bounds; the command line's options, its help and
docs/deploy.md are generated from it. `fieldlab serve` starts from a preset, applies a settings file and then its own
options (serve_options.py), and passes the result to all processes of the server in the environment. Without that, in a
notebook, on the command line and under `panel serve app`, the laptop's limits apply, which allow everything within the
labs' own bounds.

Values beyond a limit are refused with the setting, the value and the limit; none is reduced. For the size of a lab the
largest value of the table means no limit: memory and the lab's own bounds apply.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from math import inf
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from compute.files.documents import short, typed

VARIABLE = "FIELDLAB_SETTINGS"  # in the environment of a server's processes: a Settings as JSON
MIB = 2**20
ORIGIN = re.compile(r"https?://[A-Za-z0-9.*-]{1,200}(:[0-9]{1,5})?", re.ASCII)
MOST_ORIGINS = 20


class SettingsError(ValueError):
    """An invalid setting; the text names it, its value and its bounds."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one server; the defaults are the laptop's."""

    sessions: Annotated[int, Meta(ge=1, le=10_000, description="open browser tabs")] = 64
    grid: Annotated[
        int, Meta(ge=2**20, le=2**28, description="cells or pixels of a lab's grid, rows times columns")
    ] = 2**28
    unknowns: Annotated[int, Meta(ge=10_000, le=2**31 - 1, description="unknowns of an L-curve's problem")] = 2**31 - 1
    iterations: Annotated[
        int, Meta(ge=10_000, le=10**8, description="iterations of a Mandelbrot pixel, steps of an L-curve")
    ] = 10**8
    upload: Annotated[int, Meta(ge=1, le=16, description="MiB of an uploaded file")] = 16
    exports: Annotated[int, Meta(ge=1, le=100, description="concurrent exports of one page")] = 20
    disk: Annotated[
        int, Meta(ge=0, le=2**24, description="MiB of one page's exports, and of one recording; 0: limited by the disk")
    ] = 0
    device_seconds: Annotated[
        int, Meta(ge=0, le=10**7, description="device seconds for one lab of a page; 0: no limit")
    ] = 0
    call_seconds: Annotated[
        int,
        Meta(ge=1, le=60, description="seconds of a call of the crossover lab, which blocks other labs on its device"),
    ] = 60
    state_seconds: Annotated[
        int, Meta(ge=5, le=10_000, description="seconds to compute the state in a link or a file")
    ] = 600
    memory: Annotated[
        int,
        Meta(
            ge=64,
            le=2**20,
            description="MiB of all pages each for uploaded files, for states of links being restored, and for undo",
        ),
    ] = 4096
    followers: Annotated[int, Meta(ge=0, le=10_000, description="followers of one lecturer's page; 0: none")] = 300
    embed: Annotated[
        tuple[str, ...],
        Meta(max_length=MOST_ORIGINS, description="origins whose pages may embed this one in a frame, https://…"),
    ] = ()

    def __post_init__(self) -> None:
        for origin in self.embed:
            if not ORIGIN.fullmatch(origin):
                like = "https://course.example or https://*.uni.example:8443"
                raise SettingsError(f"embed must be like {like}, not {short(origin)}")


PRESETS: Mapping[str, Settings] = {
    "laptop": Settings(),
    "classroom": Settings(
        sessions=48, grid=4096**2, unknowns=2_000_000, iterations=10**7, upload=8, exports=6, disk=2048,
        call_seconds=5, state_seconds=60, memory=2048,
    ),
    "public": Settings(
        sessions=24, grid=2**23, unknowns=200_000, iterations=10**6, upload=2, exports=3, disk=256,
        device_seconds=1800, call_seconds=1, state_seconds=30, memory=512, followers=50,
    ),
}  # fmt: skip
PRESET_WORDS = {
    "laptop": "of the labs themselves, for a single user (default)",
    "classroom": "for a course with known participants on one machine",
    "public": "for anonymous visitors",
}


class Limit(NamedTuple):
    """One whole number of the table."""

    name: str
    least: int
    most: int
    words: str


@cache
def limits() -> Mapping[str, Limit]:
    """Return every whole number of the table by its name."""
    return {limit.name: limit for limit in _limits()}


def _limits() -> Iterator[Limit]:
    for field in msgspec.inspect.type_info(Settings).fields:  # type: ignore[attr-defined]
        kind = field.type
        if isinstance(kind, msgspec.inspect.Metadata):
            words, kind = (kind.extra_json_schema or {})["description"], kind.type
            if isinstance(kind, msgspec.inspect.IntType):
                assert kind.ge is not None and kind.le is not None  # noqa: S101, PT018 - every field has both
                yield Limit(field.name, kind.ge, kind.le, words)


def embed_words() -> str:
    """Return the description of the setting `embed`."""
    (field,) = (one for one in msgspec.inspect.type_info(Settings).fields if one.name == "embed")  # type: ignore[attr-defined]
    return str(field.type.extra_json_schema["description"])


def limit(name: str) -> int:
    """Return this server's limit `name`, in the unit of the table."""
    value: int = msgspec.structs.asdict(current())[name]
    return value


def bound(name: str) -> int | None:
    """Return this server's limit `name`; None for the table's largest value, which means no limit."""
    most = limit(name)
    return most if most < limits()[name].most else None


def bound_words(name: str, own: float = inf) -> str:
    """Return the limit as a sentence for a control; "" if the control's own bound is not larger."""
    most = bound(name)
    if most is None or most >= own:
        return ""
    return f"At most {most:,} on this server: {limits()[name].words} (its setting {name})."


def require(name: str, value: int) -> None:
    """Raise ValueError if `value` exceeds this server's limit `name`."""
    most = bound(name)
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,} on this server, not {value:,} ({limits()[name].words})")


def current() -> Settings:
    """Return the settings of this process; SettingsError for an invalid environment variable."""
    return _read(os.environ.get(VARIABLE, ""))


@cache
def _read(text: str) -> Settings:
    if not text:
        return PRESETS["laptop"]
    try:
        document = msgspec.json.decode(text)
    except ValueError as error:
        raise SettingsError(f"{VARIABLE} must be JSON: {error}") from error
    return typed(document, Settings, VARIABLE, SettingsError)


def hand_on(settings: Settings) -> None:
    """Set the settings of this process and its child processes."""
    os.environ[VARIABLE] = msgspec.json.encode(settings).decode()


def table() -> str:
    """Return the table as Markdown, for the guide."""
    rows = [f"| setting | what | from | to | {' | '.join(PRESETS)} |", "|---" * (4 + len(PRESETS)) + "|"]
    for limit in limits().values():
        values = " | ".join(f"{getattr(preset, limit.name):,}" for preset in PRESETS.values())
        rows.append(f"| `{limit.name}` | {limit.words} | {limit.least:,} | {limit.most:,} | {values} |")
    rows.append(f"| `embed` | {embed_words()} | | {MOST_ORIGINS} of them |{' none |' * len(PRESETS)}")
    return "\n".join(rows)
