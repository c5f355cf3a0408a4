"""Each check of `phalanx doctor` as a pure function: a healthy installation, and one fault at a time."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from phalanx.cli.doctor.checks import rights
from phalanx.cli.doctor.checks.crds import difference
from phalanx.cli.doctor.checks.lease import leader
from phalanx.cli.doctor.checks.taints import tolerates
from phalanx.cli.doctor.examination import CHECKS, examine, is_wrong
from phalanx.cli.doctor.finding import Severity, names
from phalanx.cli.doctor.installation import Installation, Right
from phalanx.model.api.core import Lease, Node, Pod, PodDisruptionBudget, Taint, Toleration
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.api.queues import Queue, Topology

from tests.crds.files import definitions
from tests.deploy.manifests import base

Values = dict[str, Any]

NOW = 1_800_000_000
"""2027-01-15T08:00:00Z."""

ZONE = "topology.kubernetes.io/zone"


def at(offset: int) -> str:
    hours, rest = divmod(8 * 3600 + offset, 3600)
    return f"2027-01-15T{hours:02}:{rest // 60:02}:{rest % 60:02}.000000Z"


def node(name: str = "n1", *, taints: tuple[Values, ...] = (), **fields: Any) -> Node:
    labels = {"kubernetes.io/hostname": name, "rack": "r1"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels} | fields.pop("metadata", {}),
            "spec": {"taints": taints} | fields,
            "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}},
        },
        Node,
    )


def pod(name: str = "p1", *, status: Values | None = None, meta: Values | None = None, **spec: Any) -> Pod:
    requests = {"requests": {"nvidia.com/gpu": "1"}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": at(-10)} | (meta or {}),
            "spec": {"schedulerName": "phalanx", "containers": [{"resources": requests}]} | spec,
            "status": status or {"phase": "Pending"},
        },
        Pod,
    )


def waiting(message: str) -> Values:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


EVICTED_JOB = {"reason": "Preempted", "regarding": {"kind": "Job", "uid": "evicted"}}


def failed_job(uid: str = "evicted") -> Values:
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    meta = {"name": "j", "namespace": "team", "uid": uid}
    return {"metadata": meta, "status": {"conditions": [condition]}}


def lease(name: str = "phalanx", *, renewed: int = -2, holder: str | None = "phalanx-1") -> Lease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at(renewed)}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Lease)


def queue(**conditions: tuple[str, str]) -> Queue:
    written = [
        {"type": kind, "status": status, "reason": "R", "message": message, "lastTransitionTime": at(0)}
        for kind, (status, message) in conditions.items()
    ]
    return msgspec.convert({"metadata": {"name": "q"}, "status": {"conditions": written}}, Queue)


def crds() -> tuple[Values, ...]:
    """As the API server returns them."""
    conditions = [{"type": "Established", "status": "True"}]
    return tuple(
        {**copy.deepcopy(each), "status": {"conditions": conditions}} for each in definitions().values()
    )


def webhook(resource: str = "pods", policy: str = "Fail", **client: Any) -> Values:
    service = {"service": {"namespace": "kueue", "name": "webhook"}}
    hook = {"name": "a.b", "clientConfig": client or service, "failurePolicy": policy}
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue"},
        "webhooks": [{**hook, "rules": [{"resources": [resource]}]}],
    }


def endpoints(**conditions: bool) -> Values:
    labels = {"kubernetes.io/service-name": "webhook"}
    meta = {"name": "webhook-x", "namespace": "kueue", "labels": labels}
    return {"metadata": meta, "endpoints": [{"conditions": conditions}]}


TOPOLOGY = msgspec.convert(
    {"metadata": {"name": "fabric"}, "spec": {"levels": [{"name": "rack", "nodeLabel": "rack"}]}}, Topology
)

HEALTHY = Installation(
    server_ms=NOW * 1000,
    local_ms=NOW * 1000 + 900,
    packaged_crds=tuple(definitions().values()),
    crds=crds(),
    rights={Right("", "pods", "list"): True},
    nodes=(node(), node("n2")),
    pods=(pod(spec={}, nodeName="n1", status={"phase": "Running"}),),
    queues=(queue(Ready=("True", ""), Guaranteed=("True", "")),),
    topologies=(TOPOLOGY,),
    lease=lease(),
    node_leases=(lease("n1"), lease("n2", renewed=3)),
    webhooks=(webhook(), webhook(url="https://elsewhere")),
    endpoint_slices=(endpoints(ready=True),),
)


def found(seen: Installation) -> list[tuple[str, str, str, str]]:
    return [
        (result.check, each.severity.value, each.object, each.problem)
        for result in examine(seen)
        for each in result.findings
    ]


def test_a_healthy_installation_has_no_findings() -> None:
    assert found(HEALTHY) == []
    assert not is_wrong(examine(HEALTHY))


def changed_crd(change: Callable[[Values], Any]) -> tuple[Values, ...]:
    installed = crds()
    change(installed[0])
    return installed


def versions(crd: Values) -> Any:
    return crd["spec"]["versions"][0]


FIRST = crds()[0]["metadata"]["name"]


def tenant_objects(**spec: Any) -> dict[str, Any]:
    """A gang that runs, with these fields of its PodGroup."""
    labels = {"scheduling.phalanx.dev/pod-group": "g"}
    group = {"metadata": {"name": "g", "namespace": "team", "uid": "g"}, "spec": {"minMember": 1, **spec}}
    running = pod("g-0", meta={"labels": labels, "uid": "u"}, nodeName="n1", status={"phase": "Running"})
    return {"pods": (running,), "pod_groups": (msgspec.convert(group, PodGroup),)}


FAULTS: dict[str, tuple[dict[str, Any], tuple[str, str, str, str]]] = {
    "a CRD is missing": (
        {"crds": crds()[1:]},
        ("crds", "error", f"CustomResourceDefinition {FIRST}", "It is not installed."),
    ),
    "a CRD is not served": (
        {"crds": changed_crd(lambda crd: crd.update(status={}))},
        ("crds", "error", f"CustomResourceDefinition {FIRST}", "It is not served: the API server has not"),
    ),
    "a CRD lacks the version": (
        {"crds": changed_crd(lambda crd: versions(crd).update(served=False))},
        ("crds", "error", f"CustomResourceDefinition {FIRST}", "It does not serve the version v1alpha1."),
    ),
    "a CRD is older": (
        {
            "crds": changed_crd(
                lambda crd: versions(crd)["schema"]["openAPIV3Schema"]["properties"].pop("status")
            )
        },
        ("crds", "error", f"CustomResourceDefinition {FIRST}", "It differs from that of this version"),
    ),
    "a CRD is newer": (
        {
            "crds": changed_crd(
                lambda crd: versions(crd)["schema"]["openAPIV3Schema"]["properties"].update(new={"type": "x"})
            )
        },
        ("crds", "error", f"CustomResourceDefinition {FIRST}", "It differs from that of this version"),
    ),
    "rights are missing": (
        {
            "rights": {
                Right("", "pods", "list"): False,
                Right("", "pods", "watch"): False,
                Right("", "nodes", "list"): True,
            }
        },
        ("rights", "error", "ServiceAccount phalanx-system/phalanx", "It may not list, watch pods."),
    ),
    "a right in the namespace is missing": (
        {"rights": {Right("coordination.k8s.io", "leases", "patch", "phalanx-system", "phalanx"): False}},
        (
            *("rights", "error", "ServiceAccount phalanx-system/phalanx"),
            "It may not patch leases.coordination.k8s.io named phalanx in namespace phalanx-system.",
        ),
    ),
    "a right to suspend workloads is missing": (
        {"rights": {Right("batch", "jobs", "patch"): False, Right("batch", "jobs", "get"): False}},
        (
            *("rights", "warning", "ServiceAccount phalanx-system/phalanx"),
            "It may not get, patch jobs.batch. So evicted pods are deleted instead of suspending",
        ),
    ),
    "the record of suspended workloads may not be written": (
        {"rights": {Right("", "configmaps", "patch", "phalanx-system", "phalanx-suspensions"): False}},
        (
            *("rights", "warning", "ServiceAccount phalanx-system/phalanx"),
            "It may not patch configmaps named phalanx-suspensions in namespace phalanx-system. So evicted",
        ),
    ),
    "no Lease": (
        {"lease": None},
        ("lease", "error", "Lease phalanx-system/phalanx", "It does not exist: no scheduler has ever led."),
    ),
    "nobody holds the Lease": (
        {"lease": lease(holder=None)},
        ("lease", "error", "Lease phalanx-system/phalanx", "Nobody holds it"),
    ),
    "the Lease is old": (
        {"lease": lease(renewed=-60)},
        ("lease", "error", "Lease phalanx-system/phalanx", "phalanx-1 renewed it 60 s ago, more than 15 s."),
    ),
    "this clock is behind": (
        {"local_ms": (NOW - 60) * 1000},
        ("clock", "warning", "clock of this machine", "It is 60 s behind that of the API server."),
    ),
    "the clock of the leader is ahead": (
        {"lease": lease(renewed=60)},
        ("clock", "warning", "clock of the leader phalanx-1", "It is 60 s ahead of that of the API server."),
    ),
    "the clock of a node is ahead": (
        {"node_leases": (lease("n1", renewed=6), lease("n2"))},
        ("clock", "warning", "clocks of nodes", "1 node ahead of the API server by up to 6 s: n1."),
    ),
    "a node without a label": (
        {"nodes": (node(), node("n2", metadata={"labels": {}}))},
        (
            *("topology", "warning", "Topology fabric"),
            "1 node of 2 without the label rack of the level rack: n2.",
        ),
    ),
    "a node without a well-known label": (
        {
            "topologies": (),
            "nodes": (
                node(),
                node("n2", metadata={"labels": {ZONE: "a", "kubernetes.io/hostname": "n2"}}),
            ),
        },
        (
            *("topology", "warning", "well-known topology labels"),
            f"1 node of 2 without the label {ZONE} of the level zone: n1.",
        ),
    ),
    "no topology": ({"topologies": ()}, ("topology", "note", "Topology", "There is no Topology, and no")),
    "a taint": (
        {"nodes": (node(), node("n2", taints=({"key": "gpu", "value": "x", "effect": "NoSchedule"},)))},
        (
            *("taints", "warning", "taint gpu=x:NoSchedule"),
            "No pod of phalanx tolerates it, on 1 node of 2: n2.",
        ),
    ),
    "a cordoned node": (
        {"nodes": (node(), node("n2", unschedulable=True))},
        (
            "taints",
            "warning",
            "taint node.kubernetes.io/unschedulable:NoSchedule",
            "No pod of phalanx tolerates",
        ),
    ),
    "pods of another scheduler": (
        {"pods": (pod(schedulerName="other", nodeName="n1", status={"phase": "Running"}),)},
        (
            *("schedulers", "warning", "scheduler other"),
            "It placed 1 pod with devices on nodes of this scheduler: team/p1 on n1.",
        ),
    ),
    "a contradictory queue": (
        {"queues": (queue(Ready=("False", "its parent is missing")),)},
        ("queues", "error", "Queue q", "R: its parent is missing"),
    ),
    "a guarantee that is not met": (
        {"queues": (queue(Ready=("True", ""), Guaranteed=("False", "too much")),)},
        ("queues", "warning", "Queue q", "R: too much"),
    ),
    "a queue without status": ({"queues": (queue(),)}, ("queues", "warning", "Queue q", "It has no status.")),
    "a webhook without endpoints": (
        {"endpoint_slices": ()},
        (
            *("webhooks", "error", "MutatingWebhookConfiguration kueue"),
            "Its webhook a.b calls the service kueue/webhook, which has no ready endpoint; requests for pods",
        ),
    ),
    "a webhook whose endpoint is not ready": (
        {"endpoint_slices": (endpoints(ready=False),)},
        ("webhooks", "error", "MutatingWebhookConfiguration kueue", "Its webhook a.b calls"),
    ),
    "a webhook that may fail": (
        {"endpoint_slices": (), "webhooks": (webhook(policy="Ignore"),)},
        ("webhooks", "warning", "MutatingWebhookConfiguration kueue", "Its webhook a.b calls"),
    ),
    "a webhook for other resources": (
        {"endpoint_slices": (), "webhooks": (webhook("certificates"),)},
        ("webhooks", "warning", "MutatingWebhookConfiguration kueue", "Its webhook a.b calls"),
    ),
    "a pod without a verdict": (
        {"pods": (pod(meta={"creationTimestamp": at(-61)}),)},
        ("pods", "error", "scheduler phalanx", "1 pod without a verdict for more than 60 s: team/p1."),
    ),
    "a gang that waits": (
        {
            "pods": tuple(
                pod(
                    name,
                    status=waiting("QueueHeld: the queue is held"),
                    meta={"labels": {"scheduling.phalanx.dev/pod-group": "train"}},
                )
                for name in ("a", "b")
            )
        },
        ("pods", "note", "PodGroup team/train", "2 pods waiting: QueueHeld: the queue is held"),
    ),
    "a gang that must be corrected": (
        {"pods": (pod(status=waiting("QueueNotFound: no queue x")),)},
        ("pods", "warning", "Pod team/p1", "1 pod waiting: QueueNotFound: no queue x"),
    ),
    "several gangs that wait": (
        {
            "pods": tuple(
                pod(f"p{place}", status=waiting(f"{reason}: text"))
                for place, reason in enumerate(("QueueHeld", "NoDomainFits", "QueueHeld"))
            )
        },
        (
            *("pods", "note", "3 gangs"),
            "3 pods waiting: 2 QueueHeld, 1 NoDomainFits: Pod team/p0, Pod team/p1, Pod team/p2.",
        ),
    ),
    "several gangs for one correction": (
        {"pods": tuple(pod(f"p{place}", status=waiting("QueueNotFound: no queue x")) for place in range(2))},
        (
            *("pods", "warning", "2 gangs"),
            "2 pods waiting: Pod team/p0, Pod team/p1. The first: QueueNotFound: no queue x",
        ),
    ),
    "a configuration that was refused": (
        {
            "events": (
                {"reason": "ConfigReloaded", "eventTime": at(-60)},
                {"reason": "ConfigRefused", "eventTime": at(-30), "note": "refused: line 2: retri"},
            )
        },
        ("configuration", "error", "Lease phalanx-system/phalanx", "refused: line 2: retri"),
    ),
    "a Job that an eviction failed": (
        {"events": (EVICTED_JOB, {"reason": "Preempted"}), "jobs": (failed_job(), failed_job("other"))},
        (
            "jobs",
            "warning",
            "Jobs",
            "1 Job failed by an eviction, which cost all retries: team/j.",
        ),
    ),
    "a pod that does not end": (
        {"pods": (pod(nodeName="n1", meta={"deletionTimestamp": at(-301)}, status={"phase": "Running"}),)},
        (
            *("pods", "warning", "terminating pods"),
            "1 pod still there more than 300 s after the grace period: team/p1.",
        ),
    ),
    "a running gang is not protected as it asks": (
        tenant_objects(disruption={"preemptible": False}),
        (
            "upgrade",
            "note",
            "gang team/g",
            "It runs: PodGroup g: disruption.preemptible false is not in force",
        ),
    ),
}


@pytest.mark.parametrize(("change", "finding"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_the_only_finding(change: dict[str, Any], finding: tuple[str, str, str, str]) -> None:
    seen = msgspec.structs.replace(HEALTHY, **change)
    (only,) = found(seen)
    assert only[:3] == finding[:3]
    assert only[3].startswith(finding[3])
    assert is_wrong(examine(seen)) is (finding[1] != "note")
    assert all(each.action.endswith(".") for result in examine(seen) for each in result.findings)


def test_each_check_has_a_fault() -> None:
    assert {finding[0] for _, finding in FAULTS.values()} == {check.name for check in CHECKS}


@pytest.mark.parametrize(
    "pods",
    [
        (pod(status=waiting("m"), schedulingGates=[{"name": "g"}]),),
        (pod(meta={"creationTimestamp": at(-59)}),),
        (pod(schedulerName="other", nodeName="n3", status={"phase": "Running"}),),
        (pod(schedulerName="other", nodeName="n1", containers=[{}], status={"phase": "Running"}),),
        (pod(schedulerName="other", nodeName="n1", status={"phase": "Succeeded"}),),
        (pod(nodeName="n1", meta={"deletionTimestamp": at(-299)}, status={"phase": "Running"}),),
    ],
)
def test_pods_that_are_no_fault(pods: tuple[Pod, ...]) -> None:
    assert found(msgspec.structs.replace(HEALTHY, pods=pods)) == []


def test_a_taint_that_a_pod_tolerates_is_no_fault() -> None:
    tainted = node("n2", taints=({"key": "gpu", "effect": "NoSchedule"},))
    tolerating = pod(tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert found(msgspec.structs.replace(HEALTHY, nodes=(node(), tainted), pods=(tolerating,))) == []


def test_taints_on_all_nodes_are_an_error() -> None:
    nodes = tuple(node(name, taints=({"key": name, "effect": "NoExecute"},)) for name in ("n1", "n2"))
    severities = [each[1] for each in found(msgspec.structs.replace(HEALTHY, nodes=nodes))]
    assert severities == ["error", "warning", "warning"]


def test_nodes_without_devices_do_not_count_beside_nodes_with_devices() -> None:
    control = msgspec.structs.replace(
        node("c1", metadata={"labels": {}}, taints=({"key": "control-plane", "effect": "NoSchedule"},)),
        status=msgspec.convert({"allocatable": {"cpu": "4", "nvidia.com/gpu": "0"}}, type(node().status)),
    )
    assert found(msgspec.structs.replace(HEALTHY, nodes=(node(), control))) == []
    assert len(found(msgspec.structs.replace(HEALTHY, nodes=(control,)))) == 3


def test_control_plane_nodes_do_not_count_beside_others_in_a_cluster_without_devices() -> None:
    labels = {"rack": "r1"}
    plain, control = (
        msgspec.structs.replace(
            each, status=msgspec.convert({"allocatable": {"cpu": "4"}}, type(each.status))
        )
        for each in (
            node("n1", metadata={"labels": labels}),
            node(
                "c1",
                metadata={"labels": {"node-role.kubernetes.io/control-plane": ""}},
                taints=({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},),
            ),
        )
    )
    assert found(msgspec.structs.replace(HEALTHY, nodes=(plain, control))) == []


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="l", operator="Exists"), False),
        (Toleration(value="v"), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) is expected


@pytest.mark.parametrize(
    ("wanted", "present", "place"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, None),
        ({"a": {}, "b": [], "c": False}, {}, None),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "s.a.b[1]"),
        ({"a": [1]}, {"a": [1, 2]}, "s.a"),
        ({"a": 1}, {}, "s.a"),
        ({"a": {}}, {"a": {"x": 1}}, None),
    ],
)
def test_the_first_difference(wanted: Values, present: Values, place: str | None) -> None:
    assert difference(wanted, present, "s") == place


def test_what_could_not_be_read_is_a_finding() -> None:
    """The checks that need it are left out; the others are made."""
    unread = {"nodes": "you may not read /api/v1/nodes", "lease": "you may not read it"}
    seen = msgspec.structs.replace(HEALTHY, nodes=(), lease=None, unread=unread)
    assert [each[:3] for each in found(seen)] == [
        (check, "warning", f"check {check}")
        for check in ("lease", "clock", "topology", "taints", "schedulers", "upgrade")
    ]
    assert is_wrong(examine(seen))


def roles() -> Iterator[Values]:
    yield base("ClusterRole", "phalanx-scheduler")
    yield base("Role", "phalanx-lease")


def test_the_rights_are_those_of_the_roles() -> None:
    wanted = set(rights.granted(roles(), namespace="own"))
    assert Right("", "pods/binding", "create") in wanted
    assert Right("coordination.k8s.io", "leases", "patch", "own", "phalanx") in wanted
    assert Right("coordination.k8s.io", "leases", "create", "own") in wanted
    assert Right("", "configmaps", "patch", "own", "phalanx-records") in wanted
    assert len(wanted) == sum(
        len(rule["apiGroups"])
        * len(rule["resources"])
        * len(rule["verbs"])
        * len(rule.get("resourceNames", [""]))
        for role in roles()
        for rule in role["rules"]
    )


def test_a_role_that_was_not_applied_is_one_finding() -> None:
    kinds = [f"kind-{number:02}" for number in range(40)]
    seen = msgspec.structs.replace(HEALTHY, rights={Right("", kind, "list"): False for kind in kinds})
    (only,) = found(seen)
    assert only[3].endswith("; list kind-04; and 35 more resources.")


def test_a_configuration_that_is_used_after_one_that_was_refused_is_no_fault() -> None:
    refused = {"reason": "ConfigRefused", "eventTime": at(-60)}
    events = (refused, {"reason": "ConfigReloaded", "eventTime": at(-30)})
    assert found(msgspec.structs.replace(HEALTHY, events=events)) == []


def test_who_leads() -> None:
    spec = {"holderIdentity": "phalanx-1", "leaseDurationSeconds": 15}
    leads = msgspec.convert(
        {"metadata": {"name": "l"}, "spec": {**spec, "renewTime": at(-2), "acquireTime": at(-7200)}}, Lease
    )
    assert leader(msgspec.structs.replace(HEALTHY, lease=leads)) == "phalanx-1, for 2h00m"
    assert leader(msgspec.structs.replace(HEALTHY, lease=None)) == ""


def test_names_are_sorted_and_bounded() -> None:
    assert names(["b", "a"]) == "a, b"
    assert names(map(str, range(7))) == "0, 1, 2, 3, 4 and 2 more"
    assert [severity.value for severity in Severity] == ["error", "warning", "note"]


def with_queue(**spec: Any) -> tuple[Queue, ...]:
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": at(0)}
    written = {"metadata": {"name": "default"}, "spec": spec, "status": {"conditions": [ready]}}
    return (msgspec.convert(written, Queue),)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, True),
        ({"guarantee": {"cpu": "1"}}, True),
        ({"guarantee": {"nvidia.com/gpu": 1}}, False),
        ({"guarantee": {"nvidia.com/gpu": 0}}, False),
        ({"disruption": {"allowNonPreemptible": True}}, False),
    ],
)
def test_running_gangs_that_are_not_protected_as_they_ask_are_noted(spec: Values, said: bool) -> None:
    objects = tenant_objects(disruption={"preemptible": False})
    seen = msgspec.structs.replace(HEALTHY, **objects, queues=with_queue(**spec))
    notes = [each for each in found(seen) if each[0] == "upgrade"]
    assert [each[1:3] for each in notes] == ([("note", "gang team/g")] if said else [])
    assert all(
        "It runs: PodGroup g: disruption.preemptible false is not in force" in each[3] for each in notes
    )


@pytest.mark.parametrize(("allowed", "said"), [(0, True), (1, False)])
def test_budgets_that_allow_nothing_are_noted(allowed: int, said: bool) -> None:
    budget = {
        "metadata": {"name": "b", "namespace": "team", "generation": 1},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }
    seen = msgspec.structs.replace(
        HEALTHY, **tenant_objects(), budgets=(msgspec.convert(budget, PodDisruptionBudget),)
    )
    notes = [each[1:] for each in found(seen) if each[0] == "upgrade"]
    expected = ("note", "PodDisruptionBudget team/b", "It allows no eviction of running pods: team/g-0.")
    assert notes == ([expected] if said else [])
