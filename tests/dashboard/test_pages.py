"""The data of each page of a small cluster."""

from typing import Any

import pytest
from phalanx_dashboard.facts import Scope, restricted
from phalanx_dashboard.pages.queues import ShareHistory, queues_page

from tests.cli.test_recordings import SCENARIOS, recording_of
from tests.cli.verbs.conftest import MESSAGE, ago, gpu_node, gpu_pod, pod_group, queue
from tests.cli.verbs.test_why import event
from tests.dashboard.conftest import Site

GPU = "nvidia.com/gpu"


async def test_the_overview(site: Site) -> None:
    site.world.create(gpu_node("bad", rack="b", conditions=[{"type": "Ready", "status": "False"}]))
    await site.feed.read()
    page = await site.page("overview")
    assert page["gangs"] == {"Running": 2, "Waiting": 1}
    assert (page["resource"], page["used"], page["total"]) == (GPU, 9, 32)
    assert page["nodes"] == {"NotReady": 1, "Ready": 3}
    assert [(gang["name"], gang["message"]) for gang in page["waiting"]] == [("large", MESSAGE)]
    assert [(node["name"], node["condition"]) for node in page["faults"]] == [("bad", "NotReady")]
    assert [row["name"] for row in page["queues"]] == ["all"]


async def test_the_queues_with_their_shares_over_time(site: Site) -> None:
    page = await site.page("queues")
    assert [(row["name"], row["depth"], row["used"]) for row in page["queues"]] == [
        ("all", 0, {GPU: 8}),
        ("vision", 1, {GPU: 8}),
    ]
    assert len(page["times"]) == 1
    assert page["shares"] == [
        {"queue": "all", "used": [8], "fairShare": [None]},
        {"queue": "vision", "used": [8], "fairShare": [12]},
    ]
    assert (await site.page("queues", resource="cpu"))["shares"][1]["used"] == [0]


async def test_samples_are_ten_seconds_apart_and_new_queues_have_no_past(site: Site) -> None:
    facts = site.feed.facts(Scope())
    assert facts is not None
    history, now = ShareHistory(), 1_000_000
    for after in (0, 4_000, 11_000):
        history.add(facts.queues, now_ms=now + after)
    assert [sample.at - now // 1000 for sample in history.samples] == [0, 11]
    site.world.create(queue("late", status={"allocated": {GPU: "3"}}))
    await site.feed.read()
    facts = site.feed.facts(Scope())
    assert facts is not None
    history.add(facts.queues, now_ms=now + 22_000)
    late = next(each for each in queues_page(facts, history.samples).shares if each.queue == "late")
    assert late.used == (None, None, 3)


async def names(site: Site, **query: Any) -> list[str]:
    return [gang["name"] for gang in (await site.page("gangs", **query))["gangs"]]


async def test_gangs_are_filtered_sorted_and_parted(site: Site) -> None:
    assert await names(site) == ["large", "note", "busy"]
    assert await names(site, state="Running") == ["note", "busy"]
    assert await names(site, queue="vision") == ["large", "busy"]
    assert await names(site, text="VISION/b") == ["busy"]
    assert await names(site, text="insufficient") == ["large"]
    assert await names(site, sort="name") == ["note", "busy", "large"]
    assert await names(site, sort="name", order="descending") == ["large", "busy", "note"]
    assert await names(site, sort="no-such-column") == ["large", "note", "busy"]
    page = await site.page("gangs", sort="name", offset=1, limit=1)
    assert (page["total"], page["matching"], [gang["name"] for gang in page["gangs"]]) == (3, 3, ["busy"])
    assert (await site.page("gangs", text="large"))["states"] == {"Running": 2, "Waiting": 1}


async def test_a_gang_that_waits(site: Site) -> None:
    page = await site.page("gang", namespace="vision", kind="PodGroup", name="large")
    assert page["why"]["gang"]["message"] == MESSAGE
    assert page["why"]["category"] == "Waiting"
    assert len(page["why"]["help"]) == 2
    assert (page["domains"], page["moreDomains"]) == ([], 0)
    assert [pod["name"] for pod in page["pods"]] == ["large-0", "large-1"]
    assert [step["what"] for step in page["timeline"]] == ["created"]


async def test_a_gang_that_runs_is_shown_in_its_rack_with_the_other_nodes(site: Site) -> None:
    site.world.create(gpu_node("a3", rack="a"))
    certificate = {"proven": True, "terms": ["racks"], "objective": [1], "bound": [1], "by": "tree"}
    path = "/apis/scheduling.phalanx.dev/v1alpha1/namespaces/vision/podgroups/busy/status"
    site.world.send("PATCH", path, {"status": {"certificate": certificate}})
    await site.feed.read()
    page = await site.page("gang", namespace="vision", kind="PodGroup", name="busy")
    (domain,) = page["domains"]
    assert (page["levels"], domain["path"], domain["pods"]) == (["rack"], ["a"], 2)
    assert [(node["name"], node["pods"], node["free"]) for node in domain["nodes"]] == [
        ("a1", 1, 4),
        ("a2", 1, 4),
        ("a3", 0, 8),
    ]
    assert page["why"]["certificate"]["proven"] is True


async def test_the_timeline_of_a_gang(site: Site) -> None:
    """Created, placed, started, and a member that was replaced later."""
    times = {"creationTimestamp": ago(900)}
    site.world.create(pod_group("old", space="vision", status={"phase": "Running", "startedAt": ago(600)}))
    for name, bound in (("old-0", 700), ("old-1", 650), ("old-2", 100)):
        pod = gpu_pod(name, space="vision", group="old", node="b1", gpus=1, **times)
        bound_at = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(bound)}
        pod["status"] |= {"conditions": [bound_at], "startTime": ago(bound - 10)}
        site.world.create(pod)
    await site.feed.read()
    page = await site.page("gang", namespace="vision", kind="PodGroup", name="old")
    steps = {step["what"]: step["at"] for step in page["timeline"]}
    placed, last, started = steps["first pod placed"], steps["2 pods placed"], steps["started"]
    assert (last - placed, started - last, steps["1 more pod placed"] - started) == (50, 50, 500)


async def test_the_map_has_all_nodes_in_their_racks(site: Site) -> None:
    taint = [{"key": "example.com/broken", "effect": "NoSchedule"}]
    bad = gpu_node("bad", rack="b", conditions=[{"type": "Ready", "status": "False"}])
    tainted = gpu_node("tainted", rack="b")
    tainted["spec"] = {"taints": taint}
    site.world.create(bad, tainted)
    await site.feed.read()
    page = await site.page("topology")
    assert (page["topology"], page["levels"], page["resource"]) == ("default", ["rack"], GPU)
    found = {
        (domain["level"], domain["name"]): [node[:3] for node in domain["nodes"]]
        for domain in page["domains"]
    }
    assert found["cluster", ""] == []
    assert found["rack", "a"] == [["a1", 8, 4], ["a2", 8, 4]]
    assert [name for name, *_ in found["rack", "b"]] == ["b1", "bad", "tainted"]
    nodes = {node[0]: node for domain in page["domains"] for node in domain["nodes"]}
    assert page["conditions"][nodes["bad"][3]] == "NotReady"
    assert [name for name, node in nodes.items() if not node[4]] == ["bad"]
    assert page["domains"][0]["unusable"] == 8
    assert (await site.page("topology", resource="cpu"))["domains"][0]["total"] == 5 * 32_000


async def test_nodes_without_the_label_have_a_domain_of_their_own(site: Site) -> None:
    nameless = gpu_node("zz", rack="a")
    del nameless["metadata"]["labels"]["rack"]
    site.world.create(nameless)
    await site.feed.read()
    page = await site.page("topology")
    found = {domain["name"]: [node[0] for node in domain["nodes"]] for domain in page["domains"]}
    assert found == {"": [], "(no label)": ["zz"], "a": ["a1", "a2"], "b": ["b1"]}


async def test_one_node(site: Site) -> None:
    page = await site.page("node", name="a1")
    assert page["path"] == ["a"]
    assert page["node"]["free"][GPU] == 4
    assert [(gang["name"], gang["stops"]) for gang in page["node"]["gangs"]] == [("busy", True)]
    assert page["lostDeviceSeconds"] > 8 * 500


async def test_faults(site: Site) -> None:
    site.world.create(
        gpu_node("bad", rack="b", conditions=[{"type": "Ready", "status": "False"}]),
        queue("torn", status={"conditions": [condition("Ready", "False", "QueueCycle", "a cycle")]}),
        pod_group("wrong", space="vision", status={"phase": "Pending", "reason": "InvalidObject"}),
        pod_group("failed", space="vision", status={"phase": "Failed"}),
    )
    await site.feed.read()
    page = await site.page("faults")
    assert [node["name"] for node in page["nodes"]] == ["bad"]
    assert page["queues"] == [{"queue": "torn", "problem": "QueueCycle: a cycle"}]
    assert {gang["name"] for gang in page["gangs"]} == {"failed", "wrong"}


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(60),
    }


async def test_decisions_are_events_the_newest_first(site: Site) -> None:
    for number, (seconds, note) in enumerate(((300, "older"), (20, "newer"))):
        body = event(f"e{number}", "large-0", "", reason="FailedScheduling", note=note, seconds=seconds)
        site.world.send("POST", "/apis/events.k8s.io/v1/namespaces/vision/events", body)
    await site.feed.read()
    page = await site.page("decisions")
    assert [each["moment"]["text"] for each in page["events"]] == ["newer", "older"]
    assert (page["source"], page["cycles"]) == ("", [])


@pytest.mark.parametrize(
    ("scope", "hidden"),
    [
        (Scope(namespaces=frozenset({"speech"}), queues=False), ["large", "busy", "vision"]),
        (Scope(namespaces=frozenset({"speech"}), queues=False, nodes=False), ["large", "busy", "a1", "a2"]),
        (Scope(namespaces=frozenset()), ["large", "busy", "note"]),
    ],
)
async def test_what_somebody_may_not_see_is_in_no_answer(
    site: Site, scope: Scope, hidden: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that the server can be asked for, as text."""
    body = event("e", "large-0", "", reason="FailedScheduling", note="about large", seconds=5)
    site.world.send("POST", "/apis/events.k8s.io/v1/namespaces/vision/events", body)
    await site.feed.read()
    everything = site.feed.facts(Scope())
    assert everything is not None
    monkeypatch.setattr(site.feed, "_facts", restricted(everything, scope))
    asked = ["overview", "queues", "gangs", "topology", "decisions", "faults", "node?name=b1", "node?name=a1"]
    texts = [await site.status(f"/api/{path}") for path in asked]
    assert [status for status, _ in texts[:6]] == [200] * 6
    assert [
        name for name in hidden for _, text in texts if f'"{name}"' in text or f"about {name}" in text
    ] == []
    gang = "/api/gang?namespace=vision&kind=PodGroup&name=large"
    assert (await site.status(gang))[0] == 404


async def test_a_user_without_all_pods_sees_no_free_devices(site: Site) -> None:
    site.world.server.forbidden = ("/api/v1/pods", "/apis/scheduling.phalanx.dev/v1alpha1/queues")
    await site.feed.read()
    answer = await site.answer("topology")
    assert {node[2] for domain in answer["page"]["domains"] for node in domain["nodes"]} == {None}
    assert any("you may not list them" in note for note in answer["notes"])
    page = (await site.answer("queues"))["page"]
    assert (page["queues"], "you may not list them" in page["leftOut"]) == ([], True)


def test_a_recorded_cycle_says_what_was_decided() -> None:
    from phalanx.observe.recording import encode
    from phalanx_dashboard.pages.decisions import cycle_of

    recording = recording_of(SCENARIOS / "required-rack-busy.yaml")
    cycle = cycle_of(encode(recording))
    assert (cycle.cycle, cycle.waiting, cycle.placed) == (recording.result.cycle, 1, 0)
    (line,) = cycle.lines
    assert (line.kind, line.about) == ("Waits", "default/train")
    assert line.text.startswith("NoDomainFits: no rack fits all 2 pods now")
