"""Combinations of fields of a PodGroup that the scheduler does not honour yet.

A set one is refused with a verdict that names it, never ignored.
"""

from phalanx.model.api.phalanx import PodGroupSpec


def of_pod_group(spec: PodGroupSpec) -> tuple[str, ...]:
    """Paths of the set fields that are refused, such as `spec.subGroups[left].topology.name`."""
    reserves = spec.start_when == "Reserved" and spec.sub_groups
    named = (part.name for part in spec.sub_groups if part.topology is not None and part.topology.name)
    return (
        *(("spec.startWhen: Reserved beside spec.subGroups",) if reserves else ()),
        *(f"spec.subGroups[{name}].topology.name" for name in named),
    )
