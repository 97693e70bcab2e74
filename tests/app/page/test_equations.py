"""LaTeX equations as MathML, and foreign Markdown as HTML: accepted forms, errors, and no injected markup."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.page.equations import COMMANDS, ENVIRONMENTS, LONGEST, MOST_DEPTH, article, mathml
from app.tab.lab_view import parts_of
from compute.labs import LABS

AROUND = ("{}", "    {}", "```math\n{}\n```", "```math\n\\text{{{}}}\n```", "```x'><b\n{}\n```")

ALLOWED = {
    "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mstyle", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup",
    "munder", "mover", "munderover", "mtable", "mtr", "mtd",
}  # fmt: skip
HARMLESS = {
    "display", "stretchy", "fence", "form", "accent", "displaystyle", "movablelimits", "mathvariant", "scriptlevel",
    "columnalign", "width", "lspace", "rspace", "rowspacing", "columnspacing",
}  # fmt: skip
NORM = "<mrow><mo{0} form='prefix'>{1}</mo><mi>a</mi><mo{0} form='postfix'>{1}</mo></mrow>"
STRETCHED = " stretchy='true' fence='true'"
PIECES = st.sampled_from(
    [*(f"\\{name}" for name in sorted(COMMANDS)), *"ab12{}[]_^&'<>\"%$#\\ \n", "&lt;", "&#x3c;", r"\text{", r"\href{"]
)


def inside(latex: str) -> str:
    """Return the content of an equation, without the spacing of operators."""
    made = re.sub(r" stretchy='false'| [lr]space='[^']*'", "", mathml(latex))
    return made.removeprefix("<math display='block'>").removesuffix("</math>")


@pytest.mark.parametrize(
    ("latex", "made"),
    [
        ("u", "<mi>u</mi>"),
        ("12.5", "<mn>12.5</mn>"),
        ("a-b", "<mrow><mi>a</mi><mo>−</mo><mi>b</mi></mrow>"),
        (r"\lambda", "<mi>λ</mi>"),
        (r"\nabla^2 u", "<mrow><msup><mo>∇</mo><mn>2</mn></msup><mi>u</mi></mrow>"),
        ("x^{n+1}", "<msup><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>"),
        ("x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        (r"\frac{a}{b}", "<mfrac><mi>a</mi><mi>b</mi></mfrac>"),
        (r"\sqrt{a}", "<msqrt><mi>a</mi></msqrt>"),
        (r"\sqrt[3]{a}", "<mroot><mi>a</mi><mn>3</mn></mroot>"),
        (r"\min_x", "<munder><mo>min</mo><mi>x</mi></munder>"),
        (r"\sum_i^n", "<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>"),
        (r"\arg a", "<mrow><mo>arg</mo><mi>a</mi></mrow>"),
        (r"t_{\text{a b}}", "<msub><mi>t</mi><mtext>a\xa0b</mtext></msub>"),
        (r"\left| a \right|", NORM.format(STRETCHED, "|")),
        (r"\lVert a \rVert^2", f"<msup>{NORM.format(STRETCHED, '‖')}<mn>2</mn></msup>"),
        ("a < b", "<mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow>"),
        ("u'", "<msup><mi>u</mi><mi>′</mi></msup>"),
    ],
)
def test_each_form_of_an_equation(latex, made):
    assert inside(latex) == made


def test_function_names_have_the_spacing_of_operators():
    assert "<mo stretchy='false' lspace='0.17em' rspace='0.17em'>ln</mo>" in mathml(r"\ln 2")


def test_min_has_its_script_at_the_side_in_a_line_of_text():
    assert "<msub>" in mathml(r"\min_x", "inline")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_rows_are_aligned_at_their_marks(name):
    made = mathml(rf"\begin{{{name}}} a &= b \\ c &= d \end{{{name}}}")
    table = ET.fromstring(made).find(".//mtable")
    assert table is not None
    assert [["".join(cell.itertext()) for cell in row] for row in table] == [["a", "=b"], ["c", "=d"]]


@pytest.mark.parametrize(
    ("latex", "words"),
    [
        (r"\href{a}{b}", r"the command \href is not supported"),
        (r"\def\a{\a}\a", r"the command \def is not supported"),
        (r"\begin{document}", r"the command \begin{document} is not supported"),
        ("a\\", "the command \\ is not supported"),
        (r"\frac{a}", "mfrac needs 2 operands, not 1"),
        ("{a", "{ is not closed"),
        ("a}", "} has no matching {"),
        ("a_1_2", "DoubleSubscriptsError"),
        (r"\lVert a", r"no valid LaTeX"),
        (r"\left", r"\left is not closed"),
        (r"a \right)", r"\right has no matching \left"),
        ("a & b", "& is supported only in align*"),
        (r"a \\ b", "linebreak='newline' is not supported"),
        (r"\sqrt" * 400, "no valid LaTeX"),
        ("{" * (MOST_DEPTH + 1) + "}" * (MOST_DEPTH + 1), f"at most {MOST_DEPTH} groups"),
        ("a" * (LONGEST + 1), f"at most {LONGEST:,} characters"),
        ("", "no valid LaTeX"),
    ],
)
def test_an_unsupported_equation_is_refused_with_the_reason(latex, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        mathml(latex)


@settings(deadline=None)
@given(latex=st.lists(PIECES, max_size=40).map("".join))
def test_random_latex_is_refused_or_becomes_harmless_mathml(latex):
    try:
        made = mathml(latex)
    except ValueError:
        return
    for element in ET.fromstring(made).iter():
        assert element.tag in ALLOWED
        assert set(element.attrib) <= HARMLESS


def test_a_refused_equation_is_shown_as_latex():
    html = article("A\n\n```math\n\\href{javascript:x}{<b>}\n```\n")
    assert "<math" not in html
    assert "<b>" not in html
    assert r"\href{javascript:x}{&lt;b&gt;}" in html


@pytest.mark.parametrize("text", ["<script>x</script>", "a <b onclick=x>b</b>"])
@pytest.mark.parametrize("around", AROUND)
def test_hostile_text_is_never_markup(around, text):
    html = article(around.format(text))
    tags = {re.split(r"[ >]", part)[0].strip("/") for part in html.split("<")[1:]}
    assert tags <= {"div", "p", "pre", "code", "math", "mrow", "mi", "mn", "mo", "mtext"}
    assert unescape(re.sub(r"<[^>]*>|\s", "", html)).replace("−", "-") == re.sub(r"\s", "", text)


def test_only_web_addresses_become_links_and_no_picture_is_loaded():
    html = article("See finding.py, gpu_steps.cu and https://panel.holoviz.org.")
    assert re.findall('href="([^"]*)"', html) == ["https://panel.holoviz.org"]
    html = article("![see](https://elsewhere.example/x.png) [a](javascript:x)")
    assert "<img" not in html
    assert "href='javascript" not in html.replace('"', "'")


def test_an_article_is_always_one_block_of_markdown():
    html = article("One\n\n    a\n\n    b\n\n```\nc\n   \n\n\n*d*\n```\n")
    assert str(MarkdownIt("gfm-like").render(html)) == html
    assert unescape(html).count("a\n\nb\n") == 1
    assert unescape(html).count("c\n   \n\n\n*d*\n") == 1


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.LAB)
def test_every_equation_of_a_lab_is_typeset(lab):
    words = lab.about()
    equations = words.count("```math\n")
    assert equations >= 4
    html = parts_of(lab).about(lab)
    assert html.count("<math display='block'>") == equations
    assert "language-math" not in html
    assert "\n    " not in words  # it would become a code block
    assert not html.startswith(f"# {lab.TITLE}")  # the dialog shows the title
