"""What speaks against an eviction by now, asked by the evictor right before it sends."""

from collections.abc import Callable
from typing import Final

from phalanx.cache.cache import Cache
from phalanx.framework.nodes.tolerations import is_lost_with
from phalanx.model.decisions import Evict, EvictionReason

_ANSWERS_TO_FAULTS: Final = frozenset(
    {EvictionReason.GANG_INCOMPLETE, EvictionReason.MEMBER_REPLACED, EvictionReason.GANG_RESTARTED}
)


class CacheEvictionCheck:
    """Compares with the cache. `breaker` tells why it was open in the last cycle, empty if it was closed."""

    def __init__(self, cache: Cache, breaker: Callable[[], str]) -> None:
        self._cache = cache
        self._breaker = breaker

    def why_not(self, eviction: Evict) -> str | None:
        """What has become of the gang, and where a fault is answered, what has become of that.

        What is evicted for another gang goes on whatever becomes of nodes: a gang of which a part is gone
        holds its room in vain.
        """
        why = self._why_not_gang(eviction)
        if why is None and eviction.reason in _ANSWERS_TO_FAULTS:
            why = self._why_not_fault(eviction)
        return why

    def _why_not_gang(self, eviction: Evict) -> str | None:
        """A gang of which a member has succeeded since is finishing: nothing is wrong with it any more.

        And what was wrong with it, or for whom it had to go, is no reason to evict a pod that belongs to
        another gang by now; one whose PodGroup was made anew is another one.
        """
        gang = self._cache.gang(eviction.gang)
        if gang is None:
            return "its gang is gone"
        if gang.is_finishing:
            return f"gang {gang} is finishing"
        is_member = any(pod.uid == eviction.pod for pod in gang.members)
        return None if is_member else f"the pod is no member of gang {gang} any more"

    def _why_not_fault(self, eviction: Evict) -> str | None:
        """So many faults at once are rather whoever reports them; and a member may have got its node back."""
        open_reason = self._breaker()
        if open_reason:
            return f"the breaker is open: {open_reason}"
        pod = self._cache.pod(eviction.pod)
        if eviction.reason != EvictionReason.MEMBER_REPLACED or pod is None or pod.node is None:
            return None
        state = self._cache.node_state(pod.node)
        is_lost = is_lost_with(pod, state.node if state is not None else None)
        return None if is_lost else f"node {pod.node} is back"
