"""`phalanx run` without the rights that it needs: one line, and it ends."""

import asyncio
import sys

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
