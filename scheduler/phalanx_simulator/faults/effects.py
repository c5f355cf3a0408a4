"""Injected effects: which objects each fault has changed, and since when.

With them, the loss of a pod is attributed to a fault, also if the injector draws its targets itself.
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
"""Simulated seconds after the end of a fault during which it still explains losses; pods end within 30."""


class InjectedEffect(Struct):
    """The effects of one fault.

    `has_met`: it has affected a running gang.
    """

    detect_s: float
    began_s: dict[Key, float] = {}
    over_s: float | None = None
    has_met: bool = False


class InjectedEffects:
    """The effects of faults that may still cause losses.

    `on_first` is called when a fault affects an object for the first time.
    """

    def __init__(self, clock: WorldClock, on_first: Callable[[InjectedEffect, Key], None]) -> None:
        self._clock = clock
        self._on_first = on_first
        self._recent: list[InjectedEffect] = []
        self._by_key: dict[Key, list[InjectedEffect]] = {}

    def begin(self, detect_s: float) -> InjectedEffect:
        """Start recording a fault, which has affected nothing yet."""
        self._forget_old()
        effect = InjectedEffect(detect_s)
        self._recent.append(effect)
        return effect

    def end(self, effect: InjectedEffect) -> None:
        """Record that the fault is undone."""
        effect.over_s = self._clock.monotonic()

    def hit(self, effect: InjectedEffect, key: Key) -> None:
        """Record that the fault affected this object."""
        if key not in effect.began_s:
            effect.began_s[key] = self._clock.monotonic() - effect.detect_s
            self._by_key.setdefault(key, []).append(effect)
            self._on_first(effect, key)

    def began_s(self, *keys: Key) -> float | None:
        """The earliest start of the recent faults that changed one of these objects."""
        found = (
            effect.began_s[key]
            for key in keys
            for effect in self._by_key.get(key, ())
            if not self._is_old(effect)
        )
        return min(found, default=None)

    def _is_old(self, effect: InjectedEffect) -> bool:
        return effect.over_s is not None and effect.over_s + AFTERMATH_S < self._clock.monotonic()

    def _forget_old(self) -> None:
        old = [effect for effect in self._recent if self._is_old(effect)]
        self._recent = [effect for effect in self._recent if not self._is_old(effect)]
        for effect in old:
            for key in effect.began_s:
                left = [known for known in self._by_key[key] if known is not effect]
                if left:
                    self._by_key[key] = left
                else:
                    del self._by_key[key]


class FaultClient(Client):
    """The API client of one fault; it records each object that it changes or deletes.

    `changes` counts effects on kubelets as well. `reader` answers queries by node from its index.
    """

    def __init__(self, server: ApiServer, reader: Client, on_hit: Callable[[Key], None]) -> None:
        super().__init__(server)
        self._eyes = reader
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
        """Record an effect that is not a write to the API; ignore an object that does not exist."""
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
