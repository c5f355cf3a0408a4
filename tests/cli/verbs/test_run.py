"""`phalanx run` without what it needs to start: rights, or a configuration without errors."""

import asyncio
import os
import sys
from pathlib import Path

from tests.cli.verbs.conftest import World

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


async def run(world: World) -> tuple[int | None, str]:
    """Exit code, and what it prints on standard error."""
    words = ["run", "--kubeconfig", str(world.kubeconfig), "--http", "127.0.0.1:0", "--debug", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "phalanx.cli", *words), stderr=asyncio.subprocess.PIPE
    )
    _, printed = await process.communicate()
    return process.returncode, printed.decode()


async def test_what_it_may_not_list_is_one_line(world: World) -> None:
    world.server.forbidden = (PODS, NODES)
    code, printed = await run(world)
    assert code == 1
    assert printed == (
        "run: it may not list pods, nodes: apply deploy/base, or use a kubeconfig of its service account\n"
    )


async def test_a_wrong_token_is_one_line(world: World) -> None:
    text = world.kubeconfig.read_text()
    assert "verbs" in text
    world.kubeconfig.write_text(text.replace("token: verbs", "token: wrong").replace('"verbs"', '"wrong"'))
    code, printed = await run(world)
    assert code == 1
    assert printed.startswith("run: the API server does not accept the credentials: ")
    assert len(printed.splitlines()) == 1


async def test_in_a_pod_it_waits_for_a_configuration_without_errors(world: World, tmp_path: Path) -> None:
    world.server.forbidden = (PODS,)
    file = tmp_path / "config.yaml"
    file.write_text("retry: {victimSearchSecond: 25}")
    words = ["run", "--kubeconfig", str(world.kubeconfig), "--config", str(file), "--http", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "phalanx.cli", *words),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "POD_NAME": "phalanx-0"},
    )
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()
    assert "configuration refused, waiting for a file without errors" in said
    assert "victimSearchSecond" in said
    file.write_text("retry: {victimSearchSeconds: 25}")
    _, printed = await process.communicate()
    assert (process.returncode, printed.decode().startswith("run: it may not list pods")) == (1, True)


async def test_outside_of_a_pod_a_wrong_configuration_ends_it(world: World, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("retry: {victimSearchSecond: 25}")
    environment = {name: value for name, value in os.environ.items() if name != "POD_NAME"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "phalanx.cli", "run", "--config", str(file)),
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    _, printed = await process.communicate()
    assert (process.returncode, "victimSearchSecond" in printed.decode()) == (2, True)
