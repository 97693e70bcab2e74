"""The limits of a server: presets, a file and options, their priority, and that labs refuse values beyond them."""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import scipy
from msgspec import structs

from app.server import jupyter
from app.server.access import is_allowed
from compute import stories
from compute.cli import serve_options, settings
from compute.cli.settings import PRESETS, Settings, SettingsError
from compute.labs.crossover import Crossover
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve import LCurve
from compute.labs.l_curve.system import typical
from compute.labs.mandelbrot import Mandelbrot
from compute.labs.mandelbrot.views import LESSON_SHAPE, VIEWS

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "deploy.md"


def chosen(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve_options.add(parser)
    return serve_options.parse(parser, argv)


def found(*argv: str) -> Settings:
    return serve_options.settings_of(chosen(*argv))


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a settings file and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "course.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_options_override_the_file_and_the_file_overrides_the_preset(file):
    assert found() == PRESETS["laptop"]
    assert found("--public") == PRESETS["public"]
    path = file('preset = "public"\nsessions = 7\nexports = 5\nembed = ["https://course.example"]\n')
    of_file = structs.replace(PRESETS["public"], sessions=7, exports=5, embed=("https://course.example",))
    assert found("--settings", path) == of_file
    assert found("--settings", path, "--sessions", "9") == structs.replace(of_file, sessions=9)
    assert found("--settings", path, "--classroom").sessions == 7
    assert found("--settings", path, "--classroom").grid == PRESETS["classroom"].grid
    assert found("--settings", path, "--embed", "https://b.example").embed == ("https://b.example",)


def test_address_options_may_be_in_the_settings_file(file):
    path = file(
        'port = 7000\norigin = ["a.example", "b.example"]\nbehind_proxy = true\nmetrics = false\nprefix = "/lab"\n'
    )
    there = chosen("--settings", path, "--port", "8000")
    assert (there.port, there.origin) == (8000, ["a.example", "b.example"])
    assert (there.behind_proxy, there.metrics, there.prefix) == (True, False, "/lab")
    assert chosen("--settings", path, "--origin", "c.example").origin == ["c.example"]


WRONG = {
    "grid = 5": "grid: must be a whole number from 1048576 to 268435456, not '5'",
    "sessions = -1": "sessions: must be a whole number from 1 to 10000, not '-1'",
    "sessions = 1.5": "sessions must be a number, a text, or a list of texts, not 1.5",
    "gird = 5": "unknown setting 'gird'; known settings: address, ",
    'preset = "home"': "preset must be one of laptop, classroom, public, not 'home'",
    "metrics = 3": "metrics must be true or false, not 3",
    'embed = ["ftp://a"]': "embed must be like https://course.example",
    'embed = ["https://a; script-src *"]': "embed must be like https://course.example",
    f"embed = {[f'https://{n}.example' for n in range(21)]}": "embed must be",
    "port = 0": "port: must be 1 to 65535, not '0'",
    "a = " + "[" * 5000: "course.toml: ",
    "# " + "x" * 70_000: "has at most 65536 bytes",
    'settings = "other"': "unknown setting 'settings'",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_settings_file_is_refused_with_its_bound(text, file):
    with pytest.raises(SettingsError, match=re.escape(WRONG[text])):
        found("--settings", file(text))


def test_an_unreadable_settings_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        found("--settings", str(tmp_path))
    (tmp_path / "a").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="utf-8"):
        found("--settings", str(tmp_path / "a"))


PREFIXES = ["/a/../b", "", "a b", "/" + "x" * 50, "/a" * 9, "/ä", "lab", "//x"]
NUMBERS = {"--port": ["0", "65536", "٣"], "--sessions": ["0", "x"], "--disk": ["-1"]}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--public", "--laptop"], "--public"),
        *((["--prefix", text], "must be like /lectures/fieldlab") for text in PREFIXES),
        *(([name, text], f"{name}: ") for name, texts in NUMBERS.items() for text in texts),
    ],
)
def test_an_invalid_option_is_refused(argv, says, capsys):
    with pytest.raises(SystemExit):
        chosen(*argv)
    said = capsys.readouterr().err
    assert says in said
    assert argv[0] != "--port" or repr(argv[1]) in said


PASSWORDS = {
    '{"ada": "lovelace1815"}': "",
    '{"ada": "short"}': "at least 8 characters",
    '{"": "lovelace1815"}': "at least 8 characters",
    "{}": "at least 8 characters",
    '{"ada": 18151815}': "must be JSON",
    "ada:lovelace1815": "must be JSON",
}


@pytest.mark.parametrize("text", PASSWORDS)
def test_a_password_file_needs_long_passwords_and_private_permissions(text, tmp_path, capsys):
    path = tmp_path / "passwords.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    if not PASSWORDS[text]:
        assert chosen("--auth", str(path)).auth == path.resolve()
        path.chmod(0o640)
    with pytest.raises(SystemExit):
        chosen("--auth", str(path))
    assert (PASSWORDS[text] or "run chmod 600") in capsys.readouterr().err


def test_several_processes_are_refused_with_the_reason(capsys):
    assert chosen("--num-procs", "1").num_procs == 1
    with pytest.raises(SystemExit):
        chosen("--num-procs", "4")
    assert "must be 1, not '4': the processes would share neither engines nor" in capsys.readouterr().err


def test_the_jupyter_entry_starts_a_valid_serve_command():
    found = jupyter.server()
    begin = found["command"].index("serve")
    there = chosen(*(word.format(port=7000) for word in found["command"][begin + 1 :]))
    assert (there.address, there.port, there.preset) == ("127.0.0.1", 7000, "laptop")
    assert is_allowed(found["request_headers_override"]["Host"].format(port=7000), [])
    assert Path(found["launcher_entry"]["icon_path"]).is_file()
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert entry["jupyter_serverproxy_servers"] == {"fieldlab": "app.server.jupyter:server"}


def test_the_jupyter_command_runs_without_an_activated_environment(tmp_path):
    """Its PATH may lack the folder of `fieldlab`."""
    command = jupyter.server()["command"]
    begin = command[: command.index("serve") + 1]
    known = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    done = subprocess.run([*begin, "--help"], cwd=tmp_path, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--laptop" in done.stdout


def test_each_preset_is_within_the_bounds_and_stricter_than_the_one_before():
    for limit in settings.limits().values():
        values = [getattr(preset, limit.name) for preset in PRESETS.values()]
        assert all(limit.least <= value <= limit.most for value in values)
        unbounded = [value or 2**60 for value in values]
        assert unbounded == sorted(unbounded, reverse=True), limit.name


def test_the_guide_contains_the_current_table_of_settings():
    assert settings.table() in GUIDE.read_text(encoding="utf-8")


def test_invalid_settings_in_the_environment_are_refused(monkeypatch):
    for text in ("{", '{"sessions": 0}', '{"session": 3}', "[]"):
        monkeypatch.setenv(settings.VARIABLE, text)
        with pytest.raises(SettingsError):
            settings.current()


class TestLabs:
    """Labs refuse values beyond the limits of their server, and stay unchanged."""

    def test_the_largest_allowed_setting_means_no_limit(self, limited):
        limited()
        for name, size in (("grid", 65536**2), ("unknowns", 10**12), ("iterations", 10**9)):
            settings.require(name, size)
        limited(grid=2**28 - 1)
        with pytest.raises(ValueError, match="grid must be at most 268,435,455 on this server"):
            settings.require("grid", 65536**2)

    def test_a_too_large_grid_is_refused_at_creation_and_by_every_change(self, limited):
        limited(grid=2**20)
        with pytest.raises(ValueError, match=r"grid must be at most 1,048,576 on this server, not 4,194,304"):
            Diffusion(backend="cpu_numpy", ny=2048, nx=2048)
        with closing(Diffusion(backend="cpu_numpy", ny=16, nx=16)) as lab:
            for change in (lambda: lab.update(ny=1025, nx=1024), lambda: lab.require(ny=16384, nx=65)):
                with pytest.raises(ValueError, match="grid must be at most"):
                    change()
            lab.update(ny=16, nx=65)
            with pytest.raises(ValueError, match="grid must be at most"):
                lab.ny = 16384
            assert lab.field().shape == (16, 65)

    def test_too_many_iterations_and_unknowns_are_refused(self, limited):
        limited(iterations=10_000, unknowns=10_000)
        picture = Mandelbrot(backend="cpu_numpy", ny=4, nx=4, max_iterations=10_000)
        curve = LCurve(backend="cpu_numpy", problem="shaw", n=32)
        with closing(picture), closing(curve):
            for change in (lambda: picture.update(max_iterations=10_001), lambda: curve.update(steps_at_most=10_001)):
                with pytest.raises(ValueError, match=r"iterations must be at most 10,000 on this server, not 10,001"):
                    change()
        with pytest.raises(ValueError, match=r"unknowns must be at most 10,000 on this server, not 16,384"):
            LCurve(backend="cpu_numpy", problem="blur", n=128)

    def test_an_uploaded_matrix_counts_against_the_limit_of_unknowns(self, limited):
        limited(unknowns=10_000)
        wide = io.BytesIO()
        scipy.sparse.save_npz(wide, scipy.sparse.eye_array(3, 20_000, format="csr"))
        own = {"matrix": wide.getvalue(), "rhs": np.ones(3)}
        with closing(LCurve(backend="cpu_numpy", problem="shaw", n=32)) as lab:
            with pytest.raises(ValueError, match=r"unknowns must be at most 10,000 on this server, not 20,000"):
                lab.update(problem="own", options=own)
            assert (lab.problem, lab.n, lab.system.shape) == ("shaw", 32, (32, 32))
            lab.update(noise=0.1)

    def test_crossover_s_longest_call_is_limited(self, limited):
        limited(call_seconds=5)
        with closing(Crossover(longest=5.0)) as lab:
            with pytest.raises(ValueError, match=r"call_seconds must be at most 5 on this server, not 6"):
                lab.update(longest=5.5)
            assert lab.longest == 5.0

    def test_without_a_server_the_laptop_preset_applies(self):
        assert settings.current() == PRESETS["laptop"]
        assert Diffusion.SIZES["grid"]({"ny": 16384, "nx": 16384}) == settings.current().grid

    @pytest.mark.parametrize("preset", PRESETS)
    def test_every_story_and_view_is_allowed_by_every_preset(self, preset, monkeypatch):
        monkeypatch.setenv(settings.VARIABLE, "")
        settings.hand_on(PRESETS[preset])
        asked = [(Mandelbrot, {"max_iterations": view.max_iterations}) for view in VIEWS.values()]
        asked.append((Mandelbrot, dict(zip(("ny", "nx"), LESSON_SHAPE, strict=True))))
        asked += [(step.scene.kind, step.scene.values) for story in stories.stories().stories for step in story.steps]
        assert len(asked) > 40
        for kind, values in asked:
            whole = {name: one.default for name, one in kind.param.objects("existing").items()} | dict(values)
            if kind is LCurve and "n" not in values:
                whole["n"] = typical(whole["problem"])
            for name, size in kind.SIZES.items():
                settings.require(name, size(whole))
