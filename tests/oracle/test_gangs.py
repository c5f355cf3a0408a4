"""Decisions about whole gangs: kube-scheduler accepts them pod by pod, and the end violates nothing."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given

from tests.examples import holds
from tests.oracle.gangs.checker import placements, violations
from tests.oracle.gangs.clusters import HOST, ZONE, GangCase, gang_cases
from tests.oracle.gangs.comparison import compare_gang, is_order_free, order_of
from tests.oracle.plugins import Plugins

Document = dict[str, Any]


@pytest.mark.slow
@holds(15, suppress_health_check=list(HealthCheck))
@given(case=gang_cases())
def test_random_gangs(plugins: Plugins, case: GangCase) -> None:
    assert not compare_gang(plugins, case).problem


def node(name: str, zone: str = "", **spec: Any) -> Document:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    allocatable = {"cpu": "4", "memory": "16Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": allocatable, "allocatable": allocatable},
    }


def pod(name: str, app: str = "x", *, cpu: str = "1", port: Document | None = None, **spec: Any) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    ports = {"ports": [{"containerPort": 80, "hostPort": 80, **port}]} if port is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"containers": [container | ports], **spec},
    }


def terms(kind: str, app: str, key: str = ZONE) -> Document:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**fields: Any) -> Document:
    selector = {"matchLabels": {"app": "x"}}
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"topologySpreadConstraints": [constraint | fields]}


NODES = (node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1"))
TAINTED = node("t1", "b", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
TWO = {"p": "a1", "q": "a1"}


@pytest.mark.parametrize(
    ("pods", "nodes_of", "word"),
    [
        ((pod("p", cpu="3"), pod("q", cpu="2")), TWO, "cores"),
        ((pod("p"),), {"p": "t1"}, "taint"),
        ((pod("p", nodeSelector={ZONE: "b"}),), {"p": "a1"}, "labels"),
        ((pod("p", port={}), pod("q", port={"hostIP": "10.0.0.1"})), TWO, "port"),
        ((pod("p", **terms("podAntiAffinity", "x")), pod("q")), {"p": "a1", "q": "a2"}, "excludes"),
        ((pod("p"), pod("q", nodeName="a2", **terms("podAntiAffinity", "x"))), {"p": "a1"}, "excludes"),
        ((pod("p", **terms("podAffinity", "y")), pod("q", "y")), {"p": "a1", "q": "b1"}, "must be with"),
        (
            (pod("p", **terms("podAffinity", "x")), pod("q", **terms("podAffinity", "x"))),
            {"p": "a1", "q": "b1"},
            "must be with",
        ),
        ((pod("p", **terms("podAffinity", "x")),), {"p": "c1"}, "no label"),
        ((pod("p", **spread()), pod("q", **spread())), TWO, "skew 2"),
        ((pod("p", **spread(minDomains=3)), pod("q", nodeName="a1")), {"p": "a2"}, "skew 2"),
        ((pod("p", **spread()),), {"p": "c1"}, "no label"),
    ],
)
def test_the_checker_and_the_oracle_refuse(
    plugins: Plugins, pods: tuple[Document, ...], nodes_of: dict[str, str], word: str
) -> None:
    objects = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
        *NODES,
        TAINTED,
        *pods,
    )
    assert word in " ".join(violations(objects, nodes_of))
    assert order_of(plugins, objects, nodes_of) is None


@pytest.mark.parametrize(
    ("pods", "nodes_of"),
    [
        ((pod("p", port={}), pod("q", port={"protocol": "UDP"})), TWO),
        (
            (pod("p", **terms("podAffinity", "x")), pod("q", **terms("podAffinity", "x"))),
            {"p": "a1", "q": "a2"},
        ),
        ((pod("p", **spread()), pod("q", **spread())), {"p": "a1", "q": "b1"}),
        ((pod("p", **spread(minDomains=3)),), {"p": "a1"}),
    ],
)
def test_the_checker_and_the_oracle_accept(
    plugins: Plugins, pods: tuple[Document, ...], nodes_of: dict[str, str]
) -> None:
    objects = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
        *NODES,
        TAINTED,
        *pods,
    )
    assert violations(objects, nodes_of) == []
    assert order_of(plugins, objects, nodes_of) is not None
    assert nodes_of in list(placements(objects, nodes_of))


def test_pods_that_need_each_other_are_valid_only_as_a_whole(plugins: Plugins) -> None:
    pods = (pod("p", **terms("podAffinity", "y")), pod("q", "y", **terms("podAffinity", "x")))
    objects = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, *NODES, *pods)
    assert violations(objects, TWO) == []
    assert order_of(plugins, objects, TWO) is None
    assert not is_order_free(objects)
