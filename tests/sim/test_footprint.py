"""Resource requests of a pod as a kubelet counts them."""

from typing import Any

from phalanx_simulator.embedded.manifests import pod
from phalanx_simulator.embedded.pod_requests import requests_of


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def cpu_of(**spec: Any) -> int:
    found = pod("p")
    found["spec"] |= spec
    return requests_of(found)["cpu"]


def test_containers_add_up_and_one_pod_is_one_pod() -> None:
    assert requests_of(pod("p", requests={"cpu": "1500m", "memory": "1Ki"})) == {
        "cpu": 1500,
        "memory": 1024,
        "pods": 1,
    }
    assert cpu_of(containers=[container("1"), container("250m")]) == 1250


def test_init_containers_run_one_after_the_other() -> None:
    init = [container("3"), container("2")]
    assert cpu_of(containers=[container("1")], initContainers=init) == 3000
    assert cpu_of(containers=[container("4")], initContainers=init) == 4000


def test_sidecars_keep_running() -> None:
    sidecar = container("1", restartPolicy="Always")
    assert cpu_of(containers=[container("2")], initContainers=[sidecar]) == 3000
    assert cpu_of(containers=[container("2")], initContainers=[sidecar, container("4")]) == 5000
    assert cpu_of(containers=[container("2")], initContainers=[container("4"), sidecar]) == 4000


def test_overhead_is_on_top() -> None:
    assert cpu_of(containers=[container("1")], overhead={"cpu": "100m"}) == 1100
