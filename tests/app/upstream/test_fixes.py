"""Each fix of a library can be switched on and off by its name, in the server and in the browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app import app_hooks
from app.upstream.fixes import FIXES, chosen

SCRIPT = Path(app_hooks.__file__).parent / "static" / "bokeh_patches.js"
NAMES = {fix.name for fix in FIXES}


def test_every_fix_has_its_code_and_every_switch_its_fix():
    in_the_browser = set(re.findall(r"on\.has\('(\w+)'\)", SCRIPT.read_text(encoding="utf-8")))
    assert in_the_browser == {fix.name for fix in FIXES if fix.script}
    assert app_hooks.installers().keys() | in_the_browser | {"ready_page"} == NAMES
    assert len(FIXES) == len(NAMES)


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("all", NAMES),
        ("none", set()),
        ("pinch, type_size", {"pinch", "type_size"}),
        ("-pinch,-type_size", NAMES - {"pinch", "type_size"}),
    ],
)
def test_a_setting_switches_fixes_on(monkeypatch, setting, names):
    assert chosen(setting) == names
    monkeypatch.setenv("FIELDLAB_FIXES", setting)
    assert chosen() == names


@pytest.mark.parametrize(
    ("setting", "words"),
    [("pnch", "'pnch'"), ("none,pinch", "'none'"), ("", "''"), ("pinch,-type_size", "not both")],
)
def test_a_setting_that_names_no_fix_is_refused(setting, words):
    with pytest.raises(ValueError, match="FIELDLAB_FIXES must") as refused:
        chosen(setting)
    assert words in str(refused.value)


def test_a_server_with_such_a_setting_does_not_start(monkeypatch):
    monkeypatch.setenv("FIELDLAB_FIXES", "pnch")
    with pytest.raises(SystemExit, match="FIELDLAB_FIXES must be all, none or names of fixes, not 'pnch'"):
        app_hooks.change_panel_and_bokeh()
