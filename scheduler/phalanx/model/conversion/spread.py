"""Conversion of topology spread constraints."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api import core
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.conversion.selectors import read_label_selector
from phalanx.model.pods import AffinityTerm, Requirement, SpreadConstraint, Term

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
_POLICIES: Final = ("Honor", "Ignore")


def read_spread(
    spec: core.PodSpec, meta: ObjectMeta, wrong: list[str]
) -> tuple[tuple[SpreadConstraint, ...], tuple[SpreadConstraint, ...]]:
    """The constraints that must hold, and those that are preferred, each once, in canonical order.

    Errors are appended to `wrong` as "path: error".
    """
    required: set[SpreadConstraint] = set()
    preferred: set[SpreadConstraint] = set()
    for index, each in enumerate(spec.topology_spread_constraints):
        path = f"spec.topologySpreadConstraints[{index}]"
        wrong.extend(f"{path}.{fault}" for fault in _faults(each))
        found = preferred if each.when_unsatisfiable == _SOFT else required
        found.add(_read(each, path, meta, wrong))
    return tuple(sorted(required, key=repr)), tuple(sorted(preferred, key=repr))


def spread_labels(spec: core.PodSpec, labels: Mapping[str, str]) -> tuple[object, ...]:
    """The values of the pod's own labels on which its constraints depend."""
    keys = [key for each in spec.topology_spread_constraints for key in each.match_label_keys]
    return tuple([(key, labels.get(key)) for key in keys])


def _faults(each: core.TopologySpreadConstraint) -> list[str]:
    faults = []
    if each.when_unsatisfiable not in (_HARD, _SOFT):
        faults.append(f"whenUnsatisfiable: {each.when_unsatisfiable!r} is not {_HARD} or {_SOFT}")
    if not each.topology_key:
        faults.append("topologyKey: is empty")
    if each.max_skew < 1:
        faults.append(f"maxSkew: {each.max_skew} is less than 1")
    if each.min_domains is not None and each.min_domains < 1:
        faults.append(f"minDomains: {each.min_domains} is less than 1")
    if each.min_domains is not None and each.when_unsatisfiable == _SOFT:
        faults.append(f"minDomains: needs whenUnsatisfiable: {_HARD}")
    for name, policy in (
        ("nodeAffinityPolicy", each.node_affinity_policy),
        ("nodeTaintsPolicy", each.node_taints_policy),
    ):
        if policy is not None and policy not in _POLICIES:
            faults.append(f"{name}: {policy!r} is not Honor or Ignore")
    return faults


def _read(
    each: core.TopologySpreadConstraint, path: str, meta: ObjectMeta, wrong: list[str]
) -> SpreadConstraint:
    selector = read_label_selector(each.label_selector, f"{path}.labelSelector", wrong)
    if selector is not None:
        own = (
            Requirement(key=key, operator="In", values=(meta.labels[key],))
            for key in each.match_label_keys
            if key in meta.labels
        )
        selector = Term(tuple(sorted(dict.fromkeys((*selector.requirements, *own)), key=repr)))
    elif each.match_label_keys:
        wrong.append(f"{path}.matchLabelKeys: needs a labelSelector")
    return SpreadConstraint(
        term=AffinityTerm(
            topology_key=each.topology_key,
            # kube-scheduler counts no pods by an empty selector
            selector=selector if selector is not None and selector.requirements else None,
            namespaces=(meta.namespace,),
            for_spread=True,
        ),
        max_skew=each.max_skew,
        min_domains=each.min_domains or 1,
        honors_affinity=each.node_affinity_policy != "Ignore",
        honors_taints=each.node_taints_policy == "Honor",
    )
