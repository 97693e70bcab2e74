"""The documentation's site: `make docs` builds it in build/site, without a network; whatever is doubtful fails it.

The README is the first page, and each lab's README a page; the notebooks are shown without results.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from app.equations import mathml

project = "Fieldlab"
copyright = "the Fieldlab developers"
version = release = version_of("fieldlab")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["notebooks/*.ipynb"]
html_theme = "furo"
html_title = "Fieldlab"
html_logo = "../assets/logo.svg"
html_favicon = "../assets/favicon.svg"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b75", "color-brand-content": "#0b6b75"},
    "dark_css_variables": {"color-brand-primary": "#5fd4e0", "color-brand-content": "#5fd4e0"},
}
html_copy_source = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
INCLUDED = re.compile(r"```\{include\} (\S+)\n```")
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?:deploy|compute|app|tests)[^)]*\)")
EQUATION = re.compile(r"```math\n(.*?)```", re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def fill(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put included files into their pages, their equations as MathML, and name files beside the documentation, such as
    deploy/nginx.conf: the site has no copy of them to link to.
    """
    folder = (Path(__file__).parent / name).parent
    text = INCLUDED.sub(lambda found: with_links((folder / found[1]).read_text(encoding="utf-8")), source[0])
    typeset = EQUATION.sub(lambda found: f"```{{raw}} html\n{mathml(found[1])}\n```", text)
    source[0] = OUTSIDE.sub(r"`\1`", typeset)


def with_links(text: str) -> str:
    """A text of the project's root with its links as the site has them."""

    def linked(link: re.Match[str]) -> str:
        """Where it leads from docs/."""
        path = PAGES.get(link[1], link[1].removeprefix("docs/"))
        return f"../{path}" if path.startswith(("assets/", "deploy/")) else path

    return LINK.sub(linked, text)


def as_written(_app: Sphinx, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
    """Our docstrings are plain text with `names`: nothing else in them is markup."""
    for number, line in enumerate(lines):
        parts = CODE.split(line)
        plain = (re.sub(r"([|*_\\])", r"\\\1", part) for part in parts[::2])
        code = (f"``{part}``" for part in (*parts[1::2], ""))
        lines[number] = "".join(text for pair in zip(plain, code, strict=True) for text in pair).removesuffix("````")


class Notebook(SphinxDirective):
    """`{notebook} NAME`: the cells of NAME.ipynb beside the page, as Markdown."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The cells; results are left out, as those of one machine do not belong into the repository."""
        path = Path(self.env.doc2path(self.env.docname)).with_name(f"{self.arguments[0]}.ipynb")
        self.env.note_dependency(str(path))
        parts = []
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        return self.parse_text_to_nodes("\n\n".join(parts), allow_section_headings=True)


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", as_written)
    app.add_directive("notebook", Notebook)
