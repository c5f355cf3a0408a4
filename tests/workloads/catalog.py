"""Every workload of `deploy/examples/workloads`, and what its controller makes of it."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from msgspec import Struct

from tests.deploy.manifests import DEPLOY
from tests.kwok.manifests import Manifest

EXAMPLES = DEPLOY / "examples" / "workloads"


class Workload(Struct, frozen=True, kw_only=True):
    """One file, of which the last document is the workload itself."""

    name: str
    """The file without its extension."""
    controllers: tuple[str, ...]
    pods: int
    """Pods that run at the same time."""
    ends: Mapping[str, str] | None
    """Labels of the pods that end by themselves; without labels all do. None: it runs until it is deleted."""
    condition: str
    """The condition of the workload that is true once it has ended, or once it serves if it has no end."""

    @property
    def file(self) -> Path:
        """The file."""
        return EXAMPLES / f"{self.name}.yaml"

    def manifests(self, space: str) -> list[Manifest]:
        """The documents of the file, in this namespace."""
        documents: list[Manifest] = list(yaml.safe_load_all(self.file.read_text()))
        for document in documents:
            document["metadata"]["namespace"] = space
        return documents


WORKLOADS = (
    Workload(name="jobset", controllers=("jobset",), pods=5, ends={}, condition="Completed"),
    Workload(name="leaderworkerset", controllers=("lws",), pods=6, ends=None, condition="Available"),
    Workload(
        name="raycluster", controllers=("kuberay",), pods=4, ends=None, condition="RayClusterProvisioned"
    ),
    Workload(
        name="mpijob",
        controllers=("mpi-operator",),
        pods=3,
        ends={"training.kubeflow.org/job-role": "launcher"},
        condition="Succeeded",
    ),
    Workload(name="trainjob", controllers=("trainer",), pods=3, ends={}, condition="Complete"),
)
