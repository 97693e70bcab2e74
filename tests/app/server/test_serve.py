"""`python -m app.server.serve`: options, addresses and limits of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from bokeh.server.util import create_hosts_allowlist

from app.server import access, serve
from compute.cli import serve_options, settings
from compute.own.exercises import files as exercises
from tests.app.served_page import run_script


@pytest.fixture(autouse=True)
def settings_restored(monkeypatch):
    monkeypatch.setenv(settings.VARIABLE, "")  # the setting that a server passes on is restored after the test


def test_nothing_is_served_after_ctrl_c_during_the_compilation(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "compile_first", interrupted)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it is served"))
    assert serve.main([]) == serve.INTERRUPTED
    assert "the server was not started" in capsys.readouterr().err


@pytest.fixture
def became(monkeypatch):
    """Return a function that runs `main`: the arguments of `panel serve` after the folder, and the address to print."""
    monkeypatch.setattr(serve, "compile_first", lambda: None)
    monkeypatch.setattr(serve_options, "require_address", lambda address: None)  # the addresses are not this machine's
    monkeypatch.setenv(serve.ADDRESS, "")

    def run(*arguments):
        ran = []
        monkeypatch.setattr(os, "execv", lambda path, command: ran.append(command))
        serve.main(arguments)
        (command,) = ran
        assert command[:6] == [sys.executable, "-P", "-m", "compute.start", "panel.command", "serve"]
        assert command[6].endswith("/app")
        return command[7:], os.environ[serve.ADDRESS]

    return run


def test_the_process_becomes_panel_serve_with_port_address_and_origins(became):
    plain = ["--address", "localhost", "--port", "5006"]
    assert became() == (plain, "http://localhost:5006/app")
    own, address = became("--port", "7777", "--address", "0.0.0.0", "--origin", "lecture:7777")
    origins = ["--allow-websocket-origin", "lecture:7777", "--allow-websocket-origin", "localhost:7777"]
    assert own == ["--address", "0.0.0.0", "--port", "7777", *origins]
    assert address == "http://lecture:7777/app"


def test_behind_a_proxy_a_path_and_the_visitors_addresses_are_used(became, monkeypatch, tmp_path):
    """Settings without an option of panel serve are passed in the environment."""
    for name in (serve.SESSIONS, serve.METRICS):
        monkeypatch.setenv(name, "unset")
    names = tmp_path / "names.json"
    names.write_text('{"course": "a long sentence"}')
    names.chmod(0o600)
    given = ["--prefix", "/lab", "--behind-proxy", "--sessions", "7", "--metrics", "--origin", "uni.example"]
    own, address = became(*given, "--auth", str(names))
    assert own[-5:] == ["--prefix", "/lab", "--use-xheaders", "--basic-auth", str(names)]
    assert address == "http://uni.example/lab/app"
    assert (os.environ["FIELDLAB_MAX_SESSIONS"], os.environ["FIELDLAB_METRICS"]) == ("7", "1")


def test_panel_serve_refuses_several_processes():
    """Without fieldlab serve, which refuses them in its own option."""
    command = [sys.executable, "-m", "panel", "serve", "app", "--port", "0", "--num-procs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "--num-procs must be 1, not 2" in done.stderr


def test_a_missing_folder_of_stories_is_refused_before_compilation(became, tmp_path, capsys):
    with pytest.raises(SystemExit):
        became("--stories", str(tmp_path / "absent"))
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listening", "port", "origins", "expected"),
    [
        ("localhost", 7777, [], "localhost:7777"),
        ("0.0.0.0", 5006, [], "localhost:5006"),
        ("0.0.0.0", 5006, ["lecture:5006"], "lecture:5006"),
        ("::", 5006, [], "localhost:5006"),
        ("FD00::0:7", 5006, [], "[fd00::7]:5006"),
    ],
)
def test_the_printed_address_can_be_opened(listening, port, origins, expected):
    assert serve.address(listening, port, origins) == f"http://{expected}/app"


@pytest.mark.parametrize(
    ("listening", "more", "allowed"),
    [
        ("::1", [], []),
        ("0.0.0.0", [], []),
        ("192.168.1.20", [], ["192.168.1.20:5006", "localhost:5006"]),
        ("lab.example", [], ["lab.example:5006", "localhost:5006"]),
        ("fd00::7", [], ["[fd00::7]:5006", "localhost:5006"]),
        ("192.168.1.20", ["--origin", "uni.example"], ["uni.example", "localhost:5006"]),
    ],
)
def test_the_printed_address_is_allowed(became, monkeypatch, listening, more, allowed):
    """Regression test: an address of this machine other than the loopback got 403 without --origin."""
    monkeypatch.setenv(serve.ORIGINS, "")
    monkeypatch.delenv(serve.ORIGINS)
    own, printed = became("--address", listening, *more)
    given = [origin for option, origin in pairwise(own) if option == "--allow-websocket-origin"]
    by_environment = [origin for origin in os.environ.get(serve.ORIGINS, "").split(",") if origin]
    taken = create_hosts_allowlist(given, 5006)  # parsed by Bokeh, which may refuse an origin
    assert given + by_environment == allowed
    host = urlsplit(printed).netloc
    assert access.is_allowed(host, by_environment or taken)
    assert not access.is_allowed("evil.example", by_environment or taken)
    monkeypatch.setenv(serve.ORIGINS, "lecture.example")  # which is kept
    became("--address", "fd00::7")
    assert os.environ[serve.ORIGINS] == "lecture.example"


LIMITED = """
import asyncio, resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
from app import app_hooks

async def main():
    app_hooks.bound_what_strangers_may_do()

asyncio.run(main())
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)
"""


def test_a_server_may_open_as_many_files_as_the_system_allows():
    """With a shell's limit of 1,024, 200 phones used up all descriptors, and every further connection failed."""
    pytest.importorskip("resource")
    done = run_script(LIMITED)
    allowed, hard = map(int, done.stdout.split())
    assert allowed == (serve.DESCRIPTORS if hard < 0 else min(serve.DESCRIPTORS, hard))


class Limits(SimpleNamespace):
    """A module `resource` that allows at most `most`, whatever the hard limit is."""

    RLIMIT_NOFILE, RLIM_INFINITY = 7, 2**63 - 1

    def getrlimit(self, which):
        return self.soft, self.hard

    def setrlimit(self, which, limits):
        if limits[0] > self.most:
            raise ValueError("current limit exceeds maximum limit")
        self.soft, self.hard = limits


@pytest.mark.parametrize(
    ("soft", "hard", "most", "becomes", "said"),
    [
        (1024, 4096, 4096, 4096, []),
        (1024, 2**20, 2**20, 2**16, []),
        (256, Limits.RLIM_INFINITY, 12_288, 10_240, []),  # macOS
        (Limits.RLIM_INFINITY, Limits.RLIM_INFINITY, 2**20, Limits.RLIM_INFINITY, []),
        (1024, 1024, 1024, 1024, ["1024 files", "64 tabs", "300 followers", "2548", "LimitNOFILE"]),
    ],
)
def test_the_limit_of_open_files_is_raised_to_the_hard_one(monkeypatch, caplog, soft, hard, most, becomes, said):
    system = Limits(soft=soft, hard=hard, most=most)
    monkeypatch.setitem(sys.modules, "resource", system)
    serve.raise_descriptor_limit()
    assert (system.soft, system.hard) == (becomes, hard)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == bool(said)
    assert all(part in warned[0] for part in said)
    monkeypatch.setitem(sys.modules, "resource", None)  # Windows has no such limit
    serve.raise_descriptor_limit()


def test_exercises_and_results_are_named_in_the_environment(became, tmp_path, monkeypatch, capsys):
    for name in (exercises.VARIABLE, exercises.RESULTS):
        monkeypatch.setenv(name, "")
    (tmp_path / "mine.py.txt").write_text('"""Mine."""\n# -- your code\n# -- end\n')
    (tmp_path / "mine.check.py").write_text("raise SystemExit('never run here')")
    became("--exercises", str(tmp_path), "--results", str(tmp_path / "ada.json"))
    assert os.environ[exercises.VARIABLE] == str(tmp_path.resolve())
    assert os.environ[exercises.RESULTS] == str((tmp_path / "ada.json").resolve())
    with pytest.raises(SystemExit):
        became("--exercises", str(tmp_path / "absent"))
    assert "absent does not exist" in capsys.readouterr().err
