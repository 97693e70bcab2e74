"""The documentation's site builds without network access and without dead links."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.mandelbrot import Mandelbrot

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]
TAG = re.compile(r"<[^>]+>")


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


@pytest.mark.parametrize("lab", [Diffusion, Mandelbrot, LCurve])
def test_the_reference_names_every_parameter_with_default_and_bounds(site, lab):
    page = (site / "reference.html").read_text(encoding="utf-8")
    begin = page.index(f">{lab.__name__}<a")
    table = page[begin : page.index("</table>", begin)]
    rows = [[TAG.sub("", cell).strip() for cell in row.split("<td>")[1:]] for row in table.split("<tr")[2:]]
    described = {row[0]: row[1:] for row in rows}
    assert list(described) == [name for name in lab.param if name != "name"]
    for name, (default, allowed, _) in described.items():
        parameter = lab.param[name]
        assert unescape(default) == repr(parameter.default)
        for bound in getattr(parameter, "bounds", None) or ():
            assert bound is None or str(bound) in allowed, name
    assert "**values" not in page


def test_the_site_loads_nothing_from_other_servers(site):
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](https?:)?//[^\"']+")
    for path in site.rglob("*.html"):
        assert not fetched.search(path.read_text(encoding="utf-8")), path
