"""The moving pictures of the site's first page: `python docs/moving.py [LAB …]` writes docs/images/moving.

`fieldlab render` makes the films of the labs that show a picture; the crossover lab's curves come from assets/timings.
LAB.webp moves; LAB-still.webp is one of its frames, for readers who asked for less motion.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageOps, ImageSequence

from compute.__main__ import main as fieldlab
from compute.export.figures import HUES, MARKERS
from compute.ways.recorded import curves

FOLDER = Path(__file__).parent / "images" / "moving"
WIDTH, HEIGHT = 480, 270  # px
RATE = 20  # frames a second
WAYS = ("cpu_numpy", "cpu_numba", "gpu_cupy_kernel")
REST = 2000  # ms for which the last frame stays
QUALITY = 45  # of WebP
LOWEST = (68, 1, 84)  # RGB of the lowest value in Viridis, next to a square picture
FILMS = {
    "diffusion": "--set ny=180 --set nx=320 --set hold_limits=true --palette Inferno --steps 0 --frames 70 --every 8",
    "mandelbrot": "--set center=-0.743643887037151,0.13182590420533 --to zoom=1e5 --set max_iterations=2000 "
    "--set colouring=smooth --palette Inferno --frames 70",
    "l_curve": "--set problem=blur --set n=64 --set noise=0.05 --part solution --set lam=3e-4 --to lam=0.6 --frames 40",
    "equations": "--set text=gray_scott --set ny=144 --set nx=256 --steps 100 --frames 70 --every 110",
}


def rendered(lab: str) -> list[Image.Image]:
    """Return the frames of a film by `fieldlab render`."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "film.webp"
        size = f"--size {HEIGHT if lab == 'l_curve' else WIDTH}x{HEIGHT} --rate {RATE} --workers 1"
        if code := fieldlab(["render", lab, "--out", str(path), *f"{FILMS[lab]} {size}".split()]):
            raise SystemExit(code)
        with Image.open(path) as film:
            pictures = (frame.convert("RGB") for frame in ImageSequence.Iterator(film))
            return [ImageOps.pad(picture, (WIDTH, HEIGHT), color=LOWEST) for picture in pictures]


def recorded() -> list[Image.Image]:
    """Return drawings of recorded times against n, which grow from small n to large, and the record's machine."""
    lines = [curve for way in WAYS for curve in curves("quadratic") if (curve.way, curve.dtype) == (way, "float64")]
    sizes = sorted({n for curve in lines for n in curve.series})
    made = []
    for most in sizes:
        figure = Figure(figsize=(4.8, 2.7), dpi=200, layout="constrained")
        canvas, axes = FigureCanvasAgg(figure), figure.subplots()
        for curve, mark in zip(lines, MARKERS, strict=False):
            shown = sorted(n for n in curve.series if n <= most)
            times, colour = [curve.series[n].median for n in shown], HUES[curve.way[:3]]
            axes.plot(shown, times, f"{mark}-", color=colour, markerfacecolor="white", label=curve.label)
        axes.set(xscale="log", yscale="log", xlim=(sizes[0] / 1.5, sizes[-1] * 1.5), ylim=(5e-7, 5))
        axes.set(xlabel="n", ylabel="time of a call [s]")
        axes.set_title(f"Quadratic formula, recorded: {lines[0].machine}", fontsize=10)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(frameon=False, loc="upper left", fontsize=9)
        canvas.draw()
        drawing = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        made.append(drawing.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))
    return [drawing for drawing in made for _ in range(RATE // 5)]


def save(lab: str, pictures: list[Image.Image]) -> None:
    """Write the moving picture and its still one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pauses = [1000 // RATE] * (len(pictures) - 1) + [REST]
    first, *rest = pictures
    moving, still = FOLDER / f"{lab}.webp", FOLDER / f"{lab}-still.webp"
    first.save(moving, save_all=True, append_images=rest, duration=pauses, loop=0, quality=QUALITY, method=6)
    pictures[len(pictures) // 2 if lab == "l_curve" else -1].save(still, quality=80, method=6)
    print(lab, len(pictures), "frames,", moving.stat().st_size, "bytes")


if __name__ == "__main__":
    for name in sys.argv[1:] or (*FILMS, "crossover"):
        save(name, recorded() if name == "crossover" else rendered(name))
