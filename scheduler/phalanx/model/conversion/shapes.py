"""Shapes: the fields that make pods interchangeable for the scheduler, shared by all pods that have them."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from sys import intern
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec import structs
from msgspec.msgpack import Encoder

from phalanx.limits import POD_REQUEST_MAX
from phalanx.model.api import core
from phalanx.model.api.core import Pod, PodSpec
from phalanx.model.conversion.images import read_pod_images
from phalanx.model.conversion.metadata import PER_POD_LABELS
from phalanx.model.conversion.requests import pod_requests, with_defaults
from phalanx.model.conversion.selectors import (
    per_pod_labels,
    read_anti_affinity,
    read_pod_terms,
    read_preferred,
    read_preferred_pod_terms,
    read_selector,
    read_tolerations,
)
from phalanx.model.conversion.spread import read_spread, spread_labels, with_default_spread
from phalanx.model.names import ShapeKey
from phalanx.model.pods import NO_LABELS, PodLabels, PodShape
from phalanx.model.resources import PODS, Resources
from phalanx.model.spread_defaults import DefaultConstraint
from phalanx.model.supplies.devices.extended_resources import ContainerRequest, ExtendedRequests, is_extended
from phalanx.model.supplies.gpu_shares.devices import GPU_MEMORY, GPU_SHARE
from phalanx.model.supplies.gpu_shares.read import add_gpu_share
from phalanx.model.supplies.known import read_supplies, what_supplies_read
from phalanx.model.supplies.numa.read import read_numa_request
from phalanx.model.supplies.volumes.read import unnamed_claims

HOST_NETWORK_WITH_USERS: Final = "UserNamespacesHostNetworkSupport"
RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"


def required_features(spec: PodSpec) -> tuple[str, ...]:
    """The features that a node must declare for a pod with this spec, sorted.

    The rules are those of component-helpers/nodedeclaredfeatures of Kubernetes 1.37. The other features of
    its registry concern changes of pods that run, and claims.
    """
    containers = (*spec.containers, *spec.init_containers)
    rules = [rule for each in containers for rule in each.restart_policy_rules]
    found = []
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.append(HOST_NETWORK_WITH_USERS)
    if any(mount.bind_mount_options for each in containers for mount in each.volume_mounts):
        found.append(BIND_MOUNT_OPTIONS)
    return tuple(found)


_REQUIRED: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"

_UNNAMED_GROUP: Final = core.SchedulingGroup()

_KEY_BYTES: Final = 16
_as_written: Final = Encoder().encode
_canonical: Final = Encoder(order="sorted").encode


class ShapeCache:
    """Returns one PodShape per key. Shapes that no pod uses are dropped.

    Pods of one template are written alike, so a shape is looked up by the encoded form of the fields. This
    takes a few microseconds; converting a shape takes about a hundred.
    """

    def __init__(
        self, *, default_spread: Sequence[DefaultConstraint] = (), with_images: bool = False
    ) -> None:
        """`default_spread`: the constraints of pods that have none. `with_images`: whether images count."""
        self._default_spread = default_spread
        self._with_images = with_images
        self._by_key: WeakValueDictionary[ShapeKey, PodShape] = WeakValueDictionary()
        self._as_written: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._labels: WeakValueDictionary[tuple[tuple[str, str], ...], PodLabels] = WeakValueDictionary()
        self._extended: WeakValueDictionary[tuple[ContainerRequest, ...], ExtendedRequests] = (
            WeakValueDictionary()
        )

    def of(self, pod: core.Pod) -> PodShape:
        """The shape of the pod. Equal shapes are the same object."""
        if self._default_spread:
            pod = with_default_spread(pod, self._default_spread)
        written = _as_written(_what_shapes(pod))
        shape = self._as_written.get(written)
        if shape is None:
            shape = read_shape(pod, with_images=self._with_images)
            shape = self._by_key.setdefault(shape.key, shape)
            self._as_written[written] = shape
        return shape

    def extended_of(self, pod: core.Pod) -> ExtendedRequests | None:
        """What the containers of the pod request of extended resources. Equal ones are the same object."""
        found = read_extended(pod)
        return None if found is None else self._extended.setdefault(found.requests, found)

    def labels_of(self, pod: core.Pod) -> tuple[PodLabels, PodLabels]:
        """The labels that the pods of a workload share, and the per-pod labels. Equal ones are the same
        object.

        Per-pod labels are nearly the same in all workloads, so they take little memory as well.
        """
        written = pod.metadata.labels
        if not written:
            return NO_LABELS, NO_LABELS
        pairs = sorted(written.items())
        if PER_POD_LABELS.isdisjoint(written):
            return self._kept(tuple(pairs)), NO_LABELS
        shared = tuple([pair for pair in pairs if pair[0] not in PER_POD_LABELS])
        own = tuple([pair for pair in pairs if pair[0] in PER_POD_LABELS])
        return self._kept(shared), self._kept(own)

    def _kept(self, key: tuple[tuple[str, str], ...]) -> PodLabels:
        known = self._labels.get(key)
        if known is None:
            key = tuple([(intern(name), intern(value)) for name, value in key])
            known = self._labels[key] = PodLabels(key)
        return known

    def __len__(self) -> int:
        return len(self._by_key)


def read_shape(pod: core.Pod, *, with_images: bool = False) -> PodShape:
    """The shape of a pod, with its errors and its unsupported fields."""
    spec = pod.spec
    wrong: list[str] = []
    unsupported = list(unsupported_fields(spec))
    affinity = spec.affinity or core.Affinity()
    node_affinity = affinity.node_affinity or core.NodeAffinity()
    required = node_affinity.required_during_scheduling_ignored_during_execution
    preferred = node_affinity.preferred_during_scheduling_ignored_during_execution
    spread, preferred_spread = read_spread(spec, pod.metadata, wrong)
    shape = PodShape(
        key=ShapeKey(""),
        requests=add_gpu_share(pod_requests(pod, wrong), pod.metadata.annotations, wrong),
        node_selector=tuple(sorted(spec.node_selector.items())),
        required_affinity=() if required is None else read_selector(required, _REQUIRED, wrong),
        preferred_affinity=read_preferred(preferred, _PREFERRED, wrong),
        tolerations=read_tolerations(spec.tolerations, wrong, unsupported),
        affinity=read_pod_terms(affinity.pod_affinity, "podAffinity", pod.metadata, wrong),
        anti_affinity=read_anti_affinity(affinity.pod_anti_affinity, pod.metadata, wrong),
        spread=spread,
        preferred_spread=preferred_spread,
        preferred_pod_terms=read_preferred_pod_terms(affinity, pod.metadata, wrong),
        numa=read_numa_request(pod),
        supplied=read_supplies(pod, wrong),
        node_features=required_features(spec),
        images=read_pod_images(spec) if with_images else (),
    )
    wrong.extend(f"{path}: is empty" for path in unnamed_claims(spec))
    shape = structs.replace(shape, unsupported=tuple(unsupported), invalid=tuple(wrong))
    return structs.replace(shape, key=_key(shape))


def shape_of_requests(requests: Resources) -> PodShape:
    """The shape of pods of which only the requests are known, each at most POD_REQUEST_MAX."""
    capped = {name: min(amount, POD_REQUEST_MAX) for name, amount in requests.items() if amount}
    shape = PodShape(key=ShapeKey(""), requests=dict(sorted({**capped, PODS: 1}.items())))
    return structs.replace(shape, key=_key(shape))


def _key(shape: PodShape) -> ShapeKey:
    """Digest of the content, equal in all processes."""
    return ShapeKey(blake2b(_canonical(shape), digest_size=_KEY_BYTES).hexdigest())


def _what_shapes(pod: core.Pod) -> tuple[Any, ...]:
    """All fields of a pod that `read_shape` reads."""
    spec, status, annotations = pod.spec, pod.status, pod.metadata.annotations
    conditions, spread = status.conditions, spec.topology_spread_constraints
    resizing = bool(conditions) and any(each.type == "PodResizePending" for each in conditions)
    return (
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.affinity,
        spread,
        spec.tolerations,
        tuple(unnamed_claims(spec)) if spec.volumes else (),
        what_supplies_read(pod),
        spec.scheduling_group == _UNNAMED_GROUP,
        spec.workload_ref,
        spec.host_network,
        spec.host_users,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        conditions if resizing else (),
        pod.metadata.namespace if spec.affinity is not None or spread else "",
        per_pod_labels(spec.affinity, pod.metadata.labels) if spec.affinity is not None else (),
        spread_labels(spec, pod.metadata.labels) if spread else (),
        annotations.get(GPU_SHARE),
        annotations.get(GPU_MEMORY),
    )


def unsupported_fields(spec: core.PodSpec) -> Iterator[str]:
    """Paths of unsupported fields that are set. Preferences are included: they must not be ignored
    silently."""
    if spec.scheduling_group == core.SchedulingGroup():
        yield "spec.schedulingGroup"
    if spec.workload_ref is not None:
        yield "spec.workloadRef"


def read_extended(written: Pod) -> ExtendedRequests | None:
    """What the containers of a pod request; None if it is nothing."""
    found = tuple(_requests(written))
    return ExtendedRequests(found) if found else None


def _requests(written: Pod) -> Iterator[ContainerRequest]:
    init = len(written.spec.init_containers)
    for index, each in enumerate((*written.spec.init_containers, *written.spec.containers)):
        asked = with_defaults(each.resources, "", [])
        if any(map(is_extended, asked)):
            names, ends_first = sorted(asked), index < init and each.restart_policy != "Always"
            for name in names:
                if is_extended(name) and asked[name]:
                    yield ContainerRequest(
                        each.name, index, name, names.index(name), asked[name], ends_first=ends_first
                    )
