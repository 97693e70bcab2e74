"""Forged links, JSON files and histories: each is read as a scene or refused with a message, and does nothing else."""

from __future__ import annotations

import base64
import io
import json
import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from bokeh.document import Document
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from app.tab import restore
from app.tab.restore import asked_for, scene_in
from compute.export.link import CHECK, WORDS, packed, unpacked
from compute.export.scene import Scene, SceneError, scene_of
from compute.export.shared_jobs import SharedJobs
from compute.files.documents import MOST_DEPTH, MOST_DIGITS
from compute.labs import LABS, lab_class
from tests.examples import examples

SCENE = "fieldlab-scene/1"
GOOD: list[dict[str, Any]] = [
    {"schema": SCENE, "lab": "diffusion", "values": {"ny": 64, "nx": 64, "r": 0.1}, "size": [32, 32], "steps": 3,
     "look": {"palette": "Magma", "reverse": True, "offset": 0.5}, "view": [0, 0, 9, 9.5], "part": "field",
     "history": [{"step": 1, "set": {"r": 0.2}},
                 {"step": 2, "do": "paint", "with": {"points": [[1, 2]], "value": 1.0, "radius": 3.0}}]},
    {"schema": SCENE, "lab": "mandelbrot", "values": {"center": ["-0.75", "0"], "zoom": "1e3"}, "size": [32, 32]},
    {"schema": SCENE, "lab": "l_curve", "values": {"problem": "shaw", "n": 20, "lambdas": [0.1, 1, 5],
     "options": {}}, "size": [32, 32]},
    {"schema": SCENE, "lab": "l_curve", "values": {"problem": "own", "options": {"matrix": [[1, 0], [0, 2]],
     "rhs": [1, 2]}}, "size": [32, 32]},
    {"schema": SCENE, "lab": "l_curve", "values": {"problem": "blur", "n": 4, "options": {"image": [[1, 0]]}},
     "size": [32, 32]},
    {"schema": SCENE, "lab": "crossover", "values": {"workload": "add_one", "ways": ["cpu_numpy"]}, "size": [9, 9]},
]  # fmt: skip
GOOD.append({"schema": "fieldlab-film/1", "scene": GOOD[1], "keys": [{"at": 0, "values": {"zoom": "1"}},
             {"at": 1, "values": {"zoom": "10"}}], "frames": 9, "rate": 30.0, "easing": "even"})  # fmt: skip


def linked(text: str) -> str:
    """Return a link that contains `text`, as any client can forge it."""
    data = text.encode("utf-8", "surrogatepass")
    press = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=WORDS)
    packed = zlib.crc32(data).to_bytes(4, "big")[-CHECK:] + press.compress(data) + press.flush()
    return "1." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


# Parts of documents that were seen to break a page
SEEN = {
    "a view that is not finite": '"view": [0, 0, 0, 1e400]',
    "a view of many digits": f'"view": [0, 0, 1, {"9" * 400}]',
    "a whole number of 5000 digits": f'"steps": {"9" * 5000}',
    "nan": '"view": [0, 0, 1, NaN]',
    "deep": f'"made": {"[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1)}',
    "too deep for any reader": f'"made": {"[" * 2000 + "]" * 2000}',
    "half a character": '"missing": "\\ud800"',
    "a view far away": '"view": [0, 0, 1e300, 1e301]',
    "an entry whose name reads as a place": '"a` - at `$.look[7].c": 1',
    "a backend that is a list": '"values": {"backend": ["cpu_numpy"]}',
}


@pytest.mark.parametrize("which", SEEN)
def test_what_was_seen_to_break_a_page_is_refused(which):
    text = f'{{"schema": "{SCENE}", "lab": "diffusion", "values": {{}}, "size": [9, 9], {SEEN[which]}}}'
    for read in (scene_in, lambda text: unpacked(linked(text))):
        with pytest.raises(SceneError) as refused:
            read(text)
        assert len(str(refused.value)) < 400


def test_reading_a_link_does_not_decode_its_image(monkeypatch):
    """A thousand characters can encode fifty megapixels, so only a separate process decodes images of links."""
    held = io.BytesIO()
    Image.new("RGBA", (7000, 7000)).save(held, "PNG")
    load = {"step": 0, "do": "load_image", "with": {"data": base64.b64encode(held.getvalue()).decode()}}
    scene = Scene("diffusion", {}, history=(load,))
    text = packed(scene)
    assert len(text) < 2000
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("an image was decoded"))
    assert unpacked(text) == scene
    with pytest.raises(SceneError, match="only be the first entry"):
        scene_of(scene.plain() | {"history": [{"step": 0, "set": {"r": 0.1}}, load]})


def test_a_number_of_as_many_digits_as_allowed_is_read():
    text = json.dumps({**GOOD[0], "steps": 0, "history": []})
    with pytest.raises(SceneError, match="steps must be from 0"):
        scene_in(text.replace('"steps": 0', f'"steps": {"9" * MOST_DIGITS}'))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from([10**30, -1, 0, "", "x", "1e400", "nan", "cpu_numpy", "gpu_cupy", 2**31, 1e308, "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@st.composite
def changed(draw: Any) -> Any:
    """Draw a valid document with one to three of its parts replaced, removed or added."""
    document: Any = json.loads(json.dumps(draw(st.sampled_from(GOOD))))
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            place[key] = draw(PLAIN)
            break
        if isinstance(place, dict) and draw(st.booleans()):
            known = lab_class(draw(st.sampled_from([lab.LAB for lab in LABS]))).param
            place[draw(st.text(max_size=9) | st.sampled_from(sorted(known)))] = draw(PLAIN)
    return document


def asked(text: str) -> Scene | None:
    """Return the scene that a page's address requests."""
    document = Document()
    request = SimpleNamespace(arguments={"scene": [linked(text).encode()]})
    context = SimpleNamespace(request=request)
    document._session_context = lambda: context
    return asked_for(document)


@settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changed())
def test_any_document_is_a_scene_or_is_refused_in_words(document):
    """As a dropped file and as a link: each reader, the page's restore, and the check in the process that computes."""
    text = json.dumps(document)
    for read in (scene_in, asked):
        try:
            scene = read(text)
        except SceneError as refused:
            str(refused).encode()
            continue
        tab: Any = SimpleNamespace(
            session=SimpleNamespace(lab=scene.kind), address=SimpleNamespace(forget=lambda: None)
        )
        restorer = restore.Restorer(tab, lambda kind, words: words.encode())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restore, "Job", lambda *args, **options: SimpleNamespace(start=lambda: None))
            # separate from the jobs of other tests
            patch.setattr(restore, "STATES", SharedJobs(restore.snapshot_bytes, restore.KEPT))
            for accept, refusal in ((restorer.restore, SceneError), (Scene.check, ValueError)):
                try:
                    accept(scene)
                except refusal as refused:
                    str(refused).encode()


@pytest.mark.parametrize("options", [{"matrix": "x"}, {"matrix": 1, "rhs": 2}, {"matrix": [[1]]},
    {"matrix": [[1]], "rhs": {}}, {"image": "x"}, {"image": [[[1]]]}, {"angles": [[]]}, {"x": 1}])  # fmt: skip
def test_options_that_are_none_are_refused_in_words(options):
    with pytest.raises(ValueError, match=r"\w"):
        Scene("l_curve", {"problem": "blur" if "image" in options else "own", "n": 4, "options": options}).check()


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_any_text_is_refused_in_words(text):
    for read in (scene_in, unpacked, lambda text: unpacked(f"1.{text}"), asked):
        with pytest.raises(SceneError):
            read(text)


@pytest.mark.parametrize("part", [{"lab": "x" * 100_000}, {"look": {"palette": "x" * 100_000}}])
def test_a_refusal_is_short_however_long_the_refused_text_is(part: dict[str, Any]) -> None:
    """The page shows the whole refusal."""
    with pytest.raises(SceneError, match="must be one of") as refused:
        scene_in(json.dumps(GOOD[0] | part))
    assert len(str(refused.value)) < 2000
