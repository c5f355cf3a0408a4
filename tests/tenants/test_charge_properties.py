"""Random queue trees, namespaces and pods: each queue is charged as docs/tenants.md says.

The expected charges are computed here from that page and the objects, one gang after the other.
"""

from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from tests.examples import holds
from tests.model.written import label
from tests.tenants.world import CHARGED, World

NAMES = ("a", "b", "c", "d", "default")
NAMED = (*NAMES, "gone", "")
TEAMS = ("x", "y")
SPACES = ("n1", "n2", "n3")

Queues = dict[str, tuple[str, str]]
"""The parent and the team of each queue; both may be empty."""


def drawn(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


queues = st.dictionaries(drawn(*NAMES), st.tuples(drawn("", "", *NAMES, "gone"), drawn("", *TEAMS)))

pods = st.lists(
    st.fixed_dictionaries(
        {
            "namespace": drawn(*SPACES),
            "group": drawn("", "", "g", "h"),
            "queue": drawn(*NAMED, "", ""),
            "charged": drawn(*NAMED, "", ""),
            "node": drawn("", "n0", "n0"),
            "phase": drawn("Running", "Running", "Pending", "Succeeded", "Failed"),
            "scheduler": drawn("phalanx", "phalanx", "phalanx", "other"),
        }
    ),
    max_size=7,
)

groups = st.dictionaries(st.tuples(drawn(*SPACES), drawn("g", "h")), drawn(*NAMED, "", ""))
spaces = st.dictionaries(drawn(*SPACES), st.tuples(drawn("", *TEAMS), drawn("", "", *NAMED)))


class Page:
    """The page, word by word, for these queues and namespaces."""

    def __init__(self, written: Queues, spaces: dict[str, tuple[str, str]]) -> None:
        self.teams = {"default": "", **{name: team for name, (_, team) in written.items()}}
        self.parents = {name: parent for name, (parent, _) in written.items()}
        self.spaces = spaces

    def above(self, name: str) -> str:
        """The parent, if it exists and the queue is not its own ancestor."""
        parent = self.parents.get(name, "")
        seen, other = [name], parent
        while other and other in self.teams and other not in seen:
            seen.append(other)
            other = self.parents.get(other, "")
        return "" if parent not in self.teams or other == name else parent

    def accepts(self, name: str, namespace: str) -> bool:
        """Whether the selectors of the queue and of all its ancestors select the namespace."""
        team, _ = self.spaces.get(namespace, ("", ""))
        while name:
            if self.teams[name] not in ("", team):
                return False
            name = self.above(name)
        return True

    def leaves(self, name: str) -> list[str]:
        below = [other for other in self.teams if self.above(other) == name]
        return [leaf for other in below for leaf in self.leaves(other)] or [name]

    def charged(self, members: list[dict[str, Any]], of_group: str) -> str:
        """The queue of a gang of which some of `members` hold nodes."""
        namespace = members[0]["namespace"]
        _, of_namespace = self.spaces.get(namespace, ("", ""))
        own = [pod for pod in members if pod["holds"]]
        started_in = [pod["charged"] for pod in own]
        of_pods = [pod["queue"] for pod in members if pod["queue"]]
        named = [of_group] if of_group else of_pods[:1] or [of_namespace or "default"]
        for name in [*started_in, *named, of_namespace, "default"]:
            accepting = [
                leaf
                for leaf in (self.leaves(name) if name in self.teams else [])
                if self.accepts(leaf, namespace)
            ]
            if accepting:
                return min(accepting)
        rest = [name for name in self.teams if self.leaves(name) == [name] and self.accepts(name, namespace)]
        return min(rest, default="")


def expected(page: Page, pods: list[dict[str, Any]], groups: dict[tuple[str, str], str]) -> dict[str, int]:
    gangs: dict[Any, list[dict[str, Any]]] = {}
    for number, pod in enumerate(pods):
        key = (pod["namespace"], pod["group"]) if pod["group"] else number
        has_node = bool(pod["node"]) and pod["phase"] not in ("Succeeded", "Failed")
        holds = has_node and pod["scheduler"] == "phalanx"
        gangs.setdefault(key, []).append({**pod, "holds": holds})
    charges: dict[str, int] = {}
    for key, members in gangs.items():
        holding = sum(pod["holds"] for pod in members)
        if holding:
            queue = page.charged(members, groups.get(key, "") if isinstance(key, tuple) else "")
            charges[queue] = charges.get(queue, 0) + holding
    return charges


@given(queues, spaces, pods, groups)
@holds(150)
def test_each_queue_is_charged_as_the_page_says(
    queues: Queues,
    spaces: dict[str, tuple[str, str]],
    pods: list[dict[str, Any]],
    groups: dict[tuple[str, str], str],
) -> None:
    note(f"{queues} {spaces} {groups}")
    world = World(gpus=99)
    for name, (parent, team) in queues.items():
        world.queue(name, team=team, **({"parent": parent} if parent else {}))
    for name, (team, queue) in spaces.items():
        labels = {"team": team, label("queue"): queue}
        world.namespace(name, {key: value for key, value in labels.items() if value})
    for (namespace, name), queue in groups.items():
        world.group(name, namespace, **({"queue": queue} if queue else {}))
    for number, pod in enumerate(pods):
        world.pod(
            f"p{number}",
            pod["namespace"],
            group=pod["group"],
            queue=pod["queue"],
            on=pod["node"],
            meta={"annotations": {CHARGED: pod["charged"]}} if pod["charged"] else {},
            status={"phase": pod["phase"]},
            schedulerName=pod["scheduler"],
        )
    assert world.charges() == expected(Page(queues, spaces), pods, groups)
