"""From a kubeconfig or a service account to transports: addresses, TLS, tokens, exec plugins.

What is not plain kubernetes-asyncio reads; it runs the plugins, too, and nothing else of it is used.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import Any, Final

import aiohttp
import structlog
from msgspec.structs import replace
from yarl import URL

from phalanx.kube.access import Access, header_from, plain_kubeconfig, service_account
from phalanx.kube.transport import Credential, HttpTransport
from phalanx.limits import (
    CREDENTIAL_CHECK_PERIOD_S,
    HTTP_CONNECTIONS_MAX,
    TCP_KEEPALIVE_IDLE_S,
    TCP_KEEPALIVE_INTERVAL_S,
    TCP_KEEPALIVE_PROBES,
)

_log = structlog.get_logger(__name__)

_IN_CLUSTER_MARK: Final = "KUBERNETES_SERVICE_HOST"
_TOKEN: Final = "BearerToken"
_DEFAULT_PATH: Final = "~/.kube/config"


class NoCluster(Exception):
    """There is no usable configuration; the message says what was tried."""


class Cluster:
    """How to reach one API server: makes independent transports that share one credential."""

    def __init__(self, *, base_url: str, tls: ssl.SSLContext | None, credential: Credential) -> None:
        self.base_url = base_url
        self.credential = credential
        self.proxy: str | None = None
        self.server_name: str | None = None
        self._tls = tls

    def transport(self, *, connections: int = HTTP_CONNECTIONS_MAX) -> HttpTransport:
        """A transport with a pool of its own. To be called on the event loop that uses it, and closed."""
        connector = aiohttp.TCPConnector(
            limit=connections, ssl=self._tls if self._tls is not None else True, socket_factory=_socket
        )
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


def plain_cluster(base_url: str) -> Cluster:
    """An API server without TLS and without credentials, such as the embedded one."""
    return Cluster(base_url=base_url, tls=None, credential=Credential())


@asynccontextmanager
async def connect(*, kubeconfig: str | None = None, context: str | None = None) -> AsyncIterator[Cluster]:
    """The cluster of a kubeconfig, else of the pod's service account, else of $KUBECONFIG or ~/.kube/config.

    Its credential is renewed while the context lasts. Raises NoCluster.
    """
    cluster = await _load(kubeconfig=kubeconfig, context=context)
    async with AsyncExitStack() as stack:
        keeper = asyncio.create_task(_keep_fresh(cluster.credential))
        stack.callback(keeper.cancel)
        yield cluster


async def _load(*, kubeconfig: str | None, context: str | None) -> Cluster:
    source = _Source(kubeconfig=kubeconfig, context=context)
    try:
        access = await source.load()
    except Exception as error:  # the loader meets bad files with errors of many types
        raise NoCluster(f"no cluster to connect to: tried {source.name}: {error}") from error
    tls = _tls_of(access) if access.host.startswith("https") else None
    certificate = access.certificate

    async def renew(refused: bool) -> str:
        nonlocal certificate
        renewed = await source.renew(refused=refused)
        if tls is not None and renewed.certificate and renewed.certificate != certificate:
            tls.load_cert_chain(renewed.certificate, renewed.key)
            certificate = renewed.certificate
        return renewed.header

    cluster = Cluster(base_url=access.host, tls=tls, credential=Credential(access.header, renew))
    cluster.proxy = access.proxy
    cluster.server_name = access.server_name
    return cluster


class _Source:
    """Where the configuration comes from, and the library's objects that hold it where it is not plain."""

    def __init__(self, *, kubeconfig: str | None, context: str | None) -> None:
        self._in_cluster = kubeconfig is None and context is None and _IN_CLUSTER_MARK in os.environ
        self._path = kubeconfig or os.environ.get("KUBECONFIG")
        self._context = context
        self._plain: Access | None = None
        self._configuration: Any = None
        self._loader: Any = None

    @property
    def name(self) -> str:
        """For messages."""
        return "the pod's service account" if self._in_cluster else self._path or "~/.kube/config"

    async def load(self) -> Access:
        """Read everything from the start."""
        if self._in_cluster:
            self._plain = service_account()
        else:
            self._plain = plain_kubeconfig(self._path or _DEFAULT_PATH, self._context)
        return self._plain if self._plain is not None else await self._load_with_library()

    async def renew(self, *, refused: bool) -> Access:
        """Re-read token files, run exec plugins whose token runs out; load all anew after a refusal."""
        if refused:
            return await self.load()
        if self._plain is None:
            await self._loader.load_and_set(self._configuration)
            return _access_of(self._configuration)
        if self._plain.token_file is None:
            return self._plain
        return replace(self._plain, header=header_from(self._plain.token_file))

    async def _load_with_library(self) -> Access:
        from kubernetes_asyncio import config
        from kubernetes_asyncio.client import Configuration

        self._configuration = Configuration()
        self._loader = await config.load_kube_config(
            config_file=self._path,
            context=self._context,
            client_configuration=self._configuration,
            persist_config=False,
        )
        return _access_of(self._configuration)


def _access_of(configuration: Any) -> Access:
    return Access(
        host=configuration.host,
        header=str(configuration.api_key.get(_TOKEN, "")).strip(),
        authority_file=configuration.ssl_ca_cert,
        verifies=configuration.verify_ssl,
        certificate=configuration.cert_file,
        key=configuration.key_file,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def _tls_of(access: Access) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=access.authority_file, cadata=access.authority)
    # Certificates of many clusters lack the extensions that Python 3.13 insists on and Go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.verifies:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if access.certificate:
        tls.load_cert_chain(access.certificate, access.key)
    return tls


async def _keep_fresh(credential: Credential) -> None:
    """Renew now and then; when that fails, the old credential stays until the API server refuses it."""
    while True:
        await asyncio.sleep(CREDENTIAL_CHECK_PERIOD_S)
        try:
            await credential.renew()
        except Exception as error:  # a plugin may fail in any way; the next look may succeed
            _log.warning("credential not renewed", error=str(error))


def _socket(address: Any) -> socket.socket:
    """A socket that notices a dead peer in about half a minute, also while a watch is silent."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family=family, type=kind, proto=protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection


_KEEPALIVE: Final = {
    "TCP_KEEPIDLE": TCP_KEEPALIVE_IDLE_S,
    "TCP_KEEPINTVL": TCP_KEEPALIVE_INTERVAL_S,
    "TCP_KEEPCNT": TCP_KEEPALIVE_PROBES,
}


def _is_loopback(base_url: str) -> bool:
    """Compressing for a server on this machine costs more than it saves."""
    host = URL(base_url).host or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
