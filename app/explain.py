"""Words of the page that explain themselves: under the pointer, with the keyboard's focus, and to a screen reader.

`explained` marks them in HTML of ours, each where it first stands. static/explain.js shows the explanation in one tip
for the whole page: a tip inside a column would be cut by it, and would go whenever the column is written anew.
"""

from __future__ import annotations

import re
from html import escape

# As the page writes a word -> what it means, for somebody who hears it for the first time.
WORDS = {
    "Gcell/s": "Gcell/s: 10⁹ cells of the grid brought forward by one step, a second. More is faster.",
    "Giter/s": "Giter/s: 10⁹ iterations z ← z² + c, a second, over all pixels. More is faster.",
    "Gnz/s": "Gnz/s: 10⁹ nonzeros of the matrix multiplied, a second. More is faster.",
    "GB/s": "GB/s: 10⁹ bytes that must at least be moved between memory and processor, a second.",
    "Ginstr/s": "Ginstr/s: 10⁹ arithmetic instructions that the iterations need, a second.",
    "of copy": "Of the rate at which this device copies memory, measured beside these times or in the week before: the "
    "limit of what computes little.",
    "of FMA": "Of the most fused multiply-adds (a · b + c) a second that this device did, measured beside these times "
    "or in the week before.",
    "noisy": "Noisy: the times scatter so much that the figure may change by a tenth or more. Other work disturbs it.",
    "recorded": "Recorded: measured earlier on another machine and kept with this program; not measured here and now.",
    "cited": "Cited: taken from somebody else's publication; neither measured here nor by this program.",
    "first estimate": "First estimate: from few timings so far. It becomes more certain as more of them come.",
    "Measuring": "Measuring: both ways are being timed in turn. The number stands here as soon as it means something.",
    "First call": "The first call may compile the kernel, and finds cold caches; it is in none of the other figures.",
    "launch": "Launch: the time in which the processor asks the GPU to run a kernel, before it runs.",
    "compute": "Compute: the time of the kernels alone, without copying or drawing.",
    "levels": "Levels: making the field one byte a pixel, as large as the picture on the screen.",
    "delivery": "Delivery: from the server's sending of a picture until this browser has painted it.",
    "frames/s": "Frames a second: pictures that this browser painted.",
    "dropped": "Dropped: pictures that were computed but never painted, as newer ones had come.",
    "latency": "Latency: from the computing of a picture until this browser has painted it.",
    "drift": "Drift: by how much the whole heat has changed, relative to the start. With closed edges it should be 0.",
    "heat": "Heat: the sum of the field over all cells. With closed edges no step may change it.",
    "threads": "Threads: strands of one program that run at the same time, as a rule one for each core.",
    "thread": "Thread: one strand of a program; a single one uses a single core.",
    "ribbon": "Ribbon: the band in which the exact L-curve certainly lies. It narrows with every step.",
    "products": "Products: multiplications of the matrix, or its transpose, by a vector.",
    "residual norm": "Residual norm ‖Ax − b‖: how far the solution is from explaining the data.",
    "precision": "Precision: how many digits the numbers have. Deep zooms need more than float64 has.",
    "zoom": "Zoom: the picture's height is 4 / zoom.",
}
_ANY = "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True))
_WORD = re.compile(rf"(?<![\w/])({_ANY})(?![\w/])")
_TAG = re.compile(r"(<[^>]*>)")


def explained(html: str) -> str:
    """Return HTML of ours in which each of WORDS explains itself where it first stands; tags are left as they are."""
    seen: set[str] = set()

    def marked(found: re.Match[str]) -> str:
        """The word, with its explanation the first time."""
        word = found[1]
        if word in seen:
            return word
        seen.add(word)
        about = escape(WORDS[word], quote=True)
        return f"<span class='term' tabindex='0' role='note' aria-label='{about}' data-term='{word}'>{word}</span>"

    parts = _TAG.split(html)
    return "".join(part if part.startswith("<") else _WORD.sub(marked, part) for part in parts)
