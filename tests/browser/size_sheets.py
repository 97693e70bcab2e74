"""Every page and mode at five sizes, light and dark, a sheet each: `python -m tests.browser.size_sheets`.

The states are those of screenshots.py, except for states with a fixed size. A sheet has a row of light pictures, a row
of dark ones and a column for each of SIZES; it is written to docs/images/sizes. `--only` selects states, `--out` sets
another folder. Failed states are printed, and missing on their sheet.
"""

from __future__ import annotations

import argparse
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from tests.browser.screenshots import IMAGES, SCHEMES, STATES, sized, take

# The last is a window of 1280 x 720 at 150 %.
SIZES = ((1280, 720), (1920, 1080), (800, 600), (390, 844), (853, 480))
HEIGHT, GAP = 270, 6  # px: height of a picture, gap between two
OWN = ("ui_minimal", "ui_none", "phone", "low")  # states with a fixed size
NAMES = [name for name in STATES if name not in OWN]
GROUND = (128, 128, 128)
QUALITY = 60  # of WebP
Shots = dict[tuple[str, tuple[int, int], str], Image.Image]  # by state, size, scheme


def sheet(shots: Shots, name: str) -> Image.Image:
    """Return the sheet of a state: one row per scheme, one column per size."""
    widths = [round(HEIGHT * width / height) for width, height in SIZES]
    made = Image.new("RGB", (sum(widths) + GAP * (len(SIZES) + 1), HEIGHT * 2 + GAP * 3), GROUND)
    for row, scheme in enumerate(SCHEMES):
        left = GAP
        for width, size in zip(widths, SIZES, strict=True):
            if (shot := shots.get((name, size, scheme))) is not None:
                made.paste(shot.resize((width, HEIGHT), Image.Resampling.LANCZOS), (left, GAP + row * (HEIGHT + GAP)))
            left += width + GAP
    return made


def main() -> int:
    """Take the pictures and write the sheets; return 1 if some failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.size_sheets", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--out", type=Path, default=IMAGES / "sizes")
    chosen = parser.parse_args()
    shots: Shots = {}
    problems = []
    for size in SIZES:

        def look(name: str, scheme: str, page: Page, size: tuple[int, int] = size) -> None:
            shots[name, size, scheme] = Image.open(BytesIO(page.screenshot())).convert("RGB")

        states = {**STATES, "follower": sized(STATES["follower"], size)}
        for problem in take(chosen.only, SCHEMES, size, look, states):
            problems.append(f"{size[0]} x {size[1]}: {problem}")
            sys.stdout.write(f"{problems[-1]}\n")
        sys.stdout.write(f"{size[0]} x {size[1]} done\n")
        sys.stdout.flush()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.only:
        sheet(shots, name).save(chosen.out / f"{name}.webp", "WEBP", quality=QUALITY, method=6)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
