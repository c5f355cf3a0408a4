"""What speaks against an eviction by now, asked by the evictor right before it sends."""

from phalanx.cache.cache import Cache
from phalanx.model.decisions import Evict


class CacheEvictionCheck:
    """Compares with the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def why_not(self, eviction: Evict) -> str | None:
        """A gang of which a member has succeeded since is finishing: nothing is wrong with it any more."""
        gang = self._cache.gang(eviction.gang)
        return f"gang {gang} is finishing" if gang is not None and gang.is_finishing else None
