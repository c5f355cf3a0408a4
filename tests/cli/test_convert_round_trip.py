"""What `phalanx convert` prints, `phalanx decide` accepts: random objects of Volcano and KAI.

A converted object may be refused by `convert`, with an error by path. It is never printed in a form that an
API server refuses.
"""

import contextlib
import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cli.app import main

from tests.examples import holds

Object = dict[str, Any]

VOLCANO, KAI = "scheduling.volcano.sh/v1beta1", "scheduling.run.ai/v2alpha2"
LEVELS = ("net/zone", "net/rack", "kubernetes.io/hostname")


def some(strategies: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Object]:
    """Any of these fields."""
    return st.fixed_dictionaries({}, optional=strategies)


numbers = st.sampled_from([-1, 0, 0.5, 1, 2, 4])
kai_resource = some({"quota": numbers, "limit": numbers, "overQuotaWeight": st.sampled_from([0, 1, 2, 3])})
kai_queues = some(
    {
        "resources": some(dict.fromkeys(("gpu", "cpu", "memory"), kai_resource)),
        "priority": st.integers(0, 200),
        "parentQueue": st.sampled_from(["", "p"]),
        "reclaimMinRuntime": st.sampled_from(["0s", "1h30m"]),
    }
)
amounts = some({"cpu": st.sampled_from([0, 1, "500m", "2"]), "nvidia.com/gpu": st.integers(0, 4)})
volcano_queues = some(
    {
        "weight": st.integers(0, 5),
        "capability": amounts,
        "deserved": amounts,
        "guarantee": some({"resource": amounts}),
        "reclaimable": st.booleans(),
        "parent": st.sampled_from(["root", "p"]),
        "priority": st.integers(0, 9),
    }
)
kai_constraint = some(
    {
        "topology": st.just("net"),
        "requiredTopologyLevel": st.sampled_from(LEVELS),
        "preferredTopologyLevel": st.sampled_from(LEVELS),
    }
)
least = st.integers(0, 3)
kai_parts = st.lists(
    some(
        {
            "minMember": least,
            "parent": st.sampled_from(["s0", "s1"]),
            "topologyConstraint": kai_constraint,
            "minSubGroup": least,
        }
    ),
    max_size=3,
).map(lambda parts: [{"name": f"s{place}", **part} for place, part in enumerate(parts)])
kai_groups = some(
    {
        "minMember": least,
        "queue": st.just("q"),
        "preemptibility": st.sampled_from(["preemptible", "non-preemptible", "semi-preemptible"]),
        "topologyConstraint": kai_constraint,
        "subGroups": kai_parts,
        "minSubGroup": least,
        "priorityClassName": st.sampled_from(["train", "build"]),
    }
)
volcano_groups = some(
    {
        "minMember": least,
        "queue": st.just("q"),
        "minTaskMember": st.dictionaries(st.sampled_from(["w", "ps"]), least),
        "networkTopology": some(
            {
                "mode": st.sampled_from(["hard", "soft"]),
                "highestTierAllowed": least,
                "highestTierName": st.just("t1"),
            }
        ),
        "minResources": amounts,
    }
)


def hyper_node(name: str, tier: int, kind: str, members: list[str], *, named: bool) -> Object:
    inside = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
    spec = {"tier": tier, "members": inside, **({"tierName": f"t{tier}"} if named else {})}
    version = "topology.volcano.sh/v1alpha1"
    return {"apiVersion": version, "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


def node(name: str) -> Object:
    labels = {"net/zone": "z", "net/rack": name, "kubernetes.io/hostname": name}
    status = {"allocatable": {"cpu": "8", "nvidia.com/gpu": 4}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def topology(*, of_kai: bool) -> Object:
    version = "kai.scheduler/v1alpha1" if of_kai else "scheduling.phalanx.dev/v1alpha1"
    levels = [
        {"nodeLabel": label, **({} if of_kai else {"name": label.rpartition("/")[2]})} for label in LEVELS
    ]
    return {
        "apiVersion": version,
        "kind": "Topology",
        "metadata": {"name": "net"},
        "spec": {"levels": levels},
    }


def queue(version: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def group(version: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def pods(annotations: Object, labels: Object) -> list[Object]:
    spec = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
    }
    meta = {"annotations": annotations, "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{place}", **meta}, "spec": spec}
        for place in range(3)
    ]


@st.composite
def of_kai(draw: st.DrawFn) -> list[Object]:
    labels = {"kai.scheduler/subgroup-name": draw(st.sampled_from(["s0", "s1", "s2"]))}
    return [
        *map(node, ("n1", "n2")),
        *draw(st.lists(st.booleans().map(lambda theirs: topology(of_kai=theirs)), max_size=1)),
        queue("scheduling.run.ai/v2", draw(kai_queues)),
        group(KAI, draw(kai_groups)),
        *pods({"pod-group-name": "g"}, labels),
    ]


@st.composite
def of_volcano(draw: st.DrawFn) -> list[Object]:
    named = draw(st.booleans())
    tree = [
        hyper_node("a", 1, "Node", ["n1"], named=named),
        hyper_node("b", 1, "Node", ["n2"], named=named),
        hyper_node("c", 2, "HyperNode", ["a", "b"], named=named),
    ]
    return [
        *map(node, ("n1", "n2")),
        *tree[: draw(st.sampled_from([0, 2, 3]))],
        queue(VOLCANO, draw(volcano_queues)),
        group(VOLCANO, draw(volcano_groups)),
        *pods({"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "w"}, {}),
    ]


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    return code, out.getvalue(), err.getvalue()


@holds(40)
@given(st.one_of(of_kai(), of_volcano()))
def test_what_is_converted_is_accepted(objects: list[Object]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "in.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        code, text, errors = run("convert", "-f", str(file))
        assert code == 0 or (code == 2 and text == "" and ": " in errors)
        if code == 0:
            file.write_text(text)
            code, _, errors = run("decide", "-f", str(file))
            assert code == 0, errors
