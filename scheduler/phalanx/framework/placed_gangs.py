"""The gangs of placements as they are after their binds, with the placed pods on their nodes."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from phalanx.model.decisions import Bind, Placement
from phalanx.model.gangs import Gang
from phalanx.model.names import GangId, PodUid


def placed_by(placements: Iterable[Placement], gangs: Mapping[GangId, Gang]) -> dict[GangId, Gang]:
    """The gangs of these placements, with the placed pods on their nodes."""
    binds: dict[GangId, dict[PodUid, Bind]] = {}
    for placement in placements:
        binds.setdefault(placement.gang, {}).update({bind.pod: bind for bind in placement.binds})
    return {
        name: replace(
            gangs[name],
            members=tuple(
                replace(
                    pod,
                    node=found[pod.uid].node,
                    device=found[pod.uid].device,
                    volumes=found[pod.uid].volumes,
                    assumed=True,
                )
                if pod.uid in found
                else pod
                for pod in gangs[name].members
            ),
        )
        for name, found in binds.items()
    }
