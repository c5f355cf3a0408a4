"""Ports of nodes: two pods on one node cannot have the same port, protocol and address.

The address 0.0.0.0, or none, means all addresses of the node. Such a port conflicts with the same port of
every address; ports of two other addresses do not conflict with each other. Addresses are compared as they
are written. Ports of containers and of sidecars count, ports of other init containers do not (kube-scheduler
1.37, plugin NodePorts).

A port is represented as a resource of the node. Every node offers PORT_ADDRESSES_MAX of each port. A port of
all addresses uses all of it. A port of one address uses 1 of it, and 1 of a resource for this address, of
which the node offers 1. So usage of ports adds up like that of any other resource, pods of all schedulers
count, and the end of a pod gives its ports back.

Nodes do not list what they offer of ports, since all offer the same: the free amount of a port that is used
is negative, and `offered` adds what the node offers. Queues are not charged for ports.

Disks that volumes of pods name without a claim are represented in the same way: every node offers
DISK_READERS_MAX of each disk; a pod that only reads it uses 1, any other pod all.

Attach limits of volumes (`phalanx.model.attach_limits`) are represented in the same way, and shapes have them
beside their ports. So are volumes that exist already and space for new ones (`phalanx.model.static_volumes`).
Every node offers more of these than pods need; the session says what a node really has.
"""

from collections.abc import Collection, Iterable
from typing import Final

from phalanx.limits import ATTACHED_VOLUMES_MAX, DISK_READERS_MAX, PORT_ADDRESSES_MAX, VOLUME_SPACE_MAX
from phalanx.model.attach_limits import driver_of, is_attach_resource
from phalanx.model.pods import PodShape
from phalanx.model.resources import Resources, fits
from phalanx.model.static_volumes import class_of, is_space_resource, is_static_resource, is_volume_amount

Port = tuple[str, int, str]
"""Protocol, number, and address."""

ALL_ADDRESSES: Final = "0.0.0.0"
_PREFIX: Final = "port["
_DISK: Final = "disk["
_AT: Final = "@"
_TCP: Final = "TCP"


def port_requests(ports: Iterable[Port]) -> tuple[tuple[str, int], ...]:
    """What a pod with these ports uses of its node, sorted by name. A port that is repeated counts once."""
    addresses: dict[str, set[str]] = {}
    for protocol, number, address in ports:
        addresses.setdefault(f"{protocol}:{number}", set()).add(address)
    used: dict[str, int] = {}
    for port, each in addresses.items():
        if ALL_ADDRESSES in each:
            used[f"{_PREFIX}{port}]"] = PORT_ADDRESSES_MAX
            continue
        used[f"{_PREFIX}{port}]"] = len(each)
        used.update({f"{_PREFIX}{port}{_AT}{address}]": 1 for address in each})
    return tuple(sorted(used.items()))


def disk_requests(disks: Iterable[tuple[str, bool]]) -> tuple[tuple[str, int], ...]:
    """What a pod with these disks uses, sorted by name; `True` for disks that it only reads.

    Its own volumes do not conflict with each other.
    """
    used: dict[str, int] = {}
    for name, is_read_only in disks:
        resource = f"{_DISK}{name}]"
        used[resource] = max(used.get(resource, 0), 1 if is_read_only else DISK_READERS_MAX)
    return tuple(sorted(used.items()))


def is_host_port(resource: str) -> bool:
    """Whether the resource is a port or a disk of a node, or stands for volumes: nodes do not list it."""
    return resource.startswith((_PREFIX, _DISK)) or is_attach_resource(resource) or is_volume_amount(resource)


def has_ports(shape: PodShape) -> bool:
    """Whether the pod has ports or writes to disks, so that a node has space for one such pod only."""
    return any(
        name.startswith(_PREFIX) or (name.startswith(_DISK) and amount >= DISK_READERS_MAX)
        for name, amount in shape.host_ports
    )


def offered_of(resource: str) -> int:
    """What every node offers of a resource that it does not list: 0 unless it is such a resource."""
    if is_attach_resource(resource) or is_static_resource(resource):
        return ATTACHED_VOLUMES_MAX
    if is_space_resource(resource):
        return VOLUME_SPACE_MAX
    if resource.startswith(_DISK):
        return DISK_READERS_MAX
    if not resource.startswith(_PREFIX):
        return 0
    return 1 if _AT in resource else PORT_ADDRESSES_MAX


def ports_of(shapes: Iterable[PodShape]) -> tuple[str, ...]:
    """The resources of the ports of these pods, each once."""
    return tuple(dict.fromkeys(name for shape in shapes for name, _ in shape.host_ports))


def offered(free: Resources, ports: Collection[str]) -> Resources:
    """Free amounts of a node, with those of these ports. The same mapping if there are none."""
    if not ports:
        return free
    return {**free, **{port: free.get(port, 0) + offered_of(port) for port in ports}}


def with_ports(shape: PodShape) -> Resources:
    """The requests of a pod, with its ports."""
    return {**shape.requests, **dict(shape.host_ports)} if shape.host_ports else shape.requests


def fits_on(shape: PodShape, free: Resources) -> bool:
    """Whether the requests and the ports of one pod fit these free amounts of a node."""
    return fits(shape.requests, free) and lacking_port(shape, free) is None


def port_in_use(shape: PodShape, free: Resources) -> str | None:
    """The first port of the pod that another pod uses, or attach limit that is reached; None if all fit.

    Of a port of one address, the address is named only if it is the reason.
    """
    name = lacking_port(shape, free)
    return None if name is None else port_text(name)


def lacking_port(shape: PodShape, free: Resources) -> str | None:
    """The same as a resource."""
    for name, amount in reversed(shape.host_ports):
        if free.get(name, 0) + offered_of(name) < amount:
            return name
    return None


def port_text(resource: str) -> str:
    """Such as "port 8080", "port 53/UDP", "port 8080 of 10.0.0.1" or "volumes of disk.example.com"."""
    if is_attach_resource(resource):
        return f"volumes of {driver_of(resource)}"
    if resource.startswith(_DISK):
        return f"disk {resource.removeprefix(_DISK).removesuffix(']')}"
    if is_volume_amount(resource):
        what = "volumes" if is_static_resource(resource) else "space"
        return f"{what} of StorageClass {class_of(resource)}"
    protocol, _, rest = resource.removeprefix(_PREFIX).removesuffix("]").partition(":")
    number, _, address = rest.partition(_AT)
    return f"port {number}{'' if protocol == _TCP else f'/{protocol}'}{f' of {address}' if address else ''}"


def port_texts(used: Resources) -> list[str]:
    """The ports among these amounts, as text. A port of some addresses is shown once for each of them."""
    return [
        port_text(name) for name, amount in used.items() if is_host_port(name) and amount >= offered_of(name)
    ]
