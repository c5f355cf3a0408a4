"""`python -m tests.deploy.installers`: builds helm and kustomize once. Tests run them as users do.

The exit code is 2 if one cannot be built.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct
from phalanx_controlplane.programs import Program

from tests.deploy.manifests import DEPLOY, Document
from tests.program_builds import build_all

HELM: Final = Program(
    name="helm",
    module=DEPLOY / "installers" / "helm",
    cache="installers/helm",
    source="helm.sh/helm/v4",
    package="helm.sh/helm/v4/cmd/helm",
)
KUSTOMIZE: Final = Program(
    name="kustomize",
    module=DEPLOY / "installers" / "kustomize",
    cache="installers/kustomize",
    source="sigs.k8s.io/kustomize/kustomize/v5",
    package="sigs.k8s.io/kustomize/kustomize/v5",
)
CHART: Final = DEPLOY / "chart"
TIMEOUT_S: Final = 300.0
NAMESPACE: Final = "phalanx-system"
RELEASE: Final = ("phalanx", str(CHART), "--namespace", NAMESPACE)
ALL_POLICIES: Final = sorted(path.stem for path in (CHART / "files" / "policies").iterdir())
EVERYTHING: Final[Document] = {
    "image": {"repository": "example/phalanx", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "replicas": 3,
    "config": {"schedulerName": "gangs"},
    "policies": ALL_POLICIES,
    "priorityClass": {"name": "phalanx", "create": True, "value": 1000000},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
        "egress": [{"ports": [{"port": 6443}]}],
    },
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
}
"""Every option but the ServiceMonitor, whose kind is not part of Kubernetes."""


class Helm(Struct, frozen=True):
    """The program helm, with its files in a folder of the test."""

    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command, whatever its exit code."""
        folders = {f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **folders}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        return _run(HELM, arguments, environment)

    def __call__(self, *arguments: str) -> str:
        """What a command prints, which must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def template(self, values: Document | None = None, *, chart: Path = CHART) -> list[Document]:
        """The objects of the chart with these values."""
        arguments = ["template", RELEASE[0], str(chart), *RELEASE[2:], "--skip-tests"]
        if values:
            (self.home / "values.yaml").write_text(yaml.safe_dump(values))
            arguments += ["--values", str(self.home / "values.yaml")]
        return documents(self(*arguments))


def kustomize(folder: Path) -> list[Document]:
    """The objects that `kustomize build` prints."""
    done = _run(KUSTOMIZE, ["build", str(folder)], {"PATH": os.environ["PATH"], "HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def documents(text: str) -> list[Document]:
    """The documents that are not empty."""
    found: list[Any] = list(yaml.safe_load_all(text))
    return [each for each in found if each is not None]


def _run(program: Program, arguments: Any, environment: Document) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program.built().program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(build_all(HELM, KUSTOMIZE))
