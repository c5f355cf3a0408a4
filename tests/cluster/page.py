"""The page docs/bare-machine.md: the commands of its sections, played as a reader types them."""

import asyncio
import os
import re
import time
from typing import Final

from tests.cluster.real_cluster import UNTIL_TIMEOUT_S, RealCluster
from tests.deploy.installers import HELM
from tests.deploy.manifests import REPOSITORY
from tests.site.console import Command, comparable, run, steps

PAGE: Final = REPOSITORY / "docs" / "bare-machine.md"
POLL_S: Final = 1.0
_NOT_COMPARED: Final = (
    (re.compile(r"\w{3} \w{3} +\d+ [\d:]+ \d{4}"), "TIME"),
    (re.compile(r"\d+ s ago"), "AGE ago"),
    # A replica that loses its Lease on a busy machine is started again.
    (re.compile(r"\d+ +\(\w+ ago\)"), "0"),
    # The names of replicas have a checksum of the template of their pods.
    (re.compile(r"\bphalanx-[a-z0-9]{6,10}-(?=[a-z0-9]{5}\b)"), "phalanx-"),
    # What kubectl may say if a container ends by what kubectl ran in it.
    (re.compile(r"command terminated with exit code 137\n"), ""),
    (re.compile(r"level=INFO msg=\"found symbolic link.*\n"), ""),
)


async def play(section: str, cluster: RealCluster, *, helm: bool = False) -> None:
    """Run the commands of a section in the folder of this checkout. Each must print what the page shows."""
    folders = [cluster.programs.folder, *([HELM.built().program.parent] if helm else ())]
    path = ":".join([*map(str, folders), os.environ["PATH"]])
    environment = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path}
    for command in commands(section):
        printed = await asyncio.to_thread(_printed_by, command, environment)
        if shown(printed) != shown(command.output):
            state = await asyncio.to_thread(_state, environment)
            raise AssertionError(f"$ {command.line}\n{printed}\n{state}")


def commands(section: str) -> list[Command]:
    """The commands of one section of the page."""
    found = re.search(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None, section
    return [step for step in steps(found.group(1)) if isinstance(step, Command)]


def shown(output: str) -> str:
    """Without times, and lines in any order: nodes and pods do not become ready one after the other."""
    for pattern, text in _NOT_COMPARED:
        output = pattern.sub(text, output)
    return "\n".join(sorted(line for line in comparable(output).splitlines() if line))


def _printed_by(command: Command, environment: dict[str, str]) -> str:
    """What a command prints. A read of the cluster is repeated until it prints what the page shows."""
    deadline = time.monotonic() + UNTIL_TIMEOUT_S
    while True:
        printed = run(command, REPOSITORY, environment)
        read = command.line.startswith(("kubectl get", "kubectl logs"))
        if shown(printed) == shown(command.output) or not read or time.monotonic() > deadline:
            return printed
        time.sleep(POLL_S)


def _state(environment: dict[str, str]) -> str:
    """The pods and the events of the cluster."""
    reads = ("get pods -A -o wide", "get events -A --sort-by=.metadata.creationTimestamp")
    return "\n".join(run(Command(f"kubectl {read}", ""), REPOSITORY, environment) for read in reads)
