"""A Dask cluster as an executor. Needs the optional extra `dask`.

Dask plays a run again on another worker if its worker dies. A run depends on nothing but its inputs, so the
results are the same.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from typing import Any, Final

from phalanx.cli.exits import BadInput

from phalanx_simulator.commands.workers import WorkersLost
from phalanx_simulator.runs.versions import versions

DASK_CONNECT_TIMEOUT_S: Final = 15
"""Seconds in which a Dask scheduler must answer: with a wrong address nobody wants to wait longer."""

DASK_WORKERS_TIMEOUT_S: Final = 60
"""Seconds in which the first worker must appear. One that just starts imports Dask first."""


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """The workers of the cluster whose scheduler has this address. Its runs are given up at the end."""
    try:
        from distributed import Client
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker
    except ModuleNotFoundError as error:
        raise BadInput("--dask: install the extra dask: pip install 'phalanx-scheduler[dask]'") from error
    try:
        client: Any = Client(address, timeout=DASK_CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--dask: expected the address of a Dask scheduler, found {address}: {error}"
        ) from error
    with client:
        _check_workers(client, address)
        try:
            yield client.get_executor(pure=False)
        except KilledWorker as error:
            raise WorkersLost(f"one run ended several workers of the Dask cluster: {error}") from error
        except (CancelledError, CommClosedError) as error:
            raise WorkersLost(f"the Dask scheduler at {address} does not answer any more") from error


def _check_workers(client: Any, address: str) -> None:
    """Wait for the first worker; all must have our versions, or they might decide something else."""
    try:
        client.wait_for_workers(1, timeout=DASK_WORKERS_TIMEOUT_S)
    except TimeoutError as error:
        raise BadInput(f"--dask: expected a Dask cluster with workers, found none at {address}") from error
    try:
        found = client.run(versions)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"--dask: expected {versions()} on all workers, found: {error}") from error
    for worker, theirs in sorted(found.items()):
        if theirs != versions():
            raise BadInput(f"--dask: expected {versions()} on all workers, found {theirs} on {worker}")
