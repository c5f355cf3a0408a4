"""What speaks against an eviction by now, asked by the evictor right before it sends."""

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Evict


class CacheEvictionCheck:
    """Compares with the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def why_not(self, eviction: Evict) -> str | None:
        """A gang of which a member has succeeded since is finishing: nothing is wrong with it any more.

        And what was wrong with it is no reason to evict a pod that belongs to another gang by now.
        """
        gang = self._cache.gang(eviction.gang)
        if gang is None:
            return None
        if gang.is_finishing:
            return f"gang {gang} is finishing"
        is_member = any(pod.uid == eviction.pod for pod in gang.members)
        return None if is_member else f"the pod is no member of gang {gang} any more"
