"""The machine and the versions of the programs on which a result depends."""

import asyncio
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from phalanx_controlplane.resources import module_dir

_LOOK_S: Final = 1.0
_MODULES: Final = {
    "Kubernetes": "k8s.io/kubernetes",
    "etcd": "go.etcd.io/etcd/server/v3",
    "KWOK": "sigs.k8s.io/kwok",
}


class Machine(Struct, frozen=True, rename="camel"):
    """The date and the machine; `versions` by program."""

    day: str
    processor: str
    cores: int
    memory_gib: int
    system: str
    versions: dict[str, str]


def this_machine(versions: dict[str, str]) -> Machine:
    """This machine today, with these versions and those of the control plane."""
    return Machine(
        day=datetime.now(UTC).date().isoformat(),
        processor=_field("/proc/cpuinfo", "model name"),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / 2**20),
        system=f"{platform.system()} {platform.release()}",
        versions={
            **_of_the_control_plane(),
            **versions,
            "Python": platform.python_version(),
            "Phalanx": _commit(),
        },
    )


async def busy_share() -> float:
    """The current CPU utilisation of the machine, steal time included."""
    total, idle = _ticks()
    await asyncio.sleep(_LOOK_S)
    total_later, idle_later = _ticks()
    return 1 - (idle_later - idle) / max(total_later - total, 1)


def _ticks() -> tuple[int, int]:
    """Ticks of all cores since the machine started: total and idle."""
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return user + nice + system + idle + iowait + irq + softirq + steal, idle + iowait


def _field(path: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.*)$", Path(path).read_text(), re.MULTILINE)
    return found.group(1) if found else "0 unknown"


def _of_the_control_plane() -> dict[str, str]:
    text = (module_dir("controlplane") / "go.mod").read_text()
    found = {
        name: re.search(rf"^\s*{module} (v\S+)", text, re.MULTILINE) for name, module in _MODULES.items()
    }
    return {name: match.group(1) for name, match in found.items() if match}


def _commit() -> str:
    """The commit of this checkout, marked when files differ from it; "unknown" without git."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
