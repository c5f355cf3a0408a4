"""Conversion of topology spread constraints, and of those that apply to pods without any.

kube-scheduler selects the pods that a default constraint counts by the Services, ReplicaSet, StatefulSet or
ReplicationController of the pod. Phalanx does not read these. It selects by the label that the Deployment or
StatefulSet controller puts on pods of one template.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from phalanx.model.api import core
from phalanx.model.api.meta import LabelSelector, ObjectMeta
from phalanx.model.conversion.selectors import bounded, read_label_selector
from phalanx.model.pods import AffinityTerm, Requirement, SpreadConstraint, Term
from phalanx.model.spread_defaults import DefaultConstraint

_HARD: Final = "DoNotSchedule"
_SOFT: Final = "ScheduleAnyway"
_POLICIES: Final = ("Honor", "Ignore")

_TEMPLATE_LABELS: Final = {
    ("apps", "ReplicaSet"): "pod-template-hash",
    ("apps", "StatefulSet"): "controller-revision-hash",
}
"""The label by which a controller distinguishes pods of its templates."""


def read_spread(
    spec: core.PodSpec, meta: ObjectMeta, wrong: list[str]
) -> tuple[tuple[SpreadConstraint, ...], tuple[SpreadConstraint, ...]]:
    """The constraints that must hold, and those that are preferred, each once, in canonical order.

    Errors are appended to `wrong` as "path: error".
    """
    required: set[SpreadConstraint] = set()
    preferred: set[SpreadConstraint] = set()
    field = "spec.topologySpreadConstraints"
    for index, each in enumerate(bounded(spec.topology_spread_constraints, field, wrong)):
        path = f"{field}[{index}]"
        wrong.extend(f"{path}.{fault}" for fault in _faults(each))
        found = preferred if each.when_unsatisfiable == _SOFT else required
        found.add(_read(each, path, meta, wrong))
    return tuple(sorted(required, key=repr)), tuple(sorted(preferred, key=repr))


def with_default_spread(pod: core.Pod, defaults: Sequence[DefaultConstraint]) -> core.Pod:
    """The pod with the default constraints, if it has none and a label distinguishes its template."""
    selected = default_selector(pod) if defaults else None
    if selected is None:
        return pod
    selector = LabelSelector(match_labels=dict([selected]))
    constraints = tuple([_of_default(each, selector) for each in defaults])
    return structs.replace(pod, spec=structs.replace(pod.spec, topology_spread_constraints=constraints))


def default_selector(pod: core.Pod) -> tuple[str, str] | None:
    """The label by which default constraints select pods; None for pods to which they do not apply."""
    if pod.spec.topology_spread_constraints:
        return None
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return None
    key = _TEMPLATE_LABELS.get((owner.api_version.partition("/")[0], owner.kind), "")
    value = pod.metadata.labels.get(key)
    return None if value is None else (key, value)


def _of_default(each: DefaultConstraint, selector: LabelSelector) -> core.TopologySpreadConstraint:
    return core.TopologySpreadConstraint(label_selector=selector, **structs.asdict(each))


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
