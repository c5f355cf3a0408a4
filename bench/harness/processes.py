"""CPU seconds and memory of a process and its children, from /proc."""

import os
from pathlib import Path

from msgspec import Struct

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Used(Struct, frozen=True):
    """What a process used so far. `rss_mib` is the largest resident set that the kernel saw."""

    cpu_s: float
    rss_mib: int


def used_by(pid: int) -> Used:
    """Of this process and of its living children, summed."""
    pids = [pid, *_children(pid)]
    return Used(cpu_s=round(sum(map(_cpu_s, pids)), 2), rss_mib=sum(map(_peak_mib, pids)))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
