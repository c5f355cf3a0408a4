"""The server answers every request, and all stored objects can be listed, selected and watched."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.clock import SystemClock
from phalanx.ports import Response
from phalanx_simulator.embedded.apiserver.kinds import shipped_crds
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import ApiServer
from phalanx_simulator.embedded.manifests import job, namespace, node, pod, pod_group, queue

from tests.examples import holds

CONTENT_TYPES = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
)
NAMESPACED = "namespaces/default"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(("", "a", "1", "-", "1Gi", "\ud83d\ude00")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("a", "metadata", "op", "path")), inner)
    ),
    max_leaves=5,
)


def claim() -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


VALID = {
    f"/api/v1/{NAMESPACED}/pods": pod("p"),
    "/api/v1/nodes": node("n"),
    "/api/v1/namespaces": namespace("t"),
    f"/api/v1/{NAMESPACED}/persistentvolumeclaims": claim(),
    f"/apis/batch/v1/{NAMESPACED}/jobs": job("j", members=1),
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "high"}, "value": 5},
    f"/apis/policy/v1/{NAMESPACED}/poddisruptionbudgets": {
        "metadata": {"name": "b"},
        "spec": {
            "minAvailable": "50%",
            "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        },
    },
    f"/api/v1/{NAMESPACED}/events": {
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": "default"},
        "source": {"component": "c"},
    },
    f"/apis/coordination.k8s.io/v1/{NAMESPACED}/leases": {"metadata": {"name": "l"}, "spec": {}},
    f"/apis/scheduling.phalanx.dev/v1alpha1/{NAMESPACED}/podgroups": pod_group("g", min_member=1),
    "/apis/scheduling.phalanx.dev/v1alpha1/queues": queue("q"),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": shipped_crds()[0]
    | {"metadata": {"name": "x"}},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of a JSON value and of all values in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at the path."""
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], other)
    return copy


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    """A collection, a valid object of it, and a copy with one value replaced."""
    path = draw(st.sampled_from(sorted(VALID)))
    place = draw(st.sampled_from(places(VALID[path])))
    return path, VALID[path], replaced(VALID[path], place, draw(JSON))


def answered(server: ApiServer, method: str, path: str, body: Any = None, **rest: Any) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    answer = server.handle(Request(method, path, body=data, **rest))
    assert isinstance(json.loads(answer.body), dict)
    return answer


def read_everything(server: ApiServer, path: str) -> None:
    for query in ({}, {"labelSelector": "a=b"}, {"fieldSelector": "metadata.name=a"}, {"limit": "1"}):
        assert answered(server, "GET", path, query=query).status == 200
    lines: list[bytes] = []
    server.watch(Request("GET", path, {"resourceVersion": "0", "labelSelector": "!a"}), lines.append)
    for line in b"".join(lines).splitlines():
        json.loads(line)


@pytest.mark.parametrize("body", [b"", b"{", b'{"metadata": {"name": "\xff"}}', b"[" * 100_000])
def test_a_body_that_is_no_json_is_a_bad_request(body: bytes) -> None:
    server = ApiServer(clock=SystemClock())
    assert server.handle(Request("POST", "/api/v1/nodes", body=body)).status == 400


@holds(90)
@given(broken(), JSON, st.sampled_from(CONTENT_TYPES), st.sampled_from(("", "/status")))
def test_every_request_is_answered(
    case: tuple[str, dict[str, Any], Any], patch: Any, content_type: str, subresource: str
) -> None:
    path, valid, wrong = case
    server = ApiServer(clock=SystemClock())
    answered(server, "POST", path, wrong)
    answered(server, "POST", path, valid)
    one = f"{path}/{valid['metadata']['name']}"
    answered(server, "PUT", one, wrong)
    for body in (patch, wrong, {"metadata": patch}, {"status": patch}, [patch]):
        answered(server, "PATCH", one + subresource, body, content_type=content_type)
    read_everything(server, path)
    answered(server, "POST", f"{one}/binding", patch)
    answered(server, "POST", f"{one}/eviction", patch)
    answered(server, "DELETE", one, patch)
    answered(server, "DELETE", path)
    read_everything(server, path)
