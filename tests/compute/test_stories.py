"""Stories: bounds of the file, escaped text, every step opened without a page, and every figure checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from functools import cache
from html import unescape
from math import log10, nan, prod
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from scipy.ndimage import label

from compute.__main__ import BAD_INPUT, main
from compute.export.link import packed
from compute.export.render import opened_at
from compute.export.scene import Scene
from compute.lab.lab import control_label
from compute.labs.diffusion import Diffusion
from compute.labs.diffusion.scheme import WRONG_VARIANTS
from compute.labs.equations import Equations
from compute.labs.equations.reference import Evaluator, coordinates
from compute.labs.l_curve import LCurve, problems
from compute.labs.l_curve import cpu_numpy as l_curve_kernels
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.place import Place
from compute.labs.mandelbrot.reference_orbit import SPARE_BITS
from compute.measure.records import timings_folder
from compute.stories import (
    LARGEST_FILE,
    LONGEST_STEP,
    MOST_STEPS,
    MOST_STORIES,
    VARIABLE,
    Story,
    StoryError,
    StoryStep,
    name_folders,
    own_folder,
    read_story,
    stories,
    stories_in,
    values_alone,
)
from compute.votes import VoteQuestion

LINK = packed(Scene("diffusion", {"r": 0.125}))
HEAD = "---\ntitle: A story\nminutes: 3\nlab: diffusion\n---\n"
STEP = f"Words.\n\n[state](?scene={LINK})\n"
OWN = stories_in((own_folder(),))


@pytest.fixture
def parse(tmp_path):
    """Return a function that writes a story's text to a file and reads it."""

    def read(text: str | bytes, name: str = "one.md") -> Story:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_story(path)

    return read


# -- reading


def test_a_story_has_steps_with_texts_and_states(parse):
    more = packed(Scene("diffusion", {"r": 0.25}))
    story = parse(
        f'{HEAD}{STEP}---\nMore [4](claim:four).\n\n[s](http://host/app?scene={more}&run=1 "r; go on")\n---\n'
    )
    assert (story.name, story.title, story.minutes, story.lab) == ("one", "A story", 3, Diffusion)
    first, second = story.steps
    assert first.html.strip() == "<p>Words.</p>"  # the link to the state is not part of the text
    assert first.scene.values == {"r": 0.125}
    assert (first.plays, first.points, first.goes_on, first.claims) == (False, "", False, ())
    assert second.scene.values == {"r": 0.25}
    assert (second.plays, second.points, second.goes_on) == (True, "r", True)
    assert [(claim.name, claim.text) for claim in second.claims] == [("four", "4")]


def test_formulas_are_not_broken_across_lines(parse):
    text = "By 1 − 8 r at r = 0.2, as Δt / Δx²: 0.6 % is\nleft of 8 a day, `a = b` and 3 tries."
    (step,) = parse(f"{HEAD}{text}\n\n{STEP}").steps
    joined = "By 1_−_8_r at r_=_0.2, as Δt_/_Δx²: 0.6_% is\nleft of 8 a day, <code>a = b</code> and 3 tries."
    assert step.html.startswith(f"<p>{joined}</p>".replace("_", "\N{NO-BREAK SPACE}"))
    (step,) = parse(f"{HEAD}ask: At r = 0.2? a | b = c\n\n{STEP}").steps
    assert step.ask == VoteQuestion(
        "At r\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0.2?", ("a", "b\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}c")
    )


def test_a_question_is_separate_from_the_text_and_a_line_of_the_notes(parse):
    asked, silent = parse(
        f"{HEAD}One.\nask: Which <b>one</b>? a | *b*\n\n{STEP}---\nTo ask: why?\n\n{STEP}\n???\nask: no question\n"
    ).steps
    assert asked.ask == VoteQuestion("Which <b>one</b>?", ("a", "*b*"))
    assert asked.html.split() == ["<p>One.</p>", "<p>Words.</p>"]
    assert silent.ask is None
    assert "To ask: why?" in silent.html
    assert "ask: no question" in silent.notes


def test_notes_are_separate_from_the_text(parse):
    (step, other) = parse(f"{HEAD}{STEP}\n???\nAsk *first*: <b>who knows</b>?\n\n---\n{STEP}").steps
    assert step.html.strip() == "<p>Words.</p>"
    assert step.notes.strip() == "<p>Ask <em>first</em>: &lt;b&gt;who knows&lt;/b&gt;?</p>"
    assert other.notes == ""


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=x>b</b>"])
def test_hostile_text_is_never_markup(parse, text):
    (step,) = parse(f"{HEAD}{text}\n\n{STEP}").steps
    tags = {part.partition(">")[0].strip("/") for part in step.html.split("<")[1:]}
    assert tags == {"p"}
    assert "&lt;" in step.html


def test_external_pictures_are_not_fetched_and_external_links_open_a_new_page(parse):
    (step,) = parse(
        f"{HEAD}![see](https://elsewhere.example/x.png) [A book](https://example.org/a?b=1&c=2)\n\n{STEP}"
    ).steps
    assert "<img" not in step.html
    assert 'href="https://example.org/a?b=1&amp;c=2"' in step.html
    assert 'rel="noopener noreferrer"' in step.html


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Words.", "one.md: must begin with ---"),
        ("---\ntitle: x\n", "must begin with ---"),
        ("---\ntitle: A\nminutes: 3\n---\n" + STEP, "one.md: its front matter: .*lab"),
        (HEAD.replace("3", "500") + STEP, "one.md: its front matter: .*180.*minutes"),
        (HEAD.replace("3", "many") + STEP, "minutes"),
        (HEAD.replace("lab:", "labs:") + STEP, "labs"),
        (HEAD.replace("A story", "x" * 81) + STEP, "80.*title"),
        (HEAD.replace("minutes: 3", "9" * 5000 + ": 3") + STEP, "one.md: '9{40,60}… is not a line of the front matter"),
        (HEAD.replace("minutes: 3", "title: B") + STEP, "title: B' is not a line of the front matter.*once"),
        (HEAD.replace("lab: diffusion", "lab: fusion") + STEP, "one.md: .*fusion"),
        (HEAD.replace("lab: diffusion", "lab: l_curve") + STEP, "lab must be that of step 1, diffusion, not l_curve"),
        (HEAD + "Words.", r"one.md, step 1: it must have one link to a state, .*not 0"),
        (f"{HEAD}[4](claim:four?scene={LINK})", r"one.md, step 1: it must have one link to a state, .*not 0"),
        (HEAD + STEP + STEP, "step 1: .*not 2"),
        (f"{HEAD}{STEP}---\n{STEP.replace('1.', '7.')}", "one.md, step 2: this link is of version '7'"),
        (f"{HEAD}{STEP.replace(LINK, LINK[:-3] + 'AAA')}", "one.md, step 1: this link is damaged"),
        (f"{HEAD}{'w' * LONGEST_STEP} {STEP}", f"one.md, step 1: a step has at most {LONGEST_STEP} characters, not"),
        (HEAD + "---\n".join([STEP] * (MOST_STEPS + 1)), f"at most {MOST_STEPS} steps, not {MOST_STEPS + 1}"),
        (f"{HEAD}[x](javascript:alert) {STEP}", "step 1"),
        (f"{HEAD}{STEP}\n???\n{'w' * (LONGEST_STEP + 1)}", f"step 1: a step's notes have at most {LONGEST_STEP} .*not"),
        (f"{HEAD}{STEP}\n???\na &#x202e; b", "step 1: its text must be visible: it has the character 0x202e"),
        (f"{HEAD}[x](ftp://a) {STEP}", "step 1: a link must lead to a state, claim:, http"),
        (f"{HEAD}{STEP}---\n\nask: Why? a\n\n{STEP}", "step 2: line 11: ask: a question has 2 to 6 choices"),
        (
            f"{HEAD}ask: Why? a | b\n\n{STEP}\nask: How? a | b\n",
            "step 1: line 12: a step has at most 1 line ask:, not 2",
        ),
        (f"{HEAD}a &#x202e; b {STEP}", "step 1: its text must be visible: it has the character 0x202e"),
        (f"{HEAD}[state](?scene={LINK} 'the moon')", "step 1: the spotlight must be one of picture, .*'the moon'"),
        (b"\xff\xfe" + HEAD.encode(), "one.md: must be UTF-8"),
        (HEAD + STEP + " " * LARGEST_FILE, f"one.md: a story has at most {LARGEST_FILE:,} bytes"),
    ],
)
def test_faults_are_reported_with_file_step_and_bound(parse, text, words):
    if "javascript" in str(text):  # the parser does not treat it as a link
        assert "<a" not in parse(text).steps[0].html
        return
    with pytest.raises(StoryError, match=f"(?s){words}"):
        parse(text)


def test_the_link_of_a_continuing_field_uses_only_its_last_values(parse):
    """The copied address of a running lab has thousands of steps and all intermediate changes."""
    history = ({"step": 40, "set": {"r": 0.1, "edges": "periodic"}}, {"step": 90, "do": "refit", "with": {}})
    link = packed(Scene("diffusion", {"ny": 64, "r": 0.15}, steps=3240, history=history))
    step = parse(f"{HEAD}[state](?scene={link} 'r; go on')").steps[0]
    assert (step.goes_on, step.points) == (True, "r")
    assert (step.scene.steps, step.scene.history) == (0, ())
    assert dict(step.scene.values) == {"ny": 64, "r": 0.1, "edges": "periodic"}
    plain = packed(Scene("diffusion", {"r": 0.15}, steps=3240))
    assert dict(parse(f"{HEAD}[state](?scene={plain} 'go on')").steps[0].scene.values) == {"r": 0.15}
    assert parse(f"{HEAD}[state](?scene={link})").steps[0].scene.steps == 3240


def test_the_number_of_stories_in_a_folder_is_limited(tmp_path):
    for number in range(MOST_STORIES + 1):
        (tmp_path / f"{number}.md").write_text(HEAD + STEP)
    assert f"at most {MOST_STORIES} stories, not {MOST_STORIES + 1}" in stories_in((tmp_path,)).problems[0]


def test_stories_are_listed_by_number_then_by_name(tmp_path):
    for name in ("b", "10-a", "2-z", "2-y", "a"):
        (tmp_path / f"{name}.md").write_text(HEAD + STEP)
    assert [story.name for story in stories_in((tmp_path,)).stories] == ["2-y", "2-z", "10-a", "a", "b"]


def test_a_step_may_point_at_a_number_of_its_text(parse):
    feed = packed(Scene("equations", {"p1": 0.03}))
    story = parse(f"{HEAD.replace('diffusion', 'equations')}Words.\n\n[state](?scene={feed} 'F')\n")
    assert story.steps[0].points == "F"
    assert control_label(Equations, "F", story.steps[0].scene.values) == "F (0 to 0.1)"
    assert control_label(Equations, "time_step", {}) == "Time step"
    with pytest.raises(StoryError, match="the spotlight must be one of"):
        parse(f"{HEAD.replace('diffusion', 'equations')}[state](?scene={feed} 'D')")


def test_an_invalid_story_does_not_affect_the_others(tmp_path):
    (tmp_path / "good.md").write_text(HEAD + STEP)
    (tmp_path / "bad.md").write_text("no story")
    found = stories_in((tmp_path, tmp_path / "absent"))
    assert [story.name for story in found.stories] == ["good"]
    assert [problem.partition(":")[0] for problem in found.problems] == ["bad.md", str(tmp_path / "absent")]


def test_a_story_is_a_file_in_a_named_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "mine.md").write_text(HEAD + STEP)
    name_folders([tmp_path])
    assert [story.name for story in stories().stories] == [*(story.name for story in OWN.stories), "mine"]


def test_a_folder_with_an_invalid_story_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "mine.md").write_text(HEAD + "Words.")
    with pytest.raises(StoryError, match=r"mine\.md, step 1: "):
        name_folders([tmp_path])


def test_serve_accepts_a_folder_of_stories(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(os, "execv", lambda *_: None)
    (tmp_path / "mine.md").write_text(HEAD + STEP)
    with pytest.raises(TypeError):  # the real execv does not return
        main(["serve", "--stories", str(tmp_path)])
    assert os.environ[VARIABLE] == str(tmp_path.resolve())
    (tmp_path / "mine.md").write_text(HEAD + "Words.")
    assert main(["serve", "--stories", str(tmp_path)]) == BAD_INPUT
    assert "mine.md, step 1: it must have one link to a state" in capsys.readouterr().err


# -- the stories of this repository


def test_the_own_stories_are_valid():
    assert OWN.problems == ()
    assert len(OWN.stories) >= 10


def here(scene: Scene) -> Scene:
    """Return the scene at a small size, on the reference: the kernels have separate tests."""
    values = dict(scene.values) | {name: 32 for name in ("ny", "nx") if name in scene.kind.param}
    plain = {"variant": ""} if "variant" in scene.kind.param else {}
    return structs.replace(scene, values=values | plain | {"backend": "cpu_numpy"}, size=(32, 32))


EVERY_STEP = [
    pytest.param(step, id=f"{story.name}-{number}")
    for story in OWN.stories
    for number, step in enumerate(story.steps, start=1)
]


@pytest.mark.parametrize("step", EVERY_STEP)
def test_every_step_opens(step):
    assert step.scene.values.get("backend", "cpu_numpy") in [one.name for one in step.scene.kind.backends()]
    assert step.scene.values.get("variant", "racing") in WRONG_VARIANTS
    scene = here(step.scene)
    scene.check()
    with closing(scene.open()) as lab:
        assert {name: getattr(lab, name) for name in scene.values} == dict(scene.values)
        if scene.lab != "crossover":  # it would measure
            lab.advance(1)
        assert lab.frame(None, scene.size).rasters or lab.frame(None, scene.size).curves


# -- their figures


@cache
def record(lab: str) -> dict[str, Any]:
    """Return the record of an H200."""
    return json.loads((timings_folder() / f"nvidia-h200-{lab}.json").read_text(encoding="utf-8"))


def results(lab: str) -> list[dict[str, Any]]:
    """Return the results of the record of an H200."""
    return record(lab)["results"]


def grid(entry: dict[str, Any]) -> str:
    """Return the grid's size in the notation of the stories."""
    return f"{entry['ny']} × {entry['nx']}".replace("16384", "16 384")


def result(backend: str, variant: str, size: int = 512, dtype: str = "float32"):
    """Return a single result of diffusion."""
    (found,) = (
        each for each in results("diffusion")
        if (each["backend"], each["variant"], each["ny"], each["dtype"]) == (backend, variant, size, dtype)
    )  # fmt: skip
    return found


NUMPY, NUMBA, GPU = (result("cpu_numpy", "one-step"), result("cpu_numba", "one-step"), result("gpu_cupy", "T-step"))
TILE, RACING = result("gpu_numba", "tile"), result("gpu_numba", "racing")


SMALL, FLAT, MOVED, LARGE = 100, 10_000, 10**6, 10**8  # numbers of elements in a story about the crossover
FADING, GROWING = 10, 100  # steps of the chequerboard
FEW = 10  # λ of a short curve


def best(workload: str, size: int, device: str) -> float:
    """Return the seconds of the fastest correct way in the crossover's record, in float64."""
    return min(
        each["median"] for each in results("crossover")
        if (each["workload"], each["size"], each["status"]) == (workload, size, "measured")
        and each["backend"].startswith(device) and each["dtype"] == "float64"
    )  # fmt: skip


def ratio(one: dict[str, float], other: dict[str, float], what: str = "median") -> float:
    """Return one figure divided by another."""
    return one[what] / other[what]


@cache
def chequerboard(r: float, steps: int = 1) -> float:
    """Return the factor by which `steps` steps multiply a chequerboard, computed."""
    board = (-1.0) ** np.add.outer(np.arange(8), np.arange(8))
    with closing(
        Diffusion(backend="cpu_numpy", ny=8, nx=8, dtype="float64", edges="periodic", unstable=True, r=r)
    ) as lab:
        lab.load(board)
        lab.advance(steps)
        field = lab.field()
    assert np.allclose(field, field[0, 0] * board, rtol=1e-12, atol=1e-12)
    assert field[0, 0] == pytest.approx((1 - 8 * r) ** steps, rel=1e-9, abs=1e-12)  # by von Neumann's analysis
    return float(field[0, 0])


def factor_of_chequerboard() -> str:
    """Return the factor of one step, a linear function of r that is 1 at 0, as a formula."""
    slope = (1 - chequerboard(0.125)) / 0.125
    assert 1 - chequerboard(0.25) == pytest.approx(0.25 * slope)
    return f"1 − {slope:g} r"


def largest_without_a_sign() -> str:
    """Return the largest r at which no mode changes its sign in a step: the chequerboard's factor is the smallest."""
    low, high = 0.0, 0.25
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if chequerboard(middle) >= 0 else (low, middle)
    return str(Fraction(low).limit_denominator(50))


FEED, DECAY = 0.037, 0.06  # F and k of the first step of a story about Gray–Scott


def needed_feed() -> float:
    """Return the smallest F at which a uniform state with v > 0 exists for the same F + k.

    There u v = F + k and F (1 - u) = (F + k) v, so that F = (F + k)² / (u (1 - u)).
    """
    u = np.linspace(0.01, 0.99, 99)
    return float(((FEED + DECAY) ** 2 / (u * (1 - u))).min())


def largest(number: int, steps: int) -> float:
    """Return the largest v of a story about Gray–Scott after `steps` steps of its step `number`."""
    values = values_of("9-a-pattern-that-lives", number)
    with closing(Equations(**{**values, "backend": "cpu_numpy"})) as lab:
        lab.advance(steps)
        return float(lab.field("v").max())


@cache
def dividing() -> tuple[int, int, float]:
    """Return the spots of a pattern of GROWN steps after FIRST and after SECOND steps, then v after STARVING steps."""
    spots, starving = (step_of("9-a-pattern-that-lives", number).scene for number in (3, 4))
    assert (spots.steps, starving.steps) == (GROWN, GROWN + SECOND)
    with opened_at(spots) as lab:
        lab.advance(FIRST)
        few = label(lab.field("v") > SPOT)[1]
        lab.advance(SECOND - FIRST)
        many = label(lab.field("v") > SPOT)[1]
        lab.update(**values_alone(starving).values)
        lab.advance(STARVING)
        return few, many, float(lab.field("v").max())


GROWN, FIRST, SECOND, STARVING = 3000, 1000, 3000, 100  # steps
SPOT = 0.2  # of v inside a spot


def passed(number: int) -> float:
    """Return the part of the probability behind the wall at the end of a step of a story about Schrödinger's equation.

    It agrees with the transmission of plane waves, averaged over the packet.
    """
    values = values_of("10-through-a-wall", number)
    with closing(Equations(**{**values, "backend": "cpu_numpy"})) as lab:
        lab.advance(round(values["pause_at"] / lab.dt))
        probability = (lab.field("u").astype(float) ** 2 + lab.field("v").astype(float) ** 2).sum(axis=0)
    found = float(probability[MIDDLE + WIDE // 2 :].sum() / probability.sum())
    waves = np.linspace(WAVE - 0.2, WAVE + 0.2, 401)
    packet = np.exp(-((waves - WAVE) ** 2) / (2 * NARROW))
    expected = sum(transmission(k, values["p1"], wall(number)) * part for k, part in zip(waves, packet, strict=True))
    assert found == pytest.approx(expected / packet.sum(), rel=0.01, abs=1e-4)  # the packet begins with a tail there
    return found


WAVE = 0.7  # k
NARROW = 60 / 256**2  # of exp(-NARROW x²) in the packet, per cell²
MIDDLE, WIDE = 128, 6  # cells


def wall(number: int) -> int:
    """Return the cells of the wall in a step of a story about Schrödinger's equation."""
    text = values_of("10-through-a-wall", number)["text"]
    half = float(re.search(r"abs\(x - Lx/2\) < ([\d.]+)", text)[1])
    return int((np.abs(np.arange(256) + 0.5 - MIDDLE) < half).sum())


def transmission(k: float, height: float, cells: int) -> float:
    """Return the transmission of a plane wave through `cells` cells of a wall, by its transfer matrices.

    On the grid, E psi = psi - (psi_left + psi_right) / 2 + V psi with E = 1 - cos k.
    """
    behind, here = np.exp(1j * k * (cells + 1)), np.exp(1j * k * cells)
    for place in range(cells, -2, -1):
        inside = 0 <= place < cells
        behind, here = here, 2 * (np.cos(k) + height * inside) * here - behind
    # now psi at -2 and -1, where it is a exp(ik place) + b exp(-ik place)
    a = (here - behind * np.exp(1j * k)) / (np.exp(-2j * k) - 1)
    return float(1 / abs(a) ** 2)


def falling(number: int) -> float:
    """Return the factor from cell to cell of the wave in the wall."""
    return float(np.exp(-np.arccosh(np.cos(WAVE) + values_of("10-through-a-wall", number)["p1"])))


def openings() -> tuple[float, float]:
    """Return the distance of the two openings in cells, and the angle in degrees of the first bright fringe."""
    values = values_of("10-through-a-wall", 5)
    with closing(Equations(**{**values, "backend": "cpu_numpy"})) as lab:
        shut = np.asarray(Evaluator({**coordinates(lab.program.system, 256, 256), **lab.numbers})(
            lab.program.system.named["open"]
        ))  # fmt: skip
        lab.advance(round(values["pause_at"] / lab.dt))
        probability = lab.field("u").astype(float) ** 2 + lab.field("v").astype(float) ** 2
    rows = np.flatnonzero(shut)
    gaps = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    apart = float(gaps[1].mean() - gaps[0].mean())
    angle = float(np.degrees(np.arcsin(2 * np.pi / WAVE / apart)))
    # the first maximum beside the middle, on a circle of 90 cells
    angles = np.radians(np.arange(angle - 8, angle + 8, 0.5))
    ring = [probability[round(MIDDLE + 90 * np.sin(one)), round(MIDDLE + 90 * np.cos(one))] for one in angles]
    assert np.degrees(angles[int(np.argmax(ring))]) == pytest.approx(angle, abs=2)
    return apart, angle


def formula(words: str, value: float, found: float) -> str:
    """Return a formula as it is in a text, for a computed figure that has its value."""
    assert value == pytest.approx(found, rel=1e-3)
    return words


def wavelength() -> float:
    """Return the wavelength in cells of u in a step without a wall, from its spectrum."""
    with closing(Equations(**{**values_of("10-through-a-wall", 1), "backend": "cpu_numpy"})) as lab:
        row = lab.field("u")[128].astype(float)
    spectrum = np.abs(np.fft.rfft(row, 2**16))
    return 2**16 / float(np.argmax(spectrum))


def energy() -> float:
    """Return the energy of a plane wave on the grid without a wall."""
    wave = np.exp(1j * WAVE * np.arange(3))
    return float((-(wave[0] - 2 * wave[1] + wave[2]) / 2 / wave[1]).real)


def packet_speed() -> float:
    """Return the speed of the packet's centre in a step without a wall, which is the group velocity sin k."""
    values = values_of("10-through-a-wall", 1)
    with closing(Equations(**{**values, "backend": "cpu_numpy"})) as lab:
        centres, times = [], []
        for _ in range(2):
            probability = (lab.field("u").astype(float) ** 2 + lab.field("v").astype(float) ** 2).sum(axis=0)
            centres.append((probability * np.arange(256)).sum() / probability.sum())
            times.append(lab.t)
            lab.advance(200)
    speed = float((centres[1] - centres[0]) / (times[1] - times[0]))
    assert speed == pytest.approx(np.sin(WAVE), rel=5e-3)
    return speed


def step_of(name: str, number: int) -> StoryStep:
    """Return a step of a story; number: from 1."""
    return next(story.steps[number - 1] for story in OWN.stories if story.name == name)


def values_of(name: str, number: int) -> Mapping[str, Any]:
    """Return the values of a step of a story; number: from 1."""
    return step_of(name, number).scene.values


def orbit_digits() -> float:
    """Return the decimal digits of the orbit of a story's deepest step."""
    values = values_of("5-where-float64-ends", 4)
    size = Mandelbrot.param["ny"].default, Mandelbrot.param["nx"].default
    return (Place.of(values["center"], values["zoom"], *size).bits + SPARE_BITS) * log10(2)


@cache
def shared_columns() -> float:
    """Return how many columns of a float64 picture share a number, at the spacing of the story's pixels."""
    place = next(s.steps[1].scene.values for s in OWN.stories if s.name == "5-where-float64-ends")
    counts = {}
    for precision in ("float64", "auto"):
        values = {**place, "precision": precision, "zoom": "1e15", "backend": "cpu_numpy", "ny": 60, "nx": 60}
        with closing(Mandelbrot(**values)) as lab:
            counts[precision] = len(np.unique(lab.counts(), axis=1).T)
    assert counts["auto"] == 60
    return 60 / counts["float64"]


@cache
def products(count: int) -> tuple[int, int]:
    """Return the steps for a curve of `count` λ, and their number of products with A or its transpose."""
    values = next(s.steps[1].scene.values for s in OWN.stories if s.name == "6-one-bidiagonalisation")
    multiply, steps = l_curve_kernels.multiply, l_curve_kernels.steps
    calls: list[int] = []
    made: list[tuple[int, int]] = []

    def counted(*given):
        before = len(calls)
        steps(*given)
        made.append((given[2], len(calls) - before))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(l_curve_kernels, "multiply", lambda *given: (calls.append(1), multiply(*given)))
        patch.setattr(l_curve_kernels, "steps", counted)
        with closing(LCurve(**{**values, "lambdas": (1e-6, 10.0, count), "backend": "cpu_numpy"})) as lab:
            assert len(lab.solve().lambdas) == count
    return sum(number for number, _ in made), sum(inside for _, inside in made)


@cache
def wrong_by(number: int, rule: str = "") -> float:
    """Return the error of x in percent in a step of the story of the corner; rule: selects λ, "" for the best λ."""
    step = next(s.steps[number] for s in OWN.stories if s.name == "8-the-corner-and-when-it-lies")
    values = {**step.scene.values, "backend": "cpu_numpy"}
    with closing(LCurve(**values)) as lab:
        curve = lab.solve()
        _, _, right = problems.make(values["problem"], n=values["n"])
        tried = [curve.corners[rule]] if rule else curve.lambdas[::4]
        return 100 * min(float(np.linalg.norm(lab.solution(lam) - right) / np.linalg.norm(right)) for lam in tried)


FIGURES = {
    "1-why-a-gpu-is-faster": {
        "cores": lambda: record("diffusion")["machine"]["cores"],
        "large": lambda: grid(result("gpu_cupy", "T-step", 16384)),
        "cells": lambda: Diffusion.param["ny"].default * Diffusion.param["nx"].default,
        "numpy": lambda: NUMPY["cells_per_second"] / 1e9,
        "numba": lambda: NUMBA["cells_per_second"] / 1e9,
        "numba-over-numpy": lambda: ratio(NUMPY, NUMBA),
        "gpu": lambda: GPU["cells_per_second"] / 1e9,
        "gpu-over-numba": lambda: ratio(NUMBA, GPU),
        "gpu-over-numpy": lambda: ratio(NUMPY, GPU),
        "copy-share": lambda: result("gpu_cupy", "one-step", 16384)["percent_of_copy"],
        "steps-in-a-pass": lambda: ratio(result("gpu_cupy", "one-step", 16384), result("gpu_cupy", "T-step", 16384)),
    },
    "2-when-a-gpu-is-not-faster": {
        "cores": lambda: record("crossover")["machine"]["cores"],
        "small": lambda: SMALL,
        "small-numpy": lambda: 1e6 * best("add_one", SMALL, "cpu"),
        "small-gpu": lambda: 1e6 * best("add_one", SMALL, "gpu"),
        "small-factor": lambda: best("add_one", SMALL, "gpu") / best("add_one", SMALL, "cpu"),
        "flat": lambda: FLAT,
        "flat-gpu": lambda: 1e6 * best("add_one", FLAT, "gpu"),
        "large": lambda: LARGE,
        "large-gpu": lambda: 1e3 * best("add_one", LARGE, "gpu"),
        "large-cpu": lambda: 1e3 * best("add_one", LARGE, "cpu"),
        "large-factor": lambda: best("add_one", LARGE, "cpu") / best("add_one", LARGE, "gpu"),
        "moved": lambda: MOVED,
        "moved-cpu": lambda: 1e6 * best("transfer", MOVED, "cpu"),
        "moved-gpu": lambda: 1e6 * best("transfer", MOVED, "gpu"),
        "moved-factor": lambda: best("transfer", MOVED, "gpu") / best("transfer", MOVED, "cpu"),
    },
    "3-a-race-you-can-see": {
        "grids": lambda: Diffusion.predicted_bytes(ny=4000, nx=4000) // (4 * 4000 * 4000),
        "steps": lambda: int(TILE["reference"].split()[-2]),  # "cpu_numpy float64, 25 steps"
        "right": lambda: TILE["difference"],
        "wrong": lambda: RACING["difference"],
        "worse": lambda: ratio(RACING, TILE, "difference"),
        "tempting": lambda: ratio(TILE, RACING),
        "slower-grid": lambda: grid(result("gpu_numba", "racing", 2000)),
        "slower": lambda: ratio(result("gpu_numba", "racing", 2000), result("gpu_numba", "tile", 2000)),
    },
    "4-the-chequerboard": {
        "factor": factor_of_chequerboard,
        "factor-0.2": lambda: chequerboard(0.2),
        "steps-0.2": lambda: FADING,
        "left-0.2": lambda: 100 * chequerboard(0.2, FADING),
        "factor-0.25": lambda: chequerboard(0.25),
        "factor-0.3": lambda: chequerboard(0.3),
        "steps-0.3": lambda: GROWING,
        "grown": lambda: chequerboard(0.3, GROWING),
        "factor-0.125": lambda: chequerboard(0.125),
        "no-sign": largest_without_a_sign,
    },
    "5-where-float64-ends": {
        "digits": lambda: np.finfo(np.float64).nmant + 1,
        "deeper": lambda: float(values_of("5-where-float64-ends", 2)["zoom"]) / float(Mandelbrot.param["zoom"].default),
        "place": lambda: float(values_of("5-where-float64-ends", 2)["center"][0]),
        "spacing": lambda: np.spacing(1.76),
        "rows": lambda: Mandelbrot.param["ny"].default,
        "pixel": lambda: 4 / 1e14 / Mandelbrot.param["ny"].default,
        "pixels": shared_columns,
        "orbit-digits": orbit_digits,
    },
    "6-one-bidiagonalisation": {
        "products": lambda: products(1000)[1] / products(1000)[0],
        "few": lambda: FEW,
        "many": lambda: values_of("6-one-bidiagonalisation", 3)["lambdas"][2],
        "more": lambda: products(1000)[1] - products(FEW)[1],
    },
    "7-never-trust-the-first-call": {
        "cores": lambda: record("diffusion")["machine"]["cores"],
        "first": lambda: NUMBA["first_call"],
        "step": lambda: 1e6 * NUMBA["median"],
        "factor": lambda: NUMBA["first_call"] / NUMBA["median"],
        "first-gpu": lambda: GPU["first_call"],
        "step-gpu": lambda: 1e6 * GPU["median"],
    },
    "8-the-corner-and-when-it-lies": {
        "shaw-corner": lambda: wrong_by(0, "curvature"),
        "shaw-best": lambda: wrong_by(0),
        "heat-corner": lambda: wrong_by(1, "curvature"),
        "heat-best": lambda: wrong_by(1),
        "heat-discrepancy": lambda: wrong_by(2, "discrepancy"),
    },
    "9-a-pattern-that-lives": {
        "condition": lambda: formula("4 (F + k)²", 4 * (FEED + DECAY) ** 2, needed_feed()),
        "needed": needed_feed,
        "steps": lambda: 200,
        "left": lambda: largest(1, 200),
        "faster": lambda: values_of("9-a-pattern-that-lives", 2)["p3"] / values_of("9-a-pattern-that-lives", 2)["p4"],
        "grown": lambda: GROWN,
        "first": lambda: FIRST,
        "second": lambda: SECOND,
        "few": lambda: dividing()[0],
        "many": lambda: dividing()[1],
        "starving": lambda: STARVING,
        "starved": lambda: dividing()[2],
    },
    "10-through-a-wall": {
        "wave": lambda: formula("2π/k", 2 * np.pi / WAVE, wavelength()),
        "wavelength": wavelength,
        "speed": packet_speed,
        "kinetic": lambda: formula("1 − cos k", 1 - np.cos(WAVE), energy()),
        "energy": energy,
        "wide": lambda: wall(2),
        "low": lambda: 100 * passed(2),
        "high": lambda: 100 * passed(3),
        "fall": lambda: falling(2),
        "steep": lambda: falling(3),
        "thin": lambda: wall(4),
        "half": lambda: 100 * passed(4),
        "apart": lambda: openings()[0],
        "angle": lambda: openings()[1],
    },
}  # fmt: skip
CLAIMS = [
    pytest.param(story.name, claim, id=f"{story.name}-{claim.name}")
    for story in OWN.stories
    for step in story.steps
    for claim in step.claims
]


IN_WORDS = {"a": 1, "hundred": 10**2, "million": 10**6, "trillion": 10**12}


def rounded_to(text: str) -> tuple[float, float]:
    """Return the number in a story's text, and half a unit of its last digit; trailing zeros of integers do not count.

    A number in words is exact.
    """
    if not any(character.isdigit() for character in text):
        return float(prod(IN_WORDS[word] for word in text.lower().split())), 0.0
    plain = text.replace("\N{MINUS SIGN}", "-").replace(" ", "")
    mantissa, _, power = plain.partition("e")
    places = len(mantissa.partition(".")[2])
    unit = 10.0**-places
    if "." not in mantissa and not power:
        unit = 10.0 ** (len(mantissa) - len(mantissa.rstrip("0"))) if float(mantissa) else 1.0
    return float(plain), unit / 2 * 10 ** int(power or 0)


def test_rounding_of_a_text():
    for text, value, half in (("0.20", 0.2, 5e-3), ("1300", 1300, 50), ("160 000", 160_000, 5000), ("−1.4", -1.4, 0.05),
                              ("4.0e-8", 4e-8, 5e-10), ("0", 0, 0.5), ("266", 266, 0.5),
                              ("A hundred million", 10**8, 0)):  # fmt: skip
        assert rounded_to(text) == pytest.approx((value, half))


@pytest.mark.parametrize(("story", "claim"), CLAIMS)
def test_the_figures_in_the_texts_are_right(story, claim):
    figure = FIGURES[story][claim.name]()
    if isinstance(figure, str):  # a formula, a size
        assert claim.text == figure
        return
    number, half = rounded_to(claim.text)
    assert abs(figure - number) <= half * (1 + 1e-9) + 1e-9 * abs(number), f"{claim.name} of {story}: {claim.text}"


def test_every_checked_figure_is_in_a_text():
    found = {(story.name, claim.name) for story in OWN.stories for step in story.steps for claim in step.claims}
    assert found == {(story, name) for story, figures in FIGURES.items() for name in figures}


# Allowed numbers besides these: in names, the year of a work, the scale of a figure, and a value of the step's state.
MARKED = re.compile(r'<span class="claim".*?</span>( billion)?', re.DOTALL)
NAMES_AND_YEARS = re.compile(r"\b(float32|float64|H200|V0)\b|(?<=, )(1[89]|20)\d\d\b")
SETTING = re.compile(r"\b(r|zoom|F|k|Du|Dv|V0)( =)? (\d[\de./]*\d|0)")
NUMBER = re.compile(r"\d+|\b(ten|dozen|hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)


def unmarked(html: str, states: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the untested numbers in a step's text that are not allowed otherwise, with the words around them.

    states: values that the text may contain.
    """
    words = unescape(re.sub(r"<[^>]+>", " ", MARKED.sub("…", html))).replace("\N{NO-BREAK SPACE}", " ")
    for found in SETTING.finditer(words):
        name, value = found[1], float(Fraction(found[3]))
        if any(float(state.get(name, nan)) == value for state in states):
            words = words.replace(found[0], name)
    words = NAMES_AND_YEARS.sub("…", words)
    return [words[max(0, found.start() - 30) : found.end() + 30] for found in NUMBER.finditer(words)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[4](claim:a) cells on an H200, in float64, as Gauss, 1823, has it", 0),
        ("r = 1/8 and r = 0.125", 0),
        ("[4](claim:a) billion cells", 0),
        ("r = 1/4", 2),
        ("a thousand cells", 1),
        ("on 16 cores", 1),
        ("4 billion cells", 2),
    ],
)
def test_untested_numbers_are_found(parse, text, left):
    (step,) = parse(f"{HEAD}{text}\n\n{STEP}").steps
    assert len(unmarked(step.html, [step.scene.values])) == left


def state(scene: Scene) -> dict[str, Any]:
    """Return the values of a scene, those of named numbers also by their names."""
    values = values_alone(scene).values
    named = {each.name: each.slot for each in scene.kind.named_numbers(values)}
    return {**values, **{name: values[slot] for name, slot in named.items() if slot in values}}


@pytest.mark.parametrize("story", OWN.stories, ids=lambda story: story.name)
def test_every_number_in_a_story_is_tested(story):
    found = unmarked(story.title, [state(step.scene) for step in story.steps])
    for step in story.steps:
        found += unmarked(step.html, [state(step.scene)]) + unmarked(step.notes, [state(step.scene)])
        if step.ask is not None:  # about any step
            asked = " ".join((step.ask.text, *step.ask.choices))
            found += unmarked(asked, [state(each.scene) for each in story.steps])
    assert found == []
