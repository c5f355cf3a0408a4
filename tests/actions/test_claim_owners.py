"""Claims that a pod names in unusual ways, or whose owner is unusual: tenants write both."""

from msgspec.structs import replace
from phalanx.model.pods import PodClaim

from tests.actions.test_device_claims import World, on_node
from tests.model.devices import device, slice_of


def one_device() -> World:
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", device("x0"))
    return world


def test_a_pod_may_control_a_claim_that_it_names() -> None:
    world = one_device()
    world.gang("g", 1)
    world.sharing("g", "c")
    (pod,) = world.members("g")
    world.device_claims["c"] = replace(world.device_claims["c"], owner=pod.uid)
    world.gang("plain", 1)
    decided = world.decide()
    (placement,) = decided.placements("g")
    (grant,) = placement.binds[0].grants
    assert grant.allocation is not None
    assert decided.placements("plain")


def test_a_pod_may_name_a_claim_twice() -> None:
    world = one_device()
    world.gang("g", 1)
    world.sharing("g", "c")
    world.sharing("g", "c")
    (placement,) = world.decide().placements("g")
    (grant,) = placement.binds[0].grants
    assert grant.name == "c"


def test_a_claim_made_for_a_pod_is_allocated_once_if_the_pod_names_it_too() -> None:
    world = one_device()
    world.gang("g", 1)
    world.claiming("g")
    (pod,) = world.members("g")
    named = PodClaim("again", "g-0-gpu")
    world.change("g", members=(replace(pod, device_claims=(*pod.device_claims, named)),))
    (placement,) = world.decide().placements("g")
    (grant,) = placement.binds[0].grants
    assert grant.name == "g-0-gpu"


def test_devices_of_a_shared_claim_are_chosen_for_the_gang_that_is_tried() -> None:
    world = World()
    for name, cpu in (("first", 2), ("second", 8)):
        world.nodes(name, 2, cpu=cpu, labels={"pair": name})
        pair = {"key": "pair", "operator": "In", "values": [name]}
        choice = {"nodeSelectorTerms": [{"matchExpressions": [pair]}]}
        world.slices.append(slice_of(device("link"), name=name, pool={"name": name}, nodeSelector=choice))
    world.gang("large", 1, cpu=8, priority=5)
    world.gang("small", 1, cpu=1, priority=1)
    for gang in ("large", "small"):
        world.sharing(gang, "c")
    decided = world.decide()
    assert decided.nodes("large") == ["second-0"]
    assert decided.nodes("small") == ["second-1"]


def test_pods_for_which_a_shared_claim_is_reserved_already_count_once() -> None:
    world = World()
    world.nodes("a", 1)
    world.device_slice("a-0", device("x0"))
    world.gang("g", 129, min=2, cpu=0)
    world.sharing("g", "c", status=on_node("a-0", "x0"))
    users = tuple(pod.uid for pod in world.members("g"))
    world.device_claims["c"] = replace(world.device_claims["c"], reserved_for=users)
    assert world.decide().placements("g")
    strangers = tuple(f"stranger-{number}" for number in range(128))
    world.device_claims["c"] = replace(world.device_claims["c"], reserved_for=(*users, *strangers))
    assert "257 pods would use it" in world.decide().verdict("g").message
