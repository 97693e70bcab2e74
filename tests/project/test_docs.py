"""The documentation's site builds without network access and without dead links."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest
from sphinx.errors import ExtensionError

from compute.export.link import link_in_query, unpacked
from compute.export.scene import Scene
from compute.labs import LABS
from compute.stories import stories

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]
TAG = re.compile(r"<[^>]+>")
SMALL = {"l_curve": {"problem": "shaw", "n": 32}}  # a problem that is made in no time


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site in a folder, built by the command of `make docs`; a dead link is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_equations_of_notebooks_are_typeset(site):
    with_equations = [path for path in (ROOT / "docs" / "notebooks").glob("*.ipynb") if "$$" in path.read_text("utf-8")]
    assert len(with_equations) > 5
    for path in with_equations:
        page = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert "<math display='block'>" in page
        assert "$" not in TAG.sub("", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)), path


def parameter_rows(site, lab):
    """Return the cells of the reference's table of a lab by the parameter's name."""
    page = (site / "reference.html").read_text(encoding="utf-8")
    begin = page.index(f">{lab.__name__}<a")
    begin = page.index("<table", begin)
    table = page[begin : page.index("</table>", begin)]
    rows = [[unescape(TAG.sub("", cell)).strip() for cell in row.split("<td>")[1:]] for row in table.split("<tr")[2:]]
    assert "**values" not in page
    return {name: dict(zip(("default", "allowed", "unit", "example"), cells, strict=False)) for name, *cells in rows}


@pytest.mark.parametrize("lab", LABS)
def test_the_reference_has_every_parameter_with_default_bounds_unit_and_a_valid_example(site, lab):
    rows = parameter_rows(site, lab)
    assert list(rows) == [name for name in lab.param if name != "name"]
    for name, row in rows.items():
        parameter = lab.param[name]
        assert row["default"] == repr(parameter.default)
        assert row["unit"] == "".join(re.findall(r" \[(.+)\]$", parameter.label or "")), name
        for bound in getattr(parameter, "bounds", None) or ():
            assert bound is None or str(bound) in row["allowed"], name
        if row["example"]:
            value = ast.literal_eval(row["example"])
            Scene(lab.LAB, SMALL.get(lab.LAB, {}) | {name: value}).check()


def addresses(site, name):
    """Return the queries of the links of a page to a Fieldlab on this computer."""
    page = (site / name).read_text(encoding="utf-8")
    return [unescape(query) for query in re.findall(r'href="http://localhost:5006/app\?([^"]+)"', page)]


@pytest.mark.parametrize(("name", "least"), [("gallery.html", 40), ("lecturers.html", 10), ("students.html", 3)])
def test_links_to_states_and_stories_can_be_opened(site, name, least):
    found = addresses(site, name)
    assert len(found) >= least
    known = {f"story={story.name}" for story in stories().stories}
    for query in found:
        text, _ = link_in_query(query)
        assert unpacked(text).check() is None if text else query in known
    assert "state:" not in (site / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("link", ["state:diffusion?r=2", "state:diffusion?rr=0.1", "state:nolab", "story:nostory"])
def test_a_link_to_a_state_that_cannot_be_opened_stops_the_build(link, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    linked = import_module("site_parts").linked
    assert linked("[a](state:diffusion?r=0.1&run=1)").endswith("&run=1)")
    with pytest.raises(ExtensionError, match=re.escape(link)):
        linked(f"[a]({link})")


def test_pictures_of_the_first_page_exist_and_are_small(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    moving = re.findall(r'<img src="(_static/[^"]+)" data-still="([^"]+)"', page)
    assert len(moving) == len(LABS)
    sizes = [(site / name).stat().st_size for pair in moving for name in pair]
    assert min(sizes) > 0
    assert sum(sizes) < 3_000_000


def test_every_picture_and_page_that_a_page_names_exists(site):
    for path in site.rglob("*.html"):
        for link in re.findall(r'(?:src|href)="([^"#?]+)', path.read_text(encoding="utf-8")):
            if not re.match(r"https?:|data:|mailto:", link):
                assert (path.parent / unescape(link)).exists(), f"{path.relative_to(site)}: {link}"


def test_the_site_loads_nothing_from_other_servers(site):
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](https?:)?//[^\"']+")
    for path in site.rglob("*.html"):
        assert not fetched.search(path.read_text(encoding="utf-8")), path
