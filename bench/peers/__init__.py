"""Other schedulers for comparison, one package each; `make bench PEERS=all` adds them."""

from bench.harness.contenders import Contender
from bench.peers.coscheduling.contender import COSCHEDULING
from bench.peers.kube_scheduler.contender import KUBE_SCHEDULER_GANGS, KUBE_SCHEDULER_TOPOLOGY
from bench.peers.volcano.contender import VOLCANO, VOLCANO_CI

PEERS: tuple[Contender, ...] = (
    KUBE_SCHEDULER_GANGS,
    KUBE_SCHEDULER_TOPOLOGY,
    COSCHEDULING,
    VOLCANO,
    VOLCANO_CI,
)

ABSENT: dict[str, str] = {
    "KAI": "github.com/kai-scheduler/KAI-scheduler v0.17.0 is not available from the Go module proxy",
    "Kueue": (
        "needs its webhooks: they gate and label every plain pod of a gang, and its kinds are converted "
        "between versions by one"
    ),
}
"""Schedulers that cannot be compared, and the reasons."""
