"""The documentation's site is built without a network, and a link that leads nowhere fails it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TAG = re.compile(r"<[^>]+>")


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(source), str(site)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as files."""
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


def test_it_asks_for_nothing_elsewhere(site):
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"'](https?:)?//[^\"']+")
    for path in site.rglob("*.html"):
        assert not fetched.search(path.read_text(encoding="utf-8")), path


def test_a_link_that_leads_nowhere_fails_it(tmp_path):
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "index.md").write_text("# Home\n\n[gone](gone.md)\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
