"""The first seconds of a command, and its environment: Ctrl-C, the folder, the locale, the terminal width."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from rich.console import Console

from app.server import serve
from compute import start
from compute.__main__ import BAD_INPUT, OK, main
from compute.cli import serve_options
from compute.files.documents import readable
from compute.machine import info
from tests.sources import ROOT

pytestmark = pytest.mark.extended

SMALL = ["render", "diffusion", "--set", "ny=8", "--set", "nx=8", "--steps", "1"]

INTERRUPTED_AT = """if True:
    import os, signal, sys

    class Slow:
        "Ctrl-C comes while a large module is imported."
        def find_spec(self, name, path=None, target=None):
            if name == {name!r}:
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()

    sys.meta_path.insert(0, Slow())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import runpy
    sys.argv = {arguments!r}
    runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("module", "arguments", "name"),
    [
        ("compute", ["fieldlab", "info"], "numba"),
        ("compute", ["fieldlab", "serve"], "rich"),
        ("app.server.serve", ["serve"], "msgspec"),
        ("compute.start", ["start", "panel.command", "serve", "app", "--port", "0"], "panel"),
    ],
)
def test_ctrl_c_during_imports_prints_one_line(module, arguments, name):
    code = INTERRUPTED_AT.format(name=name, module=module, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, "fieldlab: interrupted; nothing was saved\n")


def run(*arguments, cwd=None, **environment):
    code = "import sys; from compute.start import main; sys.exit(main())"
    here = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}  # noqa: PTH109 - for a deleted folder
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=300, check=False, cwd=cwd, env=here
    )


def test_a_deleted_working_folder_is_reported(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    program = "from compute.start import main; exit(main())"
    command = f"cd {folder} && rmdir {folder} && exec {sys.executable} -c '{program}' info"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == BAD_INPUT
    assert done.stderr.startswith("fieldlab: the working folder cannot be used, change to another one: ")
    assert len(done.stderr.splitlines()) == 1


BARE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_output_in_ascii_escapes_what_it_cannot_write(tmp_path):
    done = run(*SMALL, "--out", str(tmp_path / "é.png"), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (OK, rb"wrote " + os.fsencode(tmp_path) + rb"/\xe9.png")
    done = run("info", "--json", PYTHONIOENCODING="ascii")
    assert done.returncode == OK
    assert json.loads(done.stdout.decode("ascii"))["backends"]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes")
def test_file_names_beyond_the_locale_are_read_and_written(tmp_path):
    for name, said in (("é".encode(), "é"), (b"b\xe4d", r"b\xe4d")):
        path = os.fsencode(tmp_path) + b"/" + name + b".png"
        done = run(*SMALL, "--set", "text=é", "--out", path, **BARE)
        assert done.returncode == OK, done.stderr
        assert b"Traceback" not in done.stderr
        with open(path + b".json", encoding="utf-8") as beside:  # noqa: PTH123 - a name in bytes
            found = json.load(beside)
        assert found["made"]["file"] == f"{said}.png"
        assert f"{said}.png" in found["made"]["command"].replace("\\\\", "\\")
        assert found["values"]["text"] == "é"
        done = run("render", path, "--out", os.fsencode(tmp_path) + b"/" + name + b".npz", **BARE)
        assert done.returncode == OK, done.stderr


def test_a_readable_name_decodes_its_bytes():
    assert readable("é") == "é"
    assert readable(os.fsdecode("é".encode())) == "é"
    assert readable("\udcc3\udca9") == "é"
    assert readable("b\udce4d") == r"b\xe4d"


def test_an_install_command_is_never_wrapped():
    install = "pip install 'fieldlab[cuda13]'  # with a driver below 580: 'fieldlab[cuda12]'"
    absent = {"name": "gpu_cupy", "label": "CUDA C", "device": "cuda", "missing": "not here", "install": install}
    out = io.StringIO()
    info.show({**info.facts(), "backends": [absent]}, Console(file=out, width=40))
    assert f"    {install}" in out.getvalue().splitlines()


def test_info_at_forty_columns_is_complete(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["info"]) == OK
    printed = capsys.readouterr().out
    assert "…" not in printed
    for backend in info.facts()["backends"]:
        assert not backend["install"] or backend["install"] in printed


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == OK
    assert re.match(r"fieldlab \S+", capsys.readouterr().out)


# -- where to serve


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--origin", "nonsense"], "must be HOST:PORT"),
        (["--origin", "http://lecture:5006"], "must be HOST:PORT without a scheme"),
        (["--origin", "lecture:0"], "must be HOST:PORT"),
        (["--origin", "lecture:70000"], "must be HOST:PORT"),
        (["--origin", "lecture:5006/app"], "must be HOST:PORT"),
        (["--origin", ""], "must be HOST:PORT"),
        (["--prefix", "nope"], "must be like /lectures/fieldlab"),
        (["--prefix", "/"], "must be like /lectures/fieldlab"),
    ],
)
def test_invalid_addresses_are_refused_before_compilation(arguments, says, monkeypatch, capsys):
    monkeypatch.setattr(serve, "compile_first", lambda: pytest.fail("it compiles"))
    assert main(["serve", *arguments]) == BAD_INPUT
    assert says in capsys.readouterr().err
    with pytest.raises(SystemExit):
        serve.main(arguments)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "origin",
    [
        *("lecture:5006", "localhost", "lectures.example", "*.example:443"),
        *("192.168.1.20", "[::1]:5006", "[fd00::7]", "a_b:80"),
    ],
)
def test_valid_origins_are_accepted(origin):
    assert serve_options.origin(origin) == origin


def test_an_unusable_address_is_refused_before_compilation(monkeypatch, capsys):
    monkeypatch.setattr(serve, "compile_first", lambda: pytest.fail("it compiles"))
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it serves"))

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert main(["serve", "--address", "nope.invalid"]) == BAD_INPUT
    assert "address: 'nope.invalid' cannot be resolved: Name or service not known" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        serve.main(["--address", "nope.invalid"])
    monkeypatch.setattr(socket, "getaddrinfo", known)
    assert main(["serve", "--address", "192.0.2.1"]) == BAD_INPUT  # of RFC 5737: assigned to no machine
    assert "address: '192.0.2.1' cannot be bound on this machine" in capsys.readouterr().err
    assert main(["serve", "--address", "a" * 300]) == BAD_INPUT
    for address in ("localhost", "127.0.0.1", "0.0.0.0"):
        serve_options.require_address(address)


def test_streams_without_an_encoding_are_left_alone():
    start.accept_every_character(io.StringIO())


def test_modules_in_the_working_folder_do_not_hide_fieldlab(tmp_path):
    """Without -P, `python -m` would import them first."""
    for name in ("app", "compute"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__name__} of the working folder')\n")
    script = "from compute.start import become; become('app.server.serve', '--help')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--origin" in done.stdout
