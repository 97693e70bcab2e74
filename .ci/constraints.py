"""Write constraints.txt: every package that core and extras need, at one version for all Pythons where there is one.

It runs uv's resolver, which sees every Python version and platform at once, and keeps names and versions; a marker
stays only where two versions are needed. cuda12 is left out: it contradicts cuda13.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = ("dev", "video", "data", "cluster", "cuda13")
HEAD = "# Versions that Fieldlab is tested with. Written by `make constraints`; a bound belongs into pyproject.toml.\n"
NOT_YET = "python_full_version >= '3.15'"  # resolved for, but no such Python is supported by Numba


def pins(resolved: str) -> list[str]:
    """The lines of a resolution as constraints: a marker stays only where a package has two versions."""
    rows = [line.partition(";") for line in resolved.splitlines() if line.strip() and NOT_YET not in line]
    names = [re.split("==", row[0])[0] for row in rows]
    return [
        f"{row[0].strip()} ; {row[2].strip()}" if names.count(name) > 1 else row[0].strip()
        for name, row in zip(names, rows, strict=True)
    ]


def main() -> None:
    """Resolve pyproject.toml and write constraints.txt beside it."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--fork-strategy", "fewest"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--python-version", "3.11", "--no-header", "--no-annotate", *extras],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(pins(done.stdout)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
