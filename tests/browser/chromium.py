"""Find a Chromium for the browser tests, or install one.

`python tests/browser/chromium.py` prints the path of a Chromium; `--install` installs one first if none is found:
Playwright's build or, if its server cannot be reached and this user may install packages, Debian's. The environment
variable CHROMIUM overrides the search.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# The headless shell is first: it needs two thirds of the full browser's CPU time to open a page.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = (
    "no Chromium for the browser tests. Install one: `apt-get install chromium-headless-shell` (Debian), "
    "`playwright install chromium` in this environment, or name yours: `CHROMIUM=/path/to/chrome make test`"
)


class NoChromiumError(RuntimeError):
    """No Chromium was found or could be installed; the message says how to install one."""


def playwrights_own() -> Path | None:
    """Return the Chromium that `playwright install` put into this user's cache, or None."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = Path(playwright.chromium.executable_path)
    return path if path.is_file() else None


def find() -> Path | None:
    """Return the first Chromium found: $CHROMIUM, NAMES on the PATH, Playwright's build; None if there is none.

    Raises NoChromiumError if $CHROMIUM is not an executable program.
    """
    if named := os.environ.get("CHROMIUM"):
        path = shutil.which(named)
        if path is None:
            raise NoChromiumError(f"CHROMIUM={named} is not a program that can be run")
        return Path(path)
    found = map(shutil.which, NAMES)
    return next((Path(path) for path in found if path), None) or playwrights_own()


def runs(command: Sequence[str]) -> bool:
    """Run a command and show its output; return False if it fails, takes longer than 600 s or does not exist."""
    print("$", *command, flush=True)
    try:
        return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=600).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        print(error, flush=True)
        return False


def apt() -> bool:
    """Install Debian's Chromium, as root or with a password-less sudo; return True on success."""
    if shutil.which("apt-get") is None:
        return False
    sudo = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    get = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes"]
    add = [*get, "install", "--no-install-recommends", "fonts-dejavu-core"]
    return runs([*add, NAMES[0]]) or (runs([*get, "update"]) and (runs([*add, NAMES[0]]) or runs([*add, "chromium"])))


def install() -> Path:
    """Install a Chromium with Playwright, else with apt; raise NoChromiumError if both fail."""
    playwright = [sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"]
    if (runs(playwright) and (path := find())) or (apt() and (path := find())):
        return path
    raise NoChromiumError(ADVICE)


def main(arguments: Sequence[str]) -> int:
    """Print the path of a Chromium, with --install after installing one if necessary; return the exit status."""
    try:
        path = find() or (install() if "--install" in arguments else None)
    except NoChromiumError as error:
        print(error, file=sys.stderr)
        return 1
    print(path or ADVICE, file=sys.stdout if path else sys.stderr)
    return 0 if path else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
