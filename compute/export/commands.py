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

from compute.devices.backends import backend
from compute.export import render
from compute.export.data_files import require_zarr
from compute.export.film import SCHEMA as FILM
from compute.export.film import Film, Key, film_of
from compute.export.film_renderer import PLACES, FilmRenderer, estimate
from compute.export.formats import (
    FOLDER_ZARR,
    FORMATS,
    PNG,
    RENDERED,
    TABLES,
    ArrayFormat,
    FileFormat,
    FilmFormat,
    StillFormat,
    render_format,
)
from compute.export.parameter_texts import values_and_axes, values_of
from compute.export.render import shown_raster
from compute.export.render_pool import RenderPool, ResumableParts, on_gpu, pool_for
from compute.export.scene import Scene, SceneError, read, scene_of, values_along, without
from compute.export.sweep import MOST_ROWS, ParameterSweep, TableMaker
from compute.files.files import require_writable
from compute.labs import lab_class, labs

WORTH_ESTIMATING = 4 * PLACES  # frames
OPTIONS = (
    *("size", "palette", "part", "axes", "transparent", "steps", "backend"),
    *("to", "frames", "rate", "every", "easing", "workers", "scheduler"),
)  # of `render`, which do not apply to all formats
FAILED = 1


# -- fieldlab render


def add_render(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("render", help="a picture or a film of a lab without the page")
    parser.add_argument("what", metavar="LAB|FILE", help=f"one of {_names()}; or a .json or .png made by Fieldlab")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help=", ".join(RENDERED))
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the lab")
    parser.add_argument("--to", action="append", default=[], metavar="NAME=VALUE", help="its value at the film's end")
    parser.add_argument("--size", type=_size, metavar="WxH", help="pixels (default: the grid's shape within 1920x1080)")
    parser.add_argument("--palette", help="for example Inferno")
    parser.add_argument("--part", help="which picture of the lab, for example laplacian")
    parser.add_argument("--axes", action="store_true", help="with axes, title and colour bar")
    parser.add_argument("--transparent", action="store_true", help="no background behind a drawing with axes")
    parser.add_argument("--steps", type=int, help="steps before the (first) picture; 1000 for a lab that never ends")
    parser.add_argument("--frames", type=int, help="of a film (default 300)")
    parser.add_argument("--rate", type=float, help="frames a second (default 30)")
    parser.add_argument("--every", type=int, help="steps from one frame of a film to the next")
    parser.add_argument("--easing", help="smooth or even: the pace of a film with --to")
    parser.add_argument("--backend", help="default cpu_numba")
    parser.add_argument("--workers", type=int, help="processes (default: one for every four threads, or for each GPU)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, tcp://…, or local for one made here")
    parser.set_defaults(run=run_render)


def run_render(chosen: argparse.Namespace, command: str) -> int:
    """Render the picture or film of the arguments and return 0. Raise ValueError for an invalid request."""
    film = _film(chosen)
    form = render_format(chosen.out, film.scene.axes)
    _require_options(chosen, form, film)
    film = _in_shape(chosen, form, film)
    require_writable(chosen.out, folder=form is FOLDER_ZARR)
    if form is FOLDER_ZARR:
        require_zarr(chosen.out)
    terminal = Console(stderr=True, soft_wrap=True)
    if film.scene.missing:
        terminal.print(f"the file does not hold everything: {film.scene.missing}", highlight=False)
    if isinstance(form, StillFormat):
        form.write(film.scene, chosen.out, command, None, lambda _: None, chosen.transparent)
    elif isinstance(form, ArrayFormat):
        form.write(film, chosen.out, command, None, lambda _: None)
    else:
        renderer = FilmRenderer(film, chosen.out, command)
        pool = _pool(chosen, film)
        _print_estimate(renderer, pool)
        with _progress_bar("frames", film.frames, renderer.parts) as show:
            renderer.run(pool, lambda now: show(now.done, now.doing))
    terminal.print(f"wrote {chosen.out}", highlight=False)
    return 0


def _require_options(chosen: argparse.Namespace, form: FileFormat, film: Film) -> None:
    """Raise SceneError for an option that has no effect on this format or lab."""
    lab = film.scene.kind
    for option in OPTIONS:
        if vars(chosen)[option] in (None, False, []):
            continue
        if option not in form.options and not (option == "size" and isinstance(form, ArrayFormat) and lab.PICTURE_SIZE):
            known = dict.fromkeys(one.name for one in FORMATS if option in one.options)
            raise SceneError(f"--{option} has no effect on {form.name}, only on {', '.join(known)}: leave it out")
    if chosen.steps is not None and lab.ENDS:
        raise SceneError(f"--steps has no effect on {lab.LAB}, which is computed to its end: leave it out")
    if chosen.easing is not None and not film.keys:
        raise SceneError("--easing is the pace of a film that leads to other values: name them with --to")
    if film.sequential and (chosen.workers or 1) > 1:
        raise SceneError("--workers has no effect with --every: each frame follows from the one before")
    for name in sorted({text.partition("=")[0] for text in (*chosen.set, *chosen.to)} & {*lab.PICTURE_SIZE}):
        raise SceneError(f"{name} follows from the size of the picture in {lab.LAB}: use --size WxH")


def _in_shape(chosen: argparse.Namespace, form: FileFormat, film: Film) -> Film:
    """Return the film with the aspect ratio of the lab's picture.

    Raise SceneError for a --size with another ratio, or a palette for lines.
    """
    scene = film.scene
    if isinstance(form, ArrayFormat) or (scene.kind.PICTURE_SIZE and not scene.part):
        return film
    drawing = scene.axes or (isinstance(form, StillFormat) and form.axes)
    free = drawing or not (chosen.size or chosen.what == scene.lab)  # any aspect ratio, or that of the file
    if free and not chosen.palette:
        return film
    scene.check()
    raster = shown_raster(scene, drawing)
    if raster is None and chosen.palette:
        raise SceneError("--palette has no effect on lines: leave it out")
    if raster is None or free:
        return film
    x0, y0, x1, y1 = raster.extent
    fitting = fitting_size(y1 - y0, x1 - x0, chosen.size or scene.size, even=isinstance(form, FilmFormat) and form.even)
    if chosen.size and max(abs(fitting[0] - chosen.size[0]), abs(fitting[1] - chosen.size[1])) > 1:
        shape = f"the picture's {x1 - x0:g} x {y1 - y0:g} cells"
        within = f"within it, {shape} have {fitting[1]}x{fitting[0]} pixels"
        raise SceneError(f"--size {chosen.size[1]}x{chosen.size[0]} would distort the picture: {within}")
    return structs.replace(film, scene=structs.replace(scene, size=chosen.size or fitting))


def fitting_size(height: float, width: float, most: tuple[int, int], even: bool = False) -> tuple[int, int]:
    """Return the largest (height, width) in pixels within `most` with the aspect ratio of height x width cells."""
    scale, unit = min(most[0] / height, most[1] / width), 2 if even else 1
    return (
        max(unit, unit * round(scale * height / unit)),
        max(unit, unit * round(scale * width / unit)),
    )


def _pool(chosen: argparse.Namespace, film: Film) -> RenderPool:
    """Return the workers for the frames."""
    return pool_for(chosen.scheduler, chosen.workers, on_gpu(film.scene.kind, [film.scene.values.get("backend")]))


def _print_estimate(renderer: FilmRenderer, pool: RenderPool) -> None:
    """Print an estimate on a terminal if the film has more frames than the estimate renders."""
    terminal, missing = Console(stderr=True, soft_wrap=True), len(renderer.missing())
    if not terminal.is_terminal or missing < WORTH_ESTIMATING:
        return
    whole = estimate(renderer.film, renderer.path, pool.workers or 1)
    left = replace(whole, seconds=whole.seconds * missing / renderer.film.frames)
    existing = f", {renderer.film.frames - missing} of them exist already" if missing < renderer.film.frames else ""
    terminal.print(f"{renderer.film.frames} frames{existing}: {left.words}", highlight=False)


def _film(chosen: argparse.Namespace) -> Film:
    """Return the film of the arguments; a picture is its first frame."""
    path = Path(chosen.what)
    film = _described(path) if path.suffix.lower() in (".json", ".png") else _new(chosen)
    scene = film.scene
    own = {"size": chosen.size, "steps": chosen.steps, "part": chosen.part, "axes": chosen.axes or None}
    scene = structs.replace(scene, **{name: value for name, value in own.items() if value is not None})
    if chosen.palette:
        scene = structs.replace(scene, look=structs.replace(scene.colours, palette=chosen.palette))
    values = values_of(scene.kind, chosen.set, scene.values)
    if chosen.backend is not None:
        if "backend" in values:
            raise SceneError("backend is set twice, by --set and by --backend: set it once")
        values["backend"] = backend(chosen.backend).name
    scene = _held(scene, values)
    own = {name: getattr(chosen, name) for name in ("frames", "rate", "every", "easing")}
    film = structs.replace(film, scene=scene, **{name: value for name, value in own.items() if value is not None})
    if not chosen.to:
        return film
    last = values_of(scene.kind, chosen.to, scene.values)
    before = tuple(entry for entry in scene.history if entry["step"] <= scene.steps)
    *_, now = scene.values, *values_along(scene.values, before)
    first = {name: now.get(name, scene.kind.param[name].default) for name in last}
    return structs.replace(film, scene=_held(scene, first), keys=(Key(0, first), Key(1, last)))


def _held(scene: Scene, values: Mapping[str, Any]) -> Scene:
    """Return the scene with these values from its start to its end, overriding its history."""
    names = {*values, *(("device_index", "variant") if "backend" in values else ())}  # they belong to a backend
    return structs.replace(scene, values={**scene.values, **values}, history=tuple(without(scene.history, names)))


def _new(chosen: argparse.Namespace) -> Film:
    lab = lab_class(chosen.what)
    array = chosen.out.suffix.lower() == FOLDER_ZARR.ending
    still = array and chosen.every is None and not chosen.to  # otherwise its 300 arrays would be equal
    return Film(Scene(lab.LAB, {}, steps=0 if lab.ENDS else 1000), frames=1 if still else 300)


def _described(path: Path) -> Film:
    """Return the film that a file describes; a scene is a film of one frame."""
    if not path.is_file():
        raise SceneError(f"{path} is not there")
    if path.suffix.lower() == PNG.ending:
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
    if not cross or not (text.isascii() and width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 1920x1080")
    return int(height), int(width)


# -- fieldlab sweep


def add_sweep(commands: Any) -> None:
    """Add the command to the command line."""
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
    """Write the table; return 0, or 1 if rows failed or none succeeded. Raise ValueError for an invalid request."""
    kind = lab_class(chosen.lab)
    if chosen.steps is not None and kind.ENDS:
        raise SceneError(f"--steps has no effect on {kind.LAB}, which is computed to its end: leave it out")
    steps = (0 if kind.ENDS else 1000) if chosen.steps is None else chosen.steps
    sweep = ParameterSweep(kind.LAB, *values_and_axes(kind, chosen.set, chosen.vary), steps)
    require_writable(chosen.out)
    table = TableMaker(sweep, chosen.out, command)
    gpu = on_gpu(kind, (sweep.at(number).get("backend") for number in range(sweep.count)))
    with _progress_bar("rows", sweep.count, table.parts) as show:
        counts = table.run(pool_for(chosen.scheduler, chosen.workers, gpu), show)
    summary = ", ".join(f"{count} {status}" for status, count in counts.items())
    Console(stderr=True, soft_wrap=True).print(f"wrote {chosen.out}: {sweep.count} rows, {summary}", highlight=False)
    if not counts.get("made"):
        Console(stderr=True, soft_wrap=True).print(f"no row could be made; the first: {table.why}", highlight=False)
    return FAILED if counts.get("failed") or not counts.get("made") else 0


# -- both


def _names() -> str:
    return ", ".join(lab.LAB for lab in labs())


@contextmanager
def _progress_bar(what: str, total: int, parts: ResumableParts) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal; yield its update (done, description). Ctrl-C reports the finished parts."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    terminal = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int, doing: str = what) -> None:
            """Update the bar."""
            bar.update(task, completed=done, description=doing)

        try:
            yield show
        except KeyboardInterrupt as stop:
            stop.args = (parts.words,)
            raise
