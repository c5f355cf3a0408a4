"""Pod-by-pod schedulers that cannot be run here, written from their documentation and source.

Binpack: each pod goes to the feasible node with the highest mean utilisation afterwards, over the requested
resources. That is the score MostAllocated of kube-scheduler and the plugin binpack of Volcano with equal
weights.

Task-topology of Volcano (pkg/scheduler/plugins/task-topology, its user guide in docs/user-guide) with the
annotation task-topology-affinity for each pair of roles that exchange data: the pods of a job are put into
buckets, each pod into the bucket with most pods that it has affinity to. Buckets are served by size, pods of
a bucket in the order of their creation. The score of a node is how many pods of the bucket run there or would
fit, times 100 by the size of the largest bucket, with weight 10 as in the guide, plus the score of binpack,
which the guide enables too. What the program decides at random is decided here by the order of names: equal
scores, and which pods are left out of a bucket that does not fit.
"""

from collections.abc import Mapping, Sequence

from bench.traffic.cases import Amounts, Case, Job, Node, Role

Placement = dict[str, str]
"""The node of each placed pod."""

WEIGHT = 10
FULL_SCORE = 100


class Cluster:
    """What is free while pods are placed one by one."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.free = {
            node.name: {name: amount - node.taken.get(name, 0) for name, amount in node.capacity.items()}
            for node in nodes
        }

    def feasible(self, requests: Amounts) -> list[str]:
        """The nodes on which a pod with these requests fits, by name."""
        return [node for node in sorted(self.free) if fits(requests, self.free[node])]

    def take(self, node: str, requests: Amounts) -> None:
        """Place a pod."""
        for name, amount in requests.items():
            self.free[node][name] -= amount

    def use(self, node: str, requests: Amounts) -> float:
        """The mean utilisation of the requested resources, with the pod placed; 0 to 100."""
        capacity, free = self.nodes[node].capacity, self.free[node]
        shares = [
            (capacity[name] - free[name] + amount) / capacity[name] for name, amount in requests.items()
        ]
        return FULL_SCORE * sum(shares) / len(shares)


def fits(requests: Amounts, free: Mapping[str, int]) -> bool:
    """Whether these amounts are free."""
    return all(free.get(name, 0) >= amount for name, amount in requests.items())


def binpack(case: Case) -> Placement:
    """Each pod on the fullest node."""
    cluster, placement = Cluster(case.nodes), Placement()
    for pod, role in case.arrivals():
        uses = {node: cluster.use(node, role.requests) for node in cluster.feasible(role.requests)}
        if uses:
            placement[pod] = max(uses, key=uses.__getitem__)
            cluster.take(placement[pod], role.requests)
    return placement


def task_topology(case: Case) -> Placement:
    """Each pod near those of its bucket."""
    cluster, placement = Cluster(case.nodes), Placement()
    for job in case.jobs:
        _place_by_buckets(cluster, job, placement)
    return placement


def _place_by_buckets(cluster: Cluster, job: Job, placement: Placement) -> None:
    created = [pod for pod, _ in job.pods()]
    buckets = [sorted(bucket, key=lambda each: created.index(each[0])) for bucket in _buckets(job)]
    largest = max(map(len, buckets))
    for bucket in sorted(buckets, key=lambda pods: -len(pods)):
        waiting = dict(bucket)
        bound: dict[str, int] = {}
        for pod, role in bucket:
            nodes = cluster.feasible(role.requests)
            if not nodes:
                continue
            scores = {
                node: WEIGHT * FULL_SCORE * _score(cluster, node, pod, waiting, bound) / largest
                + cluster.use(node, role.requests)
                for node in nodes
            }
            node = max(nodes, key=scores.__getitem__)
            placement[pod] = node
            cluster.take(node, role.requests)
            bound[node] = bound.get(node, 0) + 1
            del waiting[pod]


def _score(
    cluster: Cluster, node: str, pod: str, waiting: Mapping[str, Role], bound: Mapping[str, int]
) -> int:
    """Pods of the bucket that run on the node, and those that would fit there together with the pod."""
    score = bound.get(node, 0) + len(waiting)
    remains: dict[str, int] = {}
    for role in waiting.values():
        for name, amount in role.requests.items():
            remains[name] = remains.get(name, 0) + amount
    for other, role in waiting.items():
        if fits(remains, cluster.free[node]):
            break
        if other != pod:
            score -= 1
            for name, amount in role.requests.items():
                remains[name] -= amount
    return score


def _buckets(job: Job) -> list[list[tuple[str, Role]]]:
    """The buckets of a job, in the order of their creation."""
    pairs = {frozenset((flow.sender, flow.receiver)) for flow in job.flows}
    buckets: list[list[tuple[str, Role]]] = []
    for pod, role in sorted(job.pods(), key=lambda each: each[0], reverse=True):
        affinity = [sum(frozenset((role.name, other.name)) in pairs for _, other in pods) for pods in buckets]
        if not buckets:
            buckets.append([])
            affinity = [0]
        buckets[affinity.index(max(affinity))].append((pod, role))
    return buckets
