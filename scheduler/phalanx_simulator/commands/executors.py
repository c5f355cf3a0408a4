"""Where the runs of a command are played: processes of this machine, or the workers of a Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from phalanx_simulator.commands.workers import WorkersLost, workers


@contextmanager
def executor(jobs: int, dask: str | None) -> Iterator[Executor]:
    """Processes of this machine, or the Dask cluster at this address. Raises BadInput and WorkersLost."""
    if dask is not None:
        from phalanx_simulator.commands.dask_cluster import dask_executor

        with dask_executor(dask) as pool:
            yield pool
        return
    try:
        with workers(jobs) as processes:
            yield processes
    except BrokenProcessPool as error:
        raise WorkersLost(
            "a process ended in the middle of a run; it may have had too little memory"
        ) from error
