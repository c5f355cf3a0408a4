"""Bugs of usage: pods of other schedulers, pods that end, are deleted or rejected."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_FOREIGN: Final = Played("plays_world_usage:foreign_pods_are_counted")
_REQUESTS: Final = "phalanx.model.conversion.requests"
_PODS: Final = "phalanx.model.pods"

USAGE: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="pods of other schedulers are not counted",
        issues=("kubernetes #106884", "Volcano #2700"),
        module="phalanx.cache.cache",
        edits={
            "pod.node is None or not pod.holds_node:": (
                'pod.node is None or not pod.holds_node or pod.scheduler_name != "phalanx":'
            )
        },
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="ended pods are still counted",
        issues=("Kueue #11033",),
        module="phalanx.cache.cache",
        edits={"pod.node is None or not pod.holds_node:": "pod.node is None:"},
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="pods that are being deleted count as gone",
        issues=("Kueue #14646", "kubernetes #55933"),
        module=_PODS,
        edits={
            "self.node is not None and not self.is_finished": (
                "self.node is not None and not self.is_finished and not self.deleting"
            )
        },
        caught_by=Played("plays_world_usage:a_terminating_pod_uses_its_capacity"),
    ),
    Mutant(
        name="pod slots of nodes are not counted",
        issues=("Kueue #11293",),
        module=_REQUESTS,
        edits={"{**capped, PODS: 1}": "capped"},
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="init containers are not counted",
        issues=("kubernetes #136782",),
        module=_REQUESTS,
        edits={"return _largest((running, peak))": "return running"},
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="sidecars are counted only while they start",
        issues=("kubernetes #136782",),
        module=_REQUESTS,
        edits={"            running = add(running, requests)\n            sidecars": "            sidecars"},
        caught_by=_FOREIGN,
    ),
    Mutant(
        name="a resize of a foreign pod is ignored",
        issues=("Kueue #13822",),
        module="phalanx.model.conversion.shapes",
        edits={"        status.container_statuses,\n": ""},
        caught_by=Played("plays_world_usage:a_foreign_pod_is_resized"),
    ),
    Mutant(
        name="gangs of another scheduler are bound",
        issues=("kubernetes #76772", "kubernetes #72043"),
        module="phalanx.model.conversion.gangs",
        edits={"if any(pod.scheduler_name == ours for pod in gang.members)": "if ours"},
        caught_by=Played("plays_world_usage:pods_of_other_schedulers_are_not_bound"),
    ),
    Mutant(
        name="a bind is not checked against later binds of other schedulers",
        issues=("Kueue #9211", "kubernetes #106884"),
        module="phalanx.service.write_checks",
        edits={"        if short:\n": "        if short and pod.deleting:\n"},
        caught_by=Played("plays_world_usage:another_scheduler_binds_first"),
    ),
    Mutant(
        name="a bind is sent to a deleted node",
        issues=("kubernetes #38105", "YuniKorn-2171"),
        module="phalanx.service.write_checks",
        edits={'            return f"{_titled(bind.node)} is gone"\n': "            return None\n"},
        caught_by=Played("plays_world_usage:a_node_is_deleted_after_the_decision"),
    ),
    Mutant(
        name="the capacity of a pod that is deleted during its bind leaks",
        issues=("YuniKorn-1622", "Kueue #8543"),
        module="phalanx.cache.pods",
        edits={
            "        self._changed(pod, None, log)\n": (
                "        if not pod.assumed:\n            self._changed(pod, None, log)\n"
            )
        },
        caught_by=Played("plays_world_usage:a_pod_is_deleted_during_its_bind"),
    ),
    Mutant(
        name="deleting a node of a running gang ends the scheduler",
        issues=("Kueue #3715", "Kueue #5833", "kubernetes #82796"),
        module="phalanx.framework.nodes.topology",
        edits={"        state = self._nodes.get(name)\n": "        state = self._nodes[name]\n"},
        caught_by=Played("plays_world_usage:a_node_of_a_running_gang_is_deleted"),
    ),
    Mutant(
        name="a pod that changes its gang remains a member of the old one",
        issues=("Volcano #4803",),
        module="phalanx.cache.gangs",
        edits={"            self._leave(old, before, log)\n": ""},
        caught_by=Played("plays_world_usage:a_pod_changes_its_gang"),
    ),
)
