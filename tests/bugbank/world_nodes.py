"""Bugs with nodes: health conditions and their polarity, cordons, taints, missed events, deleted nodes."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_GOOD: Final = Played("plays_world_nodes:healthy_nodes_are_used")
_BAD: Final = Played("plays_world_nodes:unhealthy_nodes_are_not_used")
_NEWS: Final = Played("plays_world_nodes:node_events_trigger_cycles")
_CORDON: Final = Played("plays_world_nodes:a_cordon_without_its_taint")
_COMES: Final = Played("plays_world_nodes:a_node_is_added_and_recreated")
_AGAIN: Final = Played("plays_world_nodes:a_recreated_node_is_empty")
_HEALTH: Final = "phalanx_plugins.node_health"
_NODES: Final = "phalanx.cache.nodes"

NODES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="AggregatedNodeHealth is read as a fault when True",
        issues=("KWOK talk (KubeCon China 2024)",),
        module=_HEALTH,
        edits={
            '(READY, "AggregatedNodeHealth")': "(READY,)",
            '*("DCGMError", ': '*("AggregatedNodeHealth", "DCGMError", ',
        },
        caught_by=_GOOD,
    ),
    Mutant(
        name="conditions that are False when healthy are read like Ready",
        issues=("NVSentinel conditions", "KWOK talk (KubeCon China 2024)"),
        module=_HEALTH,
        edits={'"False": ("True",)': '"False": ("False",)'},
        caught_by=_GOOD,
    ),
    Mutant(
        name="unknown condition types block",
        issues=("node-problem-detector conditions",),
        module=_HEALTH,
        edits={"self._faulty.get(kind, ())": 'self._faulty.get(kind, ("True",))'},
        caught_by=_GOOD,
    ),
    Mutant(
        name="a condition with status Unknown counts as a fault",
        issues=("KWOK talk (KubeCon China 2024)",),
        module=_HEALTH,
        edits={'"False": ("True",)': '"False": ("True", "Unknown")'},
        caught_by=_GOOD,
    ),
    Mutant(
        name="an unknown network topology blocks gangs without topology constraints",
        issues=("KWOK talk (KubeCon China 2024)",),
        module=_HEALTH,
        edits={'*("DCGMError", ': '*("NodeNotInNWTopologyCM", "DCGMError", '},
        caught_by=_GOOD,
    ),
    Mutant(
        name="a node that NVSentinel has repaired stays unusable",
        issues=("NVSentinel state label",),
        module=_HEALTH,
        edits={'        "remediation-failed",\n': '"remediation-failed",\n"remediation-succeeded",\n'},
        caught_by=_GOOD,
    ),
    Mutant(
        name="tolerations are ignored",
        issues=("Kueue #3723",),
        module="phalanx_plugins.taints",
        edits={"lambda taint: not tolerates(pod.shape.tolerations, taint)": "lambda taint: True"},
        caught_by=_GOOD,
    ),
    Mutant(
        name="PreferNoSchedule is treated as NoSchedule",
        issues=("Kueue #3723",),
        module="phalanx.model.nodes",
        edits={
            "TaintEffect.NO_EXECUTE.value})": (
                "TaintEffect.NO_EXECUTE.value, TaintEffect.PREFER_NO_SCHEDULE.value})"
            )
        },
        caught_by=_GOOD,
    ),
    Mutant(
        name="NVSentinel's quarantine is ignored",
        issues=("NVSentinel state label",),
        module=_HEALTH,
        edits={"if state in NVSENTINEL_FAULTS else None": "if state in () else None"},
        caught_by=_BAD,
    ),
    Mutant(
        name="Xid errors are not in the table of faults",
        issues=("NVSentinel conditions",),
        module=_HEALTH,
        edits={', "GpuXidError"),': "),"},
        caught_by=_BAD,
    ),
    Mutant(
        name="a cordon is ignored",
        issues=("Kueue #4181", "knavigator nwtopo"),
        module="phalanx_plugins.unschedulable_nodes",
        edits={"None if is_free else _reject_cordoned": "None"},
        caught_by=_CORDON,
    ),
    Mutant(
        name="NoExecute does not block new pods",
        issues=("Kueue #14118",),
        module="phalanx.model.nodes",
        edits={
            "TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value": "TaintEffect.NO_SCHEDULE.value"
        },
        caught_by=_BAD,
    ),
    Mutant(
        name="the value of a toleration is not compared",
        issues=("Kueue #3723",),
        module="phalanx.framework.nodes.tolerations",
        edits={"bool(toleration.key) and toleration.value == taint.value": "bool(toleration.key)"},
        caught_by=_BAD,
    ),
    Mutant(
        name="a node whose Ready condition is Unknown counts as ready",
        issues=("kubernetes #95752",),
        module=_HEALTH,
        edits={'READY: ("False", "Unknown"),': 'READY: ("False",),'},
        caught_by=Played("plays_world_nodes:lost_nodes_are_not_used"),
    ),
    Mutant(
        name="an uncordoned node is ignored by the cache",
        issues=("kubernetes #134999", "Kueue #13687"),
        module=_NODES,
        edits={"        and old.unschedulable <= new.unschedulable\n": ""},
        caught_by=_CORDON,
    ),
    Mutant(
        name="devices that return are ignored by the cache",
        issues=("kubernetes #72122", "Volcano #1776"),
        module=_NODES,
        edits={
            "        and all(amount <= old.allocatable.get(name, 0) for name, amount in "
            "new.allocatable.items())\n": ""
        },
        caught_by=_NEWS,
    ),
    Mutant(
        name="a condition that recovers is ignored by the cache",
        issues=("Kueue #6325", "kubernetes #87850"),
        module=_NODES,
        edits={"        and _is_no_healthier(old.conditions, new.conditions)\n": ""},
        caught_by=_NEWS,
    ),
    Mutant(
        name="a removed taint is ignored by the cache",
        issues=("kubernetes #135126",),
        module=_NODES,
        edits={"        and all(taint in new.taints for taint in old.taints)\n": ""},
        caught_by=_NEWS,
    ),
    Mutant(
        name="a changed node label is ignored by the cache",
        issues=("kubernetes #72122",),
        module=_NODES,
        edits={"        old.labels == new.labels\n        and old": "        old"},
        caught_by=_NEWS,
    ),
    Mutant(
        name="a new node is ignored: gangs stay refused after it returned",
        issues=("kubernetes #72122", "YuniKorn-2629"),
        module=_NODES,
        edits={"(old is None or not _only": "(old is not None and not _only"},
        caught_by=_COMES,
    ),
    Mutant(
        name="the filter of node updates drops the spec",
        issues=("Kueue #8452",),
        module=_NODES,
        edits={"        written.spec,\n": ""},
        caught_by=_NEWS,
    ),
    Mutant(
        name="pods that end while their node is deleted are counted forever",
        issues=("Kueue #13612", "kubernetes #14261"),
        module="phalanx.cache.cache",
        edits={
            "            if before is not None:\n": (
                "            if before is not None and self._nodes.state(before[0]) is not None:\n"
            )
        },
        caught_by=_AGAIN,
    ),
    Mutant(
        name="a recreated node stays unknown",
        issues=("Kueue #13612", "kubernetes #31968"),
        module=_NODES,
        edits={
            "            self._written.pop(key, None)\n": "            return\n",
            "        meta.uid,\n": "",
        },
        caught_by=_COMES,
    ),
    Mutant(
        name="a late deletion event removes the recreated node",
        issues=("Volcano #5735",),
        module="phalanx.cache.table",
        edits={"key not in self._entries or (uid and uid != self._uids[key])": "key not in self._entries"},
        caught_by=Played("plays_world_nodes:a_late_deletion_of_a_node"),
    ),
    Mutant(
        name="negative free capacity is an error",
        issues=("Volcano #3301", "Volcano #1506"),
        module="phalanx.model.resources",
        edits={
            "        rest[name] = rest.get(name, 0) - amount\n": (
                "        rest[name] = rest.get(name, 0) - amount\n        assert rest[name] >= 0, name\n"
            )
        },
        caught_by=Played("plays_world_nodes:devices_of_running_pods_are_lost"),
    ),
    Mutant(
        name="an overcommitted node counts as empty",
        issues=("Volcano #2999", "Volcano #1818"),
        module=_NODES,
        edits={
            "free=subtract(node.allocatable, used))": (
                "free=node.allocatable if any(amount > node.allocatable.get(name, 0) "
                "for name, amount in used.items()) else subtract(node.allocatable, used))"
            )
        },
        caught_by=Played("plays_world_nodes:devices_of_running_pods_are_lost"),
    ),
)
