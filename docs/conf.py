"""The documentation's site: `make docs` builds it in build/site, without a network; whatever is doubtful fails it.

Each lab's README is a page; the notebooks are shown without results. Two extensions lie next to this file.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from app.page.equations import mathml

sys.path.insert(0, str(Path(__file__).parent))  # the extensions next to this file
from site_parts import linked

project = "Fieldlab"
copyright = "the Fieldlab developers"
version = release = version_of("fieldlab")
extensions = ["myst_parser", "sphinx.ext.autodoc", "parameter_tables", "site_parts"]
exclude_patterns = ["notebooks/*.ipynb"]
html_theme = "furo"
html_title = "Fieldlab"
html_logo = "../assets/logo.svg"
html_favicon = html_logo
html_static_path = ["images/moving", "../assets/thumbnails", "static"]
html_css_files = ["site.css"]
html_js_files = ["moving.js"]
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
DOLLARS = re.compile(r"(\$\$?)(?=\S)([^$]+?)(?<=\S)\1")  # an equation of a notebook, alone or in a line
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def fill(_app: Sphinx, name: str, source: list[str]) -> None:
    """Put included files into their pages, their equations as MathML, and name files outside the documentation, such as
    deploy/nginx.conf: the site has no copy of them to link to.
    """
    folder = (Path(__file__).parent / name).parent
    text = INCLUDED.sub(lambda found: with_links((folder / found[1]).read_text(encoding="utf-8")), source[0])
    set_apart = EQUATION.sub(lambda found: f"```{{raw}} html\n{mathml(found[1])}\n```", text)
    source[0] = linked(OUTSIDE.sub(r"`\1`", set_apart))


def with_links(text: str) -> str:
    """A text of the project's root with its links as the site has them."""

    def linked(link: re.Match[str]) -> str:
        """Where it leads from docs/."""
        path = PAGES.get(link[1], link[1].removeprefix("docs/"))
        return f"../{path}" if path.startswith("deploy/") else path

    return LINK.sub(linked, text)


def as_written(_app: Sphinx, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
    """Our docstrings are plain text with `names`: nothing else in them is markup."""
    for number, line in enumerate(lines):
        parts = CODE.split(line)
        plain = (re.sub(r"([|*_\\])", r"\\\1", part) for part in parts[::2])
        code = (f"``{part}``" for part in (*parts[1::2], ""))
        lines[number] = "".join(text for pair in zip(plain, code, strict=True) for text in pair).removesuffix("````")


def typeset(text: str) -> str:
    """Return the text of a notebook's cell with its equations as MathML, which needs nothing from a network."""
    return DOLLARS.sub(lambda found: mathml(found[2], "block" if found[1] == "$$" else "inline"), text)


def buttons(notebook: str, project: Path = Path(__file__).parents[1] / "pyproject.toml") -> str:
    """Return the links that open a notebook of docs/notebooks on Colab and Binder, from the repository's URL in
    pyproject.toml; "" without one.
    """
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get("urls", {})
    at, _, repository = urls.get("Repository", "").rstrip("/").removesuffix(".git").partition("://github.com/")
    if at != "https":
        return ""
    colab = f"https://colab.research.google.com/github/{repository}/blob/main/docs/notebooks/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{repository}/main?urlpath=lab/tree/docs/notebooks/{notebook}"
    return f"[Open in Colab]({colab}) · [Open in Binder]({binder})"


class Notebook(SphinxDirective):
    """`{notebook} NAME`: the cells of NAME.ipynb in the page's folder, as Markdown."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The cells; results are left out, as those of one machine do not belong into the repository."""
        path = Path(self.env.doc2path(self.env.docname)).with_name(f"{self.arguments[0]}.ipynb")
        self.env.note_dependency(str(path))
        parts = [buttons(path.name)]
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            parts.append(typeset(text) if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        return self.parse_text_to_nodes("\n\n".join(parts), allow_section_headings=True)


class Citation(SphinxDirective):
    """`{citation}`: the entry of CITATION.cff as BibTeX."""

    def run(self) -> list[nodes.Node]:
        """Return the entry as a code block."""
        path = Path(__file__).parents[1] / "CITATION.cff"
        self.env.note_dependency(str(path))
        cited = yaml.safe_load(path.read_text(encoding="utf-8"))
        entry = {"author": authors(cited), "title": cited["title"], "version": cited["version"]}
        entry |= {"url": url} if (url := cited.get("repository-code", cited.get("url"))) else {}
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in entry.items())
        return self.parse_text_to_nodes(f"```bibtex\n@software{{fieldlab,\n{lines},\n}}\n```")


def authors(cited: dict[str, Any]) -> str:
    """Return the authors of a citation as BibTeX writes them; a group stands in braces."""
    return " and ".join(
        f"{person['family-names']}, {person['given-names']}" if "family-names" in person else f"{{{person['name']}}}"
        for person in cited["authors"]
    )


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", as_written)
    app.add_directive("notebook", Notebook)
    app.add_directive("citation", Citation)
