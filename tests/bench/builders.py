"""Builders of workloads and watch lines for tests."""

from typing import Any

import msgspec
import yaml

from bench.harness import workloads
from bench.harness.observation import Line
from bench.harness.workloads import Workload

WORKER = {"name": "worker", "count": 2, "requests": {"cpu": "1", "memory": "1Gi"}}


def workload(**fields: Any) -> Workload:
    """A workload of two gangs of two pods on two nodes of four cores; `fields` override."""
    whole = {"about": "Few.", "nodes": {"count": 2, "cores": 4}, "gangs": [{"count": 2, "roles": [WORKER]}]}
    return workloads.read(yaml.safe_dump({**whole, **fields}), name="few")


def line(kind: str, name: str, *, node: str = "", phase: str = "Pending", refused: str = "") -> Line:
    """A watch event of a pod; `refused` is the reason of PodScheduled=False."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": refused}] if refused else []
    pod = {
        "metadata": {"name": name, "labels": {"bench/gang": name.rsplit("-", 2)[0]}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": conditions},
    }
    return msgspec.convert({"type": kind, "object": pod}, Line)
