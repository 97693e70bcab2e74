"""The documentation's site builds without network access, and a dead link fails the build."""

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


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run the command of `make docs`."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(site)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site in a folder."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "docs", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_a_page_of_every_kind(site):
    paths = list(site.rglob("*.html"))
    read = {path.relative_to(site).as_posix(): TAG.sub("", path.read_text(encoding="utf-8")) for path in paths}
    assert "make serve" in read["index.html"]
    assert "stability limit" in read["index.html"]
    assert "first lecture" in read["tutorial.html"]
    assert "forward Euler" in read["labs/diffusion.html"]
    assert "lab.advance" in read["notebooks/diffusion.html"]
    assert "predicted_bytes" in read["reference.html"]
    assert (site / "_images" / "diffusion.png").is_file()


def test_equations_of_notebooks_are_typeset(site):
    for name in ("diffusion", "l_curve"):
        page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert "<math display='block'>" in page
        assert "$" not in TAG.sub("", re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)), name


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


def test_the_reference_contains_timings_problems_and_own_kernels(site):
    page = (site / "reference.html").read_text(encoding="utf-8")
    for name in ("measure.timing.Timing", "labs.l_curve.problems.make", "own.way", "own.workload", "own.cuda_kernel"):
        assert f'id="compute.{name}"' in page, name


def test_the_site_loads_nothing_from_other_servers(site):
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](https?:)?//[^\"']+")
    for path in site.rglob("*.html"):
        assert not fetched.search(path.read_text(encoding="utf-8")), path


def test_a_dead_link_fails_the_build(tmp_path):
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "index.md").write_text("# Home\n\n[gone](gone.md)\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
