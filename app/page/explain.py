"""Explanations of words on the page, under the pointer, with keyboard focus, and for screen readers.

`explained` marks the words of WORDS in the page's own HTML, each at its first occurrence; `term` marks other words with
a separate explanation; LABELS explains the labels of the status bars. A lab adds its own words in its folder
(app/labs/<lab>/words.py). static/explain.js shows explanations in one tooltip for the whole page: a tooltip inside a
column would be clipped by it, and would vanish whenever the column is written. The `title` attribute would reach
neither the keyboard nor a screen reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape, unescape
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from app import labs
from app.page.markup import filled


def _of_labs(name: str) -> dict[str, str]:
    """Return the tables called `name` of all modules app/labs/<lab>/words.py, joined."""
    folders = [each.name for each in iter_modules(labs.__path__, "app.labs.") if each.ispkg]
    modules = [import_module(f"{folder}.words") for folder in folders if find_spec(f"{folder}.words")]
    return {word: about for module in modules for word, about in getattr(module, name, {}).items()}


# Word, as the page writes it -> its explanation for a newcomer.
WORDS = _of_labs("WORDS") | {
    "Gcell/s": "Gcell/s: 10⁹ cells of the grid advanced by one step, per second. More is faster.",
    "Giter/s": "Giter/s: 10⁹ iterations z ← z² + c per second, over all pixels. More is faster.",
    "Gnz/s": "Gnz/s: 10⁹ nonzeros of the matrix multiplied per second. More is faster.",
    "billion cells/s": "Gcell/s: 10⁹ cells of the grid advanced by one step, per second. More is faster.",
    "billion iterations/s": "Giter/s: 10⁹ iterations z ← z² + c per second, over all pixels. More is faster.",
    "billion nonzeros/s": "Gnz/s: 10⁹ nonzero entries of the matrix multiplied per second. More is faster.",
    "GB/s": "GB/s: 10⁹ bytes per second, counting the minimum that must move between memory and processor.",
    "Ginstr/s": "Ginstr/s: 10⁹ arithmetic instructions of the iterations per second.",
    "of copy": "Of the copy bandwidth of this device, measured in the last week. It limits simple kernels.",
    "of FMA": "Of the measured rate of fused multiply-adds (a · b + c) of this device, at most a week old.",
    "median": "Median: half of the times are shorter, half are longer; a single slow run does not change it.",
    "noisy": "Noisy: the times scatter, for example due to other programs; the number may change by a tenth or more.",
    "recorded": "Recorded: measured earlier on another machine and stored with this program.",
    "cited": "Cited: taken from a publication, not measured by this program.",
    "first estimate": "First estimate: based on few timings so far.",
    "Measuring": "Measuring: both implementations are timed in turn. The result appears when it is reliable.",
    "First call": "The first call may compile the kernel and has cold caches; it is excluded from all other numbers.",
    "steps/s": "Steps per second of the whole grid. More is faster.",
    "pictures/s": "Complete pictures computed per second. More is faster.",
    "curves/s": "Complete curves computed per second. More is faster.",
    "launch": "Launch: the time that the CPU needs to start a kernel on the GPU.",
    "launch-bound": "Launch-bound: starting the kernels takes as long as running them, and determines the time.",
    "low clock": "Low clock: the GPU saved power, because it was mostly idle; it is faster under continuous load.",
    "compute": "Compute: the time of the kernels, without copying or drawing.",
    "levels": "Levels: reducing the field to the size of the picture, with one byte per pixel.",
    "copy": "Copy: transfer of the picture's bytes from the GPU's memory to the host's.",
    "delivery": "Delivery: from sending a picture until this browser has painted it.",
    "frames/s": "Frames per second that this browser painted.",
    "dropped": "Dropped: pictures that were computed but replaced by newer ones before they were sent.",
    "latency": "Latency: from the computation of a picture until this browser has painted it.",
    "threads": "Threads: parts of one program that run at the same time, usually one per core.",
    "thread": "Thread: a part of a program; one thread uses one core.",
}
# Whole label of a status bar -> its explanation, for words that are too general to be explained everywhere.
LABELS = _of_labs("LABELS") | {
    "step": "Step: number of completed steps of the lab's iteration, for example in time.",
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
