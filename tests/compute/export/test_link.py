"""Links: exact round trips of scenes; damaged, foreign and too large links are refused with a message."""

from __future__ import annotations

import base64
import json
import random
import string
import zlib

import pytest

from compute.export.link import CHECK, LONGEST, VERSION, WORDS, packed, unpacked
from compute.export.scene import LONGEST_TEXT, Scene, SceneError, Style

DEEP = Scene(
    "mandelbrot",
    {
        "center": ("-0.743643887037158704752191506114774", "0.131825904205311970493132056385139"),
        "zoom": "1.2e30",
        "max_iterations": 20_000,
    },
    look=Style("Cool–warm", True, 0.25),
)
PAINTED = Scene(
    "diffusion",
    {"ny": 256, "nx": 256, "r": 0.1 + 0.2, "edges": "periodic"},
    steps=1234,
    part="laplacian",
    history=({"step": 17, "set": {"r": 0.125}}, {"step": 20, "set": {"edges": "zero-flux"}}),
    view=(1.5, 2.25, 100.0, 90.0),
)


@pytest.mark.parametrize("scene", [DEEP, PAINTED, Scene("l_curve", {}), Scene("crossover", {"ways": ["cpu_numpy"]})])
def test_a_link_brings_the_same_scene_back(scene):
    found = unpacked(packed(scene))
    assert found == scene
    assert repr(found) == repr(scene)  # floats to the last digit, tuples as tuples


def test_links_are_short_and_may_stand_in_an_address():
    allowed = set(string.ascii_letters + string.digits + "-_.")
    for scene in (DEEP, PAINTED, Scene("diffusion", {})):
        assert set(packed(scene)) <= allowed
        assert len(packed(scene)) < len(json.dumps(scene.plain())) / 2
    assert len(packed(Scene("diffusion", {"preset": "text"}))) < 60


def test_every_damage_is_noticed():
    """A changed or missing character never yields another picture."""
    link, luck, letters = packed(DEEP), random.Random(1), string.ascii_letters + string.digits + "-_"
    damaged = {link[:cut]: len(link) - cut for cut in range(2, len(link))}
    for _ in range(300):
        at = luck.randrange(2, len(link))
        other = luck.choice([letter for letter in letters if letter != link[at]])
        damaged[link[:at] + other + link[at + 1 :]] = len(link) - at
    for text, from_end in damaged.items():
        try:
            assert unpacked(text) == DEEP, text  # padding was cut off, or unused bits of the last letter changed
        except SceneError:
            continue
        assert from_end <= 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "version"),
        ("2.abcd", "version '2'"),
        ("abcd", "version"),
        ("1.", "damaged"),
        ("1.ä%", "damaged"),
        ("1." + "A" * (LONGEST + 1), str(LONGEST)),
    ],
)
def test_what_is_no_link_of_ours_is_refused(text, words):
    with pytest.raises(SceneError, match=words):
        unpacked(text)


def made(document):
    """Return a link's text for any document, as an attacker could make it."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    press = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=WORDS)
    data = zlib.crc32(text).to_bytes(4, "big")[-CHECK:] + press.compress(text) + press.flush()
    return f"{VERSION}.{base64.urlsafe_b64encode(data).decode().rstrip('=')}"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"lab": "nothing", "values": {}}, "lab must be one of"),
        ({"lab": "diffusion", "values": {}, "shell": "rm"}, "no entry 'shell'"),
        ({"lab": "diffusion", "values": {}, "steps": 10**9}, "steps must be"),
        (b"\xff\xfe", "a scene must be JSON"),
        (b'{"lab": ' + b"[" * 5000, "a scene must be JSON"),
        (b" " * (LONGEST_TEXT + 10), "too much"),
    ],
)
def test_a_wellformed_link_with_bad_content_is_refused(document, words):
    with pytest.raises(SceneError, match=words):
        unpacked(made(document))


def test_a_state_that_is_too_long_says_so():
    noise = random.Random(2)
    strokes = tuple({"step": step, "set": {"r": noise.random() / 4}} for step in range(2000))
    with pytest.raises(SceneError, match="save it as a file"):
        packed(Scene("diffusion", {}, steps=5000, history=strokes))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "half a letter: \ud800"])
def test_a_state_that_no_link_can_hold_says_so(bad):
    """The link could not be opened."""
    with pytest.raises(SceneError, match="cannot be written into a link"):
        packed(Scene("diffusion", {"limits_field": (bad, 1.0)}))


def test_a_link_without_a_look_leaves_the_page_s_own():
    """A handmade link, or a link to a lab whose page offers no choice of colours."""
    assert unpacked(packed(Scene("diffusion", {"ny": 64}))).look is None
    assert unpacked(packed(Scene("diffusion", {"ny": 64}, look=Style()))).look == Style()
