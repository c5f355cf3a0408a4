"""Ports of nodes: two pods on one node cannot have the same port, protocol and address.

The address 0.0.0.0, or none, means all addresses of the node. Such a port conflicts with the same port of
every address; ports of two other addresses do not conflict with each other. Addresses are compared as they
are written. Ports of containers and of sidecars count, ports of other init containers do not (kube-scheduler
1.37, plugin NodePorts).

Every node offers PORT_ADDRESSES_MAX of each port. A port of all addresses uses all of it. A port of one
address uses 1 of it, and 1 of a resource for this address, of which the node offers 1.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from phalanx.limits import HOST_PORTS_MAX
from phalanx.model.api import core
from phalanx.model.supplies.supply import Supply

PORT_ADDRESSES_MAX: Final = 1 << 20
"""Pods that can have the same port of different addresses of one node. It is more than any node holds."""

Port = tuple[str, int, str]
"""Protocol, number, and address."""

ALL_ADDRESSES: Final = "0.0.0.0"
_AT: Final = "@"
_TCP: Final = "TCP"


class Ports(Supply):
    """The ports of the host that containers ask for."""

    name = "port"

    def requests(self, pod: core.Pod, wrong: list[str]) -> dict[str, int]:
        """A port that is repeated counts once."""
        ports = list(_ports(pod.spec))
        if len(ports) > HOST_PORTS_MAX:
            wrong.append(f"spec.containers: have {len(ports)} host ports, expected at most {HOST_PORTS_MAX}")
        return self.used(ports)

    def used(self, ports: Iterable[Port]) -> dict[str, int]:
        """What a pod with these ports uses of its node."""
        addresses: dict[str, set[str]] = {}
        for protocol, number, address in ports:
            addresses.setdefault(f"{protocol}:{number}", set()).add(address)
        used: dict[str, int] = {}
        for port, each in addresses.items():
            if ALL_ADDRESSES in each:
                used[self.resource(port)] = PORT_ADDRESSES_MAX
                continue
            used[self.resource(port)] = len(each)
            used.update({self.resource(f"{port}{_AT}{address}"): 1 for address in each})
        return used

    def offered(self, resource: str) -> int:
        """One of each address."""
        return 1 if _AT in resource else PORT_ADDRESSES_MAX

    def text(self, resource: str) -> str:
        """Such as "port 8080", "port 53/UDP" or "port 8080 of 10.0.0.1"."""
        protocol, _, rest = self.what(resource).partition(":")
        number, _, address = rest.partition(_AT)
        named = f"port {number}{'' if protocol == _TCP else f'/{protocol}'}"
        return f"{named} of {address}" if address else named


def _ports(spec: core.PodSpec) -> Iterator[Port]:
    """Ports of containers and sidecars. On the host network the API server makes every port a host port."""
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                yield port.protocol or _TCP, number, port.host_ip or ALL_ADDRESSES
