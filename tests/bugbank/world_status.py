"""Bugs of reports and memory: statuses, events, metrics, and state of deleted objects."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_FAIL: Final = Played("plays_world_status:failed_binds_are_not_reported_as_success")
_METRICS: Final = Played("plays_world_status:metrics_count_decisions")
_LEFT: Final = Played("plays_world_status:no_state_is_kept_of_deleted_gangs")
_STATUS: Final = "phalanx.service.pod_group_status"
_DISPATCHER: Final = "phalanx.service.dispatcher"

STATUS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="assumed members are counted as bound",
        issues=("Volcano #4383",),
        module=_STATUS,
        edits={"    if pod.node is None or pod.assumed:\n": "    if pod.node is None:\n"},
        caught_by=Played("plays_world_status:a_status_while_binds_are_under_way"),
    ),
    Mutant(
        name="the Scheduled event is written before the bind",
        issues=("Volcano #4383",),
        module=_DISPATCHER,
        edits={
            "            self._state.apply(Assumed(bind, placement.queue))\n": (
                "            self._state.apply(Assumed(bind, placement.queue))\n"
                "            self._reporter.bound(bind)\n"
            )
        },
        caught_by=_FAIL,
    ),
    Mutant(
        name="CPU in a queue's status has no milli unit",
        issues=("Kueue #14049",),
        module="phalanx.service.queue_status",
        edits={'f"{amount}m" if name == CPU else str(amount)': "str(amount)"},
        caught_by=Played("plays_world_status:the_status_of_a_queue_has_its_usage"),
    ),
    Mutant(
        name="each pod of a gang is counted once for each member",
        issues=("KAI: eviction counter counts N*N (changelog)",),
        module="phalanx.observe.metrics",
        edits={"sum(len(placement.binds) for placement": "sum(len(placement.binds) ** 2 for placement"},
        caught_by=_METRICS,
    ),
    Mutant(
        name="gauges of deleted queues are kept",
        issues=("Kueue #14049",),
        module="phalanx.observe.families",
        edits={"            self.forget(labels)\n": "            _ = labels\n"},
        caught_by=_METRICS,
    ),
    Mutant(
        name="the message of a waiting pod changes on every write",
        issues=("Kueue #12002", "Volcano #5596"),
        module="phalanx.service.reporter",
        edits={"verdict.next_step)))\n": 'verdict.next_step))) + f" ({self._clock.now_ms()})"\n'},
        caught_by=Played("plays_world_status:a_waiting_pod_gets_one_event"),
    ),
    Mutant(
        name="reports of deleted gangs are kept",
        issues=("KAI #1646", "Kueue #5587"),
        module="phalanx.service.reporter",
        edits={"self._reports.pop(gang_id, _NO_REPORT)": "self._reports.get(gang_id, _NO_REPORT)"},
        caught_by=_LEFT,
    ),
    Mutant(
        name="a namespace's gangs leave empty entries",
        issues=("Kueue #13857", "KAI #1646"),
        module="phalanx.cache.gangs",
        edits={"        if not rest:\n            del self._pods[key]\n": ""},
        caught_by=_LEFT,
    ),
    Mutant(
        name="versions of deleted pods are kept",
        issues=("KAI #1646",),
        module="phalanx.cache.pods",
        edits={"        self._versions.pop(key, None)\n": ""},
        caught_by=_LEFT,
    ),
    Mutant(
        name="shapes of deleted pods are kept",
        issues=("KAI #1646",),
        module="phalanx.model.conversion.shapes",
        edits={
            "WeakValueDictionary[ShapeKey, PodShape] = WeakValueDictionary()": "dict[ShapeKey, PodShape] = {}"
        },
        caught_by=Played("plays_world_status:shapes_of_deleted_pods"),
    ),
    Mutant(
        name="refusals of deleted gangs are kept",
        issues=("Kueue #5587",),
        module="phalanx.actions.backlog.queue_backlog",
        edits={"if self._known.pop(gang, None) is not None:": "if gang in self._known:"},
        caught_by=Played("plays_world_status:refusals_of_deleted_gangs"),
    ),
    Mutant(
        name="events of pods with long names have invalid names",
        issues=("Kueue #10129",),
        module="phalanx.kube.events",
        edits={'pod.name[: EVENT_NAME_MAX - len(suffix)].rstrip("-.") + suffix': "pod.name + suffix"},
        caught_by=Played("plays_world_status:a_pod_with_the_longest_name_gets_its_event"),
    ),
    Mutant(
        name="events are written to an API group without permission",
        issues=("KAI #1572",),
        module="phalanx.kube.events",
        edits={'path = f"/apis/events.k8s.io/v1/namespaces': 'path = f"/api/v1/namespaces'},
        caught_by=Played("plays_world_status:a_waiting_pod_gets_one_event"),
    ),
)
