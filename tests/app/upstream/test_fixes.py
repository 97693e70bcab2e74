"""Each fix can be switched on and off by name, and is off if a library has changed the code that it replaces."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import app.upstream
from app import app_hooks
from app.upstream import fixes
from app.upstream.__main__ import page
from app.upstream.fix import Code, Fix
from app.upstream.fixes import FIXES, chosen

FOLDER = Path(app.upstream.__file__).parent
NAMES = {fix.name for fix in FIXES}
ABLE = {fix.name for fix in FIXES if fix.is_needed and not fix.probe()}  # with the installed libraries


@pytest.fixture
def fresh():
    """Clear the cached states and script before and after the test."""
    fixes.states.cache_clear()
    fixes.script.cache_clear()
    yield
    fixes.states.cache_clear()
    fixes.script.cache_clear()


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.name)
def test_a_fix_is_one_module_and_knows_the_installed_library(fix):
    assert (FOLDER / f"{fix.name}.py").is_file()
    assert fix.install or fix.script
    assert fix.script in (None, FOLDER / f"{fix.name}.js")
    assert fix.replaces
    if ".".join(fix.version.split(".")[:2]) in fix.versions.split(", "):
        assert fix.is_needed
        assert fix.probe() == ""


def test_the_page_of_the_documentation_is_up_to_date():
    """`python -m app.upstream > docs/upstream.md` writes it."""
    assert (FOLDER.parents[1] / "docs" / "upstream.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(("version", "needed"), [("3.9.2", True), ("3.10.0", False), ("4.0", False)])
def test_a_fix_of_a_repaired_fault_is_not_needed(monkeypatch, fresh, version, needed):
    monkeypatch.setattr(Fix, "version", property(lambda fix: version))
    fix = replace(FIXES[0], repaired="3.10", replaces=())
    monkeypatch.setattr(fixes, "FIXES", (fix,))
    assert fix.is_needed == needed
    assert [fact["state"] for fact in fixes.facts()] == ["on" if needed else "not needed"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("bokeh.server.session:ServerSession.subscribe", "has changed"),
        ("bokeh.server.session:ServerSession.no_such_method", "is missing"),
        ("bokeh.no_such_module:name", "is missing"),
        ("bokeh/server/static/js/bokeh.js:Document.apply_json_patch", "has changed"),
        ("bokeh/server/static/js/bokeh.js:Document.no_such_method", "is missing"),
        ("bokeh/server/static/js/no_such_file.js:Document.apply_json_patch", "is missing"),
    ],
)
def test_a_fix_of_other_code_is_off_with_one_line_in_the_log(monkeypatch, caplog, fresh, place, words):
    other = replace(
        FIXES[0], name="other", replaces=(Code(place, ("0" * 12,)),), install=lambda: pytest.fail("installed")
    )
    monkeypatch.setattr(fixes, "FIXES", (other,))
    with caplog.at_level(logging.WARNING):
        fixes.install()
    (record,) = caplog.records
    assert "fix other is off" in record.getMessage()
    assert f"{place} {words}" in record.getMessage()
    (fact,) = fixes.facts()
    assert words in fact["state"]


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("all", NAMES),
        ("none", set()),
        ("pinch, press", {"pinch", "press"}),
        ("-pinch,-press", NAMES - {"pinch", "press"}),
    ],
)
def test_a_setting_switches_fixes_on(monkeypatch, fresh, setting, names):
    assert chosen(setting) == names
    monkeypatch.setenv("FIELDLAB_FIXES", setting)
    assert chosen() == names
    names = {name for name in names if name in ABLE}
    assert {fix.name for fix in fixes.active()} == names
    assert {fact["name"] for fact in fixes.facts() if fact["state"] == "on"} == names
    for fix in FIXES:
        assert (f"// {fix.name}:" in fixes.script()) == (fix.name in names and fix.script is not None)
    assert "</" not in fixes.script()  # which would end its element


@pytest.mark.parametrize(
    ("setting", "words"),
    [("pnch", "'pnch'"), ("none,pinch", "'none'"), ("", "''"), ("pinch,-press", "not both")],
)
def test_a_setting_that_names_no_fix_is_refused_and_no_server_starts_with_it(monkeypatch, setting, words):
    with pytest.raises(ValueError, match="FIELDLAB_FIXES must") as refused:
        chosen(setting)
    assert words in str(refused.value)
    monkeypatch.setenv("FIELDLAB_FIXES", setting)
    with pytest.raises(SystemExit, match="FIELDLAB_FIXES must"):
        app_hooks.change_panel_and_bokeh()
