"""The admission policies that refuse at creation what would only become a verdict later.

A refused PodGroup is also read by the scheduler, which must object to it as well, and to no admitted one.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from phalanx.model.api.pod_groups import PodGroup
from phalanx.model.conversion.pod_groups import read_pod_group
from phalanx_controlplane.controlplane import ControlPlane

from tests.crds import api
from tests.crds.files import API_VERSION, definitions
from tests.deploy.manifests import DEPLOY, Document, resources
from tests.deploy.policies import active, change, open_namespace, policies, send

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

NAMESPACE = "verdict-policies"
GROUP = "scheduling.phalanx.dev"
QUEUE, LEAST, POD_GROUP = f"{GROUP}/queue", f"{GROUP}/min-member", f"{GROUP}/pod-group"
NETWORK = "verdict-policies"
POLICIES = ("gang-labels", "pod-groups", "queues", "topology-levels")

SELECTORS: dict[str, Document] = {
    "labels": {"matchLabels": {"team": "speech"}},
    "in": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["speech", "language"]}]},
    "not-in": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["vision"]}]},
    "exists": {"matchExpressions": [{"key": "other", "operator": "Exists"}]},
    "absent": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
}
"""They do not select the namespace, whose label `team` is `vision`."""

OPEN: dict[str, Document] = {
    "labels": {"matchLabels": {"team": "vision"}},
    "in": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["speech", "vision"]}]},
    "not-in": {"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["vision"]}]},
    "exists": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    "absent": {"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]},
}
"""They select it."""


def queue(name: str, **spec: Any) -> Document:
    return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": f"vp-{name}"}, "spec": spec}


OBJECTS: list[Document] = [
    queue("leaf", parent="vp-parent"),
    queue("parent"),
    queue("closed", state="Closed"),
    queue("held", state="Held"),
    *(queue(f"no-{name}", namespaceSelector=selector) for name, selector in SELECTORS.items()),
    *(queue(f"yes-{name}", namespaceSelector=selector) for name, selector in OPEN.items()),
    {
        "apiVersion": API_VERSION,
        "kind": "Topology",
        "metadata": {"name": NETWORK},
        "spec": {"levels": [{"name": each, "nodeLabel": f"example.com/{each}"} for each in ("zone", "rack")]},
    },
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    """A session after the policies became active."""
    async with control_plane.session() as session:
        await api.install(session, list(definitions().values()))
        roles = [each for each in resources(DEPLOY / "base") if each["metadata"]["name"] == "phalanx-edit"]
        for document in (*roles, *OBJECTS):
            await api.apply(session, document)
        await open_namespace(session, NAMESPACE, {"team": "vision"})
        try:
            refused = [document for _, document in REFUSED.values()]
            async with active(session, policies(*POLICIES), NAMESPACE, refused):
                yield session
        finally:
            for document in OBJECTS:
                path = f"{api.collection(document)}/{document['metadata']['name']}"
                async with session.delete(path, raise_for_status=True):
                    pass


def gang(**spec: Any) -> Document:
    meta = {"name": "g", "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": "PodGroup", "metadata": meta, "spec": spec}


def pod(labels: Document, *, owner: bool = False, scheduler: str = "phalanx") -> Document:
    meta: Document = {"name": "p", "namespace": NAMESPACE, "labels": labels}
    if owner:
        of = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}
        meta["ownerReferences"] = [{**of, "controller": True}]
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "train:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def job(labels: Document, annotations: Document | None = None, **spec: Any) -> Document:
    template = {"metadata": {"labels": labels}, "spec": {**pod({})["spec"], "restartPolicy": "Never"}}
    meta = {"name": "j", "namespace": NAMESPACE, "annotations": annotations or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def deployment(labels: Document) -> Document:
    labels = {"app": "d", **labels}
    template = {"metadata": {"labels": labels}, "spec": pod({})["spec"]}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    meta = {"name": "d", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


ROLES = [{"name": "ps", "count": 2}, {"name": "worker", "count": 4, "minMember": 1}]
RESERVED = {"startWhen": "Reserved", "minMember": 2}
EXECUTORS = [{"name": "executor", "count": 4, "minMember": 1, "requests": {"cpu": 1}}]
RACK = {"topology": {"required": "rack"}}


def on(**levels: str) -> Document:
    return {"name": NETWORK, **levels}


CONTRADICTIONS: dict[str, tuple[str, Document]] = {
    "more than the roles": (
        "spec.minMember: 7 is more than the 6 members of all spec.roles",
        gang(minMember=7, roles=ROLES),
    ),
    "less than the subgroups": (
        "spec.minMember: 5 is less than the 6 that the subgroups need at least",
        gang(
            minMember=5,
            subGroups=[
                {"name": "a", "minMember": 2},
                {"name": "b", "minMember": 4},
                {"name": "c", "minMember": 4, "parent": "b"},
            ],
        ),
    ),
    "segments anywhere": (
        "segmentSize needs topology.required",
        gang(subGroups=[{"name": "a", "minMember": 4, "segmentSize": 4}]),
    ),
    "half a segment": (
        "must be a multiple of its segmentSize",
        gang(subGroups=[{"name": "a", "minMember": 6, "segmentSize": 4, **RACK}]),
    ),
    "nothing to reserve": ("Reserved needs spec.roles with requests", gang(**RESERVED)),
    "Reserved with subgroups": (
        "Reserved is not supported together with spec.subGroups",
        gang(**RESERVED, roles=EXECUTORS, subGroups=[{"name": "a", "minMember": 1}]),
    ),
}
"""PodGroups to which the scheduler objects without any other object, and what each is refused for."""

REFUSED: dict[str, tuple[str, Document]] = {
    **CONTRADICTIONS,
    "too late": ("the time has passed already", gang(minMember=1, startBy="2020-01-01T00:00:00Z")),
    "closed": ("queue vp-closed is closed; submit to another queue", gang(minMember=1, queue="vp-closed")),
    "closed for a pod": ("queue vp-closed is closed", pod({QUEUE: "vp-closed"})),
    "closed for a Job": ("queue vp-closed is closed", job({QUEUE: "vp-closed"})),
    "closed for a Deployment": ("queue vp-closed is closed", deployment({QUEUE: "vp-closed"})),
    "no leaf": (
        "queue vp-parent is not a leaf; submit to a leaf queue below it, such as vp-leaf",
        gang(minMember=1, queue="vp-parent"),
    ),
    **{
        f"selector {name}": (
            f"queue vp-no-{name} does not accept namespace {NAMESPACE}",
            gang(minMember=1, queue=f"vp-no-{name}"),
        )
        for name in SELECTORS
    },
    "unknown level": (
        f"level spine does not exist in Topology {NETWORK}; known levels: zone, rack",
        gang(minMember=1, topology=on(required="zone", preferred="spine")),
    ),
    "unknown level of a subgroup": (
        f"level nvlink does not exist in Topology {NETWORK}",
        gang(
            topology=on(required="zone"),
            subGroups=[{"name": "a", "minMember": 1, "topology": {"required": "nvlink"}}],
        ),
    ),
    "unknown level, named by a subgroup": (
        f"level spine does not exist in Topology {NETWORK}",
        gang(
            subGroups=[
                {"name": "a", "minMember": 1, "topology": on(required="rack")},
                {"name": "b", "minMember": 1, "topology": {"required": "spine"}},
            ]
        ),
    ),
    "unknown level of another Topology": (
        f"level spine does not exist in Topology {NETWORK}",
        gang(
            topology={"name": "elsewhere", "required": "spine"},
            subGroups=[{"name": "a", "minMember": 1, "topology": on(required="spine")}],
        ),
    ),
    "empty label": ("pod-group is empty", pod({POD_GROUP: ""})),
    "both labels": ("are both set", job({POD_GROUP: "g", LEAST: "1"})),
    "zero": ("min-member is '0', expected a whole number", job({LEAST: "0"}, parallelism=2)),
    "no number": ("is 'two', expected a whole number", deployment({LEAST: "two"})),
    "no controller": ("has no controller whose pods could be the gang", pod({LEAST: "2"})),
    "more than pods": ("is 4, but the Job has only 2 pods", job({LEAST: "4"}, parallelism=2, completions=8)),
    "more than completions": ("but the Job has only 3 pods", job({LEAST: "4"}, parallelism=8, completions=3)),
    "one pod": ("is 2, but the Job has only 1 pods", job({LEAST: "2"})),
    "parallelism": ("is not a whole number above 0", job({}, {f"{GROUP}/min-parallelism": "half"})),
}
"""What each refused object is refused for."""

ADMITTED_GROUPS: dict[str, Document] = {
    "minimal": gang(minMember=1),
    "two Topologies": gang(
        topology=on(required="zone"),
        subGroups=[{"name": "a", "minMember": 6, "topology": {"name": "another", "required": "domain"}}],
    ),
    "the default Topology, which does not exist": gang(
        topology={"required": "spine"},
        subGroups=[{"name": "a", "minMember": 1, "topology": on(required="rack")}],
    ),
    "all members of the roles": gang(minMember=6, roles=ROLES),
    "a minimum that follows": gang(subGroups=[{"name": "a", "minMember": 4, "segmentSize": 2, **RACK}]),
    "the minimum of the subgroups": gang(
        minMember=6, subGroups=[{"name": "a", "minMember": 2}, {"name": "b", "minMember": 4}]
    ),
    "some of the subgroups": gang(
        minMember=4,
        minSubGroups=1,
        subGroups=[{"name": "a", "minMember": 4}, {"name": "b", "minMember": 4}],
    ),
    "reserved": gang(**RESERVED, roles=EXECUTORS),
    "one Topology": gang(
        topology=on(required="zone", preferred="rack"),
        subGroups=[{"name": "a", "minMember": 4, "topology": on(required="rack")}],
    ),
    "a Topology that does not exist": gang(minMember=1, topology={"name": "vp-none", "required": "x"}),
    "later": gang(minMember=1, startBy="2100-01-01T00:00:00Z"),
    "leaf": gang(minMember=1, queue="vp-leaf"),
    "held": gang(minMember=1, queue="vp-held"),
    "a queue that does not exist": gang(minMember=1, queue="vp-none"),
    **{f"selector {name}": gang(minMember=1, queue=f"vp-yes-{name}") for name in OPEN},
}
ADMITTED: dict[str, Document] = {
    **ADMITTED_GROUPS,
    "pod": pod({QUEUE: "vp-leaf", POD_GROUP: "g"}),
    "member of a running gang": pod({QUEUE: "vp-closed", LEAST: "2"}, owner=True),
    "another scheduler": pod({QUEUE: "vp-closed", LEAST: "0"}, scheduler="other"),
    "job": job({QUEUE: "vp-leaf", LEAST: "2"}, parallelism=2),
    "paused job": job({LEAST: "2"}, parallelism=0),
    "deployment": deployment({LEAST: "2", QUEUE: "vp-leaf"}),
    "parallelism": job({}, {f"{GROUP}/min-parallelism": "2"}, parallelism=4),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(session: aiohttp.ClientSession, case: str) -> None:
    why, document = REFUSED[case]
    status, message = await send(session, document)
    assert status == 422
    assert why in message


@pytest.mark.parametrize("case", ADMITTED)
async def test_admitted(session: aiohttp.ClientSession, case: str) -> None:
    assert await send(session, ADMITTED[case]) == (201, "")


async def test_updates_are_checked_if_they_change_the_spec(session: aiohttp.ClientSession) -> None:
    """An object from before a policy, or whose queue was closed later, keeps its metadata changeable."""
    later = queue("later")
    group = gang(minMember=1, queue="vp-later")
    await api.apply(session, later)
    await api.apply(session, group)
    await api.apply(session, queue("later", state="Closed"))
    try:
        assert await change(session, group, {"metadata": {"labels": {"a": "b"}}}) == (200, "")
        assert await change(session, group, {"spec": {"minMember": 2}}) == (200, "")
        for spec in (
            {"queue": "vp-closed"},
            {"minMember": 7, "roles": ROLES},
            {"topology": on(required="x")},
        ):
            assert ((await change(session, group, {"spec": spec}))[0], spec) == (422, spec)
    finally:
        for document in (group, later):
            path = f"{api.collection(document)}/{document['metadata']['name']}"
            async with session.delete(path, raise_for_status=True):
                pass


@pytest.mark.parametrize("case", [*CONTRADICTIONS, *ADMITTED_GROUPS])
async def test_the_scheduler_objects_to_what_is_refused_and_to_nothing_else(case: str) -> None:
    document = CONTRADICTIONS[case][1] if case in CONTRADICTIONS else ADMITTED_GROUPS[case]
    problems = read_pod_group(msgspec.convert(document, PodGroup)).problems
    assert bool(problems) == (case in CONTRADICTIONS), problems
