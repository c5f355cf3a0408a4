"""Objects with any content whatever that decodes: nothing raises, and what is counted stays right."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS, KubeObject
from phalanx.model.names import (
    LABEL_MIN_MEMBER,
    LABEL_POD_GROUP,
    LABEL_QUEUE,
    LABEL_ROLE,
    LABEL_SUBGROUP,
    NODE_GPU_COUNT,
    NODE_GPU_SHARING,
)

from tests.cache.world import take_snapshot
from tests.examples import examples

ODD = [
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
texts = st.one_of(st.sampled_from(ODD), st.text(max_size=5))
integers = st.one_of(st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)]), st.integers(-9, 9))
moments = st.datetimes(timezones=st.just(UTC))


def anything(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the wire structs use them."""
    plain = {
        str: texts,
        int: integers,
        bool: st.booleans(),
        float: st.floats(),
        datetime: moments,
        NoneType: st.none(),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return structs_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(anything(arguments[0]), max_size=3).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(anything(arguments[0]), anything(arguments[1]), max_size=4)
    assert isinstance(hint, UnionType) or arguments, hint
    return st.one_of([anything(each) for each in arguments])


def structs_of(struct: type[Struct]) -> st.SearchStrategy[Any]:
    """A struct of which any optional field may be left out."""
    hints = get_type_hints(struct)
    required = {f.name for f in msgspec.structs.fields(struct) if f.required}
    fields = {name: st.deferred(lambda hint=hint: anything(hint)) for name, hint in hints.items()}
    return st.fixed_dictionaries(
        {name: field for name, field in fields.items() if name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    ).map(lambda found: struct(**found))


OBJECTS = {name: structs_of(KINDS[name].struct) for name in WATCHED_KINDS}
anything_watched = st.sampled_from(WATCHED_KINDS).flatmap(lambda name: OBJECTS[name])

PLENTY = settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))


@PLENTY
@pytest.mark.parametrize("name", ["Pod", "Node", "PodGroup", "Queue"])
@given(data=st.data())
def test_one_kind(name: str, data: st.DataObject) -> None:
    survive(data.draw(st.lists(OBJECTS[name], min_size=1, max_size=3)))


@PLENTY
@given(st.lists(anything_watched, max_size=6))
def test_all_kinds_together(objects: list[KubeObject]) -> None:
    survive(objects)


def identified(item: Any, generation: int) -> Any:
    """With a UID that no object of another kind or name has: that much an API server sees to."""
    meta = item.metadata
    uid = f"{type(item).__name__}/{meta.namespace}/{meta.name}/{generation}"
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(meta, uid=uid))


def survive(objects: list[KubeObject]) -> None:
    """Apply them, look, take them away again."""
    cache = Cache(scheduler_name="phalanx")
    objects = [identified(item, number % 2) for number, item in enumerate(objects)]
    for item in objects:
        cache.apply(Applied(item))
        msgspec.msgpack.encode(take_snapshot(cache))
        cache.check_invariants()
    for kind in WATCHED_KINDS:
        cache.apply(Relisted(kind, tuple(item for item in objects if type(item).__name__ == kind)))
    cache.check_invariants()
    for item in objects:
        cache.apply(Deleted(type(item).__name__, item.metadata.namespace, item.metadata.name))
    cache.check_invariants()
    assert not take_snapshot(cache).gangs
    assert not take_snapshot(cache).nodes
