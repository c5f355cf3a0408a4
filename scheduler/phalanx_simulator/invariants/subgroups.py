"""S21: members of a subgroup with a required level are in one domain."""

from collections import Counter

from phalanx.model.decisions import CycleResult
from phalanx.model.gangs import Gang, SubgroupSpec, ancestor_chains
from phalanx.model.names import NodeName, PodUid
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.invariants.check import Check

Domain = tuple[str, ...]


class SubgroupsInOneDomain(Check):
    """S21: a cycle leaves each subgroup in one domain of its level, or in whole segments.

    Members that run are where the snapshot has them. Only domains to which the cycle adds somebody count:
    elsewhere a member may have been lost since.
    """

    name = "S21"

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        targets = {bind.pod: bind.node for placement in result.placements for bind in placement.binds}
        for name in dict.fromkeys(placement.gang for placement in result.placements):
            gang = snapshot.gangs.get(name)
            if gang is not None:
                for part in gang.subgroups:
                    if part.required is not None:
                        self._check(snapshot, gang, part, targets)

    def _check(
        self, snapshot: Snapshot, gang: Gang, part: SubgroupSpec, targets: dict[PodUid, NodeName]
    ) -> None:
        added, lying = _lying(snapshot, gang, part, targets)
        what = f"{part.name} of {gang}"
        if any(not all(domain) for domain in added):
            self.violated(what, f"a member is placed in no {part.required}")
        elif part.segment:
            for domain in sorted(added):
                if lying[domain] % part.segment:
                    self.violated(what, f"{lying[domain]} in {'/'.join(domain)}, segments of {part.segment}")
        elif added and len(lying) > 1:
            self.violated(what, f"lies in {len(lying)} domains of level {part.required}")


def _lying(
    snapshot: Snapshot, gang: Gang, part: SubgroupSpec, targets: dict[PodUid, NodeName]
) -> tuple[set[Domain], Counter[Domain]]:
    """Domains that get members of the subgroup, and its members by domain."""
    around = ancestor_chains(gang.subgroups)
    added: set[Domain] = set()
    lying: Counter[Domain] = Counter()
    for pod in gang.members:
        if part.name not in around.get(pod.subgroup, ()) or pod.deleting or pod.is_finished:
            continue
        node = targets.get(pod.uid) or pod.node
        domain = _domain(snapshot, gang, part, node) if node is not None else None
        if domain is not None:
            lying[domain] += 1
            added |= {domain} if pod.uid in targets else set()
    return added, lying


def _domain(snapshot: Snapshot, gang: Gang, part: SubgroupSpec, node: NodeName) -> Domain | None:
    """The domain by the node's labels, empty names for missing ones; None for a missing node."""
    state = snapshot.nodes.get(node)
    levels = snapshot.topologies[gang.topology.topology or ""].levels
    names = [level.name for level in levels]
    if state is None or part.required not in names:
        return None
    down = levels[: names.index(part.required) + 1]
    return tuple(state.node.labels.get(level.node_label, "") for level in down)
