"""Run every command and Python program of README.md and docs/*.md, each document in an empty folder.

A block that begins with a file name in a comment (`# blur.py`, `// blur.cu`) is written to that file first. SMALLER
reduces long commands. ELSEWHERE lists the commands that need a GPU, a network or a server, with the reason; their
options are still parsed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compute.__main__ import parser_for
from tests.sources import ROOT

pytestmark = pytest.mark.extended

DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```([\w+]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
NAMED = re.compile(r"(?:#|//) (\w+\.\w+)")  # the first line of a block that becomes a file
SHELL = ("", "sh", "bash", "console")
PROGRAMS = ("fieldlab ", "make ", "panel ", "pip ", "python ", "python3 ", ".ci/", "docker", "systemctl ", "nvidia-smi",
            "FIELDLAB_LABS=")  # fmt: skip
NAME = re.compile(r"fieldlab (bench|try|race|render|sweep|new)")  # a command's name in a sentence
PLACEHOLDER = re.compile(r"\b(FILE|FOLDER|LAB|COMMAND|N|COPY|host:port)\b")

# Replacements that reduce the work of a command.
SMALLER = {
    "--size 7680x4320": "--size 768x432",
    "--frames 300": "--frames 3 --workers 1 --size 96x54",
    "--frames 120 --every 50": "--frames 3 --every 5 --workers 1",
    "--steps 500": "--steps 2 --workers 1",
    "noise=1e-6:0.1:x11 --vary dtype=float32,float64": "noise=1e-6:0.1:x2 --vary dtype=float32,float64 --workers 1",
    "--sizes 1000:1e6 --dtypes float32 --budget 60": "--dtypes float32",
    "try blur.py": "try blur.py --check-seconds 60 --budget 1 --sizes 100:1e5",
    "try damp.py": "try damp.py --check-seconds 60 --budget 1 --sizes 100:1e4",
    "race mandelbrot": "race mandelbrot --set max_iterations=50",
}
TIMEOUT = 300  # s for a whole document: the longest takes 30 on two cores
CODES = {"fieldlab learn check": 1}  # the exercise is still incomplete

# Commands that are not run, by their first words, with the reason.
ELSEWHERE = {
    "make": "makes an environment from the network; tests/project/test_make.py reads its targets",
    "pip install": "needs a network; tests/project/test_packaging.py installs the wheel",
    "python3 -m venv": "is followed by what needs a network",
    "nvidia-smi": "needs a GPU",
    "fieldlab info --webgpu": "needs a GPU; tests/compute/devices/test_webgpu.py",
    "panel serve": "a server; tests/browser/serving.py starts it",
    "FIELDLAB_LABS=FOLDER panel serve": "a server; tests/browser/test_plugins.py starts it",
    "fieldlab serve": "a server; tests/compute/test_start.py and tests/compute/cli/test_cli.py start it",
    "fieldlab try blur.py --check --watch": "does not end; tests/compute/own/test_try.py",
    "fieldlab try blur.py --open": "a server; tests/compute/own/test_opened.py",
    "fieldlab bench": "compares results and measures roofs for half a minute; tests/compute/cli/test_cli.py",
    "python -m pyperf": "a program of others, named with a file to come",
    "python -m app.upstream": "writes a page of the docs; tests/app/upstream/test_fixes.py compares it",
    "python -m app.server.first_screens": "compiles for minutes; tests/app/server/test_first_screens.py",
    "python -m compute.engine": "an engine, which a server starts",
    "python -m app.load.soak": "needs a server for minutes; tests/app/load/test_load.py",
    "python -m tests.browser": "needs a Chromium for minutes; tests/browser/test_sizes.py",
    "python -m tests.mutations": "runs tests for hours",
    "python -m tests.halves": "runs all tests",
    "python .ci/bounds.py": "needs a network",
    ".ci/conditions": "runs tests on machines of other kinds",
    "docker": "needs a container engine; tests/project/test_deploy.py reads the files",
    "systemctl": "needs a service manager; tests/project/test_deploy.py reads the files",
}


@dataclass(frozen=True)
class Document:
    """The commands and programs of one document, in order. files: by name; steps: (kind, text) for docs_programs."""

    files: dict[str, str]
    steps: list[tuple[str, str]]

    @classmethod
    def read(cls, text: str) -> Document:
        """Parse a document."""
        files: dict[str, str] = {}
        steps: list[tuple[str, str]] = []
        for language, body in FENCE.findall(text):
            named = NAMED.match(body)
            name = named[1] if named else f"block_{len(files)}.py"
            if named or language == "python":
                files[name] = body
            if language == "python":
                steps.append(("python", name))
            if language in SHELL:
                steps += [("command", line) for line in map(bare, body.splitlines()) if line.startswith(PROGRAMS)]
        inline = [bare(found) for found in INLINE.findall(FENCE.sub("", text))]
        steps += [("command", line) for line in inline if line.startswith(PROGRAMS) and not NAME.fullmatch(line)]
        return cls(files, list(dict.fromkeys(steps)))


def bare(line: str) -> str:
    """Return a line of a shell without its comment."""
    return re.split(r"\s+#", line.strip())[0]


def smaller(line: str) -> str:
    """Return a command with its work reduced."""
    for part, less in SMALLER.items():
        line = line.replace(part, less)
    return line


def excuse(line: str) -> str:
    """Return the reason for not running a command, "" if there is none."""
    return next((why for begin, why in ELSEWHERE.items() if line.startswith(begin)), "")


def runs(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the steps to run: programs, and commands without placeholders or a reason in ELSEWHERE."""
    return [
        (kind, text)
        for kind, text in steps
        if kind == "python" or not (excuse(text) or PLACEHOLDER.search(text) or not text.startswith("fieldlab "))
    ]


def commands() -> Iterator[tuple[str, str]]:
    """Yield (document, command) for all commands."""
    for name in DOCUMENTS:
        for kind, text in Document.read((ROOT / name).read_text(encoding="utf-8")).steps:
            if kind == "command":
                yield name, text


def ran(document: Document, folder: Path) -> list[str]:
    """Run a document in `folder`; return the failures."""
    steps = runs(document.steps)
    for name, body in document.files.items():
        (folder / name).write_text(body, encoding="utf-8")
    given = [(kind, smaller(text).removeprefix("fieldlab ")) for kind, text in steps]
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs_programs"],
        input=json.dumps(given), cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wrong = []
    for (_, text), (code, printed) in zip(steps, json.loads(done.stdout), strict=True):
        expected = next((code for begin, code in CODES.items() if text.startswith(begin)), 0)
        if code != expected or "Traceback" in printed:
            wrong.append(f"{text}: exit code {code}, not {expected}\n{printed}")
    return wrong


def test_failing_programs_and_timed_first_calls_are_reported(tmp_path):
    timed = """```python
from compute.labs.diffusion import Diffusion

lab = Diffusion(backend="cpu_numpy", ny=8, nx=8)
{warm}print(lab.advance(steps=3).step_seconds)
```
"""
    assert ran(Document.read(timed.format(warm="lab.advance(steps=3)\n")), tmp_path) == []
    (wrong,) = ran(Document.read(timed.format(warm="")), tmp_path)
    assert "the time of a first call is shown" in wrong
    (wrong,) = ran(Document.read("`fieldlab render diffusion`"), tmp_path)
    assert "exit code 2" in wrong


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if runs(Document.read((ROOT / name).read_text()).steps)])
def test_a_document_runs_in_an_empty_folder(name, tmp_path):
    wrong = ran(Document.read((ROOT / name).read_text(encoding="utf-8")), tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_every_command_is_run_or_has_a_reason_and_its_options_exist(capsys):
    for name, line in commands():
        words = shlex.split(line)
        if words[0] == "fieldlab" and not PLACEHOLDER.search(line):
            arguments = words[1:]
            parser = parser_for(arguments)
            if arguments not in (["--help"], ["--version"]):
                parser.parse_args(arguments)
        else:
            assert excuse(line) or PLACEHOLDER.search(line), f"{name}: {line}"
    assert capsys.readouterr().err == ""
