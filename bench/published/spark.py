"""Spark SQL queries, submitted at once, whose drivers create their executors when they run.

Volcano's case has 104 queries on 4 nodes of 8 cores and 64 GiB; a driver and each of its 5 executors requests
a core and 4 GiB. How long a query takes is not published. It needs 2 executors, and more executors make it
faster or do not: both are played. The cases differ in what keeps drivers from using all cores.
"""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct
from phalanx.model.names import LABEL_POD_GROUP, LABEL_ROLE
from phalanx_simulator.embedded.manifests import Manifest, node, pod, pod_group

from bench.published.site import PODS_PATH, Played, Pod, Site

Kept = Literal["nothing", "a node for drivers", "reserved executors"]
"""What keeps cores for executors: nothing, one node for all drivers, or each driver reserves two cores."""

Work = Literal["a minute", "two executor minutes"]
"""How long a query works: the same with any number of executors, or less with more."""

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
QUERIES: Final = 104
NODES: Final = 4
CORES: Final = 8

_REQUESTS: Final = {"cpu": "1", "memory": "4Gi"}
_EXECUTORS: Final = 5
_LEAST: Final = 2
_STARTS_S: Final = 2.0
_WORKS_S: Final = 60.0
_PATIENCE_S: Final = 600.0
_LABEL_QUERY: Final = "bench/query"
_LABEL_ROLE: Final = "bench/role"
_LABEL_FOR: Final = "bench/for"
_DRIVERS: Final = "drivers"


class Queries(Struct, frozen=True):
    """So many queries at once."""

    queries: int
    kept: Kept
    work: Work = "a minute"
    nodes: int = NODES

    async def __call__(self, site: Site) -> Played:
        """Play it until all queries have ended, or none starts or ends any more."""
        await site.create_nodes(*self._nodes())
        names = [f"q{index:03}" for index in range(self.queries)]
        drivers = _Drivers(site, names, self.work)
        for name in names:
            await site.create(*self._submitted(site, name))
        started = site.now()
        async for now in site.looks(for_s=1e9):
            await drivers.look(await site.pods(), now)
            if drivers.ended == self.queries or now > drivers.progress_at + site.patience(_PATIENCE_S):
                break
        finished = drivers.ended == self.queries
        figures: dict[str, float | int | str] = {
            "queries finished": f"{drivers.ended} of {self.queries}",
            "most drivers at once": drivers.most,
            "most queries that work at once": drivers.most_working,
            "seconds until the last query ended": (
                round(drivers.progress_at - started, 1) if finished else "never"
            ),
        }
        wrong = () if finished else (f"only {drivers.ended} of {self.queries} queries finished",)
        return Played(figures=figures, wrong=wrong)

    def _nodes(self) -> list[Manifest]:
        return [
            node(
                f"n{index}",
                gpus=0,
                cpu=str(CORES),
                memory="64Gi",
                labels={_LABEL_FOR: EXECUTOR if index else _DRIVERS},
            )
            for index in range(self.nodes)
        ]

    def _submitted(self, site: Site, name: str) -> list[Manifest]:
        """A driver, and its PodGroup where the scheduler knows gangs and executors are to be reserved."""
        driver = _pod(site, name, DRIVER, 0)
        if self.kept == "a node for drivers":
            driver["spec"]["nodeSelector"] = {_LABEL_FOR: _DRIVERS}
        if self.kept != "reserved executors":
            return [driver]
        roles = [
            {"name": DRIVER, "count": 1},
            {"name": EXECUTOR, "count": _EXECUTORS, "minMember": _LEAST, "requests": _REQUESTS},
        ]
        driver["metadata"]["labels"] |= {LABEL_POD_GROUP: name, LABEL_ROLE: DRIVER}
        return [pod_group(name, min_member=1 + _LEAST, roles=roles, startWhen="Reserved"), driver]


class _Query(Struct):
    """When its driver was seen running. `left`: the work that is left, in seconds of the cluster's clock."""

    left: float
    runs_since: float | None = None
    has_executors: bool = False
    is_over: bool = False


class _Drivers:
    """Plays all drivers."""

    def __init__(self, site: Site, names: Iterable[str], work: Work) -> None:
        self.most = self.most_working = self.ended = 0
        self.progress_at = self._looked_at = site.now()
        self._site = site
        self._divided = work == "two executor minutes"
        seconds = site.takes(2 * _WORKS_S if self._divided else _WORKS_S)
        self._queries = {name: _Query(seconds) for name in names}

    async def look(self, pods: Iterable[Pod], now: float) -> None:
        """Create executors, and end queries that have worked long enough."""
        members: dict[str, list[Pod]] = {name: [] for name in self._queries}
        for each in pods:
            if each.runs:
                members[each.metadata.labels[_LABEL_QUERY]].append(each)
        running = {name: found for name, found in members.items() if _drivers(found)}
        self.most = max(self.most, len(running))
        working = 0
        for name, found in running.items():
            executors = len(found) - 1
            working += executors >= _LEAST
            await self._advance(name, found, now, executors)
        self.most_working = max(self.most_working, working)
        self._looked_at = now

    async def _advance(self, name: str, found: list[Pod], now: float, executors: int) -> None:
        query, site = self._queries[name], self._site
        if query.runs_since is None:
            query.runs_since = self.progress_at = now
        if not query.has_executors and now >= query.runs_since + site.takes(_STARTS_S):
            query.has_executors = True
            reserved = LABEL_POD_GROUP in _drivers(found)[0].metadata.labels
            await site.create(*(_executor(site, name, index, reserved) for index in range(_EXECUTORS)))
        if executors >= _LEAST:
            query.left -= (executors if self._divided else 1) * (now - self._looked_at)
        if query.left <= 0 and not query.is_over:
            await self._end(name, found, now)

    async def _end(self, name: str, found: list[Pod], now: float) -> None:
        """The driver ends with success and deletes its executors."""
        self._queries[name].is_over = True
        self.ended += 1
        self.progress_at = now
        for driver in _drivers(found):
            await self._site.end(driver)
        for index in range(_EXECUTORS):
            await self._site.delete(f"{PODS_PATH}/{name}-{EXECUTOR}-{index}")


def _drivers(found: Iterable[Pod]) -> list[Pod]:
    return [each for each in found if each.metadata.labels[_LABEL_ROLE] == DRIVER]


def _pod(site: Site, query: str, role: str, index: int) -> Manifest:
    made = pod(f"{query}-{role}-{index}", scheduler=site.scheduler, requests=_REQUESTS)
    made["metadata"]["labels"] = {_LABEL_QUERY: query, _LABEL_ROLE: role}
    made["spec"]["terminationGracePeriodSeconds"] = 1
    return made


def _executor(site: Site, query: str, index: int, reserved: bool) -> Manifest:
    made = _pod(site, query, EXECUTOR, index)
    if reserved:
        made["metadata"]["labels"] |= {LABEL_POD_GROUP: query, LABEL_ROLE: EXECUTOR}
    return made
