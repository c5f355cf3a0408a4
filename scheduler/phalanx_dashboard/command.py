"""`phalanx dashboard`: open the pages about a cluster in a browser."""

import asyncio
import signal
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import Struct
from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.kubeconfig_option import existing_kubeconfig
from phalanx.cli.listening import Address, listen_address
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.clock import SystemClock, secret_text
from phalanx.web.server import serving

from phalanx_dashboard.connection import Connection
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.guards import Guard, SecretLink
from phalanx_dashboard.limits import RECONNECT_PERIOD_S
from phalanx_dashboard.reading import ClusterReader
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app
from phalanx_dashboard.token_guard import TokenGuard

_READ_PERIOD_S: Final = 2.0
"""Seconds between two readings of the cluster while somebody looks, as `phalanx top` has them."""

_SECRET_SIZE: Final = 24
"""Bytes of the secret in the link that `phalanx dashboard` prints: 192 bits cannot be guessed."""


class Certificate(Struct, frozen=True):
    """The files of a server certificate. They are read again from time to time, because they are renewed."""

    certificate: Path
    key: Path

    def load(self, tls: ssl.SSLContext) -> None:
        """Use the files as they are now, for new connections. Raises OSError."""
        tls.load_cert_chain(self.certificate, self.key)


class Serving(Struct, frozen=True):
    address: Address
    browser: bool
    sign_in: bool
    certificate: Certificate | None


def dashboard(
    *,
    listen: str = "127.0.0.1:0",
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    scheduler: str = "",
    interval: float = _READ_PERIOD_S,
    sign_in: Annotated[bool, Parameter(negative="")] = False,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """Open pages about a cluster in a browser: queues, gangs, topology, decisions, faults.

    They show what `phalanx queues`, `jobs`, `why`, `topo` and `nodes` show, with the rights of your
    kubeconfig, and follow the cluster until Ctrl-C. Only the link that is printed opens them.

    Parameters
    ----------
    listen
        Address to listen on, on the loopback interface; port 0 lets the system choose.
    browser
        Open the link in a browser.
    scheduler
        Address of the scheduler's debug endpoint, such as http://127.0.0.1:8081 after `kubectl port-forward`.
        Its last cycles can then be seen, and downloaded for `phalanx replay`.
    interval
        Seconds between two readings of the cluster while a page is open.
    sign_in
        Serve other users, from a pod: each signs in with a token of Kubernetes and sees what it may list.
    tls_certificate
        With --sign-in: the certificate of the server, needed for addresses beyond the loopback interface.
    tls_key
        Its key.
    options
        Which cluster.
    """
    options = options or ClusterOptions()
    existing_kubeconfig(options.kubeconfig)
    if interval <= 0:
        raise BadInput(f"--interval: expected a number above 0, found {interval:g}")
    if scheduler and not scheduler.lower().startswith(("http://", "https://")):
        raise BadInput(f"--scheduler: expected an address that starts with http://, found {scheduler}")
    settings = _settings(listen, browser, sign_in, tls_certificate, tls_key)
    clock = SystemClock()
    reader = ClusterReader(options, clock=clock)
    feed = Feed(reader, Recordings(scheduler), clock=clock, period=interval)
    reviews = Connection(options, clock=clock)
    users = TokenGuard(reviews, feed.namespaces, clock=clock, secure=tls_certificate is not None)
    return asyncio.run(_serve(feed, reader, users, settings))


def _settings(
    listen: str, browser: bool, sign_in: bool, certificate: Path | None, key: Path | None
) -> Serving:
    """Check what belongs together. Raises BadInput."""
    address = listen_address("--listen", listen)
    if (certificate is None) != (key is None):
        raise BadInput("--tls-certificate, --tls-key: expected both of them")
    if not sign_in and (certificate is not None or not address.is_loopback):
        raise BadInput("--listen: expected a loopback address; with --sign-in others are possible")
    if certificate is None and not address.is_loopback:
        raise BadInput("--tls-certificate: expected one; without TLS tokens could be read on the network")
    for path in filter(None, (certificate, key)):
        if not path.is_file():
            raise BadInput(f"--tls-certificate, --tls-key: expected readable files, found none at {path}")
    files = Certificate(certificate, key) if certificate is not None and key is not None else None
    return Serving(address, browser and not sign_in, sign_in, files)


async def _serve(feed: Feed, reader: ClusterReader, users: TokenGuard, settings: Serving) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    secret = SecretLink(secret_text(size=_SECRET_SIZE))
    guard: Guard = users if settings.sign_in else secret
    host, port = settings.address.host, settings.address.port
    try:
        tls = _tls(settings)
        async with serving(dashboard_app(feed, guard), host=host, port=port, tls=tls) as bound:
            secret.port = bound
            link = f"{'https' if tls else 'http'}://{host}:{bound}/"
            await _show(link if settings.sign_in else secret.link(link), settings)
            tasks = [asyncio.create_task(feed.run()), asyncio.create_task(stopped.wait())]
            if tls is not None and settings.certificate is not None:
                tasks.append(asyncio.create_task(_renew(tls, settings.certificate)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            for each in (reader, users):
                each.close()  # a thread may wait for a server that does not answer
            for task in ended:
                task.result()
    except OSError as error:
        print(f"dashboard: {host}:{port}: {error.strerror or error}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


def _tls(settings: Serving) -> ssl.SSLContext | None:
    """Raises OSError for files that are no certificate and key."""
    if settings.certificate is None:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    settings.certificate.load(tls)
    return tls


async def _renew(tls: ssl.SSLContext, certificate: Certificate) -> None:
    while True:
        await asyncio.sleep(RECONNECT_PERIOD_S)
        with suppress(OSError):  # the files are being replaced
            certificate.load(tls)


async def _show(link: str, settings: Serving) -> None:
    """Print the link, and open a browser if there is one: a failure is no error."""
    print(f"{link}\nCtrl-C ends it.", flush=True)
    if settings.browser:
        import webbrowser

        await asyncio.to_thread(webbrowser.open, link)
