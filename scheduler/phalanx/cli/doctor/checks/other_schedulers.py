"""No other scheduler places pods with devices on the nodes of this one."""

from collections.abc import Iterator

from phalanx.cli.doctor.finding import Finding, Severity, names
from phalanx.cli.doctor.installation import Installation, devices, is_active, requested_devices
from phalanx.cli.formatting import count


def check(seen: Installation) -> Iterator[Finding]:
    """One finding for each other scheduler."""
    with_devices = {node.metadata.name for node in seen.nodes if devices(node.status.allocatable)}
    pods: dict[str, list[str]] = {}
    for pod in seen.pods:
        is_other = pod.spec.scheduler_name not in ("", seen.scheduler_name) and is_active(pod)
        if is_other and pod.spec.node_name in with_devices and requested_devices(pod):
            pods.setdefault(pod.spec.scheduler_name, []).append(
                f"{pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}"
            )
    for scheduler, found in sorted(pods.items()):
        yield Finding(
            Severity.WARNING,
            f"scheduler {scheduler}",
            f"It placed {count(len(found), 'pod')} with devices on nodes of this scheduler: {names(found)}.",
            f"Set schedulerName {seen.scheduler_name} on these workloads, or keep the schedulers apart by"
            " taints or node labels. Two schedulers can choose the same device at the same time.",
        )
