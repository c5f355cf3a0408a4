"""Arbitrary decodable objects: the cache raises no exception and its invariants hold."""

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.api.kinds import DEVICE_KINDS, KINDS, QUEUE_KINDS, WATCHED_KINDS
from phalanx.model.api.meta import KubeObject
from phalanx.model.dialects.queues import QueueDialectName
from phalanx.model.names import (
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NODE_GPU_COUNT,
    NODE_GPU_SHARING,
)
from phalanx.model.supplies.devices.cluster import ClusterDevices
from phalanx_simulator.invariants.cache_tables import check_cache

from tests.cache.world import take_snapshot
from tests.examples import holds

UNUSUAL_TEXTS = [
    "",
    "a",
    "b",
    "phalanx",
    "Exists",
    "In",
    "Gt",
    "Succeeded",
    "cpu",
    "1e400",
    "9E",
    "-1",
    "NaN",
    "１２",
    "\x00",
    "‮",
    "é" * 300,
    LABEL_POD_GROUP,
    LABEL_MIN_MEMBER,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NODE_GPU_SHARING,
    NODE_GPU_COUNT,
    "true",
    "2",
]
texts = st.one_of(st.sampled_from(UNUSUAL_TEXTS), st.text(max_size=5))
integers = st.one_of(st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)]), st.integers(-9, 9))


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """A strategy for values of a type that the API structs use."""
    plain = {
        str: texts,
        int: integers,
        bool: st.booleans(),
        float: st.floats(),
        NoneType: st.none(),
        Any: texts,
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return structs_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=4)
    assert isinstance(hint, UnionType) or arguments, hint
    return st.one_of([values_of(each) for each in arguments])


def structs_of(struct: type[Struct]) -> st.SearchStrategy[Any]:
    """A strategy for a struct; any optional field may be absent."""
    hints = get_type_hints(struct)
    required = {f.name for f in msgspec.structs.fields(struct) if f.required}
    fields = {name: st.deferred(lambda hint=hint: values_of(hint)) for name, hint in hints.items()}
    return st.fixed_dictionaries(
        {name: field for name, field in fields.items() if name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    ).map(lambda found: struct(**found))


KINDS_OF_CACHE = (*WATCHED_KINDS, *QUEUE_KINDS, *DEVICE_KINDS)
OBJECTS = {name: structs_of(KINDS[name].struct) for name in KINDS_OF_CACHE}
watched_objects = st.sampled_from(KINDS_OF_CACHE).flatmap(lambda name: OBJECTS[name])

PLENTY = holds(40, suppress_health_check=list(HealthCheck))


@PLENTY
@pytest.mark.parametrize("name", ["Pod", "Node", "PodGroup", "Queue", *QUEUE_KINDS, *DEVICE_KINDS])
@given(data=st.data())
def test_arbitrary_objects_of_one_kind(name: str, data: st.DataObject) -> None:
    check_cache_with(data.draw(st.lists(OBJECTS[name], min_size=1, max_size=3)))


@PLENTY
@given(st.lists(watched_objects, max_size=6))
def test_arbitrary_objects_of_all_kinds(objects: list[KubeObject]) -> None:
    check_cache_with(objects)


def identified(item: Any, generation: int) -> Any:
    """The object with a UID that is unique per kind and name, as an API server guarantees."""
    meta = item.metadata
    uid = f"{type(item).__name__}/{meta.namespace}/{meta.name}/{generation}"
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(meta, uid=uid))


def check_cache_with(objects: list[KubeObject]) -> None:
    """Apply the objects, take snapshots, delete the objects; check the invariants after each step."""
    cache = Cache(scheduler_name="phalanx", queue_dialects=tuple(QueueDialectName))
    objects = [identified(item, number % 2) for number, item in enumerate(objects)]
    for item in objects:
        cache.apply(Applied(item))
        msgspec.msgpack.encode(take_snapshot(cache))
        check_cache(cache)
    for kind in KINDS_OF_CACHE:
        cache.apply(Relisted(kind, tuple(item for item in objects if type(item).__name__ == kind)))
    check_cache(cache)
    for item in objects:
        cache.apply(Deleted(type(item).__name__, item.metadata.namespace, item.metadata.name))
    check_cache(cache)
    assert not take_snapshot(cache).gangs
    assert not take_snapshot(cache).nodes
    assert take_snapshot(cache).part(ClusterDevices) == ClusterDevices()
