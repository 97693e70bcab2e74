"""The app works without any of its features: each folder of app/features can be deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.served_page import CLIENT
from tests.sources import ROOT

pytestmark = pytest.mark.extended

FOLDERS = sorted(path.parent.name for path in (ROOT / "app" / "features").glob("*/__init__.py"))
# A served page whose browser reports that it is ready, chooses each tab in turn, and presses the keys of all features.
# Prints the names of the features, the labs that were shown, and the log's errors.
SCRIPT = (
    CLIENT
    + """
import logging, sys
import panel as pn
import app.app_hooks
from app.features import features
from app.page import lab_choice
from app.page.page import Page

lab_choice.DRAWN = 1  # no browser draws the labs here
errors, pages, shown, install = [], [], [], [feature.install for feature in features()]

class Errors(logging.Handler):
    def emit(self, record):
        errors.append(self.format(record))

def page():
    pn.extension(reconnect=True)
    pages.append(Page())
    pages[0].servable()

def act(work):
    done = asyncio.get_running_loop().create_future()
    def call():
        work()
        done.set_result(None)
    pages[0].document.add_next_tick_callback(call)
    return asyncio.wait_for(done, 120)

async def main():
    logging.getLogger().addHandler(Errors(logging.ERROR))
    for each in install:
        each()
    send, message, _ = await opened(page)
    data = {"type": "event", "name": "document_ready", "values": {"type": "map", "entries": []}}
    await send("1", "PATCH-DOC", {"events": [{"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data}]})
    reading = asyncio.create_task(drain(message))
    while not pages or pages[0].current is None:
        await asyncio.sleep(0.1)
    one = pages[0]
    for number, lab in enumerate(one.labs.labs):
        await act(lambda: setattr(one.shell.tabs, "active", number))
        while one.current.session.lab is not lab:
            await asyncio.sleep(0.1)
        shown.append(lab.LAB)
        for key in [key for feature in one.features for key in feature.keys]:
            for _ in range(2):
                await act(lambda: one.press(key))
    reading.cancel()
    told = {"features": [feature.name for feature in one.features], "shown": shown, "errors": errors}
    sys.stdout.write(json.dumps(told))
    sys.stdout.flush()
    app.server.admission.session_limiter().engines.close()

async def drain(message):
    while True:
        await message()

import os
asyncio.run(asyncio.wait_for(main(), 280))
os._exit(0)
"""
)


@pytest.mark.parametrize("absent", ["", *FOLDERS])
def test_the_app_shows_all_labs_without_a_feature(absent: str, tmp_path: Path) -> None:
    """absent: the deleted folder, "" for none."""
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("compute", "assets", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    if absent:
        shutil.rmtree(tmp_path / "app" / "features" / absent)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert told["errors"] == []
    assert sorted(told["features"]) == [name for name in FOLDERS if name != absent]
    assert told["shown"] == ["diffusion", "mandelbrot", "l_curve", "crossover", "equations"]


def test_features_do_not_name_one_another() -> None:
    """Nothing outside a feature's folder names it, except the tests."""
    named = [
        f"{path.relative_to(ROOT)} names {folder}"
        for path in (ROOT / "app").rglob("*.py")
        for folder in FOLDERS
        if f"app.features.{folder}" in path.read_text(encoding="utf-8")
        if ROOT / "app" / "features" / folder not in path.parents
    ]
    assert named == []
