"""Never evicts a gang of the namespace `production`."""

from phalanx.framework.plugin import NEVER, EvictionPolicy, Plugin, SessionView
from phalanx.model.gangs import Gang


class KeepProduction(Plugin):
    name = "keep-production"

    def eviction_policy(self, view: SessionView) -> EvictionPolicy:
        return _Protection(view)


class _Protection(EvictionPolicy):
    def protected_until(self, victim: Gang, beneficiary: Gang) -> int:
        return NEVER if victim.namespace == "production" else 0
