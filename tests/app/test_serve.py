"""`python -m app.serve`: what is said while kernels are compiled, and that nothing about it keeps the page away."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from contextlib import suppress

import psutil
import pytest

from app import serve
from compute import kernel_cache, settings

SAY = "import json, sys\nfor line in {lines}: print(json.dumps(line), flush=True)\nsys.exit({code})"
DONE = [["began", 1, 2, "the wave kernels"], ["ended", 1, 3, 4.4], ["began", 2, 2, "the rest"], ["ended", 2, 0, 0.2]]


@pytest.fixture(autouse=True)
def stale(monkeypatch):
    monkeypatch.setattr(kernel_cache, "is_current", lambda: False)
    monkeypatch.setenv(settings.VARIABLE, "")  # what a server hands on stays in its test


def said(lines, code=0):
    out = io.StringIO()
    serve.compile_first(out, [sys.executable, "-c", SAY.format(lines=lines, code=code)])
    return out.getvalue().splitlines()


def test_each_part_is_said_in_words_and_seconds():
    begin, *parts = said(DONE)
    assert "Compiling what the first screens need" in begin
    assert parts == ["compiling the wave kernels 1 of 2, 4 s", "compiling the rest 2 of 2, 0 s"]


def test_a_part_that_failed_is_said_and_the_rest_goes_on():
    _, first, second = said([DONE[0], ["failed", 1, "no room"], *DONE[2:]], code=1)
    assert "compiling the wave kernels 1 of 2: failed" in first
    assert "no room" in first
    assert second == "compiling the rest 2 of 2, 0 s"


@pytest.mark.parametrize("lines", [[["hello"]], [["began"]], [7], ["ended"]])
def test_what_is_not_understood_is_said_and_does_no_harm(lines):
    assert said(lines)[-1].startswith("not compiled in advance, but when the page needs it: not understood")


def test_a_reader_that_starts_late_does_no_harm(monkeypatch):
    """Its process is given up at the first line, and ended, when the reader has not begun yet or reads another."""

    class Late(threading.Thread):
        def start(self):
            readers.append(self)
            super().start()

        def run(self):
            begin.wait(60)
            super().run()

    begin, readers = threading.Event(), []
    monkeypatch.setattr(serve.threading, "Thread", Late)
    monkeypatch.setattr(serve, "MOST_SECONDS", 0.0)
    assert "it took longer than" in said([["hello"]])[-1]
    begin.set()
    readers[0].join(60)  # what it raises is an error of this test


def test_a_process_that_dies_or_cannot_be_started_is_said():
    assert "the compiling process ended with 3" in said(DONE[:1], code=3)[-1]
    out = io.StringIO()
    serve.compile_first(out, ["/dev/null/no-such-program"])
    assert "not compiled in advance" in out.getvalue()


def test_one_that_never_ends_is_given_up_and_ended(monkeypatch):
    monkeypatch.setattr(serve, "MOST_SECONDS", 0.3)
    out = io.StringIO()
    serve.compile_first(out, [sys.executable, "-c", "import time; time.sleep(600)"])
    assert "it took longer than" in out.getvalue()
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it ends just now
            assert "time.sleep(600)" not in " ".join(child.cmdline())


def test_on_a_terminal_seconds_are_counted():
    now = [0.0]
    out = io.StringIO()
    progress = serve.CompileProgress(out, live=True, clock=lambda: now[0])
    progress._take(DONE[0])
    now[0] = 3.2
    progress._show_seconds()
    assert out.getvalue().endswith(f"{serve.CLEAR_LINE}compiling the wave kernels 1 of 2, 3 s")
    progress._take(DONE[1])
    assert out.getvalue().endswith(f"{serve.CLEAR_LINE}compiling the wave kernels 1 of 2, 4 s\n")


def test_what_was_compiled_is_not_compiled_again(monkeypatch):
    monkeypatch.setattr(kernel_cache, "is_current", lambda: True)
    assert said(DONE) == []


def test_ctrl_c_ends_it_with_its_process_and_nothing_is_served(monkeypatch, capsys):
    def interrupted(self, process, lines):
        seen.append(process)
        raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr(serve.CompileProgress, "follow", interrupted)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(serve.compile_first, "__defaults__", (io.StringIO(), sleeper))
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it is served"))
    assert serve.main([]) == serve.INTERRUPTED
    assert "nothing is served" in capsys.readouterr().err
    end = time.monotonic() + 120
    while seen[0].poll() is None:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def became(monkeypatch):
    """What the process becomes: the arguments of `panel serve` behind the folder, and the address to print."""
    monkeypatch.setattr(serve, "compile_first", lambda: None)
    monkeypatch.setenv(serve.ADDRESS, "")

    def run(*arguments):
        ran = []
        monkeypatch.setattr(os, "execv", lambda path, command: ran.append(command))
        serve.main(arguments)
        (command,) = ran
        assert command[:4] == [sys.executable, "-m", "panel", "serve"]
        assert command[4].endswith("/app")
        return command[5:], os.environ[serve.ADDRESS]

    return run


def test_it_becomes_panel_serve_with_port_address_and_origins(became):
    plain = ["--address", "localhost", "--port", "5006"]
    assert became() == (plain, "http://localhost:5006/app")
    own, address = became("--port", "7777", "--address", "0.0.0.0", "--origin", "lecture:7777")
    origins = ["--allow-websocket-origin", "lecture:7777", "--allow-websocket-origin", "localhost:7777"]
    assert own == ["--address", "0.0.0.0", "--port", "7777", *origins]
    assert address == "http://lecture:7777/app"


def test_behind_a_proxy_it_takes_a_path_and_the_visitors_addresses(became, monkeypatch):
    """What panel serve has no option for goes through the environment."""
    for name in (serve.SESSIONS, serve.METRICS):
        monkeypatch.setenv(name, "unset")
    given = ["--prefix", "lab", "--behind-proxy", "--sessions", "7", "--metrics", "--origin", "uni.example"]
    own, address = became(*given)
    assert own[-3:] == ["--prefix", "/lab", "--use-xheaders"]
    assert address == "http://uni.example/lab/app"
    assert (os.environ["FIELDLAB_MAX_SESSIONS"], os.environ["FIELDLAB_METRICS"]) == ("7", "1")


def test_who_must_log_in_comes_back_under_the_path(became, monkeypatch, tmp_path):
    """The secret of its cookies is no argument, which everybody on the machine could read."""
    monkeypatch.setenv(serve.COOKIES, "")
    monkeypatch.delenv(serve.COOKIES)
    names = tmp_path / "names.json"
    names.write_text('{"course": "a long sentence"}')
    names.chmod(0o600)
    own, _ = became("--auth", str(names), "--prefix", "/lab")
    assert own[own.index("--basic-auth") + 1] == str(names)
    assert own[own.index("--root-path") + 1] == "/lab/"
    assert os.environ[serve.COOKIES] not in own
    own, _ = became("--auth", str(names))
    assert "--root-path" not in own


def test_a_folder_of_stories_that_is_none_is_refused_before_anything_is_compiled(became, tmp_path, capsys):
    with pytest.raises(SystemExit):
        became("--stories", str(tmp_path / "absent"))
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("listening", "port", "origins", "expected"),
    [
        ("localhost", 7777, [], "localhost:7777"),
        ("0.0.0.0", 5006, [], "localhost:5006"),
        ("0.0.0.0", 5006, ["lecture:5006"], "lecture:5006"),
        ("10.0.0.7", 80, [], "10.0.0.7:80"),
    ],
)
def test_the_address_that_is_printed_can_be_opened(listening, port, origins, expected):
    assert serve.address(listening, port, origins) == f"http://{expected}/app"
