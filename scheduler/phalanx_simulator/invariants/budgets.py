"""S24: evictions for other gangs respect PodDisruptionBudgets."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from phalanx.model.decisions import CycleResult
from phalanx.model.snapshot import Snapshot

from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Change, ChangeType, Key, Object
from phalanx_simulator.invariants.bounds import DECIDED_S, GONE_KEPT_S
from phalanx_simulator.invariants.check import Check, CheckContext
from phalanx_simulator.invariants.facts import PodFact
from phalanx_simulator.invariants.history import History
from phalanx_simulator.invariants.truth import Truth

BUDGETS: Final = "poddisruptionbudgets.policy"


class _Told(Struct, frozen=True):
    """A budget's status at a revision of the store."""

    revision: int
    selector: Object | None
    allowed: int

    def is_about(self, pod: PodFact) -> bool:
        """Whether it protects the pod, if that is in its namespace."""
        return label_selector(self.selector)({"metadata": {"labels": dict(pod.labels)}})


class BudgetsHold(Check):
    """S24: a process evicts no more running pods of a budget for other gangs than it allows.

    It allows what its status said at some moment since what the process had heard of when it decided, less
    those evicted by the process which were not being deleted yet at that moment. Only for budgets as the
    configuration has them by default, hard ones.
    """

    name = "S24"

    def __init__(self, scene: CheckContext, truth: Truth) -> None:
        super().__init__(scene, truth)
        self._budgets: dict[Key, History[_Told]] = {}
        self._decided: dict[str, dict[str, float]] = {}

    def on_change(self, change: Change) -> None:
        key = change.entry.key
        if key.resource != BUDGETS:
            return
        gone = change.type is ChangeType.DELETED
        told = None if gone else _told(change.entry.revision, change.entry.data)
        self._budgets.setdefault(key, History()).add(change.entry.revision, told)

    def on_cycle(self, host: str, snapshot: Snapshot, result: CycleResult) -> None:
        chosen = [each.pod for each in result.evictions if each.beneficiary]
        if not chosen:
            return
        known = self._decided.get(host, {})
        earlier = {uid: at for uid, at in known.items() if at > self.now - GONE_KEPT_S}
        new = [uid for uid in chosen if uid not in earlier]
        self._decided[host] = {**earlier, **dict.fromkeys(new, self.now)}
        heard = self.truth.known(host, "poddisruptionbudgets", before_s=DECIDED_S)
        for key, history in self._budgets.items():
            self._judge(key, history.since(heard), new, list(earlier))

    def _judge(
        self, key: Key, versions: Sequence[_Told | None], new: Sequence[str], earlier: Sequence[str]
    ) -> None:
        """Check a budget, unless it was created since the snapshot."""
        least: tuple[int, _Told] | None = None
        for told in versions:
            if told is None:
                return
            going = [*self._protected(key, told, new), *self._deleted(self._protected(key, told, earlier))]
            beyond = len(going) - told.allowed if self._protected(key, told, new) else 0
            if least is None or beyond < least[0]:
                least = beyond, told
        if least is not None and least[0] > 0:
            beyond, told = least
            allowed = f"it allows {told.allowed}"
            self.violated(f"budget {key.namespace}/{key.name}", f"{beyond} pods too many go, {allowed}")

    def _protected(self, key: Key, told: _Told, pods: Iterable[str]) -> list[str]:
        """Pods of the budget that ran and were not being deleted at that revision."""
        found = [(uid, self.truth.pod_at(uid, told.revision)) for uid in pods]
        return [
            uid
            for uid, pod in found
            if isinstance(pod, PodFact)
            and pod.namespace == key.namespace
            and pod.phase == "Running"
            and not pod.is_deleting
            and told.is_about(pod)
        ]

    def _deleted(self, pods: Iterable[str]) -> list[str]:
        """Evicted pods that are being deleted or gone."""
        found = [(uid, self.truth.pods.get(uid)) for uid in pods]
        return [uid for uid, pod in found if pod is None or pod.is_deleting]


def _told(revision: int, budget: Object) -> _Told:
    status = budget.get("status") or {}
    is_old = status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0)
    allowed = 0 if is_old else int(status.get("disruptionsAllowed") or 0)
    return _Told(revision, budget["spec"].get("selector"), allowed)
