"""Objects of a tenant name nothing of other tenants, unless the configuration says so.

Real verdicts and evictions are checked, and texts with names as any action could write them.
"""

from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied
from phalanx.framework.config import SchedulerConfig
from phalanx.model.decisions import Evict, EvictionReason
from phalanx.model.gangs import Gang
from phalanx.model.named_parts import domain, like_node, node, plain, titled, workload
from phalanx.model.names import GangId, PodUid
from phalanx.model.reasons import Evidence, Reason, Verdict, in_plain_text
from phalanx.service.tenant_names import TenantNames

from tests.parsed_config import parse_config
from tests.tenants.world import World

SECRET = ("secret-ns", "their-gang", "their-pod", "their-node")


def shared() -> World:
    """Queue mine runs a pod on n0; another queue runs a gang and a pod on node their-node."""
    world = World().queue("mine", team="mine").queue("theirs", team="theirs")
    world.namespace("my-ns", team="mine").namespace("my-other-ns", team="mine")
    world.namespace("secret-ns", team="theirs")
    assert world.objects["Node", "", "n0"].metadata.name == "n0"
    world.pod("my-pod", "my-ns", queue="mine", on="n0", charged="mine")
    world.group("mate", "my-other-ns", queue="mine").pod("mate-0", "my-other-ns", group="mate", on="n0")
    return world


def cache_of(world: World) -> Cache:
    cache = Cache(scheduler_name="phalanx")
    cache.apply_all(map(Applied, world.objects.values()))
    return cache


def gang_of(cache: Cache, name: str) -> Gang:
    found = [cache.gang(each) for each in cache.gang_ids()]
    return next(gang for gang in found if gang is not None and str(gang) == name)


def shown(world: World, gang: str, text: str, *, show_all: bool = False) -> str:
    """The text as the objects of this gang show it."""
    cache = cache_of(world)
    asked = gang_of(cache, gang)
    verdict = in_plain_text(
        Verdict(asked.id, str(asked), Reason.INSUFFICIENT_CAPACITY, text, (Evidence(text, text),), text)
    )
    seen = TenantNames(cache, show_all=show_all).verdict(asked, verdict)
    (evidence,) = seen.evidence
    assert {seen.message, seen.next_step, evidence.subject, evidence.finding} == {seen.message}
    return seen.message


def test_names_of_other_tenants_are_replaced() -> None:
    world = shared().group("their-gang", "secret-ns", queue="theirs")
    world.pod("their-pod", "secret-ns", group="their-gang", on="n1")
    gang_a, gang_b = titled("gang secret-ns/a"), titled("gang secret-ns/b")
    for text, expected in {
        f"{titled('gang secret-ns/their-gang')} ends": "another tenant's gang ends",
        f"{workload('secret-ns/their-gang')} ends.": "another tenant's workload ends.",
        f"{titled('Job secret-ns/x')} ({titled('pod secret-ns/their-pod')})": (
            "another tenant's Job (another tenant's pod)"
        ),
        f"{gang_a}, {gang_b} and {titled('gang my-ns/x')}": (
            "another tenant's gang and others and gang my-ns/x"
        ),
        f"{gang_a} and {titled('pod secret-ns/b')} end": "another tenant's gang and another tenant's pod end",
        f"{titled('PodDisruptionBudget secret-ns/b')} allows 0": (
            "another tenant's PodDisruptionBudget allows 0"
        ),
        "8 nvidia.com/gpu of queue theirs": "8 nvidia.com/gpu of queue theirs",
        f"{workload('my-ns/my-pod')} and {workload('my-ns/x')}": "my-ns/my-pod and my-ns/x",
        workload("no-namespace/x"): "another tenant's workload",
    }.items():
        assert shown(world, "my-ns/my-pod", text) == expected
        assert shown(world, "my-ns/my-pod", text, show_all=True) == plain(text)


def test_names_of_the_own_queue_are_shown() -> None:
    text = f"{titled('gang my-other-ns/mate')} and {titled('pod my-other-ns/mate-0')} end"
    assert shown(shared(), "my-ns/my-pod", text) == "gang my-other-ns/mate and pod my-other-ns/mate-0 end"
    moved = shared().group("mate", "my-other-ns", queue="default").pod("mate-0", "my-other-ns", group="mate")
    assert shown(moved, "my-ns/my-pod", text) == "another tenant's gang and another tenant's pod end"


def test_nodes_are_shown_that_the_own_queue_uses() -> None:
    world = World(nodes=3).queue("mine").queue("theirs").namespace("my-ns").namespace("secret-ns")
    world.pod("my-pod", "my-ns", queue="mine").pod("mine", "my-ns", queue="mine", on="n0", charged="mine")
    world.pod("their-pod", "secret-ns", queue="theirs", on="n1", charged="theirs")
    for text, expected in {
        f"8 are free on {node('n0')}": "8 are free on n0",
        f"8 are free on each of {node('n1')}, {node('n2')}": "8 are free on each of 2 other nodes",
        f"{node('n1')}, {node('n0')}, {node('n2')}": "another node, n0, another node",
        f"{node('n1', titled=True)}: taint": "another node: taint",
        f"rack {domain('z/r1/n1')} fits": "rack z/r1/… fits",
        f"add{like_node(' 1 node like n1', 'n1', instead=' 1 node with 8 cpu')}": "add 1 node with 8 cpu",
        f"add{like_node(' 1 node like n0', 'n0', instead=' 1 node with 8 cpu')}": "add 1 node like n0",
        "n1, my-ns/n1, secret-ns/their-pod": "n1, my-ns/n1, secret-ns/their-pod",
    }.items():
        assert shown(world, "my-ns/my-pod", text) == expected
    world.pod("my-pod", "my-ns", queue="mine", on="n2", charged="mine", status={"phase": "Failed"})
    assert shown(world, "my-ns/my-pod", f"failed on {node('n2')}") == "failed on n2"


def test_a_verdict_that_waits_for_another_tenant_does_not_name_it() -> None:
    world = (
        shared()
        .group("their-gang", "secret-ns", queue="theirs")
        .pod("their-pod", "secret-ns", group="their-gang", gpus=6, on="n0", charged="theirs")
    )
    world.pod("wide", "my-ns", queue="mine", gpus=6)
    outcome = world.queue("mine", team="mine", weight=1).queue("theirs", team="theirs", guarantee=6).decide()
    verdict = outcome.verdicts["my-ns/wide"]
    assert "secret-ns/their-gang" in f"{verdict.message} {verdict.next_step}"
    cache = cache_of(world)
    seen = TenantNames(cache, show_all=False).verdict(gang_of(cache, "my-ns/wide"), verdict)
    assert "another tenant's" in seen.next_step
    assert not any(name in str(seen) for name in SECRET)


def test_a_victim_does_not_learn_for_whom_it_was_evicted() -> None:
    world = (
        shared()
        .queue("theirs", team="theirs", guarantee=8)
        .pod("their-pod", "secret-ns", gpus=8, queue="theirs")
    )
    outcome = world.decide()
    assert outcome.evicted == {"my-pod", "mate-0"}
    names = TenantNames(cache_of(world), show_all=False)
    for evict in outcome.evictions:
        assert "secret-ns/their-pod" in evict.message
        assert not any(name in names.eviction_message(evict) for name in SECRET)
        assert "queue theirs" in names.eviction_message(evict)


def test_the_message_of_an_eviction_of_an_unknown_gang_names_nobody() -> None:
    evict = Evict(
        PodUid("u"),
        "my-ns",
        "p",
        GangId("gone"),
        1,
        EvictionReason.PREEMPTED,
        "for secret-ns/x",
        marked=f"for {workload('secret-ns/x')}",
    )
    assert "secret-ns" not in TenantNames(cache_of(shared()), show_all=False).eviction_message(evict)


def test_the_configuration_shows_names() -> None:
    assert not SchedulerConfig().privacy.show_other_tenants
    assert parse_config("privacy: {showOtherTenants: true}").privacy.show_other_tenants


def test_what_no_queue_is_charged_for_shares_nothing() -> None:
    """Two tenants whose namespaces no queue accepts."""
    world = World(nodes=2).queue("default", team="nobody").namespace("my-ns").namespace("secret-ns")
    world.pod("my-pod", "my-ns", on="n0").group("their-gang", "secret-ns")
    world.pod("their-pod", "secret-ns", group="their-gang", on="n1")
    text = f"{titled('gang secret-ns/their-gang')} on {node('n1')} and {node('n0')}"
    assert shown(world, "my-ns/my-pod", text) == "another tenant's gang on another node and n0"
