"""Limits of the container or service that this process runs in: Linux control groups, versions 1 and 2.

A container may use fewer processors and less memory than the machine has, which psutil and the affinity mask do not
show. A limit applies to the group of this process and to all groups above it, so the strictest one counts. Outside
Linux, and if the files cannot be read, there is no limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path("/sys/fs/cgroup")  # mount point of the control groups
OWN = Path("/proc/self/cgroup")  # the groups of this process
NO_LIMIT = 2**60  # bytes from which a limit of version 1 means none


def processors() -> float | None:
    """Return the processors that the CPU quota allows on average, such as 1.5; None without a quota."""
    found = []
    for folder in _groups("cpu"):
        with suppress(OSError, ValueError, IndexError):
            if (folder / "cpu.max").is_file():  # version 2: "150000 100000", or "max 100000"
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = str(_number(folder, "cpu.cfs_quota_us")), str(_number(folder, "cpu.cfs_period_us"))
            if quota not in ("max", "-1") and int(quota) > 0:
                found.append(int(quota) / int(period))
    return min(found, default=None)


def throttled_seconds() -> float | None:
    """Return the seconds for which the quota has stopped the group's processes; None without a quota."""
    if processors() is None:
        return None
    found = []
    for folder in _groups("cpu"):
        stat = _stat(folder, "cpu.stat")
        if "throttled_usec" in stat:
            found.append(1e-6 * stat["throttled_usec"])
        elif "throttled_time" in stat:
            found.append(1e-9 * stat["throttled_time"])
    return max(found, default=None)


def memory_limit() -> int | None:
    """Return the bytes that the group may use; None without a limit."""
    return min((limit for limit, _ in _memory()), default=None)


def total_memory() -> int:
    """Return the bytes of main memory that this process and its siblings may use."""
    return min(int(psutil.virtual_memory().total), memory_limit() or NO_LIMIT)


def available_memory() -> int:
    """Return the bytes of main memory that can be allocated without swapping and within the group's limit."""
    free = (limit - used for limit, used in _memory())
    return max(0, min(int(psutil.virtual_memory().available), *free, NO_LIMIT))


def limits() -> dict[str, Any]:
    """Return the limits for a record of the machine: processors, and memory in bytes; {} without any."""
    memory = memory_limit()
    within = memory is not None and memory < psutil.virtual_memory().total
    known = {"processors": processors(), "memory": memory if within else None}
    return {name: value for name, value in known.items() if value is not None}


def _memory() -> Iterator[tuple[int, int]]:
    """Yield (limit, used) of each group with a limit, in bytes. Reclaimable pages of files are not counted."""
    for folder in _groups("memory"):
        with suppress(OSError, ValueError):
            if (folder / "memory.max").is_file():
                text = (folder / "memory.max").read_text().strip()
                limit = NO_LIMIT if text == "max" else int(text)
                used, dropped = _number(folder, "memory.current"), "inactive_file"
            else:
                limit = _number(folder, "memory.limit_in_bytes")
                used, dropped = _number(folder, "memory.usage_in_bytes"), "total_inactive_file"
            if limit < NO_LIMIT:
                yield limit, max(0, used - _stat(folder, "memory.stat").get(dropped, 0))


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the groups that limit this process by `controller`, the innermost first."""
    with suppress(OSError):
        for line in OWN.read_text(encoding="utf-8").splitlines():
            number, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if number == "0" and not names:
                mounts = [ROOT]
            elif controller in names.split(","):
                mounts = [ROOT / names, ROOT / controller]
            else:
                continue
            for mount in mounts:
                if mount.is_dir():
                    # in a container the path may be that of the host, which has no folder here
                    inner = [] if ".." in path else [mount / part for part in _upwards(path)]
                    yield from (folder for folder in (*inner, mount) if folder.is_dir())
                    break


def _upwards(path: str) -> Iterator[str]:
    """Yield "a/b" and "a" for "/a/b"."""
    parts = [part for part in path.split("/") if part]
    for length in range(len(parts), 0, -1):
        yield "/".join(parts[:length])


def _number(folder: Path, name: str) -> int:
    return int((folder / name).read_text())


def _stat(folder: Path, name: str) -> dict[str, int]:
    """Return the "name number" lines of a file as a mapping."""
    found = {}
    with suppress(OSError):
        for line in (folder / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if value.strip().isdecimal():
                found[key] = int(value)
    return found
