"""Features that kubelets declare: Phalanx finds the nodes that NodeDeclaredFeatures leaves."""

from typing import Any, Final

import pytest
from msgspec import Struct
from phalanx.model.api import core
from phalanx.model.conversion.shapes import required_features

from tests.oracle.clusters import POD, READY
from tests.oracle.comparison import compare
from tests.oracle.plugins import Plugins

Document = dict[str, Any]
RESTARTS_ALL: Final = "RestartAllContainersOnContainerExits"
_RULE: Final = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
_RULES: Final = {"restartPolicy": "Never", "restartPolicyRules": [_RULE]}
_AMOUNTS: Final = {"cpu": "4", "memory": "8Gi", "pods": "10"}


class Row(Struct, frozen=True):
    """A spec of the pod, and the features that it needs."""

    name: str
    spec: Document
    needs: tuple[str, ...]


def _spec(container: Document | None = None, **spec: Any) -> Document:
    return {"containers": [{"name": "main", "image": "example.com/image", **(container or {})}], **spec}


def _init(**fields: Any) -> Document:
    return {"name": "init", "image": "example.com/image", **fields}


ROWS: Final = (
    Row("nothing", _spec(), ()),
    Row("all containers restart", _spec(_RULES, restartPolicy="Never"), (RESTARTS_ALL,)),
    Row(
        "all containers restart when an init container exits",
        _spec(restartPolicy="Never", initContainers=[_init(**_RULES)]),
        (RESTARTS_ALL,),
    ),
    Row(
        "one container restarts",
        _spec({**_RULES, "restartPolicyRules": [{**_RULE, "action": "Restart"}]}, restartPolicy="Never"),
        (),
    ),
    Row("the host network", _spec(hostNetwork=True), ()),
    Row("user namespaces", _spec(hostUsers=False), ()),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_nodes_that_lack_a_feature_are_left_out(plugins: Plugins, row: Row) -> None:
    nodes = [_node("all", [RESTARTS_ALL, "Other"]), _node("none"), _node("other", ["Other"])]
    asker = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asker", "namespace": "default"},
        "spec": {"schedulerName": "phalanx", **row.spec},
    }
    found = compare(plugins, [*nodes, asker], POD)
    assert not found.answer.error
    assert not found.problem
    refusing = {each.plugin for each in found.answer.refused.values()}
    assert refusing == ({"NodeDeclaredFeatures"} if row.needs else set())
    assert found.answer.feasible == (("all",) if row.needs else ("all", "none", "other"))


def test_features_whose_fields_an_api_server_drops_by_default() -> None:
    """Gates that are off in 1.37: the fields exist only where both the server and kubelets enable them."""
    container = core.Container(volume_mounts=(core.VolumeMount(bind_mount_options=("noexec",)),))
    spec = core.PodSpec(containers=(container,), host_network=True, host_users=False)
    assert required_features(spec) == ("UserNamespacesHostNetworkSupport", "VolumeBindMountOptions")
    assert required_features(core.PodSpec(init_containers=(container,))) == ("VolumeBindMountOptions",)


def _node(name: str, features: list[str] | None = None) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": _AMOUNTS,
            "allocatable": _AMOUNTS,
            "conditions": READY,
            "declaredFeatures": features or [],
        },
    }
