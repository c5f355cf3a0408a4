"""Devices for shares of GPUs, for gangs that are placed at once."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from phalanx.actions.demands.demand import Demand
from phalanx.actions.problems.placement import DemandPlacement
from phalanx.framework.session import Session
from phalanx.framework.statement import DoesNotFit
from phalanx.model.gpu_shares import NO_DEVICES, Devices, Share, incompatible_shares, requests_share, share_of
from phalanx.model.names import PodUid
from phalanx.model.pods import Device


def has_shares(demand: Demand) -> bool:
    """Whether some pod asks for a share."""
    return any(requests_share(batch.pods[0].shape.requests) for batch in demand.batches)


def have_compatible_shares(demands: Iterable[Demand]) -> list[bool]:
    """Per demand, whether its shares go together with those of the ones before of which this is so."""
    known: set[Share] = set()
    add_up = []
    for demand in demands:
        asked = (share_of(batch.pods[0].shape.requests) for batch in demand.batches)
        own = {share for share in asked if share is not None}
        add_up.append(incompatible_shares(known | own) is None)
        known |= own if add_up[-1] else set()
    return add_up


def with_devices(session: Session, placings: Sequence[DemandPlacement]) -> list[DemandPlacement] | None:
    """The same placings, the shares of all of them on one node dealt together; None where that cannot be.

    The session is without them. One gang after the other would not do: small shares could take what larger
    ones need.
    """
    seats = [seat for placing in placings for seat in placing.seats]
    try:
        with session.statement() as statement:
            devices = statement.deal(seats, NO_DEVICES)
    except DoesNotFit:
        return None
    return [replace(each, devices=_own(each, devices)) for each in placings]


def _own(placing: DemandPlacement, devices: Devices) -> dict[PodUid, Device]:
    uids = [pod.uid for _, pods in placing.seats for pod in pods]
    return {uid: devices[uid] for uid in uids if uid in devices}
