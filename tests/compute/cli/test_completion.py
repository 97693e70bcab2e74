"""The completion script of bash completes commands, options, labs and files; that of zsh is valid."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from compute.__main__ import BAD_INPUT, OK, main
from compute.labs import labs

KNOWN = {lab.LAB for lab in labs()}
COMPLETED = {
    "fieldlab r": {"race", "render"},
    "fieldlab completion ": {"bash", "zsh"},
    "fieldlab serve --pub": {"--public"},
    "fieldlab equation wave --emit nu": {"numpy", "numba", "numba-cuda"},
    "fieldlab learn c": {"check"},
    "fieldlab bench ": KNOWN,
    "fieldlab race m": {"mandelbrot"},
    "fieldlab render ": KNOWN | {"picture.json", "tide"},
    "fieldlab serve --lab ": {"tide"},
    "fieldlab --lab ": {"tide"},
    "fieldlab render diffusion --out p": {"picture.json"},
    "fieldlab new ti": set(),
}
ASK = """
complete_words() {
  local function; function=$(complete -p fieldlab); function=${function#*-F }; function=${function%% *}
  COMPREPLY=(); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); $function; echo "${COMPREPLY[*]}"
}
"""


def bash_words(line: str) -> str:
    """Return a line as an array of bash; a trailing space begins an empty word."""
    return " ".join(f"'{word}'" for word in line.split(" "))


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_options_labs_and_files(tmp_path, capsys):
    assert main(["completion", "bash"]) == OK
    script = capsys.readouterr().out
    (tmp_path / "tide").mkdir()
    (tmp_path / "picture.json").touch()
    asked = "".join(f"COMP_WORDS=({bash_words(line)}); complete_words\n" for line in COMPLETED)
    done = subprocess.run(
        ["bash", "--norc"], input=script + ASK + asked, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stderr == ""
    found = [set(line.split()) for line in done.stdout.splitlines()]
    assert dict(zip(COMPLETED, found, strict=True)) == COMPLETED


def test_the_script_of_zsh_is_valid(capsys):
    assert main(["completion", "zsh"]) == OK
    script = capsys.readouterr().out
    assert script.startswith("#compdef fieldlab\n")
    assert f"compadd -- {' '.join(lab.LAB for lab in labs())}" in script
    if zsh := shutil.which("zsh"):
        subprocess.run([zsh, "-n"], input=script, text=True, check=True)


def test_another_shell_is_refused(capsys):
    assert main(["completion", "csh"]) == BAD_INPUT
    assert "invalid choice: 'csh'" in capsys.readouterr().err
