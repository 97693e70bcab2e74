"""`fieldlab render` and `fieldlab sweep`: pictures, films and tables without the page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from compute.backends import backend
from compute.export import render
from compute.export.data_files import require_zarr
from compute.export.film import SCHEMA as FILM
from compute.export.film import Film, Key, film_of
from compute.export.film_renderer import PLACES, FilmRenderer, estimate
from compute.export.formats import FOLDER_ZARR, PNG, RENDERED, TABLES, ArrayFormat, StillFormat, render_format
from compute.export.parameter_texts import axes_of, values_of
from compute.export.render_pool import RenderPool, ResumableParts, on_gpu, pool_for
from compute.export.scene import Scene, SceneError, read, scene_of, values_along, without
from compute.export.sweep import MOST_ROWS, ParameterSweep, TableMaker
from compute.files import require_writable
from compute.labs import lab_class, labs

WORTH_GUESSING = 4 * PLACES  # frames
FAILED = 1


# -- fieldlab render


def add_render(commands: Any) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser("render", help="a picture or a film of a lab without the page")
    parser.add_argument(
        "what", metavar="LAB|FILE", help=f"one of {_names()}; or a .json or .png that Fieldlab has made"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=", ".join(RENDERED))
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
    parser.set_defaults(run=run_render)


def run_render(chosen: argparse.Namespace, command: str) -> int:
    """Render what was asked for; 0 when it is done. ValueError says what is wrong with the request."""
    film = _film(chosen)
    terminal = Console(stderr=True, soft_wrap=True)
    form = render_format(chosen.out, film.scene.axes)
    require_writable(chosen.out, folder=form is FOLDER_ZARR)
    if form is FOLDER_ZARR:
        require_zarr(chosen.out)
    if film.scene.missing:
        terminal.print(f"made again as far as the file tells: {film.scene.missing}", highlight=False)
    if isinstance(form, StillFormat):
        form.write(film.scene, chosen.out, command, None, lambda _: None, chosen.transparent)
    elif isinstance(form, ArrayFormat):
        form.write(film, chosen.out, command, None, lambda _: None)
    else:
        renderer = FilmRenderer(film, chosen.out, command)
        pool = _pool(chosen, film)
        _guess(renderer, pool)
        with _progress_bar("frames", film.frames, renderer.parts) as show:
            renderer.run(pool, lambda now: show(now.done, now.doing))
    terminal.print(f"wrote {chosen.out}", highlight=False)
    return 0


def _pool(chosen: argparse.Namespace, film: Film) -> RenderPool:
    """Who makes the frames."""
    return pool_for(chosen.scheduler, chosen.workers, on_gpu(film.scene.kind, [film.scene.values.get("backend")]))


def _guess(renderer: FilmRenderer, pool: RenderPool) -> None:
    """Say on a terminal what is to be expected of a film that is longer than what a guess needs."""
    terminal, missing = Console(stderr=True, soft_wrap=True), len(renderer.missing())
    if not terminal.is_terminal or missing < WORTH_GUESSING:
        return
    guess = estimate(renderer.film, renderer.path, pool.workers or 1)
    left = replace(guess, seconds=guess.seconds * missing / renderer.film.frames)
    there = f", {renderer.film.frames - missing} of them are there already" if missing < renderer.film.frames else ""
    terminal.print(f"{renderer.film.frames} frames{there}: {left.words}", highlight=False)


def _film(chosen: argparse.Namespace) -> Film:
    """What was asked for."""
    path = Path(chosen.what)
    film = _described(path) if path.suffix in (".json", ".png") else _new(chosen)
    scene = film.scene
    own = {"size": chosen.size, "steps": chosen.steps, "part": chosen.part, "axes": chosen.axes or None}
    scene = structs.replace(scene, **{name: value for name, value in own.items() if value is not None})
    if chosen.palette:
        scene = structs.replace(scene, look=structs.replace(scene.colours, palette=chosen.palette))
    asked = {} if chosen.backend is None else {"backend": backend(chosen.backend).name}
    scene = _held(scene, {**asked, **values_of(scene.kind, chosen.set)})
    own = {name: getattr(chosen, name) for name in ("frames", "rate", "every", "easing")}
    film = structs.replace(film, scene=scene, **{name: value for name, value in own.items() if value is not None})
    if not chosen.to:
        return film
    last = values_of(scene.kind, chosen.to)
    before = tuple(entry for entry in scene.history if entry["step"] <= scene.steps)
    *_, now = scene.values, *values_along(scene.values, before)
    first = {name: now.get(name, scene.kind.param[name].default) for name in last}
    return structs.replace(film, scene=_held(scene, first), keys=(Key(0, first), Key(1, last)))


def _held(scene: Scene, values: Mapping[str, Any]) -> Scene:
    """The scene with these values from its beginning to its end, whatever its history sets them to."""
    names = {*values, *(("device_index", "variant") if "backend" in values else ())}  # which belong to a backend
    return structs.replace(scene, values={**scene.values, **values}, history=tuple(without(scene.history, names)))


def _new(chosen: argparse.Namespace) -> Film:
    lab = lab_class(chosen.what)
    return Film(Scene(lab.LAB, {}, steps=0 if lab.ENDS else 1000), frames=300)


def _described(path: Path) -> Film:
    """What a file says of itself: a film, or a scene as a film of one frame."""
    if not path.is_file():
        raise SceneError(f"{path} is not there")
    if path.suffix == PNG.ending:
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


# -- fieldlab sweep


def add_sweep(commands: Any) -> None:
    """Add the command to the command line's."""
    parser = commands.add_parser("sweep", help="a table of results and timings over a grid of parameters")
    parser.add_argument("lab", metavar="LAB", help=f"one of {_names()}")
    parser.add_argument(
        "--vary", action="append", default=[], metavar="NAME=…", required=True,
        help=f"a,b,c or LOW:HIGH:N (even steps) or LOW:HIGH:xN (equal factors); at most {MOST_ROWS} combinations",
    )  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter in all rows")
    parser.add_argument("--steps", type=int, help="steps of each row; 1000 for a lab that never ends")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=", ".join(one.ending for one in TABLES))
    parser.add_argument("--workers", type=int, help="processes (default: one for every four threads, or for each GPU)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://…, or local for one made here")
    parser.set_defaults(run=run_sweep)


def run_sweep(chosen: argparse.Namespace, command: str) -> int:
    """Make the table; 0 when it is done, 1 if rows failed. ValueError says what is wrong with the request."""
    kind = lab_class(chosen.lab)
    steps = (0 if kind.ENDS else 1000) if chosen.steps is None else chosen.steps
    sweep = ParameterSweep(kind.LAB, values_of(kind, chosen.set), axes_of(kind, chosen.vary), steps)
    require_writable(chosen.out)
    table = TableMaker(sweep, chosen.out, command)
    gpu = on_gpu(kind, (sweep.at(number).get("backend") for number in range(sweep.count)))
    with _progress_bar("rows", sweep.count, table.parts) as show:
        counts = table.run(pool_for(chosen.scheduler, chosen.workers, gpu), show)
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    Console(stderr=True, soft_wrap=True).print(f"wrote {chosen.out}: {sweep.count} rows, {said}", highlight=False)
    return FAILED if counts.get("failed") else 0


# -- both


def _names() -> str:
    return ", ".join(lab.LAB for lab in labs())


@contextmanager
def _progress_bar(what: str, total: int, parts: ResumableParts) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal; what it gives takes (done, what = …). Ctrl-C says in the end what is kept."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    terminal = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int, doing: str = what) -> None:
            """Move the bar."""
            bar.update(task, completed=done, description=doing)

        try:
            yield show
        except KeyboardInterrupt as stop:
            stop.args = (parts.words,)
            raise


