"""From a study and its history to what is played for each variant."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from phalanx.framework.config import ConfigError, config_errors, convert
from phalanx.framework.registry import plugin_errors
from phalanx.model.api.queues import QueueSpec
from phalanx.model.queues import Admission, Backfill, Objective, Ordering
from phalanx.model.resources import GPU

from phalanx_simulator.lab.engine.cluster import Pool, QueueSetup, Setup
from phalanx_simulator.lab.engine.jobs import DAY_MS, Window, busiest, divided, window_of
from phalanx_simulator.lab.history.history import History, RecordedQueue, counted, tenants_of
from phalanx_simulator.lab.study.study import ClusterSpec, Policy, PoolSpec, Study, StudyError, Variant

_GIB: Final = 1 << 10
_KEYS: Final = {field.encode_name for field in msgspec.structs.fields(QueueSpec)}
_NOT_PLAYED: Final = frozenset({"parent", "namespaceSelector", "flavors", "cells", "userLabel", "state"})
_WORDS: Final[Mapping[str, type[Backfill | Ordering | Objective | Admission]]] = {
    "backfill": Backfill,
    "ordering": Ordering,
    "objective": Objective,
    "admission": Admission,
}


class Case(Struct, frozen=True):
    """One run: a variant on the days of the history."""

    name: str
    setup: Setup
    window: Window
    period_ms: int


class Plan(Struct, frozen=True):
    """The runs of a study, and what a reader must know of its history."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]


def plan_of(study: Study, history: History) -> Plan:
    """The runs of all variants. Raises StudyError for what does not fit together."""
    window = _window(study, history)
    pools = _pools(study.cluster, history, window)
    cases = tuple(
        Case(
            variant.name,
            _setup(study, variant, _changed(pools, variant), history, window),
            window,
            study.period_seconds * 1000,
        )
        for variant in study.variants
    )
    return Plan(cases, (*history.notes, *_too_large(cases)))


def _window(study: Study, history: History) -> Window:
    """The days; without a number of days, all until the last submission."""
    spec = study.history
    last = history.jobs[-1].submit_ms // DAY_MS
    first = spec.first_day
    if first is None:
        first = 0 if spec.days is None else busiest((job.submit_ms for job in history.jobs), spec.days)
    days = last + 1 - first if spec.days is None else spec.days
    if first > last:
        raise StudyError(f"history.firstDay: expected at most {last}, the day of the last job; found {first}")
    window = window_of(history.jobs, first_day=first, days=days, rounds_limits=study.declares == "rounded")
    if not any(job.is_new for job in window.jobs):
        raise StudyError("history.firstDay, history.days: expected days in which a job was submitted")
    return window


def _pools(cluster: ClusterSpec, history: History, window: Window) -> tuple[Pool, ...]:
    given = [cluster.nodes is not None, cluster.load_percent is not None, bool(cluster.pools)]
    if sum(given) > 1:
        raise StudyError("cluster: expected one of nodes, loadPercent and pools, found several")
    if cluster.pools:
        return tuple(map(_pool, cluster.pools))
    if cluster.nodes is not None:
        return (Pool("n", cluster.nodes, cluster.gpus_per_node, racks=cluster.racks),)
    if cluster.load_percent is not None:
        largest = max(job.pods for job in window.jobs)
        wanted = math.ceil(window.wanted * 100 / cluster.load_percent / cluster.gpus_per_node)
        return (Pool("n", max(1, largest, wanted), cluster.gpus_per_node, racks=cluster.racks),)
    if not history.pools:
        raise StudyError("cluster: expected nodes, loadPercent or pools, since the history does not say them")
    return history.pools


def _pool(each: PoolSpec) -> Pool:
    size = (each.gpus, each.cpus * 1000, each.memory_gib * _GIB)
    return Pool(each.name, each.nodes, *size, each.model, each.racks)


def _changed(pools: tuple[Pool, ...], variant: Variant) -> tuple[Pool, ...]:
    """The pools with more or fewer nodes."""
    if not variant.add_nodes:
        return pools
    names = [pool.name for pool in pools]
    name = variant.pool or names[0]
    if name not in names:
        raise StudyError(f"{variant.name}: pool: expected one of {', '.join(names)}; found {name}")
    changed = tuple(
        replace(pool, nodes=pool.nodes + variant.add_nodes) if pool.name == name else pool for pool in pools
    )
    if min(pool.nodes for pool in changed) < 0 or not sum(pool.nodes for pool in changed):
        raise StudyError(f"{variant.name}: addNodes: pool {name} has fewer nodes than are taken away")
    return changed


def _setup(
    study: Study, variant: Variant, pools: tuple[Pool, ...], history: History, window: Window
) -> Setup:
    topology = variant.topology or study.topology
    setup = Setup(
        pools,
        queues={},
        config=_merged(study.config, variant.config),
        topology={} if topology is None else _without_none(msgspec.to_builtins(topology)),
    )
    _check_config(variant.name, setup.config)
    if topology is not None and not any(pool.racks for pool in pools):
        raise StudyError(f"{variant.name}: topology: expected a cluster with racks")
    return replace(setup, queues=_queues(study, variant, setup.gpus, history, window))


def _queues(
    study: Study, variant: Variant, gpus: int, history: History, window: Window
) -> dict[str, QueueSetup]:
    tenants = sorted({*tenants_of(history.jobs), *history.queues})
    base = _base(variant.guarantees or study.guarantees, gpus, history, window, tenants)
    for policy in (study, variant):
        for name in policy.queues:
            if name not in tenants:
                raise StudyError(
                    f"{variant.name}: queues: expected queues of the history: {_some(tenants)}; found {name}"
                )
    return {name: _queue(variant.name, base[name], _specs(name, study, variant)) for name in tenants}


def _specs(name: str, *policies: Policy) -> dict[str, Any]:
    """The spec of one queue: later policies and single queues win."""
    spec: dict[str, Any] = {}
    for policy in policies:
        backfill = {} if policy.backfill is None else {"backfill": policy.backfill}
        spec = {**spec, **policy.all_queues, **backfill, **policy.queues.get(name, {})}
    return spec


def _base(
    choice: str | None, gpus: int, history: History, window: Window, tenants: Sequence[str]
) -> dict[str, QueueSetup]:
    """Guarantees and weights before single queues are set."""
    choice = choice or ("recorded" if history.queues else "byUse")
    if choice == "none":
        return {name: QueueSetup(0, 1) for name in tenants}
    if choice == "recorded":
        if not history.queues:
            raise StudyError("guarantees: expected byUse or none, since the history has no queues")
        known = [history.queues.get(name, RecordedQueue(0, 1)) for name in tenants]
        return {
            name: QueueSetup(each.guarantee, max(1, each.weight))
            for name, each in zip(tenants, known, strict=True)
        }
    given = divided(gpus, {name: window.part.get(name, 0.0) for name in tenants})
    return {name: QueueSetup(given[name], max(1, given[name])) for name in tenants}


def _queue(where: str, base: QueueSetup, spec: Mapping[str, Any]) -> QueueSetup:
    rest = dict(spec)
    for key in rest:
        if key not in _KEYS or key in _NOT_PLAYED:
            known = ", ".join(sorted(_KEYS - _NOT_PLAYED))
            raise StudyError(f"{where}: queues: expected the keys {known}; found {key}")
    try:
        msgspec.convert(rest, QueueSpec)
    except msgspec.ValidationError as error:
        raise StudyError(f"{where}: queues: {error}") from error
    for key, words in _WORDS.items():
        if key in rest and rest[key] not in [word.value for word in words]:
            raise StudyError(f"{where}: queues: {key}: expected one of {', '.join(words)}; found {rest[key]}")
    weight = rest.pop("weight", base.weight)
    guarantee = rest.pop("guarantee", {GPU: base.guarantee})
    if weight < 1:
        raise StudyError(f"{where}: queues: weight: expected 1 or more, found {weight}")
    return QueueSetup(_gpus_of(where, guarantee), weight, rest)


def _gpus_of(where: str, guarantee: Mapping[str, Any]) -> int:
    text = str(guarantee.get(GPU, 0))
    if set(guarantee) - {GPU} or not (text.isascii() and text.isdecimal()):
        raise StudyError(f"{where}: queues: guarantee: expected {{{GPU}: NUMBER}}, found {dict(guarantee)}")
    return int(text)


def _check_config(where: str, settings: Mapping[str, Any]) -> None:
    try:
        config = convert(dict(settings))
        for error in (*config_errors(config), *plugin_errors(config)):
            raise error
    except ConfigError as error:
        raise StudyError(f"{where}: config: {error}") from error


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Maps are merged key by key; any other value is replaced."""
    merged = dict(first)
    for key, value in second.items():
        known = merged.get(key)
        are_maps = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(known, value) if are_maps else value  # type: ignore[arg-type]
    return merged


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _too_large(cases: Sequence[Case]) -> list[str]:
    """Notes for jobs that can never start: they need more GPUs than the cluster or any of its nodes has."""
    notes = []
    for case in cases:
        largest = max(pool.gpus for pool in case.setup.pools if pool.nodes)
        never = sum(job.total > case.setup.gpus or job.gpus > largest for job in case.window.jobs)
        if never:
            jobs = counted(never, "job", "jobs")
            notes.append(f"{case.name}: {jobs} that the cluster is too small for: never started")
    return notes


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return f"{shown} and {len(names) - 10} more" if len(names) > 10 else shown
