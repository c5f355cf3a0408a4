"""Topology spread constraints for pods that have none, as the configuration sets them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Policy = Literal["Honor", "Ignore"]


class DefaultConstraint(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A constraint as in pods, without a selector, which follows from the controller of each pod."""

    topology_key: Annotated[str, Meta(min_length=1)]
    """The node label whose values are the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether it must hold, or is a price."""
    max_skew: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    """How many more pods may be in a domain than in the one with the fewest."""
    min_domains: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    """With fewer domains, at most `maxSkew` pods are in each of them. Only with DoNotSchedule."""
    node_affinity_policy: Policy = "Honor"
    """Whether only nodes count that selectors and affinity of the pod allow."""
    node_taints_policy: Policy = "Ignore"
    """Whether only nodes count whose taints the pod tolerates."""

    def __post_init__(self) -> None:
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise ValueError("minDomains needs whenUnsatisfiable: DoNotSchedule")


class SpreadDefaults(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A base of the arguments of the plugin that sets these constraints. They are read with the pods."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    """Topology spread constraints for pods of Deployments and StatefulSets that have none of their own."""

    def __post_init__(self) -> None:
        pairs = [(each.topology_key, each.when_unsatisfiable) for each in self.default_constraints]
        for key, action in pairs:
            if pairs.count((key, action)) > 1:
                raise ValueError(f"defaultConstraints has {key} with {action} twice")
