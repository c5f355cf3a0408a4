"""The devices of claims that queues are charged for, counted from the objects of the API."""

from collections.abc import Iterable, Iterator
from typing import Final

from phalanx_simulator.embedded.pod_claims import claim_names, is_for_extended
from phalanx_simulator.embedded.store import Object, Store
from phalanx_simulator.invariants.claim_facts import DEVICE_CLAIMS, DEVICE_CLASSES, consumers_of, found
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.truth import Truth

_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class ClaimCharges:
    """Which pod is charged for each allocated claim: of those with a node the first for which it is reserved.

    Claims for extended resources do not count: the requests of their pods do. Simulated pods request no
    resource by the name that each class has.
    """

    def __init__(self, store: Store, truth: Truth) -> None:
        self._store = store
        self._truth = truth

    def by_pod(self) -> dict[str, dict[str, int]]:
        """By UID of a pod, the devices that it is charged for, by name of the resource."""
        charged: dict[str, dict[str, int]] = {}
        for claim, pods, amounts in self._used():
            own = charged.setdefault(_first(pods, set(consumers_of(claim))), {})
            for name, amount in amounts.items():
                own[name] = own.get(name, 0) + amount
        return charged

    def by_users(self) -> list[tuple[set[str], dict[str, int]]]:
        """The UIDs of the pods that use each claim, and its devices by name of the resource."""
        return [({pod["metadata"]["uid"] for pod in pods}, amounts) for _, pods, amounts in self._used()]

    def _used(self) -> Iterator[tuple[Object, list[Object], dict[str, int]]]:
        """The claims with devices that count, the pods that use them, and the devices."""
        users = self._users() if next(iter(self._store.entries(DEVICE_CLAIMS)), None) is not None else {}
        for entry in self._store.entries(DEVICE_CLAIMS) if users else ():
            pods = users.get((entry.key.namespace, entry.key.name))
            amounts = dict(self.counted(entry.data))
            if pods and amounts:
                yield entry.data, pods, amounts

    def counted(self, claim: Object) -> Iterator[tuple[str, int]]:
        """The devices of a claim by name of the resource; none if it is not allocated."""
        allocation = (claim.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        if is_for_extended(claim):
            return
        for request, device_class in _classes_of(claim):
            count = sum(each["request"] == request and not each.get("adminAccess") for each in results)
            if count:
                yield self._name_of(device_class), count

    def names_of(self, pod: PodFact) -> set[str]:
        """The resources that the allocated claims of a pod count as."""
        data = found(self._store, self._truth.key_of(pod))
        names = [name for name in claim_names(data) if name] if data is not None else []
        claims = (
            found(self._store, self._truth.key_of(pod)._replace(resource=DEVICE_CLAIMS, name=name))
            for name in names
        )
        return {name for claim in claims if claim is not None for name, _ in self.counted(claim)}

    def _name_of(self, device_class: str) -> str:
        known = next(
            (each for each in self._store.entries(DEVICE_CLASSES) if each.key.name == device_class), None
        )
        stated = known.data["spec"].get("extendedResourceName") if known is not None else ""
        return stated or _CLASS_PREFIX + device_class

    def _users(self) -> dict[tuple[str, str], list[Object]]:
        """The pods of our scheduler with a node that name each claim."""
        users: dict[tuple[str, str], list[Object]] = {}
        for pod in self._truth.pods.values():
            data = found(self._store, self._truth.key_of(pod)) if pod.is_ours and pod.holds_node else None
            for name in set(claim_names(data)) if data is not None else ():
                users.setdefault((pod.namespace, name), []).append(data or {})
        return users


def _first(pods: Iterable[Object], reserved: set[str]) -> str:
    meta = min(
        (pod["metadata"] for pod in pods),
        key=lambda each: (each["uid"] not in reserved, each.get("creationTimestamp") or "", each["uid"]),
    )
    return str(meta["uid"])


def _classes_of(claim: Object) -> Iterator[tuple[str, str]]:
    """Each request, or alternative of one, as allocations name it, with its class."""
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        if "exactly" in request:
            yield request["name"], request["exactly"]["deviceClassName"]
        for each in request.get("firstAvailable") or ():
            yield f"{request['name']}/{each['name']}", each["deviceClassName"]
