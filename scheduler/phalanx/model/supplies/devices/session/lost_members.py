"""Members of gangs whose claims matter when they are lost, in a session of which pods may have no claims."""

from collections.abc import Callable, Collection, Mapping, Sequence

from phalanx.model.gangs import Gang, MemberClaims, MemberCount, count_members
from phalanx.model.names import PodUid, QueueName
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.session.session_devices import WithSupplies, open_devices


def composition(session: WithSupplies, gang: Gang) -> tuple[MemberCount, ...]:
    """All members of the gang by kind and claims."""
    devices = open_devices(session)
    return gang.composition if devices is None else devices.members.composition(gang)


def composition_of(session: WithSupplies, members: Collection[Pod]) -> tuple[MemberCount, ...]:
    """These members by kind and claims."""
    claims = claims_of_members(session, members)
    return count_members(members, lambda pod: claims.get(pod.uid))


def claims_of_members(session: WithSupplies, members: Collection[Pod]) -> Mapping[PodUid, MemberClaims]:
    """What each of these members asks for that asks for devices, as far as it is known."""
    devices = open_devices(session)
    return {} if devices is None else devices.members.of(members)


def deprived_members(session: WithSupplies, gang: Gang) -> frozenset[PodUid]:
    """Members with a node whose own claims have no devices any more."""
    devices = open_devices(session)
    return frozenset() if devices is None else devices.members.deprived(gang)


def with_claims(
    session: WithSupplies, placeholder: Pod, claims: MemberClaims | None, queue: QueueName
) -> Pod:
    """The placeholder with what these claims need."""
    devices = open_devices(session)
    return placeholder if devices is None else devices.needs.with_claims(placeholder, claims, queue)


def claims_of_lost(session: WithSupplies) -> Callable[[Pod], MemberClaims | None]:
    """What lost members ask for, by placeholder."""
    devices = open_devices(session)
    return (lambda _: None) if devices is None else devices.needs.claims_of_lost


def without_claims(session: WithSupplies, placeholders: Sequence[Pod]) -> list[Pod]:
    """Those of the placeholders that ask for devices, as if they asked for none."""
    asked, devices = claims_of_lost(session), open_devices(session)
    claiming = [pod for pod in placeholders if asked(pod) is not None]
    return [devices.needs.without_claims(pod) for pod in claiming] if devices is not None else []


def count_without_devices(session: WithSupplies, placeholders: Sequence[Pod]) -> int:
    """How many of these placeholders have no devices for their claims."""
    devices = open_devices(session)
    return 0 if devices is None else sum(map(devices.needs.lacks_devices, placeholders))
