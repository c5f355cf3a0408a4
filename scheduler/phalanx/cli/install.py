"""`phalanx install`: the CustomResourceDefinitions of PodGroup, Queue and Topology."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import yaml
from cyclopts import Parameter

from phalanx.cli.exits import BadInput, Exit
from phalanx.limits import (
    CRD_ESTABLISHED_POLL_S,
    CRD_ESTABLISHED_TIMEOUT_S,
    WRITE_TIMEOUT_S,
)
from phalanx.resources import data_dir

if TYPE_CHECKING:
    from phalanx.kube.client import Client

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(
    *,
    crds: Annotated[bool, Parameter(negative=())] = False,
    print_: Annotated[bool, Parameter(name="--print", negative=())] = False,
    kubeconfig: Path | None = None,
    context: str | None = None,
) -> int:
    """Install what Phalanx needs in a cluster, or print it for `kubectl apply -f -`.

    Parameters
    ----------
    crds
        Create or update the CustomResourceDefinitions and wait until they are served.
    print_
        Print them instead; no cluster is contacted.
    kubeconfig
        File that says how to reach the cluster; without it $KUBECONFIG or ~/.kube/config.
    context
        Context of the kubeconfig, when not the current one.
    """
    if not crds and not print_:
        raise BadInput("install: expected --crds or --print, found neither")
    if print_:
        print("---\n".join(path.read_text() for path in _files()), end="")
        return Exit.OK
    return asyncio.run(_install(kubeconfig=str(kubeconfig) if kubeconfig else None, context=context))


def _files() -> Iterator[Path]:
    yield from sorted(path for path in data_dir("crds").glob("*.yaml") if path.name != "kustomization.yaml")


async def _install(*, kubeconfig: str | None, context: str | None) -> int:
    from phalanx.kube.client import Client
    from phalanx.kube.connect import NoCluster, connect
    from phalanx.kube.errors import ApiError
    from phalanx.ports import OutcomeUnknown, RequestNotSent

    try:
        async with connect(kubeconfig=kubeconfig, context=context) as cluster:
            transport = cluster.transport(connections=1)
            try:
                for path in _files():
                    await _apply(Client(transport), yaml.safe_load(path.read_text()))
            finally:
                await transport.close()
    except (NoCluster, ApiError, RequestNotSent, OutcomeUnknown, TimeoutError) as error:
        print(f"install: {error}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


async def _apply(client: "Client", definition: dict[str, Any]) -> None:
    """Create it, or make an existing one equal to ours in all that we set."""
    import msgspec

    from phalanx.kube.client import Patch
    from phalanx.kube.errors import AlreadyExists

    name, body = definition["metadata"]["name"], msgspec.json.encode(definition)
    done = "created"
    try:
        await client.create(_PATH, body, timeout=WRITE_TIMEOUT_S)
    except AlreadyExists:
        await client.patch(f"{_PATH}/{name}", body, how=Patch.MERGE, timeout=WRITE_TIMEOUT_S)
        done = "updated"
    async with asyncio.timeout(CRD_ESTABLISHED_TIMEOUT_S):
        while not _is_established(await client.get(f"{_PATH}/{name}", msgspec.json.decode)):
            await asyncio.sleep(CRD_ESTABLISHED_POLL_S)
    print(f"{name} {done}")


def _is_established(definition: Any) -> bool:
    """The API server writes null for conditions that it has not looked at yet."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
