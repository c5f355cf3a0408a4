"""Format amounts, times and lists for messages to users."""

from collections.abc import Iterable, Sequence

from phalanx.actions.limits import SHOWN_MEMBERS
from phalanx.model import named_parts
from phalanx.model.api.values import utc
from phalanx.model.gangs import Gang
from phalanx.model.pods import Pod
from phalanx.model.resources import PODS, Resources, format_amount
from phalanx.model.supplies.known import supply_of, writer_of


def amount(resource: str, number: int, *, up: bool = False) -> str:
    """Such as "8 nvidia.com/gpu", "1500m cpu", "12.5Gi memory"; tenths are rounded down or up."""
    if resource == PODS:
        return pods(number)
    if (supply := writer_of(resource)) is not None:
        return supply.amount(resource, number, up=up)
    return format_amount(resource, number, up=up)


def amounts(resources: Resources) -> str:
    """All amounts but zeros, by name; the number of pods only if there is nothing else.

    Of supplies those are left out that a supply does not show. Ports and disks are listed without an amount.
    """
    shown = _nonzero(resources)
    named = {name: number for name, number in shown.items() if name != PODS} or shown
    return ", ".join(amount(name, number) for name, number in named.items()) or "no resources"


def needed(resources: Resources) -> str:
    """All amounts but zeros, rounded up: so much is enough."""
    shown = _nonzero(resources)
    return ", ".join(amount(name, number, up=True) for name, number in shown.items()) or "no resources"


def more(resources: Resources) -> str:
    """Amounts to be added, such as "8 more nvidia.com/gpu", rounded up; empty for nothing."""
    texts = (amount(name, number, up=True) for name, number in _nonzero(resources).items())
    return ", ".join(" more ".join(text.split(" ", maxsplit=1)) for text in texts)


def be(texts: str) -> str:
    """The verb after amounts: "is" after a single 1."""
    return "is" if texts.startswith("1 ") and "," not in texts else "are"


def _nonzero(resources: Resources) -> Resources:
    shown = sorted(resources.items())
    return {name: number for name, number in shown if number and _is_shown(name, number)}


def _is_shown(resource: str, number: int) -> bool:
    supply = supply_of(resource)
    return supply is None or supply.is_shown(resource, number)


def pods(count: int) -> str:
    """Such as "1 pod" or "3 pods"."""
    return "1 pod" if count == 1 else f"{count} pods"


def evictions(count: int) -> str:
    """Such as "1 eviction" or "3 evictions"."""
    return "1 eviction" if count == 1 else f"{count} evictions"


def nodes(count: int) -> str:
    """Such as "1 node" or "3 nodes"."""
    return "1 node" if count == 1 else f"{count} nodes"


def some(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return listed(names[:most]) + more


def named_pods(pods: Sequence[Pod]) -> str:
    """Such as "pod team/x-0" or "pods team/x-0, team/x-1 and 5 more"."""
    return f"pod{'s' * (len(pods) > 1)} {some(list(map(str, pods)), SHOWN_MEMBERS)}"


def named_nodes(names: Iterable[str]) -> str:
    """Nodes by name, separated by commas."""
    return listed(map(named_parts.node, names))


def holds_node(pod: Pod) -> str:
    """The node of a pod, as a finding about the pod."""
    return f"holds {named_parts.node(pod.node or '', titled=True)}"


def evicted_for(gang: Gang, cause: str) -> str:
    """The message of the eviction of pods for this gang."""
    return f"evicted so that {named_parts.workload(gang)} of queue {gang.queue} can start: {cause}"


def moment(milliseconds: int) -> str:
    """A time in the format of the API, in whole seconds; the last of the year 9999 for any later one."""
    return utc(milliseconds // 1000).isoformat().replace("+00:00", "Z")


def listed(items: Iterable[str]) -> str:
    """The items, separated by commas."""
    return ", ".join(items)
