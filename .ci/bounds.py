"""Start the page with the lowest or the newest versions that pyproject.toml allows: `python .ci/bounds.py lowest`.

uv installs Fieldlab into an environment that is thrown away. In an empty folder a server is started from there, and a
client opens a page and waits for frames of the diffusion lab. Exit code 1 if none comes; the output names the versions.

`pip install uv` first. It takes some minutes, as kernels are compiled for each environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}  # of uv: lowest-direct is what pyproject.toml names
EXTRAS = "video,data,notebook"
COMPILE = ("-m", "app.server.first_screens")  # otherwise a slow machine compiles during the measurement
PAGE = ("bench", "load", "--tabs", "1", "--seconds", "5", "--grid", "128", "--json")
PATIENCE = 900  # s until the page must have sent its frames


def installed(resolution: str, folder: Path) -> Path:
    """Install Fieldlab into a new environment in `folder`; return the folder of its programs."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    command = [*uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution, f"{ROOT}[{EXTRAS}]"]
    subprocess.run(command, check=True)
    subprocess.run([*uv, "pip", "list", "--python", python], check=True)
    return python.parent


def frames(programs: Path, folder: Path) -> float:
    """Return the frames a second that one page gets from a server of that environment, which knows no other."""
    empty = folder / "empty"
    empty.mkdir()
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    own = {**known, "CUDA_VISIBLE_DEVICES": "", "HOME": str(folder)}
    subprocess.run([programs / "python", *COMPILE], cwd=empty, env=own, check=True, timeout=PATIENCE)
    done = subprocess.run(
        [programs / "fieldlab", *PAGE],
        cwd=empty,
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode:
        raise SystemExit(f"no picture: {done.stderr.strip()}")
    (load,) = json.loads(done.stdout)["loads"]
    return float(load["frames"]["median"])


def main() -> None:
    """Try the resolution that the command line names."""
    if len(sys.argv) != 2 or sys.argv[1] not in RESOLUTIONS:
        raise SystemExit(f"one of {', '.join(RESOLUTIONS)} must be given")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        got = frames(installed(RESOLUTIONS[sys.argv[1]], folder), folder)
    if got <= 0:
        raise SystemExit("no picture: no frame came")
    print(f"{sys.argv[1]}: a page with {got:.0f} frames a second")


if __name__ == "__main__":
    main()
