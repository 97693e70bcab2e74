"""A scene as a short text for a URL: "1.…", the version, then compressed JSON without default values.

In a URL it is the query parameter `scene`; the parameter `run` starts the lab, `pace` sets its speed, and `display` the
switches and choices that only affect how the page shows it.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any
from urllib.parse import parse_qs

from compute.export.scene import LONGEST_TEXT, SCHEMA, Scene, SceneError, read, scene_of

NAME = "scene"  # query parameter of the scene
RUN = "run"  # query parameter that starts the lab
PACE = "pace"  # query parameter of the lab's speed, as its field shows it
DISPLAY = "display"  # query parameter of the display settings, as JSON: {"alpha":true}
VERSION = "1"
CHECK = 3  # leading bytes of the checksum that detects a damaged link
LONGEST = 8000  # characters that every browser and server accepts in a URL
MOST_DISPLAY = 400  # characters of that JSON
MOST_QUERY = LONGEST + 200 + 3 * MOST_DISPLAY  # characters of a query that are parsed
WORDS = (  # dictionary of strings common in links; part of version 1, so it must not change
    b'"history":[{"step":"act":"paint","points":"radius":"value":"update"'
    b'"backend":"gpu_cupy""gpu_numba""cpu_numpy""cpu_numba""precision":"colouring":"pointer":"julia":true'
    b'"dtype":"float32""float64","edges":"periodic""zero-dirichlet""zero-flux","problem":"noise":"lambdas":"tolerance":'
    b'"preset":"seed":"ny":1024"nx":512,"r":0.2,"workload":"palette":"Viridis""Inferno""look":"reverse":"offset":'
    b'"center":["-0.","0."],"zoom":"1e","max_iterations":1000"part":"laplacian""field""steps":"values":{"lab":"'
    b'"mandelbrot""l_curve""crossover""diffusion"'
)


def packed(scene: Scene) -> str:
    """Return the link text of `scene`. Raise SceneError if it exceeds LONGEST or cannot be encoded as JSON."""
    plain = scene.plain()
    usual = Scene(scene.lab, {}).plain()
    least = {name: value for name, value in plain.items() if name in ("lab", "values") or value != usual.get(name)}
    least.pop("size", None)  # the screen determines the size of a link's picture
    try:
        text = json.dumps(least, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:  # a number that is not finite, or a lone surrogate
        raise SceneError(f"this state cannot be written into a link: {error}") from error
    press = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=WORDS)
    code = base64.urlsafe_b64encode(_check(text) + press.compress(text) + press.flush()).decode().rstrip("=")
    if len(code) > LONGEST:
        raise SceneError(
            f"this state needs {len(code)} characters, and a link has {LONGEST} at most: save it as a file"
        )
    return f"{VERSION}.{code}"


def unpacked(text: str) -> Scene:
    """Return the scene of a link text. Raise SceneError for an invalid text; Scene.check tests the values' bounds."""
    version, dot, code = text.partition(".")
    if not text.isascii():
        raise SceneError("this link is damaged")
    if not dot or version != VERSION:
        raise SceneError(f"this link is of version {version[:10]!r}, and this Fieldlab reads {VERSION}")
    if len(code) > LONGEST:
        raise SceneError(f"a link has at most {LONGEST} characters, not {len(code)}")
    try:
        data = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
        press = zlib.decompressobj(-15, zdict=WORDS)
        plain = press.decompress(data[CHECK:], LONGEST_TEXT)
    except (binascii.Error, zlib.error) as error:
        raise SceneError("this link is damaged") from error
    if press.unconsumed_tail or data[:CHECK] != _check(plain):
        raise SceneError("this link is damaged, or holds too much")
    document: dict[str, Any] = dict(read(plain.decode("utf-8", "replace")))
    usual = Scene("", {}).size
    return scene_of(document | {"schema": SCHEMA, "size": list(usual)})


def link_in_query(query: str) -> tuple[str, bool]:
    """Return (the link text in a query, whether to start its lab); ("", False) without a link."""
    entries = _entries(query)
    return entries.get(NAME, [""])[0], entries.get(RUN) == ["1"]


def text_in_query(query: str, name: str) -> str:
    """Return the parameter `name` of a query, PACE or DISPLAY, as text; "" without it."""
    return _entries(query).get(name, [""])[0]


def _entries(query: str) -> dict[str, list[str]]:
    """Return the values of each parameter of a query; none of one with too many parameters."""
    try:
        return parse_qs(query[:MOST_QUERY].removeprefix("?"), max_num_fields=20)
    except ValueError:
        return {}


def _check(text: bytes) -> bytes:
    return zlib.crc32(text).to_bytes(4, "big")[-CHECK:]
