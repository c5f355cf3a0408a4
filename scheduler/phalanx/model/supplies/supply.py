"""The interface of a supply: something that every node offers, and that nodes do not list.

What a pod uses of it is an amount of a resource beside its requests. The name of the resource is the name of
the supply and what it is about, such as `port[TCP:8080]`. So usage adds up like that of any other resource:
pods of all schedulers count, and the end of a pod gives it back. The free amount of a resource that is used
is negative, and `offered` is what every node offers. Queues are not charged.
"""

from collections.abc import Hashable, Mapping

from phalanx.model.api import core
from phalanx.model.resources import NONE


class Supply:
    """One kind. Subclasses have a `name` and say what nodes offer; the rest has a default."""

    name: str
    """The first part of the names of its resources."""

    def resource(self, what: str) -> str:
        """The resource for something of this kind."""
        return f"{self.name}[{what}]"

    def what(self, resource: str) -> str:
        """What the resource is about."""
        return resource[len(self.name) + 1 : -1]

    def requests(self, pod: core.Pod, wrong: list[str]) -> Mapping[str, int]:
        """What a pod uses, by resource, as far as the pod itself tells it. Errors are appended to `wrong`."""
        return NONE

    def reads(self, pod: core.Pod) -> Hashable:
        """What `requests` reads of the pod beside its containers and `hostNetwork`: equal pods request the
        same."""
        return None

    def offered(self, resource: str) -> int:
        """What every node offers of the resource. A pod that needs all of it shares it with no other one."""
        raise NotImplementedError

    def text(self, resource: str) -> str:
        """The resource without an amount, such as "port 8080"."""
        return f"{self.name} {self.what(resource)}"

    def amount(self, resource: str, number: int, *, up: bool = False) -> str:
        """An amount of the resource; tenths are rounded up or down. By default it is not counted."""
        return self.text(resource)

    def shortage(self, resource: str) -> str:
        """Why a pod does not get what it needs of the resource on a node."""
        return f"{self.text(resource)} is in use"
