"""Serves gangs with the shortest expected run time first, within their queue and priority."""

from phalanx.framework.plugin import NEVER, GangOrder, Plugin, SessionView
from phalanx.model.gangs import Gang


class ShortestJobFirst(Plugin):
    name = "shortest-job-first"

    def gang_order(self, gang: Gang, view: SessionView) -> GangOrder:
        run_time = view.expected_runtime_ms(gang)
        return GangOrder(key=NEVER if run_time is None else run_time)
