"""Explanations of words on the page, under the pointer, with keyboard focus, and for screen readers.

`explained` marks the words of WORDS in the page's own HTML, each at its first occurrence; `term` marks other words with
a separate explanation; LABELS explains the labels of the status bars. static/explain.js shows explanations in one
tooltip for the whole page: a tooltip inside a column would be clipped by it, and would vanish whenever the column is
written. The `title` attribute would reach neither the keyboard nor a screen reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape, unescape

from app.page.markup import filled

# Word, as the page writes it -> its explanation for a newcomer.
WORDS = {
    "Gcell/s": "Gcell/s: 10⁹ cells of the grid brought forward by one step, a second. More is faster.",
    "Giter/s": "Giter/s: 10⁹ iterations z ← z² + c, a second, over all pixels. More is faster.",
    "Gnz/s": "Gnz/s: 10⁹ nonzeros of the matrix multiplied, a second. More is faster.",
    "billion cells/s": "Gcell/s: 10⁹ cells of the grid brought forward by one step, a second. More is faster.",
    "billion iterations/s": "Giter/s: 10⁹ iterations z ← z² + c, a second, over all pixels. More is faster.",
    "billion nonzeros/s": "Gnz/s: 10⁹ nonzero entries of the matrix multiplied, a second. More is faster.",
    "GB/s": "GB/s: 10⁹ bytes that must at least be moved between memory and processor, a second.",
    "Ginstr/s": "Ginstr/s: 10⁹ arithmetic instructions that the iterations need, a second.",
    "of copy": "Of the rate at which this device copies memory, measured beside these times or in the week before: the "
    "limit of what computes little.",
    "of FMA": "Of the most fused multiply-adds (a · b + c) a second that this device did, measured beside these times "
    "or in the week before.",
    "median": "Median: half of the times are shorter, half are longer; a single slow run does not move it.",
    "noisy": "Noisy: the times scatter so much that the figure may change by a tenth or more. Other work disturbs it.",
    "recorded": "Recorded: measured earlier on another machine and kept with this program; not measured here and now.",
    "cited": "Cited: taken from somebody else's publication; neither measured here nor by this program.",
    "first estimate": "First estimate: from few timings so far. It becomes more certain as more of them come.",
    "Measuring": "Measuring: both ways are being timed in turn. The number stands here as soon as it means something.",
    "First call": "The first call may compile the kernel, and finds cold caches; it is in none of the other figures.",
    "steps/s": "Steps a second: how often this way brings the whole grid forward by one step. More is faster.",
    "pictures/s": "Pictures a second: how often this way computes the whole picture. More is faster.",
    "curves/s": "Curves a second: how often this way computes the whole curve. More is faster.",
    "launch": "Launch: the time in which the processor asks the GPU to run a kernel, before it runs.",
    "launch-bound": "Launch-bound: launching the kernels takes as long as they do. The time is that of the launches, "
    "not of the kernels.",
    "compute": "Compute: the time of the kernels alone, without copying or drawing.",
    "levels": "Levels: making the field one byte a pixel, as large as the picture on the screen.",
    "copy": "Copy: bringing the picture's bytes from the GPU's memory to that of the host.",
    "delivery": "Delivery: from the server's sending of a picture until this browser has painted it.",
    "frames/s": "Frames a second: pictures that this browser painted.",
    "dropped": "Dropped: pictures that were computed but never painted, as newer ones had come.",
    "latency": "Latency: from the computing of a picture until this browser has painted it.",
    "drift": "Drift: by how much the whole heat has changed, relative to the start. With closed edges it should be 0.",
    "heat": "Heat: the sum of the field over all cells. With closed edges no step may change it.",
    "threads": "Threads: strands of one program that run at the same time, as a rule one for each core.",
    "thread": "Thread: one strand of a program; a single one uses a single core.",
    "ribbon": "Ribbon: the band in which the exact L-curve certainly lies. It narrows with every step.",
    "products/s": "Products a second: multiplications of the matrix, or its transpose, by a vector. More is faster.",
    "products": "Products: multiplications of the matrix, or its transpose, by a vector.",
    "residual norm": "Residual norm ‖Ax − b‖: how far the solution is from explaining the data.",
    "precision": "Precision: how many digits the numbers have. Deep zooms need more than float64 has.",
    "zoom": "Zoom: the picture's height is 4 / zoom.",
}
# Whole label of a status bar -> its explanation, for words that are too general to be explained everywhere.
LABELS = {
    "step": "Step: how many steps are done, of time for a field, of the bidiagonalisation for an L-curve.",
    "r": "r = D Δt / Δx²: how far a step carries heat. Above the limit beside it the scheme is unstable.",
    "error against exact": "Error against exact: relative difference from the solution in closed form, on the section.",
    "error of the racing kernel": "Error of the racing kernel: relative difference of its cells, written while others "
    "still read them, from the right ones.",
    "not finite": "Not finite: cells that are infinite or no number any more, as a rule since the scheme is unstable.",
    "pixel": "Pixel: the distance of two neighbouring pixels in the plane of c.",
    "iterations": "Iterations: as many as are done at most before a point counts as inside the set.",
    "samples": "Samples: points that are computed in each pixel; their mean is its colour, which smooths edges.",
    "reference orbit": "Reference orbit: one orbit in many digits, from which all pixels of a deep view are computed.",
    "picture": "Picture: how much of it is computed.",
    "λ": "λ: the parameter that weighs a small solution against a small residual. Large is smooth, small is noisy.",
    "‖Ax−b‖": "‖Ax − b‖, residual norm: how far the solution at this λ is from explaining the data.",
    "‖x‖": "‖x‖, solution norm: how large the solution at this λ is. Noise that is let through makes it grow.",
    "done": "Done: how much of the sweep over n is measured.",
    "measuring for": "Measuring for: the seconds that this sweep has run.",
    "of": "Of: the workload and the kind of number that are measured.",
}
_ANY = "|".join(re.escape(word) for word in sorted(WORDS, key=len, reverse=True))
_WORD = re.compile(rf"(?<![\w/])({_ANY})(?![\w/])")
_TAG = re.compile(r"(<[^>]*>)")
_KEY = re.compile(r"data-term='([^']*)'")


def term(html: str, about: str, key: str = "") -> str:
    """Return trusted HTML without spans, marked as words with an explanation.

    about: the explanation as text, which a screen reader speaks in place of the words; key: identifies the term among
    those of one column, by default its words.
    """
    name = key or unescape(re.sub(r"<[^>]*>", "", html))
    name, words = escape(name, quote=True), escape(about, quote=True)
    return f"<span class='term' tabindex='0' role='note' aria-label='{words}' data-term='{name}'>{html}</span>"


def explained(html: str, seen: set[str] | None = None) -> str:
    """Return trusted HTML in which the first occurrence of each of WORDS is explained; tags are unchanged.

    Words that `term` has marked keep the mark at their first occurrence only. seen: the words that were explained
    earlier; new ones are added to it.
    """
    known = set() if seen is None else seen

    def marked(found: re.Match[str]) -> str:
        """Return the word, with its explanation the first time."""
        word = found[1]
        if word in known:
            return word
        known.add(word)
        return term(word, WORDS[word])

    out: list[str] = []
    within = kept = False  # inside a marked term; whether its mark is kept
    for part in _TAG.split(html):
        if part.startswith("<span class='term'"):
            key = _KEY.search(part)
            name = unescape(key[1]) if key else ""
            within, kept = True, name not in known
            known.add(name)
            out += [part] if kept else []
        elif within and part == "</span>":
            within = False
            out += [part] if kept else []
        else:
            out.append(part if within or part.startswith("<") else _WORD.sub(marked, part))
    return "".join(out)


@lru_cache(maxsize=256)
def label_html(label: str) -> str:
    """Return a label of a status bar as HTML, with its explanation; cached, as the bar is written often."""
    html = filled("{label}", label=label)
    return term(html, LABELS[label]) if label in LABELS else explained(html)
