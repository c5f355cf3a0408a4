"""Leases, events, namespaces, discovery and health."""

from phalanx_controlplane import releases

from tests.conformance.api import PODGROUPS, Api, Object, group

MICRO = "2026-01-02T03:04:05.678901Z"


def lease(holder: str, **metadata: str) -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": MICRO, "leaseTransitions": 1}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", **metadata},
        "spec": spec,
    }


async def test_a_lease_is_stored_as_written(api: Api) -> None:
    created = (await api.post(api.leases, lease("a"))).object
    assert created["spec"] == lease("a")["spec"]
    assert "generation" not in created["metadata"]


async def test_one_of_two_candidates_gets_the_lease(api: Api) -> None:
    created = (await api.post(api.leases, lease("a"))).object
    assert (await api.post(api.leases, lease("b"))).refusal[:2] == (409, "AlreadyExists")
    version = created["metadata"]["resourceVersion"]
    renewal = lease("a", resourceVersion=version)
    renewal["spec"]["leaseTransitions"] = 2
    renewed = await api.put(f"{api.leases}/l", renewal)
    assert renewed.code == 200
    refused = await api.put(f"{api.leases}/l", lease("b", resourceVersion=version))
    code, reason, message = refused.refusal
    assert (code, reason) == (409, "Conflict")
    assert message.startswith(
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has'
    )


async def test_a_lease_is_not_replaced_without_a_version(api: Api) -> None:
    await api.post(api.leases, lease("a"))
    refused = await api.put(f"{api.leases}/l", lease("b"))
    code, reason, message = refused.refusal
    assert (code, reason) == (422, "Invalid")
    assert "metadata.resourceVersion: Invalid value: " in message
    assert "must be specified for an update" in message


async def test_an_event_can_be_recorded(api: Api) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "eventTime": MICRO,
        "reportingController": "phalanx",
        "reportingInstance": "phalanx-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "name": "a", "namespace": api.namespace},
    }
    created = (await api.post(path, event)).object
    assert {name: created[name] for name in event if name != "metadata"} == {
        name: value for name, value in event.items() if name != "metadata"
    }
    assert (await api.get(path)).names == ["a.1"]


async def test_a_namespace_is_active_and_labelled_with_its_name(api: Api) -> None:
    found = (await api.get(f"/api/v1/namespaces/{api.namespace}")).object
    assert found["status"] == {"phase": "Active"}
    assert found["spec"] == {"finalizers": ["kubernetes"]}
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}


async def test_the_initial_namespaces_exist(api: Api) -> None:
    names = (await api.get("/api/v1/namespaces")).names
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(names)


async def test_health(api: Api) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        answer = await api.get(path)
        assert (answer.code, answer.body) == (200, "ok")


async def test_version(api: Api) -> None:
    version = (await api.get("/version")).body
    assert version["major"] == "1"
    assert int(version["minor"].rstrip("+")) >= releases.minor(releases.chosen())


async def test_groups_are_discovered(api: Api) -> None:
    assert "v1" in (await api.get("/api")).body["versions"]
    groups = {group["name"]: group for group in (await api.get("/apis")).body["groups"]}
    ours = groups["scheduling.phalanx.dev"]
    assert ours["preferredVersion"] == {
        "groupVersion": "scheduling.phalanx.dev/v1alpha1",
        "version": "v1alpha1",
    }
    assert {"batch", "coordination.k8s.io", "events.k8s.io", "policy", "storage.k8s.io"} <= groups.keys()


async def test_resources_are_discovered(api: Api) -> None:
    core = (await api.get("/api/v1")).body
    assert core["groupVersion"] == "v1"
    pods = {one["name"]: one for one in core["resources"]}
    assert (pods["pods"]["kind"], pods["pods"]["namespaced"]) == ("Pod", True)
    assert "create" in pods["pods/binding"]["verbs"]
    ours = {one["name"]: one for one in (await api.get(PODGROUPS)).body["resources"]}
    assert ours["podgroups"]["shortNames"] == ["phpg"]
    assert ours["queues"]["namespaced"] is False
    assert "podgroups/status" in ours


async def test_custom_resources_need_their_kind(api: Api) -> None:
    refused = await api.post(api.groups, {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
    assert refused.refusal[:2] == (400, "BadRequest")


async def test_unknown_fields_of_custom_resources_are_pruned(api: Api) -> None:
    manifest = group("g")
    manifest["spec"]["ghost"] = 1
    manifest["ghost"] = {}
    created = (await api.post(api.groups, manifest)).object
    assert created["spec"] == {"minMember": 2}
    assert "ghost" not in created


async def test_custom_resources_of_cluster_scope(api: Api) -> None:
    name = f"queue-{api.namespace}"
    body = {"apiVersion": "scheduling.phalanx.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}}
    created = await api.post(f"{PODGROUPS}/queues", {**body, "spec": {}})
    assert created.object["spec"] == {"weight": 1}
    assert "namespace" not in created.metadata
    assert (await api.delete(f"{PODGROUPS}/queues/{name}")).code == 200
