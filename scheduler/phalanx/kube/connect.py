"""Connect to a cluster by a kubeconfig or a service account: addresses, TLS, tokens, exec plugins.

kubernetes-asyncio reads the configuration and runs the plugins; nothing else of it is used. Its import takes
0.25 s and 60 MiB, so it is imported when connecting.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog
from yarl import URL

from phalanx.kube.connections import Connector
from phalanx.kube.kubeconfig import DEFAULT_FILE, NoCluster
from phalanx.kube.transport import Credential, HttpTransport
from phalanx.limits import CREDENTIAL_CHECK_PERIOD_S, HTTP_CONNECTIONS_MAX

_log = structlog.get_logger(__name__)

_IN_CLUSTER_MARK: Final = "KUBERNETES_SERVICE_HOST"
_TOKEN: Final = "BearerToken"


class Cluster:
    """The way to one API server: creates independent transports that share one credential."""

    def __init__(self, *, base_url: str, tls: ssl.SSLContext | None, credential: Credential) -> None:
        self.base_url = base_url
        self.credential = credential
        self.proxy: str | None = None
        self.server_name: str | None = None
        self.tls = tls

    def transport(self, *, connections: int = HTTP_CONNECTIONS_MAX) -> HttpTransport:
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
    cluster, _ = await load(kubeconfig=kubeconfig, context=context)
    async with AsyncExitStack() as stack:
        renewal = asyncio.create_task(_keep_renewed(cluster.credential))
        stack.callback(renewal.cancel)
        yield cluster


async def load(*, kubeconfig: str | None, context: str | None) -> tuple[Cluster, str]:
    """Read the configuration: the cluster, and the namespace of the context, empty if it names none.

    Nothing renews the credential. Raises NoCluster.
    """
    source = _Source(kubeconfig=kubeconfig, context=context)
    try:
        await source.load()
    except Exception as error:  # the loader raises errors of many types for bad files
        raise NoCluster(f"no cluster to connect to: tried {source.name}: {error}") from error
    configuration = source.configuration
    tls = _tls_of(configuration) if configuration.host.startswith("https") else None

    async def renew(refused: bool) -> str:
        certificate = configuration.cert_file
        await source.renew(refused=refused)
        if tls is not None and configuration.cert_file != certificate:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
        return source.header

    cluster = Cluster(base_url=configuration.host, tls=tls, credential=Credential(source.header, renew))
    cluster.proxy = configuration.proxy
    cluster.server_name = configuration.tls_server_name
    return cluster, source.namespace


class _Source:
    """The source of the configuration, and the objects of the library that hold it."""

    def __init__(self, *, kubeconfig: str | None, context: str | None) -> None:
        from kubernetes_asyncio.client import Configuration

        self.configuration: Any = Configuration()
        self._in_cluster = kubeconfig is None and context is None and _IN_CLUSTER_MARK in os.environ
        self._path = kubeconfig or os.environ.get("KUBECONFIG")
        self._context = context
        self._loader: Any = None

    @property
    def name(self) -> str:
        """The source's name in messages."""
        return "the pod's service account" if self._in_cluster else self._path or DEFAULT_FILE

    @property
    def namespace(self) -> str:
        """The namespace of the context; empty if it names none."""
        context: Any = getattr(self._loader, "current_context", None)
        values = getattr(context, "value", context) or {}
        return str((values.get("context") or {}).get("namespace") or "")

    @property
    def header(self) -> str:
        """The authorization header; empty where a client certificate or nothing is used."""
        return str(self.configuration.api_key.get(_TOKEN, "")).strip()

    async def load(self) -> None:
        """Read the whole configuration."""
        from kubernetes_asyncio import config

        if self._in_cluster:
            load_in_cluster: Any = config.load_incluster_config
            load_in_cluster(client_configuration=self.configuration, try_refresh_token=False)
        else:
            self._check_file()
            self._loader = await config.load_kube_config(
                config_file=self._path,
                context=self._context,
                client_configuration=self.configuration,
                persist_config=False,
            )

    def _check_file(self) -> None:
        """Raise FileNotFoundError if there is no kubeconfig: the library says that a key is missing in it."""
        names = (self._path or DEFAULT_FILE).split(os.pathsep)
        if not any(Path(name).expanduser().exists() for name in names if name):
            raise FileNotFoundError("there is no such file; --kubeconfig or $KUBECONFIG names another one")

    async def renew(self, *, refused: bool) -> None:
        """Read token files again and run exec plugins; after a refusal read the whole configuration."""
        if refused or self._loader is None:
            await self.load()
        else:
            await self._loader.load_and_set(self.configuration)


def _tls_of(configuration: Any) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Certificates of many clusters lack the extensions that Python 3.13 requires and Go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return tls


async def _keep_renewed(credential: Credential) -> None:
    """Renew the credential periodically; after a failure the old one is used until it is refused."""
    while True:
        await asyncio.sleep(CREDENTIAL_CHECK_PERIOD_S)
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
