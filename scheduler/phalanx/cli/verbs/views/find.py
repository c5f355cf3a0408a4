"""Find the gang that a user names: NAME, pod/NAME, podgroup/NAME, job/NAME or another kind of workload."""

from collections.abc import Iterable, Sequence
from typing import Final

from phalanx.cli.verbs.views.gangs import POD_GROUP, GangEntry
from phalanx.model.pods import Pod

_SHORT: Final = {
    "po": "pod",
    "pg": "podgroup",
    "phpg": "podgroup",
    "sts": "statefulset",
    "lws": "leaderworkerset",
}


class Ambiguous(Exception):
    """Several gangs have the name. The message lists them."""


def find_gang(entries: Sequence[GangEntry], target: str) -> GangEntry | None:
    """The gang of this name, or of the pod or workload of this name; None if there is none.

    A name without a kind is that of a PodGroup first, then of any gang, then of a pod. Raises Ambiguous.
    """
    kind, slash, name = target.rpartition("/")
    if slash:
        return _only(target, _ofkind_named(entries, kind_named(kind), name))
    by_name = [entry for entry in entries if entry.row.name == name]
    groups = [entry for entry in by_name if entry.row.kind == POD_GROUP]
    return _only(target, groups or by_name or _ofkind_named(entries, "pod", name))


def kind_named(written: str) -> str:
    """The kind in lower case and singular, as kubectl accepts it: jobs.batch is job."""
    kind = written.partition(".")[0].lower()
    kind = _SHORT.get(kind, kind)
    return kind[:-1] if kind.endswith("s") and not kind.endswith("ss") else kind


def _ofkind_named(entries: Iterable[GangEntry], kind: str, name: str) -> list[GangEntry]:
    if kind == "pod":
        return [entry for entry in entries if any(pod.name == name for pod in _members(entry))]
    found = [entry for entry in entries if kind_named(entry.row.kind) == kind and entry.row.name == name]
    return found or [entry for entry in entries if _is_controlled(entry, kind, name)]


def _is_controlled(entry: GangEntry, kind: str, name: str) -> bool:
    """Whether the controller of a pod of the gang has this name: the Job of a gang with a PodGroup."""
    return any(
        pod.controller is not None and pod.controller.kind.lower() == kind and pod.controller.name == name
        for pod in _members(entry)
    )


def _members(entry: GangEntry) -> Sequence[Pod]:
    return entry.gang.members if entry.gang is not None else ()


def _only(target: str, found: Sequence[GangEntry]) -> GangEntry | None:
    if len(found) > 1:
        names = ", ".join(f"{entry.row.namespace}/{entry.row.reference}" for entry in found)
        raise Ambiguous(f"{target} may be {names}: name one of them, with its namespace")
    return found[0] if found else None
