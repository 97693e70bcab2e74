"""Conversion of Markdown to HTML with typeset equations, for the texts of About and of the lessons.

A displayed equation is a fenced block "```math" of LaTeX, as on GitHub. It is converted to MathML, which browsers
typeset and screen readers speak without any library. The converter accepts the commands below, fractions, roots, text,
groups and scripts; a block with anything else is shown as LaTeX code. The Markdown may come from others: HTML in it is
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

LANGUAGE = "math"  # after the fence
LONGEST, MOST_DEPTH = 2000, 20  # characters of an equation, and nesting depth of its groups
TOKEN = re.compile(r"\\text\{[^{}\\]*\}|\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S", re.DOTALL)


def operator(character: str, attributes: str = "") -> str:
    """Return a sign of an equation as a MathML operator that does not stretch."""
    return f"<mo stretchy='false'{attributes}>{escape(character)}</mo>"


LETTERS = {
    "alpha": "α", "beta": "β", "delta": "δ", "Delta": "Δ", "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ",
    "nu": "ν", "phi": "φ", "pi": "π", "rho": "ρ", "sigma": "σ",
}  # fmt: skip
SIGNS = {
    "nabla": "∇", "partial": "∂", "cdot": "⋅", "times": "×", "le": "≤", "ge": "≥", "approx": "≈", "to": "→",
    "leftarrow": "←", "sum": "∑", "dots": "…",
}  # fmt: skip
NORMS = {"lVert": ("‖", "prefix"), "rVert": ("‖", "postfix"), "lvert": ("|", "prefix"), "rvert": ("|", "postfix")}
FUNCTIONS = ("sin", "cos", "cosh", "log", "ln", "min", "max", "arg")
CLOSE, APART = " lspace='0' rspace='0'", " lspace='0.17em' rspace='0.17em'"
COMMANDS = {
    **{name: f"<mi>{letter}</mi>" for name, letter in LETTERS.items()},
    **{name: operator(sign) for name, sign in SIGNS.items()},
    **{name: operator(sign, f" form='{form}'{CLOSE}") for name, (sign, form) in NORMS.items()},
    **{name: operator(name, APART) for name in FUNCTIONS},
    ",": "<mspace width='0.17em'></mspace>",
    ";": "<mspace width='0.28em'></mspace>",
    "quad": "<mspace width='1em'></mspace>",
    "qquad": "<mspace width='2em'></mspace>",
}
TYPED = {"-": operator("−"), "'": operator("′", CLOSE)}
BELOW = (r"\min", r"\max", r"\sum")  # their scripts are set below and above, not to the right
SCRIPTS = {("_",): "msub", ("^",): "msup", ("_", "^"): "msubsup"}
LIMITS = {("_",): "munder", ("^",): "mover", ("_", "^"): "munderover"}
WHERE_NOTHING_BEGINS = ("", "}", "_", "^", "&", "\\", r"\right")


@lru_cache(maxsize=32)
def article(markdown: str) -> str:
    """Return the Markdown as one HTML block, with HTML in it escaped. The result is itself valid Markdown.

    Cached, because the crossover's lesson is rendered several times a second.
    """
    html = re.sub(r"\n(?=[ \t]*\n)", "&#10;", _MARKDOWN.render(markdown))  # an empty line would end the HTML block
    return f"<div class='article'>\n{html}</div>"


def mathml(latex: str, display: str = "block") -> str:
    """Return a LaTeX equation as MathML; ValueError names the unsupported part or the exceeded bound.

    display: "block" for a displayed equation, "inline" for one in a line of text.
    """
    if len(latex) > LONGEST:
        raise ValueError(f"an equation has at most {LONGEST:,} characters, not {len(latex):,}")
    return f"<math display='{display}'>{_Reading(TOKEN.findall(latex)).whole()}</math>"


class _Reading:
    """A recursive-descent parser that reads an equation from left to right and returns MathML."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [*tokens, ""]  # the empty token marks the end
        self._at = self._depth = 0

    def whole(self) -> str:
        """Return the whole equation as MathML; ValueError for a closing token without an opening one."""
        made = self._row()
        if self._coming:
            raise ValueError(f"nothing begins before {self._coming}")
        return made

    @property
    def _coming(self) -> str:
        return self._tokens[self._at]

    def _take(self, wanted: str = "") -> str:
        found = self._coming
        if not found or (wanted and found != wanted):
            raise ValueError(f"{wanted or 'something'} must stand before {found or 'the end'}")
        self._at += 1
        return found

    def _row(self) -> str:
        """Return all pieces up to the next closing token as one piece."""
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ValueError(f"at most {MOST_DEPTH} groups lie in each other")
        pieces = []
        while self._coming not in ("", "}", r"\right"):
            pieces.append(self._with_scripts())
        self._depth -= 1
        return pieces[0] if len(pieces) == 1 else f"<mrow>{''.join(pieces)}</mrow>"

    def _with_scripts(self) -> str:
        names = LIMITS if self._coming in BELOW else SCRIPTS
        base, scripts = self._piece(), dict[str, str]()
        while self._coming in ("_", "^"):
            mark = self._take()
            if mark in scripts:
                raise ValueError(f"there are two {mark} at one place")
            scripts[mark] = self._piece()
        given = tuple(sorted(scripts, reverse=True))  # _ before ^
        name = names.get(given)
        return f"<{name}>{base}{''.join(scripts[mark] for mark in given)}</{name}>" if name else base

    def _group(self) -> str:
        self._take("{")
        made = self._row()
        self._take("}")
        return made

    def _piece(self) -> str:
        sign = self._coming
        if sign in WHERE_NOTHING_BEGINS:
            raise ValueError(f"something must stand before {sign or 'the end'}")
        if sign == "{":
            return self._group()
        self._at += 1
        if sign[0] == "\\":
            return COMMANDS.get(sign[1:]) or self._command(sign[1:])
        kind = "mn" if sign[0].isdigit() else "mi" if sign.isalpha() else ""
        return f"<{kind}>{sign}</{kind}>" if kind else TYPED.get(sign) or operator(sign)

    def _command(self, name: str) -> str:
        if name.startswith("text{"):
            return f"<mtext>{escape(name[5:-1])}</mtext>"
        if name == "frac":
            return f"<mfrac>{self._group()}{self._group()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self._group()}</msqrt>"
        if name != "left":
            raise ValueError(f"the command {name} is not known")
        left, inside, _, right = self._bracket(), self._row(), self._take(r"\right"), self._bracket()
        return f"<mrow><mo form='prefix'>{escape(left)}</mo>{inside}<mo form='postfix'>{escape(right)}</mo></mrow>"

    def _bracket(self) -> str:
        """Return the bracket after `left` or `right`: a sign, or the sign that a command names."""
        sign = self._take()
        if sign[0] != "\\":
            return sign
        if sign[1:] not in NORMS:
            raise ValueError(f"the command {sign[1:]} is no bracket")
        return NORMS[sign[1:]][0]


def _fence(renderer: RendererHTML, tokens: Sequence[Token], number: int, options: OptionsDict, env: EnvType) -> str:
    """Render a fenced block; one with an equation is typeset."""
    token = tokens[number]
    if token.info.strip() == LANGUAGE:
        with suppress(ValueError):
            return f"<div class='equation'>{mathml(token.content)}</div>\n"
    return renderer.fence(tokens, number, options, env)


_MARKDOWN = MarkdownIt("gfm-like", {"html": False}).disable("image")
if _MARKDOWN.linkify is not None:
    # Without this, the file name finding.py would become a link.
    _MARKDOWN.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
_MARKDOWN.add_render_rule("fence", _fence)
