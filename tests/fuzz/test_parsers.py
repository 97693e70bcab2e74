"""Readers of foreign input accept it or refuse it with a message, whatever byte differs and wherever it ends.

FIELDLAB_FUZZ_SECONDS is the duration of the test of each reader; `make fuzz` sets it.
"""

from __future__ import annotations

import json
import os
import time
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.parsers import PARSERS, Parser

pytestmark = pytest.mark.extended

SECONDS = float(os.environ.get("FIELDLAB_FUZZ_SECONDS", "0"))
LONGEST_REFUSAL = 2000  # characters, including a path
PIECES = [b"", b"\0", b"\xff", b"{", b"}", b"[" * 300, b'"', b"\n", b"\r", b"---\n", b":", b"=", b",", b"-", b"1e999",
          b"NaN", b"Infinity", b"null", b"true", b"9" * 5000, b"0", b"-1", b"\\ud800", b"\xed\xa0\x80", b"\xe2\x80\xae",
          b"<script>", b"../", b"%00", b"\xf0\x9f\x92\xa9", b"[](?scene=1.x)", b"<!--", b"```", b"inf"]  # fmt: skip
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9),
                   st.sampled_from([10**30, 1e308, "nan", "\ud800", {}, [], [[]], {"a": 1}, "x" * 3000]))  # fmt: skip


@st.composite
def damaged(draw: Any, sample: bytes) -> bytes:
    """Return `sample` with bytes changed, removed, duplicated or inserted; or, if it is JSON, with values replaced."""
    data = bytearray(sample)
    if sample[:1] == b"{" and draw(st.booleans()):
        return _replaced(draw, sample)
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([0, 0, 1, 1, 2, 8, 50, 10**6]))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=6))
        if draw(st.integers(0, 9)) == 0:
            other = draw(st.integers(0, len(data)))
            piece = bytes(data[other : other + 40])
        data[place : place + length] = piece
    return bytes(data)


def _replaced(draw: Any, sample: bytes) -> bytes:
    """Return `sample` with values replaced in its JSON: all of it, one of three lines, or the part before bytes."""
    parts = [sample] if _is_json(sample) else sample.split(b"\n")
    chosen = draw(st.sampled_from([number for number, part in enumerate(parts) if _is_json(part)]))
    document = json.loads(parts[chosen])
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if isinstance(place, dict) and draw(st.integers(0, 3)) == 0:
                del place[key]
            else:
                place[key] = deepcopy(draw(LEAVES))  # the next round may change the copy
            break
    parts[chosen] = json.dumps(document).encode("utf-8", "surrogatepass")
    return b"\n".join(parts)


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def taken_or_refused(parser: Parser, data: bytes) -> None:
    """Read the data; raise exceptions that are not refusals."""
    try:
        parser.read(data)
    except parser.refusals as refused:
        words = str(refused)
        assert words, "a refusal without words"
        assert len(words) < LONGEST_REFUSAL, words


@pytest.mark.parametrize("name", PARSERS)
def test_valid_samples_are_accepted(name: str) -> None:
    for sample in PARSERS[name].samples():
        PARSERS[name].read(sample)


@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")  # NumPy accepts such a header, but slowly
@pytest.mark.parametrize("name", PARSERS)
def test_damaged_samples_are_accepted_or_refused_with_a_message(name: str) -> None:
    parser, number, end = PARSERS[name], 1, time.monotonic() + SECONDS
    samples = st.sampled_from(parser.samples())

    @settings(
        max_examples=1000 if SECONDS else 60, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=set(Phase) - {Phase.explain},  # explain traces each line, which breaks Python 3.12's tokenizer
    )  # fmt: skip
    @given(samples.flatmap(damaged))
    def look(data: bytes) -> None:
        taken_or_refused(parser, data)

    seed(number)(look)()
    while time.monotonic() < end:
        number += 1
        seed(number)(look)()
