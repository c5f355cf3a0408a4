"""Advice: what lets a waiting gang start, as data and as text.

`docs/reasons.md` says for each kind how to follow it. Amounts are rounded up, so that following the text is
enough.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from phalanx.actions import formatting
from phalanx.framework.nodes.topology import domain_name
from phalanx.model import named_parts
from phalanx.model.names import NodeName
from phalanx.model.nodes import Taint
from phalanx.model.resources import PODS, Resources
from phalanx.solver.infeasibility.relaxations import NodeCapacity

HOLDERS_NAMED_MAX: Final = 3
"""Holders of capacity that are named; the evidence has all of them."""


# --- events to wait for -------------------------------------------------------------------------------------


class Ends(Struct, frozen=True):
    """All of these holders of capacity end."""

    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """A set of more than two may be larger than necessary."""
        if len(self.names) == 1:
            return f"{self.names[0]} ends"
        if len(self.names) == 2:
            return f"{self.names[0]} and {self.names[1]} end"
        more = len(self.names) - HOLDERS_NAMED_MAX
        named = [*self.names[:HOLDERS_NAMED_MAX], *([f"{more} more"] if more > 0 else [])]
        return f"at most {len(self.names)} end ({formatting.listed(named)})"


class AllEnd(Struct, frozen=True):
    """All running work ends."""

    @property
    def text(self) -> str:
        """As an event."""
        return "running work ends"


class Freed(Struct, frozen=True):
    """These amounts become free on these nodes of a domain, which is empty for the whole cluster."""

    capacity: tuple[NodeCapacity, ...]
    level: str = ""
    domain: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Equal amounts are named once."""
        by_amounts: dict[str, list[NodeName]] = {}
        for each in self.capacity:
            by_amounts.setdefault(formatting.more(each.amounts), []).append(each.node)
        parts = [
            f"{amounts} {formatting.be(amounts)} free{{}} on "
            f"{'each of ' if len(nodes) > 1 else ''}{formatting.named_nodes(nodes)}"
            for amounts, nodes in by_amounts.items()
        ]
        where = in_domain(self.level, self.domain)
        return " and ".join(part.format(where if number == 0 else "") for number, part in enumerate(parts))


class PodsFit(Struct, frozen=True):
    """The nodes of a domain fit so many more pods, which takes at least these amounts."""

    count: int
    least: Resources
    level: str = ""
    domain: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The amounts alone may be fragmented."""
        pods = formatting.more({PODS: self.count})
        return (
            f"nodes{in_domain(self.level, self.domain)} fit {pods} (at least {formatting.more(self.least)})"
        )


class Released(Struct, frozen=True):
    """So much of each of these limits is released."""

    limits: Mapping[str, Resources]

    @property
    def text(self) -> str:
        """One phrase for each limit."""
        parts = [f"{formatting.needed(amounts)} of the {name}" for name, amounts in self.limits.items()]
        return f"{' and '.join(parts)} {formatting.be(', '.join(parts))} released"


class SelectedPodRuns(Struct, frozen=True):
    """A pod that the pod affinity of the gang selects runs on this node."""

    node: NodeName

    @property
    def text(self) -> str:
        """As an event."""
        return f"a pod that podAffinity selects runs on {named_parts.node(self.node)}"


Event = Ends | AllEnd | Freed | PodsFit | Released | SelectedPodRuns


# --- changes ------------------------------------------------------------------------------------------------


class RequireLevel(Struct, frozen=True):
    """The gang or a subgroup requires another level."""

    level: str
    instead_of: str
    subgroup: str = ""

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"require {self.level} instead of {self.instead_of}{of_subgroup(self.subgroup)}"


class PreferLevel(Struct, frozen=True):
    """The gang or a subgroup prefers the level that it requires."""

    level: str
    subgroup: str = ""

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"prefer {self.level}{of_subgroup(self.subgroup)} instead of requiring it"


class RequireNoLevel(Struct, frozen=True):
    """A subgroup with segments requires no level."""

    level: str
    subgroup: str

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"require no {self.level}{of_subgroup(self.subgroup)}"


class RaiseLimits(Struct, frozen=True):
    """These limits are higher by these amounts."""

    limits: Mapping[str, Resources]

    @property
    def text(self) -> str:
        """As an imperative."""
        parts = [f"the {name} by {formatting.needed(amounts)}" for name, amounts in self.limits.items()]
        return f"raise {' and '.join(parts)}"


class LowerMinimum(Struct, frozen=True):
    """The gang starts with fewer members; minimums of roles or subgroups that must be lower are listed."""

    members: int
    roles: Mapping[str, int] = {}
    subgroups: Mapping[str, int] = {}
    how: str = "lower minMember"
    """What lowers it, as an imperative."""

    @property
    def text(self) -> str:
        """As an imperative."""
        parts = [f"role {name} to {count}" for name, count in self.roles.items()]
        parts += [f"subgroup {name} to {count}" for name, count in self.subgroups.items()]
        return f"{self.how} to {self.members}{f' ({formatting.listed(parts)})' if parts else ''}"


class ChangePods(Struct, frozen=True):
    """The pods of the gang lack these fields and tolerate these taints."""

    removed: tuple[str, ...]
    tolerated: tuple[Taint, ...] = ()

    @property
    def text(self) -> str:
        """As an imperative."""
        return " and ".join(
            [
                *(f"remove {field}" for field in self.removed),
                *(f"tolerate {_shown(taint)}" for taint in self.tolerated),
            ]
        )


class BringBack(Struct, frozen=True):
    """Cordoned nodes are in service again, faulty ones are healthy, and others take pods."""

    cordoned: tuple[NodeName, ...]
    faulty: tuple[NodeName, ...]
    in_transition: tuple[NodeName, ...] = ()

    @property
    def text(self) -> str:
        """As an imperative."""
        parts = [("uncordon", self.cordoned), ("repair", self.faulty)]
        texts = [f"{verb} {formatting.named_nodes(nodes)}" for verb, nodes in parts if nodes]
        if self.in_transition:
            verb = "takes" if len(self.in_transition) == 1 else "take"
            texts.append(f"wait until {formatting.named_nodes(self.in_transition)} {verb} pods")
        return " and ".join(texts)


class BringBackAll(Struct, frozen=True):
    """All cordoned or faulty nodes that the pods could use are in service again."""

    count: int

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"uncordon or repair all {self.count} unavailable nodes"


class LabelNodes(Struct, frozen=True):
    """Nodes that lack this label get it, all with the same value; without names all that lack it."""

    label: str
    nodes: tuple[NodeName, ...] = ()

    @property
    def text(self) -> str:
        """As an imperative."""
        nodes = formatting.named_nodes(self.nodes) or "all nodes that lack it"
        return f"label {nodes} with one value of {self.label}"


class RemoveLevel(Struct, frozen=True):
    """The Topology has no such level."""

    level: str
    topology: str

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"remove level {self.level} from Topology {self.topology}"


class AddNodes(Struct, frozen=True):
    """So many nodes are added, with labels, taints and allocatable amounts of this one, or larger ones."""

    count: int
    like: NodeName
    at_least: Resources = {}
    size: Resources = {}
    """What the pods could use of one of them."""

    where: str = ""
    """Where they are, such as " in zone z", if the gang requires a level."""

    is_fewest: bool = True
    """Whether it is proven that one less is not enough."""

    @property
    def text(self) -> str:
        """As an imperative. Tenants that may not see the node read what its copy must be like."""
        larger = f" with at least {formatting.needed(self.at_least)}" if self.at_least else ""
        copy = f"{named_parts.plain(self.where)} that the pods may use, with {formatting.needed(self.size)}"
        like = named_parts.like_node(f" like {self.like}{larger}", self.like, instead=copy)
        most = "" if self.is_fewest else "at most "
        return f"add {most}{formatting.nodes(self.count)}{like}"


class BePreemptible(Struct, frozen=True):
    """The gang is preemptible."""

    @property
    def text(self) -> str:
        """As an imperative."""
        return "let the gang be preemptible"


class RequestLess(Struct, frozen=True):
    """Pods request at most these amounts."""

    amounts: Resources

    @property
    def text(self) -> str:
        """As an imperative."""
        return f"request at most {formatting.amounts(self.amounts)} per pod"


class Together(Struct, frozen=True):
    """All of these actions, each of which is necessary."""

    actions: tuple["Action", ...]

    @property
    def text(self) -> str:
        """As imperatives."""
        return ", and also ".join(action.text for action in self.actions)


Action = (
    RequireLevel
    | PreferLevel
    | RequireNoLevel
    | RaiseLimits
    | LowerMinimum
    | ChangePods
    | BringBack
    | BringBackAll
    | LabelNodes
    | RemoveLevel
    | AddNodes
    | BePreemptible
    | RequestLess
    | Together
)


class Advice(Struct, frozen=True):
    """All verified advice of one verdict; each part is enough by itself."""

    events: tuple[Event, ...] = ()
    """What to wait for."""

    actions: tuple[Action, ...] = ()
    """What lets the gang start at once."""

    later_actions: tuple[Action, ...] = ()
    """What lets the gang start when all running work has ended."""

    is_pending: bool = False
    """Whether the search for it is still to come."""


def in_domain(level: str, domain: tuple[str, ...]) -> str:
    """Such as " in rack z/r1"; empty without a domain."""
    return f" in {level} {named_parts.domain(domain_name(domain))}" if domain else ""


def of_subgroup(name: str) -> str:
    """Such as " for subgroup s"; empty for the whole gang."""
    return f" for subgroup {name}" if name else ""


def _shown(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
