"""What prevents the start of the asker: found by removing one obstacle from the manifests and deciding again.

It is written from the section "How the reason is found" of docs/reasons.md and shares no code with the
scheduler.
"""

import copy
from collections.abc import Sequence
from typing import Final

from tests.advice.clusters import Document
from tests.advice.first_choice import described, first_choice, is_asking_group, without_needs
from tests.advice.following import is_asking, is_placed, used_on
from tests.advice.quantities import raise_amounts
from tests.advice.refusals import Refusal, emptied, is_helped

OBSTACLES: Final = ("limits", "levels", "capacity", "affinity")
"""In the order in which a reason names them."""

IMPOSSIBLE: Final = ("NoEligibleNode", "AboveQueueLimit", "AboveDomainCapacity", "AboveClusterCapacity")

REASONS: Final = {
    "limits": ("QueueLimit",),
    "levels": ("NoDomainFits",),
    "capacity": ("InsufficientCapacity",),
    "affinity": ("PodAffinity", "PodAntiAffinity", "TopologySpread"),
}
"""The reasons of a gang that waits for one of these only."""

REASONS_WHEN_EMPTY: Final = {
    "limits": ("AboveQueueLimit",),
    "levels": ("AboveDomainCapacity",),
    "affinity": ("AboveDomainCapacity",),
}
"""The reasons of a gang that does not fit the empty cluster because of one of these only."""


def without(documents: Sequence[Document], obstacle: str) -> list[Document]:
    """The manifests without limits of queues, required levels, usage by other pods, or affinity."""
    changed = copy.deepcopy(list(documents))
    for document in changed:
        if obstacle == "limits":
            _lift_limits(document)
        elif obstacle == "levels":
            _soften_levels(document)
        elif obstacle == "affinity" and document["kind"] == "Pod":
            for kind in ("podAffinity", "podAntiAffinity"):
                document["spec"].get("affinity", {}).pop(kind, None)
            for constraint in document["spec"].get("topologySpreadConstraints", ()):
                constraint["maxSkew"] = 10_000  # the nodes still need the label
        elif obstacle == "capacity" and document["kind"] == "Pod" and not is_asking(document):
            for container in document["spec"]["containers"]:
                container.pop("ports", None)
        elif obstacle == "capacity" and document["kind"] == "Node":
            used = used_on([each for each in changed if not is_asking(each)], document["metadata"]["name"])
            more = {name: str(amount) for name, amount in used.items()}
            raise_amounts(document["status"]["allocatable"], more)
    return changed


def _lift_limits(document: Document) -> None:
    if document["kind"] == "Queue":
        for holder in (document["spec"], *document["spec"].get("flavors", ())):
            holder.pop("limit", None)
    if is_asking_group(document):
        document["spec"].pop("disruption", None)


def _soften_levels(document: Document) -> None:
    if not is_asking_group(document):
        return
    for holder in (document["spec"], *document["spec"].get("subGroups", ())):
        holder.pop("segmentSize", None)
        topology = holder.get("topology", {})
        if "required" in topology:
            level = topology.pop("required")
            topology.setdefault("preferred", level)


def contradiction(refusal: Refusal) -> str:
    """Why the verdict is wrong; empty if it is right, or if several obstacles prevent the start together."""
    documents, reason = described(refusal.documents), str(refusal.verdict.reason)
    is_cyclic = has_cycle_of_affinity(documents)
    if is_cyclic != (reason == "UnsupportedField"):
        return f"{reason}, but members {'' if is_cyclic else 'do not '}need each other in a cycle"
    if is_cyclic:
        return ""
    when_empty = emptied(documents)
    fits_when_empty, is_impossible = is_helped(when_empty), reason in IMPOSSIBLE
    if fits_when_empty and is_impossible:
        return f"{reason}, but it fits when all others end"
    may_be_waiting = fits_when_empty or is_helped(without_needs(when_empty))
    if not may_be_waiting and not is_impossible and reason != "NodesUnavailable":
        return f"{reason}, but it does not fit when all others end"
    first = first_choice(documents)
    if first is None or (not is_helped(emptied(first)) and fits_when_empty):
        return ""
    others = _subgroups_in_evidence(refusal) - _subgroups_of(first)
    if others:
        return f"the evidence is about {others}, which are not of the first choice"
    if reason in ("NodesUnavailable", "NoEligibleNode"):
        return ""
    if is_impossible:
        return _wrong(emptied(first), reason, ("limits", "levels", "affinity"), REASONS_WHEN_EMPTY)
    return _wrong(first, reason, OBSTACLES, REASONS)


def has_cycle_of_affinity(documents: Sequence[Document]) -> bool:
    """Whether waiting members must be near each other in a cycle, by different terms."""
    waiting = [pod for pod in documents if is_asking(pod) and not is_placed(pod)]
    left = {(near, pod["metadata"]["labels"]["app"]) for pod in waiting if (near := _near(pod))}
    free = left
    while free:
        free = {(near, app) for near, app in left if not _needs_any(near, left)}
        left = left - free
    return bool(left)


def _near(pod: Document) -> tuple[str, str] | None:
    """The app that must be near the pod, and the label of the domain."""
    required = pod["spec"].get("affinity", {}).get("podAffinity")
    if required is None:
        return None
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]
    return term["labelSelector"]["matchLabels"]["app"], term["topologyKey"]


def _needs_any(near: tuple[str, str], others: set[tuple[tuple[str, str], str]]) -> bool:
    """Whether pods with this term need some of the others, which have other terms."""
    return any(other != near and near[0] == app for other, app in others)


def _subgroups_in_evidence(refusal: Refusal) -> set[str]:
    subjects = [evidence.subject for evidence in refusal.verdict.evidence]
    names = {subject.removeprefix("nodes for ") for subject in subjects if subject.startswith("nodes for ")}
    return names & _subgroups_of(refusal.documents)


def _subgroups_of(documents: Sequence[Document]) -> set[str]:
    groups = [document for document in documents if is_asking_group(document)]
    return {part["name"] for group in groups for part in group["spec"].get("subGroups", ())}


def _wrong(
    documents: Sequence[Document],
    reason: str,
    obstacles: Sequence[str],
    reasons: dict[str, tuple[str, ...]],
) -> str:
    first = next((each for each in obstacles if is_helped(without(documents, each))), None)
    if first is None or reason in reasons[first]:
        return ""
    return f"{reason}, but it fits without {first}"
