"""Claims that are held for pods which are not bound: what a leader left that died between its writes.

Such a claim keeps its devices, and a claim of one pod keeps the pod waiting. The new leader gives it back, as
the last one would have.
"""

from collections.abc import Callable, Iterable

from phalanx.model.decisions import GiveBack
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.claims import Claim, ClaimGrant
from phalanx.model.supplies.devices.pod_claims import own_claims


def leftover_claims(
    claims: Iterable[Claim],
    waiting: Callable[[PodUid], Pod | None],
    naming: Callable[[Claim], Iterable[PodUid]] = lambda _: (),
    *,
    now: int = 0,
) -> tuple[GiveBack, ...]:
    """By pod, the claims that are reserved for it, and its own that are allocated.

    A claim whose devices have failed, or were not ready in time, and which is reserved for nobody, is given
    back for one of the pods that wait for it: `naming` returns the pods that name a claim. `now`: in ms since
    the epoch.

    `waiting` returns pods of this scheduler that have no node, not even an assumed one. A claim that is
    reserved for a pod which is gone is left to kube-controller-manager, and so is one of a pod of another
    scheduler. The owner of a claim is what a tenant has written: it counts only if the pod names the claim as
    its own, or if the claim says that it is for extended resources, as in kube-scheduler.
    """
    found: dict[PodUid, tuple[Pod, list[ClaimGrant]]] = {}
    for claim in claims:
        users = _first(naming(claim), waiting) if _is_useless(claim, now) else ()
        for uid in dict.fromkeys((*holders(claim), *users)):
            pod = waiting(PodUid(uid))
            if pod is not None and (uid in users or _is_for(claim, pod)):
                grant = ClaimGrant(
                    claim.namespace,
                    claim.name,
                    claim.uid,
                    claim.allocation,
                    is_for_extended=claim.is_for_extended,
                )
                found.setdefault(pod.uid, (pod, []))[1].append(grant)
    return tuple(
        GiveBack(uid, pod.namespace, pod.name, tuple(grants)) for uid, (pod, grants) in found.items()
    )


def is_unready(claim: Claim) -> bool:
    """Whether nobody uses the claim, and nobody can use its devices yet, or ever."""
    return (bool(claim.unbound) or claim.has_failed) and not claim.reserved_for


def _is_useless(claim: Claim, now: int) -> bool:
    return is_unready(claim) and (claim.has_failed or 0 < claim.ready_by <= now)


def _first(uids: Iterable[PodUid], waiting: Callable[[PodUid], Pod | None]) -> tuple[PodUid, ...]:
    return tuple(sorted(uid for uid in uids if waiting(uid) is not None))[:1]


def holders(claim: Claim | None) -> tuple[str, ...]:
    """UIDs of the pods for which the claim is reserved; without any, of its owner if it is allocated.

    A claim for extended resources is always held for its owner.
    """
    if claim is None:
        return ()
    if claim.is_for_extended and claim.owner:
        return tuple(dict.fromkeys((claim.owner, *claim.reserved_for)))
    is_held = claim.allocation is not None and not claim.reserved_for and claim.owner
    return (claim.owner,) if is_held else tuple(dict.fromkeys(claim.reserved_for))


def _is_for(claim: Claim, pod: Pod) -> bool:
    if pod.namespace != claim.namespace:
        return False
    is_own = claim.name in own_claims(pod.device_claims) or (claim.is_for_extended and claim.owner == pod.uid)
    return is_own or pod.uid in claim.reserved_for
