"""LaTeX equations as MathML, and foreign Markdown as HTML: every form, every error, and no injected markup."""

from __future__ import annotations

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from app.page.equations import LONGEST, MOST_DEPTH, article, mathml
from app.tab.lab_view import parts_of
from compute.labs import LABS

AROUND = ("{}", "    {}", "```math\n{}\n```", "```math\n\\text{{{}}}\n```", "```x'><b\n{}\n```")
NO_SPACE = re.compile(r"\s+")


def inside(latex: str) -> str:
    """Return the content of an equation's row, without the attributes for spacing."""
    made = re.sub(r" stretchy='false'| [lr]space='[^']*'", "", mathml(latex))
    return made.removeprefix("<math display='block'>").removesuffix("</math>")


@pytest.mark.parametrize(
    ("latex", "made"),
    [
        ("u", "<mi>u</mi>"),
        ("12.5", "<mn>12.5</mn>"),
        ("a-b", "<mrow><mi>a</mi><mo>−</mo><mi>b</mi></mrow>"),
        (r"\lambda", "<mi>λ</mi>"),
        ("x_1", "<msub><mi>x</mi><mn>1</mn></msub>"),
        ("x^{n+1}", "<msup><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>"),
        ("x^2_i", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        ("x_i^2", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        (r"\frac{a}{b}", "<mfrac><mi>a</mi><mi>b</mi></mfrac>"),
        (r"\sqrt{a}", "<msqrt><mi>a</mi></msqrt>"),
        (r"\min_x", "<munder><mo>min</mo><mi>x</mi></munder>"),
        (r"\sum_i^n", "<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>"),
        (r"t_{\text{a b}}", "<msub><mi>t</mi><mtext>a b</mtext></msub>"),
        (r"\left( a \right)", "<mrow><mo form='prefix'>(</mo><mi>a</mi><mo form='postfix'>)</mo></mrow>"),
        (r"\left\lVert a \right\rVert", "<mrow><mo form='prefix'>‖</mo><mi>a</mi><mo form='postfix'>‖</mo></mrow>"),
        (r"\left\lvert a \right\rvert", "<mrow><mo form='prefix'>|</mo><mi>a</mi><mo form='postfix'>|</mo></mrow>"),
        ("a < b", "<mrow><mi>a</mi><mo>&lt;</mo><mi>b</mi></mrow>"),
        ("u'", "<mrow><mi>u</mi><mo>′</mo></mrow>"),
    ],
)
def test_each_form_of_an_equation(latex, made):
    assert inside(latex) == made


@pytest.mark.parametrize(
    ("latex", "words"),
    [
        (r"\href{a}{b}", "the command href is not known"),
        (r"\frac{a}", "must stand before the end"),
        (r"\frac a b", "{ must stand before a"),
        ("{a", "} must stand before the end"),
        ("a}", "nothing begins before }"),
        ("_a", "something must stand before _"),
        ("a_", "something must stand before the end"),
        ("a_1_2", "there are two _"),
        (r"\left\nabla a \right)", "the command nabla is no bracket"),
        (r"\left", "something must stand before the end"),
        (r"\left( a", "must stand before the end"),
        (r"a \right)", "nothing begins before"),
        ("a & b", "something must stand before &"),
        ("{" * (MOST_DEPTH + 1) + "}" * (MOST_DEPTH + 1), f"at most {MOST_DEPTH} groups"),
        ("a" * (LONGEST + 1), f"at most {LONGEST:,} characters"),
    ],
)
def test_what_is_not_understood_is_told(latex, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        mathml(latex)


def test_an_equation_that_is_not_understood_stays_latex():
    html = article("A\n\n```math\n\\href{javascript:x}{<b>}\n```\n")
    assert "<math" not in html
    assert "<b>" not in html
    assert r"\href{javascript:x}{&lt;b&gt;}" in html


@pytest.mark.parametrize("text", ["<script>x</script>", "<img src=x onerror=x>", "a <b onclick=x>b</b>", "<style>x"])
@pytest.mark.parametrize("around", AROUND)
def test_hostile_text_is_never_markup(around, text):
    html = article(around.format(text))
    tags = {re.split(r"[ >]", part)[0].strip("/") for part in html.split("<")[1:]}
    assert tags <= {"div", "p", "pre", "code", "math", "mrow", "mi", "mn", "mo", "mtext"}
    assert unescape(re.sub(r"<[^>]*>|\s", "", html)).replace("−", "-") == NO_SPACE.sub("", text)


def test_names_of_files_are_no_links_and_addresses_are():
    html = article("See finding.py, gpu_steps.cu and https://panel.holoviz.org.")
    assert re.findall('href="([^"]*)"', html) == ["https://panel.holoviz.org"]


def test_pictures_are_not_asked_for_and_no_link_runs():
    html = article("![see](https://elsewhere.example/x.png) [a](javascript:x)")
    assert "<img" not in html
    assert "href='javascript" not in html.replace('"', "'")


def test_an_article_is_one_block_of_markdown_whatever_is_in_it():
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
