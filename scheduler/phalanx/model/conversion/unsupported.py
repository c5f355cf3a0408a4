"""Fields of a pod that are not honoured yet: a pod that sets one is refused, never misplaced."""

from collections.abc import Iterator
from typing import Final

from phalanx.model.api import core

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def unsupported_fields(spec: core.PodSpec) -> Iterator[str]:
    """Paths of the set fields. Preferences count too: to ignore one is to place the pod against its wish."""
    affinity = spec.affinity
    if affinity is not None:
        if _wishes(affinity.pod_affinity):
            yield f"spec.affinity.podAffinity.{_PREFERRED}"
        if _wishes(affinity.pod_anti_affinity):
            yield f"spec.affinity.podAntiAffinity.{_PREFERRED}"
    if spec.topology_spread_constraints:
        yield "spec.topologySpreadConstraints"
    yield from _host_ports(spec.containers, "spec.containers", host_network=spec.host_network)
    yield from _host_ports(spec.init_containers, "spec.initContainers", host_network=spec.host_network)
    for index, volume in enumerate(spec.volumes):
        if volume.ephemeral is not None:
            yield f"spec.volumes[{index}].ephemeral"
    if spec.resource_claims:
        yield "spec.resourceClaims"
    if spec.scheduling_group is not None:
        yield "spec.schedulingGroup"


def _wishes(affinity: core.PodAffinity | None) -> bool:
    return affinity is not None and bool(affinity.preferred_during_scheduling_ignored_during_execution)


def _host_ports(containers: tuple[core.Container, ...], path: str, *, host_network: bool) -> Iterator[str]:
    """On the host's network every port is a host port: the API server fills it in."""
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if port.host_port or (host_network and port.container_port):
                yield f"{path}[{index}].ports[{number}].hostPort"
