"""Connect to a cluster, and renew the credential as long as the connection is used."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import Final

import aiohttp
import structlog
from yarl import URL

from phalanx.kube.connections import Connector
from phalanx.kube.kubeconfig import Source, load_certificate
from phalanx.kube.transport import Credential, HttpTransport

_HTTP_CONNECTIONS_MAX: Final = 128
"""Connections to the API server: the binds in flight, a watch per kind, and some for events and status."""

_CREDENTIAL_CHECK_PERIOD_S: Final = 60.0
"""Seconds between two checks of token files and expiry times. Service-account tokens change hourly."""

_log = structlog.get_logger(__name__)


class Cluster:
    """The way to one API server: creates independent transports that share one credential."""

    def __init__(self, *, base_url: str, tls: ssl.SSLContext | None, credential: Credential) -> None:
        self.base_url = base_url
        self.credential = credential
        self.proxy: str | None = None
        self.server_name: str | None = None
        self.tls = tls

    def transport(self, *, connections: int = _HTTP_CONNECTIONS_MAX) -> HttpTransport:
        """Create a transport with its own connection pool for the running event loop; close it after use."""
        connector = Connector(limit=connections, ssl=self.tls if self.tls is not None else True)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept-encoding": "identity" if _is_loopback(self.base_url) else "gzip"},
        )
        options = {"proxy": self.proxy, "server_hostname": self.server_name}
        return HttpTransport(
            base_url=self.base_url,
            session=session,
            credential=self.credential,
            request_options={name: value for name, value in options.items() if value is not None},
        )


@asynccontextmanager
async def connect(*, kubeconfig: str | None = None, context: str | None = None) -> AsyncIterator[Cluster]:
    """Connect by the kubeconfig, else the pod's service account, else $KUBECONFIG or ~/.kube/config.

    The credential is renewed while the context lasts. Raises NoCluster.
    """
    source = Source(kubeconfig, context)
    access = await asyncio.to_thread(source.read)

    async def renew(refused: bool) -> str:
        nonlocal access
        before, access = access, await asyncio.to_thread(source.read, refused=refused)
        if cluster.tls and access.certificate and access.certificate != before.certificate:
            load_certificate(cluster.tls, access.certificate)
        return access.authorization

    credential = Credential(access.authorization, renew)
    cluster = Cluster(base_url=access.server, tls=access.tls, credential=credential)
    cluster.proxy = access.proxy or None
    cluster.server_name = access.server_name or None
    async with AsyncExitStack() as stack:
        renewal = asyncio.create_task(_keep_renewed(cluster.credential))
        stack.callback(renewal.cancel)
        yield cluster


async def _keep_renewed(credential: Credential) -> None:
    """Renew the credential periodically; after a failure the old one is used until it is refused."""
    while True:
        await asyncio.sleep(_CREDENTIAL_CHECK_PERIOD_S)
        try:
            await credential.renew()
        except Exception as error:  # a plugin can fail in any way; the next attempt may succeed
            _log.warning("credential not renewed", error=str(error))


def _is_loopback(base_url: str) -> bool:
    """Whether the server is on this machine, where compression costs more than it saves."""
    host = URL(base_url).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
