"""Conversion of the ports of containers, and of what else pods of one node cannot share."""

from collections.abc import Iterator

from phalanx.limits import HOST_PORTS_MAX
from phalanx.model.api import core
from phalanx.model.conversion.disks import read_disks
from phalanx.model.host_ports import ALL_ADDRESSES, Port, port_requests


def read_host_ports(spec: core.PodSpec, wrong: list[str]) -> tuple[tuple[str, int], ...]:
    """What the pod uses of the ports and disks of its node. An error is appended to `wrong` if there are too
    many ports."""
    ports = list(_ports(spec))
    if len(ports) > HOST_PORTS_MAX:
        wrong.append(f"spec.containers: have {len(ports)} host ports, expected at most {HOST_PORTS_MAX}")
    disks = read_disks(spec.volumes) if spec.volumes else ()
    if len(disks) > HOST_PORTS_MAX:
        wrong.append(f"spec.volumes: name {len(disks)} disks, expected at most {HOST_PORTS_MAX}")
    return tuple(sorted((*port_requests(ports), *disks))) if disks else port_requests(ports)


def _ports(spec: core.PodSpec) -> Iterator[Port]:
    """Ports of containers and sidecars. On the host network the API server makes every port a host port."""
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                yield port.protocol or "TCP", number, port.host_ip or ALL_ADDRESSES
