"""Extended resources that devices satisfy: what containers request of them, and the claim that follows.

A DeviceClass can have the name of an extended resource. A pod that requests the resource gets devices of the
class on nodes that do not offer the resource themselves. The scheduler makes one ResourceClaim for the pod,
with the requests that kube-scheduler 1.37 would make: one for each container and resource. Init containers
use devices of the containers that start after them, and ask for what is missing once for all of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct, structs

CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of the name that each class has as an extended resource, beside the one that it may state."""

EXTENDED_RESOURCE_CLAIM: Final = "<extended-resources>"
"""In place of the name in `spec.resourceClaims` and of the UID of a claim that does not exist yet."""

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Says that a claim is for extended resources of its owner, if it is "true"."""

_PREFIX_CHARACTERS: Final = 58
_SUFFIX_CHARACTERS: Final = 5
"""Lengths of the parts of generated names in Kubernetes."""


class ContainerRequest(Struct, frozen=True, gc=False):
    """What a container requests of one extended resource.

    `index`: of the container, init containers first. `position`: of the resource in the sorted names of all
    resources that the container requests. `ends_first`: it is an init container and no sidecar.
    """

    container: str
    index: int
    resource: str
    position: int
    count: int
    ends_first: bool = False

    @property
    def name(self) -> str:
        """The name of its request for devices."""
        return f"container-{self.index}-request-{self.position}"


class ExtendedRequests(Struct, frozen=True, weakref=True, cache_hash=True):
    """The requests of all containers of a pod, in the order of the containers."""

    requests: tuple[ContainerRequest, ...]

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, sorted."""
        return tuple(sorted({each.resource for each in self.requests}))


class DeviceRequest(Struct, frozen=True, gc=False):
    """A request of the claim: so many devices of a class."""

    name: str
    device_class: str
    count: int


class RequestMapping(Struct, frozen=True, gc=False):
    """Which request of the claim has devices for a resource of a container."""

    container: str
    resource: str
    request: str


class ExtendedResourceClaim(Struct, frozen=True, gc=False):
    """A claim that the scheduler makes for a pod: its requests, and who uses them."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[RequestMapping, ...]


def is_extended(name: str) -> bool:
    """Whether devices may satisfy requests of a resource of this name."""
    is_native = "/" not in name or "kubernetes.io/" in name
    return name.startswith(CLASS_PREFIX) or not (is_native or name.startswith("requests."))


def extended_claim_name(pod: str, uid: str) -> str:
    """The name of the claim of a pod, which no other pod has.

    It is as the API server would generate it, but a write that may have been applied can be repeated.
    """
    digest = blake2b(uid.encode(), digest_size=_SUFFIX_CHARACTERS).hexdigest()
    return name_prefix(pod)[:_PREFIX_CHARACTERS] + digest[:_SUFFIX_CHARACTERS]


def name_prefix(pod: str) -> str:
    """With what the name of the claim begins."""
    return f"{pod}-extended-resources-"


def extended_resource_claim(
    asked: ExtendedRequests, resources: Collection[str], classes: Mapping[str, str]
) -> ExtendedResourceClaim:
    """The claim for these resources of a pod. `classes`: the names of their classes."""
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        own = [each for each in asked.requests if each.resource == resource]
        lasting = [each for each in own if not each.ends_first]
        kept = {each.index: DeviceRequest(each.name, classes[resource], each.count) for each in lasting}
        requests += kept.values()
        mappings += [RequestMapping(each.container, resource, each.name) for each in lasting]
        more, users = _for_init_containers([each for each in own if each.ends_first], kept, classes[resource])
        requests += more
        mappings += users
    return ExtendedResourceClaim(tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings))


def _for_init_containers(
    own: Sequence[ContainerRequest], kept: Mapping[int, DeviceRequest], device_class: str
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """Init containers run one after the other: the largest of their requests is for all of them."""
    made: list[DeviceRequest] = []
    users: list[RequestMapping] = []
    for each in own:
        missing = each.count
        for _, later in sorted((index, some) for index, some in kept.items() if index >= each.index):
            if missing > 0:
                users.append(RequestMapping(each.container, each.resource, later.name))
                missing -= later.count
        if missing > 0:
            made.append(DeviceRequest(each.name, device_class, missing))
            users.append(RequestMapping(each.container, each.resource, each.name))
    if not made:
        return [], users
    largest = max(made, key=lambda some: some.count)
    smaller = {some.name for some in made}
    return [largest], [
        structs.replace(user, request=largest.name) if user.request in smaller else user for user in users
    ]


def class_of_resources(named: Iterable[tuple[str, str, int]]) -> dict[str, str]:
    """The class of each extended resource.

    `named`: each class with the resource that it states, empty for none, and its time of creation. If several
    classes state one resource, the newest has it, else the first by name.
    """
    found: dict[str, str] = {}
    for name, resource, _ in sorted(named, key=lambda each: (-each[2], each[0])):
        found[CLASS_PREFIX + name] = name
        if resource:
            found.setdefault(resource, name)
    return dict(sorted(found.items()))
