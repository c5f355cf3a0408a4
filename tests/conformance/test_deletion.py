"""Deletion: immediate, graceful, with preconditions, delayed by finalizers, of collections."""

from datetime import datetime

from tests.conformance.api import JSON_PATCH, Api, group, labelled, pod

HOLD = "example.com/hold"


async def gone(api: Api, name: str) -> bool:
    return (await api.get(f"{api.pods}/{name}")).code == 404


async def test_a_pod_without_a_node_is_deleted_at_once(api: Api) -> None:
    created = await api.create_pod("a")
    deleted = (await api.delete(f"{api.pods}/a")).object
    assert deleted["kind"] == "Pod"
    assert deleted["metadata"]["uid"] == created["metadata"]["uid"]
    assert await gone(api, "a")


async def test_a_bound_pod_is_deleted_gracefully(api: Api) -> None:
    bound = await api.create_bound_pod("a", terminationGracePeriodSeconds=7)
    marked = (await api.delete(f"{api.pods}/a")).metadata
    assert marked["deletionGracePeriodSeconds"] == 7
    assert marked["deletionTimestamp"] >= bound["metadata"]["creationTimestamp"]
    assert marked["generation"] == bound["metadata"]["generation"] + 1
    assert (await api.get(f"{api.pods}/a")).metadata == marked


async def test_the_grace_period_can_be_chosen(api: Api) -> None:
    await api.create_bound_pod("a")
    marked = (await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 100})).metadata
    assert marked["deletionGracePeriodSeconds"] == 100


async def test_a_grace_period_can_only_become_shorter(api: Api) -> None:
    await api.create_bound_pod("a")
    periods = []
    for asked in ("20", "30", "10"):
        marked = (await api.delete(f"{api.pods}/a", gracePeriodSeconds=asked)).metadata
        periods.append(marked["deletionGracePeriodSeconds"])
    assert periods == [20, 20, 10]


async def test_a_shorter_grace_period_counts_from_the_first_request(api: Api) -> None:
    await api.create_bound_pod("a")
    ends = []
    for asked in ("100", "40"):
        marked = (await api.delete(f"{api.pods}/a", gracePeriodSeconds=asked)).metadata
        ends.append(datetime.fromisoformat(marked["deletionTimestamp"]))
    assert (ends[0] - ends[1]).total_seconds() == 60


async def test_a_second_request_does_not_change_the_first(api: Api) -> None:
    await api.create_bound_pod("a")
    marked = (await api.delete(f"{api.pods}/a", gracePeriodSeconds="100")).metadata
    assert (await api.delete(f"{api.pods}/a")).metadata == marked


async def test_a_grace_period_of_zero_deletes_at_once(api: Api) -> None:
    await api.create_bound_pod("a")
    await api.create_bound_pod("b")
    await api.delete(f"{api.pods}/b")
    for name in ("a", "b"):
        assert (await api.delete(f"{api.pods}/{name}", {"gracePeriodSeconds": 0})).code == 200
        assert await gone(api, name)


async def test_a_finished_pod_is_deleted_at_once(api: Api) -> None:
    await api.create_bound_pod("a")
    await api.patch(f"{api.pods}/a/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{api.pods}/a")
    assert await gone(api, "a")


async def test_delete_with_another_uid_is_a_conflict(api: Api) -> None:
    created = await api.create_pod("a")
    uid = created["metadata"]["uid"]
    refused = await api.delete(f"{api.pods}/a", {"preconditions": {"uid": "other"}})
    message = (
        'Operation cannot be fulfilled on Pod "a": the UID in the precondition (other) does not match the '
        f"UID in record ({uid}). The object might have been deleted and then recreated"
    )
    assert refused.refusal == (409, "Conflict", message)
    assert (await api.delete(f"{api.pods}/a", {"preconditions": {"uid": uid}})).code == 200
    assert await gone(api, "a")


async def test_delete_with_another_version_is_a_conflict(api: Api) -> None:
    created = await api.create_pod("a")
    version = created["metadata"]["resourceVersion"]
    refused = await api.delete(f"{api.pods}/a", {"preconditions": {"resourceVersion": "1"}})
    message = (
        'Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (1) does not '
        f"match the ResourceVersion in record ({version}). The object might have been modified"
    )
    assert refused.refusal == (409, "Conflict", message)


async def test_preconditions_apply_to_custom_resources(api: Api) -> None:
    await api.create_group("g")
    refused = await api.delete(f"{api.groups}/g", {"preconditions": {"uid": "other"}})
    code, reason, message = refused.refusal
    assert (code, reason) == (409, "Conflict")
    assert message.startswith(
        'Operation cannot be fulfilled on PodGroup.scheduling.phalanx.dev "g": the UID in the precondition'
    )


async def test_delete_of_a_missing_object(api: Api) -> None:
    refused = await api.delete(f"{api.pods}/ghost")
    assert refused.refusal == (404, "NotFound", 'pods "ghost" not found')


async def test_the_response_for_other_kinds_is_a_status(api: Api) -> None:
    created = await api.create_group("g")
    deleted = await api.delete(f"{api.groups}/g")
    assert deleted.object == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "g",
            "group": "scheduling.phalanx.dev",
            "kind": "podgroups",
            "uid": created["metadata"]["uid"],
        },
    }


async def test_finalizers_delay_a_deletion(api: Api) -> None:
    await api.create_group("g", finalizers=[HOLD])
    marked = (await api.delete(f"{api.groups}/g")).metadata
    assert marked["deletionGracePeriodSeconds"] == 0
    assert marked["generation"] == 2
    again = (await api.delete(f"{api.groups}/g")).metadata
    assert again == marked
    released = await api.patch(f"{api.groups}/g", {"metadata": {"finalizers": None}})
    assert released.code == 200
    assert (await api.get(f"{api.groups}/g")).code == 404


async def test_an_object_with_finalizers_can_still_be_changed(api: Api) -> None:
    await api.create_group("g", finalizers=[HOLD])
    await api.delete(f"{api.groups}/g")
    changed = await api.patch(f"{api.groups}/g", {"metadata": {"labels": {"x": "y"}}})
    assert changed.metadata["labels"] == {"x": "y"}
    assert changed.metadata["deletionTimestamp"]


async def test_a_deleting_object_gets_no_new_finalizer(api: Api) -> None:
    await api.create_group("g", finalizers=[HOLD])
    await api.delete(f"{api.groups}/g")
    patch = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/late"}]
    code, reason, message = (await api.patch(f"{api.groups}/g", patch, JSON_PATCH)).refusal
    assert (code, reason) == (422, "Invalid")
    why = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted"
    assert why in message


async def test_a_bound_pod_with_a_finalizer_waits_for_kubelet_and_finalizer(api: Api) -> None:
    held = pod("a")
    held["metadata"]["finalizers"] = [HOLD]
    await api.post(api.pods, held)
    await api.bind("a", "node-a")
    await api.delete(f"{api.pods}/a", gracePeriodSeconds="30")
    marked = (await api.patch(f"{api.pods}/a", {"metadata": {"finalizers": None}})).metadata
    assert marked["deletionGracePeriodSeconds"] == 30
    await api.delete(f"{api.pods}/a", gracePeriodSeconds="0")
    assert await gone(api, "a")


async def test_a_collection_can_be_deleted_by_label(api: Api) -> None:
    for name, team in (("a", "red"), ("b", "blue"), ("c", "red")):
        await api.post(api.groups, labelled(group(name), team=team))
    deleted = await api.delete(api.groups, labelSelector="team=red")
    assert deleted.code == 200
    assert (await api.get(api.groups)).names == ["b"]


async def test_a_recreated_object_has_a_new_uid(api: Api) -> None:
    uids = set()
    for _ in range(2):
        uids.add((await api.create_pod("a"))["metadata"]["uid"])
        await api.delete(f"{api.pods}/a")
    assert len(uids) == 2


async def test_finalizers_of_a_propagation_policy(api: Api) -> None:
    for name, policy, finalizers in (
        ("orphan", "Orphan", [HOLD, "orphan"]),
        ("foreground", "Foreground", [HOLD, "foregroundDeletion"]),
        ("background", "Background", [HOLD]),
    ):
        await api.create_group(name, finalizers=[HOLD])
        deleted = await api.delete(f"{api.groups}/{name}", propagationPolicy=policy)
        assert sorted(deleted.metadata["finalizers"]) == sorted(finalizers)


async def test_a_deletion_with_matching_preconditions(api: Api) -> None:
    metadata = (await api.create_bound_pod("a"))["metadata"]
    wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    deleted = await api.delete(f"{api.pods}/a", {"preconditions": wanted, "gracePeriodSeconds": 0})
    assert deleted.code == 200
    assert await gone(api, "a")


async def test_the_status_of_a_deleting_pod_can_be_written(api: Api) -> None:
    await api.create_bound_pod("a")
    await api.delete(f"{api.pods}/a")
    patched = await api.patch(f"{api.pods}/a/status", {"status": {"phase": "Failed"}})
    assert patched.object["status"]["phase"] == "Failed"
    assert patched.metadata["deletionTimestamp"]


async def test_the_status_of_a_recreated_pod(api: Api) -> None:
    """A patch that names the UID of the deleted pod does not change its successor."""
    old = await api.create_pod("a")
    await api.delete(f"{api.pods}/a")
    await api.create_pod("a")
    patch = {"metadata": {"uid": old["metadata"]["uid"]}, "status": {"phase": "Failed"}}
    assert (await api.patch(f"{api.pods}/a/status", patch)).refusal[:2] == (422, "Invalid")
    assert (await api.get(f"{api.pods}/a")).object["status"]["phase"] == "Pending"
