"""A cluster that uses all queue features: a queue tree, budgets, shared GPUs.

The seed of a run selects its guarantees and limits, orders, backfill, cells, and whether gangs are moved.
"""

from collections.abc import Iterable
from typing import Any, Final

from phalanx.clock import Random
from phalanx.framework.config import (
    ActionName,
    ConsolidationConfig,
    FairnessConfig,
    PluginConfig,
    SchedulerConfig,
)
from phalanx.model.names import ANNOTATION_GPU_SHARE, NODE_GPU_COUNT, NODE_GPU_MEMORY, NODE_GPU_SHARING
from phalanx.model.resources import GPU

from phalanx_simulator.campaigns.tenants import GUARDED, USER
from phalanx_simulator.embedded.manifests import priority_class, queue
from phalanx_simulator.embedded.store import Object

NODES_PER_RACK: Final = 4
"""Fewer than in production, so that a small cluster has several racks, and some to guarantee as cells."""

PRIORITIES: Final = {"urgent": 1000, "batch": -100}

_NODES_PER_SHARING_NODE: Final = 6
_GPUS_OF_A_NODE: Final = 8
_GPU_MEMORY_MIB: Final = 81_920
_HEALTHY: Final = {"a": 4, "b": 12}
"""minAvailable of each budget."""


def sharing(nodes: Iterable[Object]) -> tuple[Object, ...]:
    """Nodes of which every sixth offers GPU shares instead of whole GPUs."""
    return tuple(
        _sharing(node) if index % _NODES_PER_SHARING_NODE == _NODES_PER_SHARING_NODE - 1 else node
        for index, node in enumerate(nodes)
    )


def _sharing(node: Object) -> Object:
    labels = {
        NODE_GPU_SHARING: "true",
        NODE_GPU_COUNT: str(_GPUS_OF_A_NODE),
        NODE_GPU_MEMORY: str(_GPU_MEMORY_MIB),
    }
    metadata = {**node["metadata"], "labels": {**node["metadata"]["labels"], **labels}}
    offered = {name: amount for name, amount in node["status"]["allocatable"].items() if name != GPU}
    return {**node, "metadata": metadata, "status": {"capacity": offered, "allocatable": dict(offered)}}


def tree(random: Random, *, gpus: int) -> tuple[Object, ...]:
    """The Queues of `tenants.QUEUES` and their common parent, sized for the cluster's GPUs."""
    backfill = random.choice((None, None, "Easy", "Conservative"))
    cells = random.choice((None, None, [{"level": "rack", "count": 1}]))
    language_limit = random.choice((None, _part(gpus, 4)))
    vision, language, production = (_part(gpus, random.choice((1, 2))) for _ in range(3))
    return (
        _queue(
            "research",
            guarantee=random.choice((None, _part(gpus, 4))),
            limit=random.choice((None, _part(gpus, 6))),
            backfill=backfill,
            maxPodGroupPriority=1000,
        ),
        _queue("vision", parent="research", guarantee=vision, weight=random.choice((1, 2))),
        _queue("language", parent="research", guarantee=language, limit=language_limit),
        _queue(
            "production",
            guarantee=production,
            cells=cells,
            ordering=random.choice((None, "StrictFIFO")),
            priority=random.choice((None, 10)),
            disruption={"maxMinRuntime": "30s"},
        ),
        _queue(
            "students",
            guarantee=random.choice((None, None, _part(gpus, 5))),
            limit=random.choice((None, _part(gpus, 5))),
            backfill=backfill,
            ordering="FairUsers",
            userLabel=USER,
            reclaim=random.choice((None, {"minRuntime": "1m"})),
        ),
        _queue("notebooks", limit={ANNOTATION_GPU_SHARE: "6000"}),
    )


def _part(gpus: int, eighths: int) -> dict[str, str]:
    return {GPU: str(max(1, gpus * eighths // 8))}


def _queue(name: str, **fields: Any) -> Object:
    return queue(name, **{field: value for field, value in fields.items() if value is not None})


def budgets() -> tuple[Object, ...]:
    """PodDisruptionBudgets over pods of several gangs that allow some evictions at a time."""
    return tuple(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"guard-{name}", "namespace": "default"},
            "spec": {"minAvailable": healthy, "selector": {"matchLabels": {GUARDED: name}}},
        }
        for name, healthy in _HEALTHY.items()
    )


def priority_classes() -> tuple[Object, ...]:
    """The priority classes that gangs name."""
    return tuple(priority_class(name, value) for name, value in PRIORITIES.items())


def config(random: Random) -> SchedulerConfig:
    """Scheduler configuration: moves and hard budgets in two of three runs; usage decay, ageing in some."""
    moves = (ActionName.CONSOLIDATE,) if random.randrange(3) else ()
    ageing = {"everySeconds": 60, "step": 100, "upTo": 500}
    plugins = random.choice(((), (), (PluginConfig("priority", arguments={"ageing": ageing}),)))
    budgets = PluginConfig("disruption-budgets", arguments={"enforcement": "hard"})
    return SchedulerConfig(
        plugins=(*plugins, budgets) if moves else plugins,
        actions=(ActionName.RELEASE, ActionName.RECOVER, *moves, ActionName.PREEMPT),
        consolidation=ConsolidationConfig(rest_minutes=1, interval_seconds=30),
        fairness=FairnessConfig(usage_half_life_minutes=random.choice((None, None, 10))),
    )
