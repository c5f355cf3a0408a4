"""Injected effects: which objects each fault has changed, and since when.

So whoever loses a pod can ask for the fault behind it, also where the injector draws its targets itself.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from phalanx_simulator.embedded.apiserver.registry import Change
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.client import Client
from phalanx_simulator.embedded.store import Key
from phalanx_simulator.faults.edits import node_key
from phalanx_simulator.faults.fault import Kubelets
from phalanx_simulator.hosts.host import WorldClock

AFTERMATH_S: Final = 60.0
"""Simulated seconds after its end for which a fault is still behind what is lost: pods end within 30."""


class InjectedEffect(Struct):
    """The effects of one fault.

    `has_met`: it has hit a gang that ran.
    """

    detect_s: float
    began_s: dict[Key, float] = {}
    over_s: float | None = None
    has_met: bool = False


class InjectedEffects:
    """The effects of faults that may still cause losses.

    `on_first` is called with each object that a fault changes first.
    """

    def __init__(self, clock: WorldClock, on_first: Callable[[InjectedEffect, Key], None]) -> None:
        self._clock = clock
        self._on_first = on_first
        self._recent: list[InjectedEffect] = []
        self._by_key: dict[Key, list[InjectedEffect]] = {}

    def begin(self, detect_s: float) -> InjectedEffect:
        """A fault that has hit nothing yet."""
        self._forget_old()
        blow = InjectedEffect(detect_s)
        self._recent.append(blow)
        return blow

    def end(self, blow: InjectedEffect) -> None:
        """It is undone."""
        blow.over_s = self._clock.monotonic()

    def hit(self, blow: InjectedEffect, key: Key) -> None:
        """Record an effect on the process behind this object, if the object exists."""
        if key not in blow.began_s:
            blow.began_s[key] = self._clock.monotonic() - blow.detect_s
            self._by_key.setdefault(key, []).append(blow)
            self._on_first(blow, key)

    def began_s(self, *keys: Key) -> float | None:
        """The earliest start of the recent faults that changed one of these objects."""
        found = (
            blow.began_s[key] for key in keys for blow in self._by_key.get(key, ()) if not self._is_old(blow)
        )
        return min(found, default=None)

    def _is_old(self, blow: InjectedEffect) -> bool:
        return blow.over_s is not None and blow.over_s + AFTERMATH_S < self._clock.monotonic()

    def _forget_old(self) -> None:
        old = [blow for blow in self._recent if self._is_old(blow)]
        self._recent = [blow for blow in self._recent if not self._is_old(blow)]
        for blow in old:
            for key in blow.began_s:
                left = [known for known in self._by_key[key] if known is not blow]
                if left:
                    self._by_key[key] = left
                else:
                    del self._by_key[key]


class FaultClient(Client):
    """The API client of one fault; it records each object that it changes or deletes.

    `changes` counts what it does to kubelets as well.
    """

    def __init__(self, server: ApiServer, eyes: Client, on_hit: Callable[[Key], None]) -> None:
        super().__init__(server)
        self._eyes = eyes
        self._on_hit = on_hit

    def pods_on(self, node: str) -> list[Key]:
        return self._eyes.pods_on(node)

    def update(self, key: Key, change: Change) -> None:
        self._on_hit(key)
        super().update(key, change)

    def update_status(self, key: Key, **fields: object) -> None:
        self._on_hit(key)
        super().update_status(key, **fields)

    def evict(self, key: Key, *, uid: str) -> bool:
        self._on_hit(key)
        return super().evict(key, uid=uid)

    def delete(self, key: Key, *, uid: str, grace_s: int | None = None) -> None:
        self._on_hit(key)
        super().delete(key, uid=uid, grace_s=grace_s)

    def hit(self, key: Key) -> None:
        """The fault does something to what runs behind this object, where there is one."""
        if self.get(key) is not None:
            self._on_hit(key)
            self.changes += 1


class FaultKubelets:
    """The kubelets as one fault uses them; effects are recorded."""

    def __init__(self, kubelets: Kubelets, client: FaultClient) -> None:
        self._kubelets = kubelets
        self._client = client

    def lose(self, node: str) -> None:
        self._client.hit(node_key(node))
        self._kubelets.lose(node)

    def find(self, node: str, *, restarted: bool = False) -> None:
        self._client.hit(node_key(node))
        self._kubelets.find(node, restarted=restarted)

    def fail(self, pod: Key, /, *, exit_code: int, reason: str, message: str) -> bool:
        has_failed = self._kubelets.fail(pod, exit_code=exit_code, reason=reason, message=message)
        if has_failed:
            self._client.hit(pod)
        return has_failed
