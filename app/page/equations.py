"""Conversion of Markdown to HTML with typeset equations, for the texts of About and of the lessons.

A displayed equation is a fenced block "```math" of LaTeX, as on GitHub. latex2mathml converts it to MathML, which
browsers typeset and screen readers speak without any script. The Markdown may come from others: HTML in it is escaped.
Length, nesting and commands of an equation are checked before the conversion; elements, attributes and their values
after it. A block that fails a check is shown as LaTeX code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from html import escape, unescape
from xml.etree.ElementTree import Element

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

LANGUAGE = "math"  # after the fence
LONGEST, MOST_DEPTH = 2000, 20  # characters of an equation, and nesting depth of its groups
MOST_ELEMENT_DEPTH = 80  # nesting depth of MathML elements; a group becomes at most three of them
ENVIRONMENTS = ("align*", "split", "matrix", "pmatrix", "bmatrix", "vmatrix", "cases")
_NAMES = r"""
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar infty
    nabla partial cdot times div pm mp le leq ge geq ne neq ll gg approx sim simeq equiv propto in notin subset cup cap
    to leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow mapsto forall exists sum prod int oint
    dots ldots cdots vdots ddots circ ast dagger perp prime lVert rVert lvert rvert langle rangle lceil rceil lfloor
    rfloor sin cos tan cot sinh cosh tanh arcsin arccos arctan exp log ln min max sup inf lim arg det dim
    frac sqrt text left right limits mathbf mathrm mathit mathcal mathbb hat bar tilde vec dot ddot overline
    quad qquad , : ; \ { } | _ % #"""
COMMANDS = {*_NAMES.split(), *(f"{edge}{{{name}}}" for name in ENVIRONMENTS for edge in ("begin", "end"))}
COMMAND = re.compile(r"\\((?:begin|end)\{[^{}]*\}|[A-Za-z]+|.?)", re.DOTALL)
CLOSING = {"}": "{", r"\right": r"\left", r"\end": r"\begin"}
GROUP = re.compile(r"\\(?:left|right|begin|end)(?![A-Za-z])|\\.|[{}]", re.DOTALL)
NORM = re.compile(r"(?<!\\left)(?<!\\right)\\([lr])([Vv]ert)(?![A-Za-z])")
CHARACTER = re.compile(r"&#x[0-9A-Fa-f]+;")  # a character in the texts of latex2mathml

TEXTS = ("mi", "mn", "mo", "mtext")
OPERANDS = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3}
ELEMENTS = frozenset((*TEXTS, *OPERANDS, "mrow", "msqrt", "mspace", "mstyle", "mtable", "mtr", "mtd"))
LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}  # of min, max and lim in a displayed equation
FLAG, LENGTH = "true|false", r"[0-3](?:\.\d{1,4})?(?:em|pt)?"
ATTRIBUTES = {
    **dict.fromkeys(("stretchy", "fence", "accent", "displaystyle", "movablelimits"), FLAG),
    "form": "prefix|postfix",
    "mathvariant": "[a-z-]{1,22}",
    "scriptlevel": "[0-2]",
    "columnalign": "left|center|right",
    **dict.fromkeys(("width", "lspace", "rspace"), LENGTH),
    **dict.fromkeys(("rowspacing", "columnspacing"), rf"{LENGTH}(?: {LENGTH}){{0,40}}"),
}


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
    from latex2mathml.converter import convert_to_element  # reads a table of 2,700 symbols

    _check(latex)
    # A norm bar of its own would be an infix operator, spaced like one.
    paired = NORM.sub(lambda bar: rf"\{'left' if bar[1] == 'l' else 'right'}\{bar[1]}{bar[2]}", latex)
    try:
        row = convert_to_element(paired, display=display)[0]
    except Exception as error:  # the library's errors have no common class, and some are StopIteration
        raise ValueError(f"the equation is no valid LaTeX: {type(error).__name__}") from error
    return f"<math display='{display}'>{_written(row, display == 'block')}</math>"


def _check(latex: str) -> None:
    """Raise ValueError for an equation that exceeds a bound, has an unknown command or an unpaired bracket."""
    if len(latex) > LONGEST:
        raise ValueError(f"an equation has at most {LONGEST:,} characters, not {len(latex):,}")
    for command in COMMAND.findall(latex):
        if command not in COMMANDS:
            raise ValueError(f"the command \\{command} is not supported")
    opened: list[str] = []
    for sign in GROUP.findall(latex):
        if sign in CLOSING:
            if not opened or opened.pop() != CLOSING[sign]:
                raise ValueError(f"{sign} has no matching {CLOSING[sign]}")
        elif sign in CLOSING.values():
            opened.append(sign)
        if len(opened) > MOST_DEPTH:
            raise ValueError(f"at most {MOST_DEPTH} groups may be nested")
    if opened:
        raise ValueError(f"{opened[-1]} is not closed")


def _written(element: Element, block: bool, depth: int = 0) -> str:
    """Return an element as MathML text; ValueError for an element, attribute or value that is not allowed."""
    tag, text, children = element.tag, _text(element), list(element)
    if tag not in ELEMENTS or depth > MOST_ELEMENT_DEPTH or (children and tag in TEXTS) or (text and tag not in TEXTS):
        raise ValueError(f"{tag} is not supported here")
    if len(children) != OPERANDS.get(tag, len(children)):
        raise ValueError(f"{tag} needs {OPERANDS[tag]} operands, not {len(children)}")
    for name, value in element.attrib.items():
        if not re.fullmatch(ATTRIBUTES.get(name, "(?!)"), value):
            raise ValueError(f"{name}={value!r} is not supported")
    if tag == "mrow" and len(children) == 1:
        return _written(children[0], block, depth + 1)
    attributes = element.attrib
    if tag in ("mi", "mo") and len(text) > 1 and text.isalpha():  # the name of a function
        tag, attributes = "mo", {"stretchy": "false", "lspace": "0.17em", "rspace": "0.17em"}
    if block and tag in LIMITS and _text(children[0]) in ("min", "max", "sup", "inf", "lim", "det"):
        tag = LIMITS[tag]
    listed = "".join(f" {name}='{value}'" for name, value in attributes.items())
    content = escape(text) + "".join(_written(child, block, depth + 1) for child in children)
    return f"<{tag}{listed}>{content}</{tag}>"


def _text(element: Element) -> str:
    """Return the text of an element as plain characters; ValueError for an alignment mark outside a table."""
    if element.text == "&":
        raise ValueError(f"& is supported only in {', '.join(sorted(ENVIRONMENTS))}")
    text = CHARACTER.sub(lambda found: unescape(found[0]), element.text or "")
    return text.removeprefix("\\") if element.tag == "mi" else text  # a name without a symbol: \\arg


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
