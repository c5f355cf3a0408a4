"""What is said about gangs in which each pod has a shape of its own."""

import pytest
from phalanx.model.reasons import Reason, Verdict

from tests.advice.clusters import ASKER, GROUP_API, GROUP_LABEL, READY, Document
from tests.advice.fitting import stated
from tests.advice.reading import advice_of
from tests.advice.refusals import decided, verdict_of

NODES, CORES = 20, 16


def _object(kind: str, name: str, api: str = "v1", **fields: object) -> Document:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": {}}, **fields}


def _refused(requests: list[int]) -> Verdict:
    """The verdict on a gang of pods with these requests in thousandths of a core, where nothing runs."""
    amounts = {"cpu": str(CORES), "memory": "64Gi", "pods": "110"}
    status = {"allocatable": amounts, "conditions": READY}
    documents = [_object("Node", f"n{number}", status=status) for number in range(NODES)]
    documents.append(_object("PodGroup", ASKER, GROUP_API, spec={"minMember": len(requests)}))
    for number, request in enumerate(requests):
        container = {"name": "main", "resources": {"requests": {"cpu": f"{request}m"}}}
        pod = _object(
            "Pod", f"{ASKER}-{number}", spec={"schedulerName": "phalanx", "containers": [container]}
        )
        pod["metadata"]["labels"] = {GROUP_LABEL: ASKER}
        documents.append(pod)
    verdict = verdict_of(decided(documents))
    assert verdict is not None
    return verdict


def _that_fit_first(requests: list[int]) -> int:
    """Pods that fit if the smallest are put on the first node with free capacity, and none is skipped."""
    free = [CORES * 1000] * NODES
    for count, request in enumerate(sorted(requests)):
        node = next((number for number, amount in enumerate(free) if amount >= request), None)
        if node is None:
            return count
        free[node] -= request
    return len(requests)


@pytest.mark.slow
def test_a_gang_of_very_many_shapes_learns_how_many_of_the_small_pods_fit() -> None:
    requests = [100 + number * 7919 % 9000 for number in range(450)]
    verdict = _refused(requests)
    said, advices = stated(verdict.message.partition(";")[0]), advice_of(verdict.next_step)
    assert verdict.reason is Reason.ABOVE_CLUSTER_CAPACITY
    assert said is not None
    assert said.needed == 450
    assert said.count >= _that_fit_first(requests)
    assert [each.count for each in advices if each.kind == "lower"] == [said.count]
    assert not any(each.is_later for each in advices), "nothing runs that could end"
