"""What a tenant writes is shown as it is written, whatever else is called so, and is never a marked name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.kube.decode import KindDecoder, ObjectEvent
from phalanx.kube.errors import error_of_status
from phalanx.model.api.core import Pod
from phalanx.model.api.kinds import KINDS
from phalanx.model.api.meta import Status
from phalanx.model.events import Applied
from phalanx.model.named_parts import Name, domain, like_node, node, plain, shown, titled, workload
from phalanx.model.reasons import Verdict
from phalanx.service.tenant_names import TenantNames

from tests.examples import holds
from tests.model.written import node as written_node
from tests.tenants.test_names import cache_of, gang_of
from tests.tenants.world import World

GUESSES = ("node-7", "r7", "theirs-7", "x7")
OTHER = "z9"
"""A name that nobody guesses, behind all others in order."""

FIELDS = ("pod", "role", "level", "subgroup", "claim", "label")


def with_guess(field: str, guess: str, *, node_name: str, gang: str, gpus: int) -> World:
    """Tenant my-ns writes its guess into a field; a node and a gang of another tenant may be called so."""
    world = World(nodes=1).queue("mine", team="mine").queue("theirs", team="theirs")
    world.namespace("my-ns", team="mine").namespace(f"{gang}-ns", team="theirs")
    amounts = {"cpu": "64", "pods": "110", "nvidia.com/gpu": "8"}
    world.put(written_node(node_name, status={"allocatable": amounts}))
    world.pod("my-run", "my-ns", queue="mine", on="n0", charged="mine", gpus=2)
    world.group(gang, f"{gang}-ns", queue="theirs")
    world.pod(f"{gang}-0", f"{gang}-ns", group=gang, on=node_name, charged="theirs", gpus=6)
    spec: dict[str, Any] = {"queue": "mine"}
    pod: dict[str, Any] = {}
    labels: dict[str, str] = {}
    name = "mine"
    if field == "pod":
        name = guess
    elif field == "role":
        spec.update(minMember=2, roles=[{"name": guess, "count": 2, "minMember": 2}])
        labels["scheduling.phalanx.dev/role"] = guess
    elif field == "level":
        spec["topology"] = {"required": guess}
    elif field == "subgroup":
        spec.update(minMember=2, subGroups=[{"name": guess, "minMember": 2}])
        labels["scheduling.phalanx.dev/subgroup"] = guess
    elif field == "claim":
        pod["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": guess}}]
    else:
        pod["nodeSelector"] = {guess: guess}
    world.group("asked", "my-ns", **spec)
    return world.pod(name, "my-ns", group="asked", queue="mine", gpus=gpus, labels=labels, **pod)


def as_shown(world: World) -> Verdict | None:
    """The verdict on the gang of the tenant, as its objects show it."""
    verdict = world.decide().verdicts.get("my-ns/asked")
    if verdict is None:
        return None
    cache = cache_of(world)
    asked = gang_of(cache, "my-ns/asked")
    seen = TenantNames(cache, show_all=False).verdict(asked, verdict)
    return Verdict(asked.id, seen.group, seen.reason, seen.message, seen.evidence, seen.next_step)


@given(st.sampled_from(FIELDS), st.sampled_from(GUESSES), st.sampled_from([3, 7, 9]))
@holds(60)
def test_a_guessed_name_is_no_oracle(field: str, guess: str, gpus: int) -> None:
    """The texts are the same whether a node, a namespace and a gang have the name that the tenant wrote."""
    exists = as_shown(with_guess(field, guess, node_name=guess, gang=guess, gpus=gpus))
    exists_not = as_shown(with_guess(field, guess, node_name=OTHER, gang=OTHER, gpus=gpus))
    assert exists == exists_not


@pytest.mark.parametrize("field", ["role", "level", "subgroup", "claim"])
def test_the_own_words_of_a_tenant_are_shown(field: str) -> None:
    seen = as_shown(with_guess(field, "node-7", node_name="node-7", gang="node-7", gpus=9))
    assert seen is not None
    texts = [seen.message, seen.next_step, *(f"{each.subject} {each.finding}" for each in seen.evidence)]
    assert any("node-7" in text for text in texts)
    assert not any("…" in text for text in texts)


# --- texts --------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["n1", "n2", "team/x", "a"])
PARTS = st.one_of(
    st.text(alphabet="ab ,…\\'\"\n", max_size=4).map(lambda text: (text, text, False)),
    st.sampled_from([", ", " and "]).map(lambda text: (text, text, False)),
    NAMES.map(lambda name: (node(name), name, True)),
    NAMES.map(lambda name: (workload(name), name, True)),
    NAMES.map(lambda name: (titled(f"gang {name}"), f"gang {name}", True)),
    NAMES.map(lambda name: (domain(name.replace("/", "-")), name.replace("/", "-"), True)),
    NAMES.map(lambda name: (like_node(f"like {name}", name, instead="with 8 cpu"), f"like {name}", True)),
)


@given(st.lists(PARTS, max_size=7), st.sets(NAMES))
@holds(300)
def test_only_marked_names_change(parts: list[tuple[str, str, bool]], visible: set[str]) -> None:
    text = "".join(part for part, _, _ in parts)
    assert plain(text) == "".join(words for _, words, _ in parts)
    assert shown(text, lambda _: True) == plain(text)
    asked: set[str] = set()

    def may_see(name: Name) -> bool:
        asked.add(name.name)
        return name.name in visible

    seen = shown(text, may_see)
    assert asked == {words.split()[-1] for _, words, is_name in parts if is_name}
    assert "\x01" not in seen
    if all(is_name and words.split()[-1] not in visible for _, words, is_name in parts):
        assert not {"n1", "n2", "team/x"} & set(seen.replace(",", " ").split())
    assert shown(seen, lambda _: False) == seen


# --- nobody forges a name -----------------------------------------------------------------------------------

WRITTEN = st.text(alphabet=["\x01", "\\", "u", "0", "1", '"', "n", "é"], max_size=12)
FORGED = node("n1")


@given(WRITTEN, st.booleans())
@holds(200)
def test_no_decoded_object_has_a_mark(text: str, as_raw: bool) -> None:
    """Neither as it is decoded, nor where JSON inside an annotation is decoded once more."""
    for written in (text, FORGED, json.dumps([text]), json.dumps([FORGED])):
        metadata = {"name": "p", "namespace": "ns", "annotations": {"a": written}, "labels": {"b": written}}
        pod = {"metadata": metadata, "spec": {"nodeSelector": {written: written}}}
        line = json.dumps({"type": "ADDED", "object": pod}, ensure_ascii=not as_raw).encode()
        decoder = KindDecoder(KINDS["Pod"])
        found = decoder.line(line)
        assert isinstance(found, ObjectEvent)
        assert isinstance(found.event, Applied)
        (listed,) = decoder.page(json.dumps({"items": [pod]}).encode()).objects
        for item in (found.event.object, listed):
            assert isinstance(item, Pod)
            annotation = item.metadata.annotations["a"]
            assert "\x01" not in annotation + "".join(item.metadata.labels.values())
            assert "\x01" not in "".join(item.spec.node_selector)
            if written.startswith("["):
                assert "\x01" not in "".join(json.loads(annotation))


def test_raw_control_characters_forge_nothing() -> None:
    """A server that escapes nothing."""
    pod = {"metadata": {"name": "p", "annotations": {"a": FORGED}}}
    line = json.dumps({"type": "ADDED", "object": pod}).replace("\\u0001", "\x01").encode()
    found = KindDecoder(KINDS["Pod"]).line(line)
    assert isinstance(found, ObjectEvent)
    assert isinstance(found.event, Applied)
    assert "\x01" not in found.event.object.metadata.annotations["a"]


def test_no_error_of_the_server_has_a_mark() -> None:
    assert "\x01" not in error_of_status(Status(message=f"refused: {FORGED}"), code=403).message
