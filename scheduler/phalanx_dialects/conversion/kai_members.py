"""Fields of PodGroups of KAI without an equal: the nearest that Phalanx has, and a note that says so."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from phalanx.model.dialects.kai import NODE_POOL, SUBGROUP

from phalanx_dialects.conversion.inputs import Object

_LEFT_OUT: Final = {
    "markUnschedulable": "waiting pods always have a condition",
    "schedulingBackoff": "a gang is tried without end",
    "stalenessGracePeriod": "a started gang that has lost members is filled up, not evicted",
}
"""Fields of a PodGroup, and what holds here. They change nothing about which pods start together."""


def simplify(group: Object, templates: Iterable[Object]) -> Iterator[str]:
    """Changes a PodGroup and the templates of its pods. The notes name each change."""
    templates = list(templates)
    spec = group.get("spec")
    if not isinstance(spec, dict):
        return
    for key, instead in _LEFT_OUT.items():
        if spec.pop(key, None) is not None:
            yield f"spec.{key}: is left out: {instead}"
    if spec.get("preemptibility") == "semi-preemptible":
        spec["preemptibility"] = "non-preemptible"
        yield "spec.preemptibility: semi-preemptible counts for surplus members too, as non-preemptible"
    if spec.get("minSubGroup") == 0:
        spec["minSubGroup"] = 1
        yield "spec.minSubGroup: 0 counts as 1: a gang starts with one of its subgroups at least"
    yield from _simplify_subgroups(spec, templates)
    yield from _select_pool(group, templates)


def _simplify_subgroups(spec: Object, templates: list[Object]) -> Iterator[str]:
    parts: list[Any] = [part for part in spec.get("subGroups") or () if isinstance(part, dict)]
    parents = {str(part.get("parent") or "").lower() for part in parts}
    for part in parts:
        if part.get("name") in parents and part.pop("minSubGroup", None) is not None:
            yield f"spec.subGroups[{part.get('name')}].minSubGroup: all subgroups inside are needed"
    optional = _optional(parts)
    if not optional:
        return
    spec["subGroups"] = [part for part in parts if part.get("name") not in optional]
    if spec.get("minSubGroup"):
        outer = sum(1 for part in parts if part.get("name") in optional and not part.get("parent"))
        spec["minSubGroup"] = max(spec["minSubGroup"] - outer, 1)
    if not spec["subGroups"]:
        spec["minMember"] = 1
        spec.pop("minSubGroup", None)
    for template in templates:
        labels = (template.get("metadata") or {}).get("labels") or {}
        if labels.get(SUBGROUP) in optional:
            del labels[SUBGROUP]
    for name in sorted(map(str, optional)):
        yield f"spec.subGroups[{name}].minMember: 0: its pods are surplus members, without a subgroup"


def _optional(parts: list[Any]) -> set[Any]:
    """The names of subgroups that need no pods, also because all subgroups inside need none."""
    optional: set[Any] = set()
    while True:
        needed = {str(part.get("parent") or "").lower() for part in parts if part.get("name") not in optional}
        parents = {str(part.get("parent") or "").lower() for part in parts}
        more = {
            part.get("name")
            for part in parts
            if part.get("name") not in needed and (part.get("name") in parents or part.get("minMember") == 0)
        }
        if more == optional:
            return optional
        optional = more


def _select_pool(group: Object, templates: list[Object]) -> Iterator[str]:
    """The nodes of a pool have the label too."""
    pool = ((group.get("metadata") or {}).get("labels") or {}).pop(NODE_POOL, None)
    for template in templates:
        own = ((template.get("metadata") or {}).get("labels") or {}).pop(NODE_POOL, None) or pool
        if own and "spec" in template:
            template["spec"]["nodeSelector"] = {
                **(template["spec"].get("nodeSelector") or {}),
                NODE_POOL: own,
            }
    if pool:
        yield f"metadata.labels[{NODE_POOL}]: its pods select nodes with this label"
