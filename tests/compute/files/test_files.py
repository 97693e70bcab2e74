"""Writing files: only regular files are replaced, links are kept, and refusals precede the work."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
import zarr

from compute.__main__ import BAD_INPUT, OK, main
from compute.export import commands
from compute.export.film import Film
from compute.export.formats import write_zipped_zarr
from compute.export.scene import Scene
from compute.files.files import require_writable, whole, whole_file
from tests.in_process import InProcess

SMALL = ["--set", "ny=12", "--set", "nx=12", "--steps", "2"]
HEAT = ["render", "diffusion", *SMALL]
SWEEP = ["sweep", "diffusion", "--vary", "ny=8,9", "--steps", "1"]


def test_zarr_replaces_an_older_group_but_no_other_files(tmp_path, capsys):
    folder, file = tmp_path / "heat.zarr", tmp_path / "file.zarr"
    folder.mkdir()  # empty
    assert main([*HEAT, "--out", str(folder)]) == OK
    assert main([*HEAT, "--set", "seed=3", "--out", str(folder)]) == OK
    assert zarr.open_group(str(folder), mode="r").attrs["fieldlab"]["scene"]["values"]["seed"] == 3
    (tmp_path / "my.zarr").mkdir()
    for foreign in (tmp_path / "my.zarr" / "notes.txt", folder / "notes.txt", folder / "field" / "notes.txt", file):
        foreign.write_text("mine")
        out = next(path for path in (foreign, *foreign.parents) if path.suffix == ".zarr")
        assert main([*HEAT, "--out", str(out)]) == BAD_INPUT
        assert ("is a file, not a Zarr folder" if foreign is file else "notes.txt") in capsys.readouterr().err
        assert foreign.read_text() == "mine"
        foreign.unlink()
    assert main([*HEAT, "--out", str(folder)]) == OK


def test_a_link_to_a_zarr_folder_is_followed(tmp_path):
    (tmp_path / "data.zarr").mkdir()
    link = tmp_path / "link.zarr"
    link.symlink_to("data.zarr")
    for _ in range(2):
        assert main([*HEAT, "--out", str(link)]) == OK
        assert link.is_symlink()
        assert (tmp_path / "data.zarr" / "zarr.json").is_file()


def test_a_zipped_zarr_does_not_change_the_folder_of_that_name(tmp_path):
    beside = tmp_path / "heat.zarr"
    beside.mkdir()
    (beside / "thesis.txt").write_text("years of work")
    write_zipped_zarr(Film(Scene("diffusion", {"ny": 8, "nx": 8}), frames=1), tmp_path / "heat.zarr.zip")
    assert (beside / "thesis.txt").read_text() == "years of work"
    store = zarr.storage.ZipStore(tmp_path / "heat.zarr.zip", mode="r")
    assert zarr.open_group(store, mode="r")["field"].shape == (1, 8, 8)
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.zarr", "heat.zarr.zip", "heat.zarr.zip.json"]


@pytest.mark.parametrize(("arguments", "name"), [([*SWEEP], "a.csv.rows"), ([*HEAT, "--frames", "2"], "a.gif.frames")])
def test_a_folder_with_the_name_of_the_parts_keeps_its_files(tmp_path, monkeypatch, capsys, arguments, name):
    monkeypatch.setattr(commands, "pool_for", lambda *_: InProcess())
    (tmp_path / name).mkdir()
    kept = tmp_path / name / "thesis.txt"
    kept.write_text("years of work")
    out = ["--out", str(tmp_path / name.rpartition(".")[0])]
    assert main([*arguments, *out]) == BAD_INPUT
    assert f"{name} holds thesis.txt" in capsys.readouterr().err
    assert kept.read_text() == "years of work"


def test_a_table_goes_into_a_pipe_behind_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "pool_for", lambda *_: InProcess())
    pipe, link, came = tmp_path / "pipe", tmp_path / "a.csv", []
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reading = threading.Thread(target=lambda: came.append(pipe.read_bytes()), daemon=True)
    reading.start()
    assert main([*SWEEP, "--out", str(link)]) == OK
    reading.join(60)
    assert len(came[0].splitlines()) == 3
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert not list(tmp_path.glob("*.part"))


def test_a_device_is_written_through(tmp_path):
    main_end, other_end = os.openpty()
    try:
        device = tmp_path / "device"
        device.symlink_to(os.ttyname(other_end))
        require_writable(device)
        with whole(device) as out:
            out.write("whole\n")
        assert os.read(main_end, 100).split() == [b"whole"]
        assert device.is_symlink()
        assert device.is_char_device()
    finally:
        os.close(main_end)
        os.close(other_end)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors have no names here")
def test_an_open_descriptor_is_appended_to_like_dev_stdout(tmp_path):
    """Like /dev/stdout in `command >> log`: the content of the log is kept."""
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{descriptor}")
    try:
        with whole(link) as out:
            out.write("table\n")
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)
    assert log.read_text() == "before\ntable\nafter\n"


def test_a_link_stays_and_its_file_is_replaced_with_its_mode(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "a.txt", tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to("far/a.txt")
    with whole(link) as out:
        out.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    dangling = tmp_path / "b.txt"
    dangling.symlink_to("far/b.txt")
    with whole(dangling) as out:
        out.write("new")
    assert dangling.is_symlink()
    assert (tmp_path / "far" / "b.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("name", "says"),
    [("folder", "is a folder, not a file"), ("file/a.png", "file is not a folder"), ("loop", "cannot be written: ")],
)
def test_an_unwritable_path_is_refused_before_the_work(tmp_path, name, says):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=re.escape(says)):
        require_writable(tmp_path / name)
    require_writable(tmp_path / "new" / "a.npz")
    assert list((tmp_path / "new").iterdir()) == []


def test_an_unwritable_folder_is_refused_before_the_work(tmp_path, monkeypatch):
    """Also if the old file itself is writable: the new file replaces it."""
    path = tmp_path / "a.txt"
    path.write_text("old")

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    with pytest.raises(ValueError, match=r"a\.txt cannot be written: Permission denied"):
        require_writable(path)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc here")
def test_proc_is_not_reported_as_a_full_disk(capsys):
    assert main([*HEAT, "--out", "/proc/x.png"]) == BAD_INPUT
    printed = capsys.readouterr().err
    assert "/proc/x.png cannot be written" in printed
    assert "full" not in printed
    with pytest.raises(OSError, match="No such file") as refused, whole_file(Path("/proc/x.png")):
        pass
    assert "full" not in str(refused.value)
