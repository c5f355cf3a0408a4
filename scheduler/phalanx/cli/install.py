"""`phalanx install`: the CustomResourceDefinitions of PodGroup, Queue and Topology."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import yaml
from cyclopts import Parameter

from phalanx.cli.exits import BadInput, Exit
from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.limits import WRITE_TIMEOUT_S
from phalanx.resources import data_dir

_CRD_ESTABLISHED_TIMEOUT_S: Final = 30.0
"""Seconds until the API server must serve an installed CRD. It takes well under one."""

_CRD_ESTABLISHED_POLL_S: Final = 0.1
"""Seconds between two checks of an installed CRD."""


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
    """Install the CRDs in a cluster, or print them for `kubectl apply -f -`.

    Parameters
    ----------
    crds
        Create or update the CustomResourceDefinitions and wait until they are served.
    print_
        Print them instead, without contacting a cluster.
    kubeconfig
        The kubeconfig file; default: $KUBECONFIG or ~/.kube/config.
    context
        The context in the kubeconfig; default: the current one.
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
    from phalanx.kube.connect import connect
    from phalanx.kube.errors import ApiError
    from phalanx.kube.kubeconfig import NoCluster
    from phalanx.ports import OutcomeUnknown, RequestNotSent

    try:
        async with connect(kubeconfig=kubeconfig, context=context) as cluster:
            transport = cluster.transport(connections=1)
            try:
                for path in _files():
                    await _apply(Client(transport), yaml.load(path.read_text(), FAST_LOADER))
            finally:
                await transport.close()
    except (NoCluster, ApiError, RequestNotSent, OutcomeUnknown, TimeoutError) as error:
        print(f"install: {error}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


async def _apply(client: "Client", definition: dict[str, Any]) -> None:
    """Create the CRD, or patch an existing one; then wait until it is served."""
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
    async with asyncio.timeout(_CRD_ESTABLISHED_TIMEOUT_S):
        while not _is_established(await client.get(f"{_PATH}/{name}", msgspec.json.decode)):
            await asyncio.sleep(_CRD_ESTABLISHED_POLL_S)
    print(f"{name} {done}")


def _is_established(definition: Any) -> bool:
    """Whether the CRD is served; conditions are null until the API server has processed it."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)
