"""`fieldlab render`: pictures and films without the page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console

from compute.backends import backend
from compute.export import arrays, bars, render, shoot, writers
from compute.export.estimate import PLACES, estimate
from compute.export.film import SCHEMA as FILM
from compute.export.film import Film, Key, film_of
from compute.export.render import LiveState, OnProgress
from compute.export.render_pool import RenderPool, on_gpu, pool_for
from compute.export.scene import Scene, SceneError, read, scene_of
from compute.export.texts import values_of
from compute.files import whole_file
from compute.labs import LABS, lab_class

PICTURE = ".png"
DRAWN = (".svg", ".pdf")
WORTH_GUESSING = 4 * PLACES  # frames


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser("render", help="a picture or a film of a lab without the page")
    labs = ", ".join(lab.LAB for lab in LABS)
    parser.add_argument("what", metavar="LAB|FILE", help=f"one of {labs}; or a .json or .png that Fieldlab has made")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=", ".join((*SINGLE, *DRAWN, *writers.WRITERS))
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the lab")
    parser.add_argument("--to", action="append", default=[], metavar="NAME=VALUE", help="its value at the film's end")
    parser.add_argument("--size", type=_size, metavar="WxH", help="pixels (default 1920x1080)")
    parser.add_argument("--palette", help="for example Inferno")
    parser.add_argument("--part", help="which picture of the lab, for example laplacian")
    parser.add_argument("--axes", action="store_true", help="with axes, title and colour bar")
    parser.add_argument("--transparent", action="store_true", help="nothing behind a drawing with axes")
    parser.add_argument("--steps", type=int, help="steps before the (first) picture; 1000 for a lab that never ends")
    parser.add_argument("--frames", type=int, help="of a film (default 300)")
    parser.add_argument("--rate", type=float, help="frames a second (default 30)")
    parser.add_argument("--every", type=int, help="steps from one frame of a film to the next")
    parser.add_argument("--easing", help="smooth or even")
    parser.add_argument("--backend", help="default cpu_numba")
    parser.add_argument("--workers", type=int, help="processes (default: one for every four threads, or for each GPU)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://…, or local for one made here")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace, command: str) -> int:
    """Render what was asked for; 0 when it is done. ValueError says what is wrong with the request."""
    film = _film(chosen)
    terminal = Console(stderr=True, soft_wrap=True)
    _require_writable(chosen.out)
    if film.scene.missing:
        terminal.print(f"made again as far as the file tells: {film.scene.missing}", highlight=False)
    ending = chosen.out.suffix.lower()
    if ending in DRAWN or (ending == PICTURE and film.scene.axes):
        drawing(film.scene, chosen.out, command, chosen.transparent)
    elif ending in SINGLE:
        SINGLE[ending](film, chosen.out, command)
    else:
        shot = shoot.Shoot(film, chosen.out, command)
        by = pool(chosen, film)
        _guess(shot, by)
        with bars.shown("frames", film.frames, shot.kept) as tell:
            shot.run(by, lambda now: tell(now.done, now.doing))
    terminal.print(f"wrote {chosen.out}", highlight=False)
    return 0


def picture(
    scene: Scene, path: Path, command: str = "", current: LiveState | None = None, progress: OnProgress = lambda _: None
) -> None:
    """Write `scene` as the PNG `path`, with what is needed to make it again in it and in `<name>.json` beside it.

    current: see render.opened_at; progress is told which part is done.
    """
    _require(scene, current)
    text = json.dumps({**scene.plain(), "made": {"command": command}}, ensure_ascii=False)
    data = render.png(render.pixels(scene, current, progress), text)
    with whole_file(path) as made:
        made.write_bytes(data)
        shoot.describe(scene.plain(), path, command, 0.0, made)


def drawing(
    scene: Scene,
    path: Path,
    command: str = "",
    transparent: bool = False,
    current: LiveState | None = None,
    progress: OnProgress = lambda _: None,
) -> None:
    """Write a panel of `scene` with axes as SVG, PDF or PNG, with `<name>.json` beside it. For the rest see picture."""
    from compute.export import figures

    _require(scene, current)
    with whole_file(path) as made:
        figures.write(scene, made, transparent, current, progress)
        shoot.describe(scene.plain(), path, command, 0.0, made)


def numbers(
    film: Film, path: Path, command: str = "", current: LiveState | None = None, progress: OnProgress = lambda _: None
) -> None:
    """Write the raw results as NPZ (of the first moment) or Zarr (of all), with `<name>.json` beside a file.

    current is for one moment alone; for the rest see picture.
    """
    _require(film, current)
    if path.suffix.lower() == ".zarr":
        arrays.write_zarr(film, path, lambda done: progress(done / film.frames), current)
        return
    with whole_file(path) as made:
        arrays.write_npz(film.scene, made, current, progress)
        shoot.describe(film.scene.plain(), path, command, 0.0, made)


def _require(plan: Scene | Film, current: LiveState | None) -> None:
    """Check what is not known to have been shown already."""
    if current is None:
        plan.check()


def pool(chosen: argparse.Namespace, film: Film) -> RenderPool:
    """Who makes the frames."""
    return pool_for(chosen.scheduler, chosen.workers, on_gpu(film.scene.kind, [film.scene.values.get("backend")]))


def _guess(shot: shoot.Shoot, by: RenderPool) -> None:
    """Say on a terminal what is to be expected of a film that is longer than what a guess needs."""
    terminal, missing = Console(stderr=True, soft_wrap=True), len(shot.missing())
    if not terminal.is_terminal or missing < WORTH_GUESSING:
        return
    guess = estimate(shot.film, shot.path, by.workers or 1)
    left = replace(guess, seconds=guess.seconds * missing / shot.film.frames)
    there = f", {shot.film.frames - missing} of them are there already" if missing < shot.film.frames else ""
    terminal.print(f"{shot.film.frames} frames{there}: {left.words}", highlight=False)


# -- what was asked for


def _film(chosen: argparse.Namespace) -> Film:
    path = Path(chosen.what)
    film = _described(path) if path.suffix in (".json", ".png") else _new(chosen)
    scene = film.scene
    own = {"size": chosen.size, "steps": chosen.steps, "part": chosen.part, "axes": chosen.axes or None}
    scene = replace(scene, **{name: value for name, value in own.items() if value is not None})
    if chosen.palette:
        scene = replace(scene, look=replace(scene.colours, palette=chosen.palette))
    if chosen.backend:
        backend(chosen.backend)
        scene = replace(scene, values={**scene.values, "backend": chosen.backend})
    scene = replace(scene, values={**scene.values, **values_of(scene.kind, chosen.set)})
    names = ("frames", "rate", "every", "easing")
    film = replace(film, scene=scene, **{n: getattr(chosen, n) for n in names if getattr(chosen, n) is not None})
    if not chosen.to:
        return film
    last = values_of(scene.kind, chosen.to)
    first = {name: scene.values.get(name, scene.kind.param[name].default) for name in last}
    return replace(film, keys=(Key(0, first), Key(1, last)))


def _new(chosen: argparse.Namespace) -> Film:
    lab = lab_class(chosen.what)
    return Film(Scene(lab.LAB, {}, steps=0 if lab.ENDS else 1000), frames=300)


def _described(path: Path) -> Film:
    """What a file says of itself: a film, or a scene as a film of one frame."""
    if not path.is_file():
        raise SceneError(f"{path} is not there")
    if path.suffix == PICTURE:
        with Image.open(path) as opened:
            text = getattr(opened, "text", {}).get(render.TEXT)
        if text is None:
            raise SceneError(f"{path.name} does not say how it was made; only a PNG that Fieldlab has written does")
    else:
        text = path.read_text(encoding="utf-8")
    document = read(text)
    return film_of(document) if document.get("schema") == FILM else Film(scene_of(document), frames=1)


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not cross or not width.isdigit() or not height.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 1920x1080")
    return int(height), int(width)


def _require_writable(path: Path) -> None:
    if path.suffix.lower() not in (*SINGLE, *DRAWN):
        writers.ending(path)
    bars.require_writable(path)


SINGLE: dict[str, Callable[[Film, Path, str], None]] = {
    PICTURE: lambda film, path, command: picture(film.scene, path, command),
    ".npz": numbers,
    ".zarr": numbers,
}
"""What is written in one go, by the file's ending; the others are films."""
