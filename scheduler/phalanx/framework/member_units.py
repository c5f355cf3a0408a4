"""Units of members: the hosts of a replica are of use only together.

Members of a unit know each other by a label. Without the label any members of the role are one, in the order
of the gang. A unit of which members count already has started: each missing one joins it alone.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from phalanx.model.gangs import Gang, RoleSpec
from phalanx.model.names import PodUid
from phalanx.model.pods import Pod


def roles_with_units(gang: Gang) -> list[RoleSpec]:
    return [role for role in gang.roles if role.unit > 1]


def in_whole_units(gang: Gang, ready: Sequence[Pod], unfit: Collection[PodUid] = ()) -> Sequence[Pod]:
    """These waiting members without those of incomplete units. Members of a unit follow each other.

    First come those that join a unit that has started, then whole units; units with `unfit` members are last.
    """
    roles = roles_with_units(gang)
    if not roles:
        return ready
    names = {role.name for role in roles}
    together: list[Sequence[Pod]] = []
    for role in roles:
        joining, units = divided(role, ready, gang.counted)
        together += [*([pod] for pod in joining), *units]
    together.sort(key=lambda pods: any(pod.uid in unfit for pod in pods))
    return [*(pod for pod in ready if pod.role not in names), *chain.from_iterable(together)]


def units_of(gang: Gang, surplus: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
    """The units of these surplus members, of which a last one may be smaller."""
    for role in roles_with_units(gang):
        for pods in _by_label(role, surplus).values():
            yield from _chunks(pods, role.unit)


def divided(
    role: RoleSpec, waiting: Sequence[Pod], started: Sequence[Pod]
) -> tuple[list[Pod], list[Sequence[Pod]]]:
    """The pods of the role that join a unit which has started, and whole units of the others."""
    counts = Counter({label: len(some) for label, some in _by_label(role, started).items()})
    joining: list[Pod] = []
    units: list[Sequence[Pod]] = []
    for label, some in _by_label(role, waiting).items():
        lacks = -counts[label] % role.unit
        joining += some[:lacks]
        units += [unit for unit in _chunks(some[lacks:], role.unit) if len(unit) == role.unit]
    return joining, units


def _by_label(role: RoleSpec, pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """The pods of the role by the value of its label, empty for none."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.role == role.name:
            label = dict(pod.all_labels).get(role.unit_label, "") if role.unit_label else ""
            found.setdefault(label, []).append(pod)
    return found


def _chunks(pods: Sequence[Pod], size: int) -> Iterator[Sequence[Pod]]:
    for first in range(0, len(pods), size):
        yield pods[first : first + size]
