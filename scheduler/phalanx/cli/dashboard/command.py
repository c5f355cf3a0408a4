"""`phalanx dashboard`: open the pages about a cluster in a browser."""

import asyncio
import signal
import sys
from typing import Annotated, Final

from cyclopts import Parameter

from phalanx.cli.dashboard.feed import Feed
from phalanx.cli.dashboard.guards import SecretLink
from phalanx.cli.dashboard.limits import READ_PERIOD_S, SECRET_SIZE
from phalanx.cli.dashboard.reading import ClusterReader, Reader
from phalanx.cli.dashboard.recordings import Recordings
from phalanx.cli.dashboard.server import dashboard_app
from phalanx.cli.exits import BadInput, Exit
from phalanx.cli.kubeconfig_option import existing_kubeconfig
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.clock import SystemClock, secret_text
from phalanx.web.server import serving

_LOOPBACK: Final = "127.0.0.1"


def dashboard(
    *,
    port: int = 0,
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    scheduler: str = "",
    interval: float = READ_PERIOD_S,
    options: ClusterOptions | None = None,
) -> int:
    """Open pages about a cluster in a browser: queues, gangs, topology, decisions, faults.

    They show what `phalanx queues`, `jobs`, `why`, `topo` and `nodes` show, with the rights of your
    kubeconfig, and follow the cluster until Ctrl-C. The server listens on the loopback interface only, and
    only the link that is printed opens it.

    Parameters
    ----------
    port
        The port to listen on; 0 lets the system choose.
    browser
        Open the link in a browser.
    scheduler
        Address of the scheduler's debug endpoint, such as http://127.0.0.1:8081 after `kubectl port-forward`.
        Its last cycles can then be seen, and downloaded for `phalanx replay`.
    interval
        Seconds between two readings of the cluster while a page is open.
    """
    options = options or ClusterOptions()
    existing_kubeconfig(options.kubeconfig)
    if interval <= 0:
        raise BadInput(f"--interval: expected a number above 0, found {interval:g}")
    if not 0 <= port <= 65535:
        raise BadInput(f"--port: expected 0 to 65535, found {port}")
    if scheduler and not scheduler.lower().startswith(("http://", "https://")):
        raise BadInput(f"--scheduler: expected an address that starts with http://, found {scheduler}")
    clock = SystemClock()
    reader = ClusterReader(options, clock=clock)
    feed = Feed(reader, Recordings(scheduler), clock=clock, period=interval)
    return asyncio.run(_serve(feed, reader, port=port, browser=browser))


async def _serve(feed: Feed, reader: Reader, *, port: int, browser: bool) -> int:
    secret = secret_text(size=SECRET_SIZE)
    guard = SecretLink(secret)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        async with serving(dashboard_app(feed, guard), host=_LOOPBACK, port=port) as bound:
            guard.port = bound
            link = f"http://{_LOOPBACK}:{bound}/?secret={secret}"
            print(f"{link}\nCtrl-C ends it.", flush=True)
            if browser:
                await asyncio.to_thread(_open, link)
            reading = asyncio.create_task(feed.run())
            waiting = asyncio.create_task(stopped.wait())
            await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
            reader.close()  # a thread may wait for a server that does not answer
            reading.cancel()
            waiting.cancel()
            if reading.done():
                reading.result()
    except OSError as error:
        print(f"dashboard: {_LOOPBACK}:{port}: {error.strerror or error}", file=sys.stderr)
        return Exit.FAILED
    return Exit.OK


def _open(link: str) -> None:
    """Open a browser if there is one. A failure is no error: the link was printed."""
    import webbrowser

    webbrowser.open(link)
