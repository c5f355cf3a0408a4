"""The members that a verdict is about: the first set of them that is enough.

It is written from docs/roles.md ("Which members start", `minSubGroups`) and shares no code
with the scheduler.
"""

import copy
from collections.abc import Sequence
from itertools import product

from tests.advice.clusters import ASKER, ROLE_LABEL, SUBGROUP_LABEL, Document
from tests.advice.following import is_asking, is_placed, may_use
from tests.advice.quantities import quantity, requests_of
from tests.advice.refusals import emptied, is_helped


def first_choice(documents: Sequence[Document]) -> list[Document] | None:
    """The manifests with only the members of the first set that is enough, and the others that run.

    If the gang runs with its minimum: with only the first waiting member that fits the empty cluster.
    None if a gang with `minSubGroups` lacks members of several subgroups, or only other subgroups wait.
    """
    group = next((each for each in documents if is_asking_group(each)), None)
    if group is None:
        return list(documents)
    pods = [each for each in documents if is_asking(each)]
    placed = [pod for pod in pods if is_placed(pod)]
    spec = group["spec"]
    if "minSubGroups" in spec and placed:
        if not _is_enough(spec, placed) or not _of_started(pods, placed):
            return None
    elif "minSubGroups" in spec:
        spec, pods = _with_first_subgroups(spec, pods, documents)
    waiting = _in_order([pod for pod in pods if not is_placed(pod)], documents)
    others = [each for each in documents if not is_asking(each) and not is_asking_group(each)]
    kept = [*others, {**group, "spec": spec}, *placed]
    if _is_enough(spec, placed):
        possible = (pod for pod in waiting if _fits_when_empty([*kept, pod]))
        return [*kept, next(possible, waiting[0])]
    return [*kept, *_first_set(spec, waiting, placed)]


def described(documents: Sequence[Document]) -> list[Document]:
    """The manifests without subgroups that start later, if members wait of subgroups that have started."""
    group = next((each for each in documents if is_asking_group(each)), None)
    pods = [each for each in documents if is_asking(each)]
    placed = [pod for pod in pods if is_placed(pod)]
    if group is None or "minSubGroups" not in group["spec"] or not _is_enough(group["spec"], placed):
        return list(documents)
    first = _of_started(pods, placed)
    later = [pod for pod in pods if first and not is_placed(pod) and pod not in first]
    return [each for each in documents if each not in later]


def _of_started(pods: Sequence[Document], placed: Sequence[Document]) -> list[Document]:
    """The waiting pods of subgroups that have pods with nodes."""
    started = {_label(pod, SUBGROUP_LABEL) for pod in placed}
    return [pod for pod in pods if not is_placed(pod) and _label(pod, SUBGROUP_LABEL) in started]


def _fits_when_empty(documents: Sequence[Document]) -> bool:
    """Whether the asker fits the empty cluster, in which pods that it must be near may be anywhere."""
    when_empty = emptied(documents)
    return is_helped(when_empty) or is_helped(without_needs(when_empty))


def without_needs(documents: Sequence[Document]) -> list[Document]:
    """The manifests if the asker needs no pods near it."""
    changed = copy.deepcopy(list(documents))
    for document in changed:
        if is_asking(document):
            document["spec"].get("affinity", {}).pop("podAffinity", None)
    return changed


def is_asking_group(document: Document) -> bool:
    """Whether this is the PodGroup of the gang that asks."""
    return bool(document["kind"] == "PodGroup" and document["metadata"]["name"] == ASKER)


def _with_first_subgroups(
    spec: Document, pods: Sequence[Document], documents: Sequence[Document]
) -> tuple[Document, list[Document]]:
    """The first subgroups that are enough, those last of which too few members can run, and their pods."""

    def lacks_nodes(part: Document) -> bool:
        mine = [pod for pod in pods if _label(pod, SUBGROUP_LABEL) == part["name"]]
        return sum(can_run(pod, documents) for pod in mine) < part["minMember"]

    parts = sorted(spec["subGroups"], key=lacks_nodes)
    fewer = {name: value for name, value in spec.items() if name != "minSubGroups"}
    for count in range(spec["minSubGroups"], len(parts) + 1):
        names = {part["name"] for part in parts[:count]}
        kept = [pod for pod in pods if _label(pod, SUBGROUP_LABEL) in names]
        if sum(_in_segments(part, kept) for part in parts[:count]) >= spec["minMember"]:
            break
    return {**fewer, "subGroups": parts[:count]}, kept


def _in_segments(part: Document, pods: Sequence[Document]) -> int:
    """How many of the pods can start in the subgroup, whose members start in whole segments."""
    mine = sum(_label(pod, SUBGROUP_LABEL) == part["name"] for pod in pods)
    return mine - mine % int(part.get("segmentSize", 1))


def _in_order(pods: Sequence[Document], documents: Sequence[Document]) -> list[Document]:
    """The oldest first, since they have the same priority and no index; those last that no node could take.

    Objects without a time are created in the order of the documents (docs/decide.md).
    """
    return sorted(pods, key=lambda pod: not can_run(pod, documents))


def can_run(pod: Document, documents: Sequence[Document]) -> bool:
    """Whether some node could take the pod if nothing else ran."""
    return any(
        may_use(pod, node)
        and all(
            need <= quantity(node["status"]["allocatable"].get(name, "0"))
            for name, need in requests_of(pod).items()
        )
        for node in documents
        if node["kind"] == "Node"
    )


def _first_set(spec: Document, waiting: Sequence[Document], placed: Sequence[Document]) -> list[Document]:
    """The first set that is enough and has no member too many; all members if no set is enough."""
    for inside in product((True, False), repeat=len(waiting)):
        chosen = [pod for pod, is_in in zip(waiting, inside, strict=True) if is_in]
        if _is_enough(spec, [*placed, *chosen]) and not any(
            _is_enough(spec, [*placed, *(other for other in chosen if other is not pod)]) for pod in chosen
        ):
            return chosen
    return list(waiting)


def _is_enough(spec: Document, pods: Sequence[Document]) -> bool:
    """Whether the pods satisfy the minimums of the gang, its roles and its subgroups."""
    roles, parts = spec.get("roles", ()), spec.get("subGroups", ())
    complete = {part["name"] for part in parts if _reaches(part, SUBGROUP_LABEL, pods)}
    if "minSubGroups" in spec:
        pods = [pod for pod in pods if _label(pod, SUBGROUP_LABEL) in complete]
    has_parts = len(complete) >= spec.get("minSubGroups", len(parts))
    has_roles = all(_reaches(role, ROLE_LABEL, pods) for role in roles)
    return has_parts and has_roles and len(pods) >= int(spec["minMember"])


def _reaches(part: Document, label: str, pods: Sequence[Document]) -> bool:
    """Whether so many of the pods are in this role or subgroup as it needs."""
    return sum(_label(pod, label) == part["name"] for pod in pods) >= int(part["minMember"])


def _label(pod: Document, name: str) -> str:
    return str(pod["metadata"]["labels"].get(name, ""))
