"""Limits of a container, from control groups of both versions: threads, memory, refusals and conditions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from compute.__main__ import main
from compute.devices.devices import Host, cpu_count
from compute.lab.lab import OutOfMemory
from compute.labs.diffusion import Diffusion
from compute.labs.l_curve.problems.checks import require_memory
from compute.machine import container, machine
from compute.machine.system import CpuReading, Reading, SystemReader
from compute.measure import conditions
from compute.measure.conditions import Watch

GIB = 2**30


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Return a function that writes files of control groups: groups(own, {path: text})."""

    def write(own, files):
        (tmp_path / "own").write_text(own)
        for name, text in files.items():
            path = tmp_path / "sys" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        monkeypatch.setattr(container, "OWN", tmp_path / "own")
        monkeypatch.setattr(container, "ROOT", tmp_path / "sys")

    return write


def second(cpu="max 100000", memory="max", current=0, inactive=0, folder=""):
    return {
        f"{folder}cpu.max": cpu, f"{folder}memory.max": memory, f"{folder}memory.current": current,
        f"{folder}memory.stat": f"anon 1\ninactive_file {inactive}", f"{folder}cpu.stat": "nr_periods 9",
    }  # fmt: skip


def test_without_control_groups_there_is_no_limit(groups, tmp_path, monkeypatch):
    monkeypatch.setattr(container, "OWN", tmp_path / "nowhere")
    assert (container.processors(), container.memory_limit(), container.throttled_seconds()) == (None, None, None)
    assert container.limits() == {}
    assert container.total_memory() == psutil.virtual_memory().total
    for own in ("", "nonsense", "0::/\n", "x:y\n:::\n"):
        groups(own, {"cpu.max": "what is this", "memory.max": "much", "memory.current": "?"})
        assert (container.processors(), container.memory_limit()) == (None, None)


def test_version_2_in_a_container(groups):
    """The container sees its own group as the root."""
    groups("0::/\n", second("150000 100000", 2 * GIB, GIB, GIB // 2))
    assert container.processors() == 1.5
    assert container.memory_limit() == 2 * GIB
    assert container.available_memory() == 2 * GIB - GIB // 2
    groups("0::/\n", second())
    assert (container.processors(), container.memory_limit()) == (None, None)


def test_version_2_uses_the_strictest_of_all_enclosing_groups(groups):
    groups(
        "0::/system.slice/fieldlab.service\n",
        second("400000 100000", 8 * GIB, GIB, folder="system.slice/")
        | second("300000 100000", "max", folder="system.slice/fieldlab.service/"),
    )
    assert container.processors() == 3
    assert container.memory_limit() == 8 * GIB
    groups("0::/a/b\n", second("50000 100000", GIB, folder="a/b/") | second("400000 100000", 8 * GIB, folder="a/"))
    assert (container.processors(), container.memory_limit()) == (0.5, GIB)


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("path", ["docker/abc", ""])
def test_version_1(groups, mount, path):
    """In a container the path is that of the host, and the mounted folder is the container's group."""
    inner = f"{path}/" if path else ""
    groups(
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n",
        {
            f"{mount}/{inner}cpu.cfs_quota_us": 200_000, f"{mount}/{inner}cpu.cfs_period_us": 50_000,
            f"{mount}/{inner}cpu.stat": "nr_throttled 3\nthrottled_time 2500000000",
            f"memory/{inner}memory.limit_in_bytes": 3 * GIB, f"memory/{inner}memory.usage_in_bytes": 2 * GIB,
            f"memory/{inner}memory.stat": f"total_inactive_file {GIB}",
        },
    )  # fmt: skip
    assert container.processors() == 4
    assert container.memory_limit() == 3 * GIB
    assert container.available_memory() <= 2 * GIB
    assert container.throttled_seconds() == 2.5
    groups("4:cpu:/\n5:memory:/\n", {
        "cpu/cpu.cfs_quota_us": -1, "cpu/cpu.cfs_period_us": 100_000, "memory/memory.limit_in_bytes": 2**63 - 4096,
        "memory/memory.usage_in_bytes": 5,
    })  # fmt: skip
    if not path:
        assert container.memory_limit() is None


def test_threads_fit_the_quota_which_may_change(groups, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    for quota, count in ((50_000, 1), (150_000, 1), (200_000, 2), (350_000, 3), (9_900_000, 4)):
        groups("0::/\n", second(f"{quota} 100000"))
        assert cpu_count() == Host().describe()["cores"] == count


@pytest.mark.parametrize(("chosen", "threads"), [({}, 1), ({"NUMBA_NUM_THREADS": "2"}, 2)])
def test_numba_has_as_many_threads_as_processors_unless_the_user_chooses(chosen, threads):
    """In a separate process, whose threads have not started."""
    code = """if True:
        from compute.machine import container
        container.processors = lambda: 1.0
        import compute.devices.devices
        compute.devices.devices.processors = lambda: 1.0
        from compute.labs.diffusion import Diffusion
        import numba
        lab = Diffusion(ny=8, nx=8)
        lab.advance(2)
        print(numba.config.NUMBA_NUM_THREADS)
    """
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_NUM_THREADS"} | chosen
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == f"{threads}\n", done.stderr


def test_a_grid_beyond_the_containers_memory_is_refused(groups):
    groups("0::/\n", second(memory=GIB, current=GIB - 2**26))
    assert Host().free_bytes() == 2**26
    with pytest.raises(OutOfMemory, match=r"this needs 0\.\d+ GiB on host, but 0\.06 GiB can be used"):
        Diffusion(ny=8192, nx=8192)
    with pytest.raises(OutOfMemory, match=r"but 0\.06 GiB can be used"):
        require_memory(GIB, "it")


def test_a_record_contains_the_limits_of_its_container(groups, monkeypatch, capsys):
    monkeypatch.setattr(machine, "machine", machine.machine.__wrapped__)
    groups("0::/\n", second("150000 100000", GIB))
    found = machine.machine()
    assert found["container"] == {"processors": 1.5, "memory": GIB}
    assert (found["threads"], found["memory"]) == (1, GIB)
    assert main(["info"]) == 0
    assert "limited to 1.5 processors and 1 GiB" in capsys.readouterr().out
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["container"]["processors"] == 1.5
    cpu = SystemReader().read().cpu
    assert cpu.memory_total == GIB
    assert 0 <= cpu.memory_used <= GIB
    groups("0::/\n", second())
    assert "container" not in machine.machine()


def test_a_case_stopped_by_the_quota_has_a_warning(groups, monkeypatch):
    clock = iter([0.0, 2.0, 4.0])
    monkeypatch.setattr(conditions, "OTHERS_SHARE", 1e9)
    groups("0::/\n", second("150000 100000") | {"cpu.stat": "throttled_usec 1000000"})
    watch = Watch(SimpleNamespace(read=lambda: Reading(next(clock), CpuReading("CPU"))))
    groups("0::/\n", second("150000 100000") | {"cpu.stat": "throttled_usec 1300000"})
    watch.note("stopped")
    watch.note("quiet")
    assert watch.warnings("stopped") == ("the container's CPU quota of 1.5 processors stopped it for 0.3 s",)
    assert watch.warnings("quiet") == ()
