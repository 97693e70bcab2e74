"""Commands, files, extras and pictures named in the README exist. tests/project/test_docs_run.py runs the commands."""

from __future__ import annotations

import re
import shlex
import tomllib

from tests.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FROM_ENVIRONMENT = {"CHROMIUM", "UPDATE_SCREENSHOTS"}  # read by the tests
OWN_FOLDERS = ("app", "compute", "assets", "tests", "docs", ".ci")


def blocks(text, *languages):
    """Return the fenced blocks of some languages."""
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(text):
    """Return the lines of shell blocks and the commands in backticks, without comments."""
    lines = [line for body in blocks(text, "sh", "bash", "console") for line in body.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    return [re.split(r"\s+#", line.strip())[0] for line in lines + inline if line.strip()]


def make_targets(text):
    """Return the make targets in the text."""
    words = [shlex.split(line) for line in commands(text) if re.search(r"\bmake ", line)]
    return {word for line in words for word in line[line.index("make") + 1 :] if "=" not in word}


def make_variables(text):
    words = [shlex.split(line) for line in commands(text) if re.search(r"\bmake ", line)]
    return {word.split("=")[0] for line in words for word in line if "=" in word}


def extras(text):
    return {name for found in re.findall(r"\.\[([\w,-]+)\]", text) for name in found.split(",")}


def paths(text):
    """Return the project's files and folders in backticks, and the targets of links."""
    named = re.findall(r"`((?:[\w.]+/)+[\w./-]*)`", FENCE.sub("", text))
    linked = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    return {name for name in named if name.split("/")[0] in OWN_FOLDERS} | set(linked)


def test_names_are_extracted():
    text = """See `app/none.py`, [a link](docs/none.md), `make nothing ARGS="-k x" PORT=1`.
```sh
make serve EXTRAS=cuda13   # a comment
pip install -e '.[cuda99,video]'
```
"""
    assert make_targets(text) == {"nothing", "serve"}
    assert make_variables(text) == {"ARGS", "PORT", "EXTRAS"}

    assert extras(text) == {"cuda99", "video"}
    assert paths(text) == {"app/none.py", "docs/none.md"}


def test_make_targets_and_variables_exist():
    known = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert {"serve", "test"} <= make_targets(README)
    assert make_targets(README) - known == set()
    variables = set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, re.MULTILINE))
    assert make_variables(README) - variables - FROM_ENVIRONMENT == set()


def test_extras_exist():
    assert {"cuda12", "cuda13"} <= extras(README)
    assert extras(README) - set(PROJECT["optional-dependencies"]) == set()


def test_files_named_exist():
    assert "assets/screenshots/diffusion.png" in paths(README)
    assert [name for name in sorted(paths(README)) if not (ROOT / name).exists()] == []
