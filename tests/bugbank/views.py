"""Bugs of caches: old state, missed events, state lost in restarts, missing triggers (faults: 4.3)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

VIEWS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="deleted pods are not noticed",
        issues=("Volcano #5735", "Kueue #5587"),
        module="phalanx.cache.pods",
        edits={
            '        if known is not None and uid in ("", known):\n            self._remove(known, log)': (
                "        return"
            )
        },
        caught_by=Played("plays_views:pods_and_nodes_start_and_end"),
    ),
    Mutant(
        name="deleted nodes are not noticed",
        issues=("Volcano #4888", "Volcano #5735"),
        module="phalanx.cache.nodes",
        edits={"        self._nodes.delete(key, uid, log)\n": ""},
        caught_by=Played("plays_views:pods_and_nodes_start_and_end"),
    ),
    Mutant(
        name="pods that have ended still use their node",
        issues=("Kueue #11033",),
        module="phalanx.cache.cache",
        edits={" or pod.node is None or not pod.holds_node": " or pod.node is None"},
        caught_by=Played("plays_views:pods_and_nodes_start_and_end"),
    ),
    Mutant(
        name="usage of a queue is never subtracted",
        issues=("KAI #1217", "Kueue #13612"),
        module="phalanx.cache.usage",
        edits={
            "                self._remove(at[0], at[1], scale(amounts, count))\n": "                pass\n"
        },
        caught_by=Played("plays_views:pods_and_nodes_start_and_end"),
    ),
    Mutant(
        name="an expired resourceVersion is requested again and again (410)",
        issues=("kubernetes-client/python-base #57", "kubernetes_asyncio #327"),
        module="phalanx.kube.reflector",
        edits={"isinstance(error, (Gone, NotFound, BadRequest))": "isinstance(error, BadRequest)"},
        caught_by=Played("plays_views:resource_version_has_expired"),
    ),
    Mutant(
        name="a new list does not remove missing objects",
        issues=("Volcano #5735", "Volcano #1052"),
        module="phalanx.cache.table",
        edits={'            kept.delete(key, "", log)\n': "            pass\n"},
        caught_by=Played("plays_views:resource_version_has_expired"),
    ),
    Mutant(
        name="a silent watch is never restarted",
        issues=("kubernetes-client/python #728", "kubernetes_asyncio #325"),
        module="phalanx.kube.reflector",
        edits={
            "= self._context.idle_timeout\n": "= 1e9 + self._context.idle_timeout\n",
            "int(WATCH_SECONDS_MIN * (1 + self._context.jitter()))": "1_000_000",
        },
        caught_by=Played("plays_views:watches_become_silent"),
    ),
    Mutant(
        name="the first cycle runs before the lists are complete",
        issues=("Volcano #5174", "Kueue #5276"),
        module="phalanx.service.watcher",
        edits={"            await self._synced(reflector)\n": "            pass\n"},
        caught_by=Played("plays_views:pod_list_is_late"),
    ),
    Mutant(
        name="the first cycle waits for one list only",
        issues=("Volcano #5174", "Volcano #1417"),
        module="phalanx.service.watcher",
        edits={
            "        for reflector in self._reflectors:\n            await self._synced(reflector)\n": (
                "        await self._synced(self._reflectors[0])\n"
            )
        },
        caught_by=Played("plays_views:pod_group_list_is_late"),
    ),
    Mutant(
        name="usage of pods is lost if their node is observed later",
        issues=("Volcano #1417",),
        module="phalanx.cache.nodes",
        edits={
            "        self._used.add(node, requests)\n": (
                '        if self._nodes.get(("", node)) is not None:\n'
                "            self._used.add(node, requests)\n"
            )
        },
        caught_by=Played("plays_views:node_list_is_late"),
    ),
    Mutant(
        name="a new leader keeps the cache that it had as a follower",
        issues=("Kueue #10518", "Kueue #5276"),
        module="phalanx.service.scheduler",
        edits={"        await self._watcher.restart_and_sync(tasks)\n": ""},
        caught_by=Played("plays_views:cache_of_the_follower_lags"),
    ),
    Mutant(
        name="a restart forgets that a gang has started",
        issues=("Kueue #5276", "KAI #1217"),
        module="phalanx.model.conversion.pod_groups",
        edits={"started_at=_started_at(written.status.started_at)": "started_at=0"},
        caught_by=Played("plays_views:restart_below_minimum"),
    ),
    Mutant(
        name="the start is not written if a member is lost at once",
        issues=("KAI #1217",),
        module="phalanx.service.pod_group_status",
        edits={"(gang.started or gang.reaches_minimum)": "gang.reaches_minimum"},
        caught_by=Played("plays_views:restart_below_minimum"),
    ),
    Mutant(
        name="capacity is used instead of allocatable",
        issues=("Volcano #1818", "Volcano #1782"),
        module="phalanx.model.conversion.nodes",
        edits={"read_capacity(status.allocatable or status.capacity,": "read_capacity(status.capacity,"},
        caught_by=Played("plays_views:capacity_shrinks"),
    ),
    Mutant(
        name="negative free capacity counts as free",
        issues=("Volcano #3301", "Volcano #1506"),
        module="phalanx.cache.nodes",
        edits={
            "free=subtract(node.allocatable, used))": (
                "free={name: abs(left) for name, left in subtract(node.allocatable, used).items()})"
            )
        },
        caught_by=Played("plays_views:capacity_shrinks"),
    ),
    Mutant(
        name="negative free capacity of one resource blocks all pods",
        issues=("Volcano #2999", "Volcano #2965"),
        module="phalanx.service.write_checks",
        edits={"if amount < 0 < requests.get(resource, 0)]": "if amount < 0 and requests]"},
        caught_by=Played("plays_views:capacity_shrinks"),
    ),
    Mutant(
        name="a change of allocatable is ignored as a heartbeat",
        issues=("Volcano #1776", "Volcano #1506", "Kueue #8452"),
        module="phalanx.cache.nodes",
        edits={"        status.allocatable or status.capacity,\n": ""},
        caught_by=Played("plays_views:capacity_shrinks"),
    ),
    Mutant(
        name="freed capacity does not trigger a cycle",
        issues=("kubernetes #87850", "Kueue #13772", "kubernetes #72122"),
        module="phalanx.cache.nodes",
        edits={
            "        self._used.remove(node, requests)\n        self._stale[node] = None\n"
            "        log.node(node)\n        log.mark_capacity_grew()\n": (
                "        self._used.remove(node, requests)\n        self._stale[node] = None\n"
                "        log.node(node)\n"
            )
        },
        caught_by=Played("plays_views:foreign_pod_ends"),
    ),
    Mutant(
        name="an uncordon or a removed taint does not trigger a cycle",
        issues=("kubernetes #134999", "kubernetes #135126"),
        module="phalanx.cache.nodes",
        edits={
            "        and old.unschedulable <= new.unschedulable\n"
            "        and all(taint in new.taints for taint in old.taints)\n": ""
        },
        caught_by=Played("plays_views:node_is_uncordoned"),
    ),
    Mutant(
        name="a higher queue limit does not trigger a cycle",
        issues=("Kueue #13687", "Kueue #13734"),
        module="phalanx.cache.cluster_objects",
        edits={
            '    """A limit may be higher or a domain wider, so all refused gangs are tried again."""\n'
            "    log.mark_cluster_changed()\n": "    return\n"
        },
        caught_by=Played("plays_views:limit_is_raised"),
    ),
    Mutant(
        name="a lower minimum of a gang does not trigger a cycle",
        issues=("Kueue #13656", "Kueue #13687"),
        module="phalanx.cache.gangs",
        edits={
            "        elif old is None or new is None or without_status(old) != without_status(new):\n": (
                "        elif old is None or new is None:\n"
            )
        },
        caught_by=Played("plays_views:minimum_is_lowered"),
    ),
    Mutant(
        name="a refusal is remembered although there is more capacity",
        issues=("kubernetes #72122", "Kueue #13772"),
        module="phalanx.framework.retry",
        edits={"self._snapshot.capacity_version, keys.all": "0, keys.all"},
        caught_by=Played("plays_views:foreign_pod_ends"),
    ),
)
