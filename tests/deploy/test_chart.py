"""What the chart gives with the real helm, compared with kustomize: `make chart`."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from phalanx.model.api.kind import Watched
from phalanx.model.api.kinds import KINDS

from tests.deploy.installers import ALL_POLICIES, CHART, EVERYTHING, HELM, NAMESPACE, RELEASE, Helm, kustomize
from tests.deploy.manifests import DEPLOY, REPOSITORY, Document

pytestmark = pytest.mark.chart

KEEP = "helm.sh/resource-policy"
MONITORING = {name: {"enabled": True} for name in ("serviceMonitor", "alerts", "boards")}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def by_name(found: list[Document]) -> dict[tuple[str, str], Document]:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(objects) == len(found)
    return objects


def test_helm_lints_the_chart(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    everything = helm.home / "everything.yaml"
    everything.write_text(yaml.safe_dump({**EVERYTHING, **MONITORING}))
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", str(everything))


def test_the_chart_gives_the_objects_of_kustomize(helm: Helm) -> None:
    """Helm creates the namespace by itself, and keeps the CRDs."""
    expected = by_name(kustomize(DEPLOY / "base"))
    del expected["Namespace", NAMESPACE]
    found = by_name(helm.template())
    assert found.keys() == expected.keys()
    for key, document in found.items():
        assert comparable(document) == comparable(expected[key]), key


def comparable(document: Document) -> Document:
    """Without what the two ways of installing do differently, which the test above lists."""
    if document["kind"] == "CustomResourceDefinition":
        document["metadata"].pop("annotations", None)
    elif document["kind"] == "ConfigMap":
        document["data"] = yaml.safe_load(document["data"]["config.yaml"])
    return document


def test_the_monitoring_objects_are_those_of_the_component(helm: Helm, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    parts = {"resources": [DEPLOY / "base"], "components": [DEPLOY / "monitoring"]}
    relative = {
        key: [os.path.relpath(path, overlay.resolve()) for path in each] for key, each in parts.items()
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(relative))
    all_objects, base = by_name(kustomize(overlay)), by_name(kustomize(DEPLOY / "base"))
    expected = {key: each for key, each in all_objects.items() if key not in base}
    assert {kind for kind, _ in expected} == {"Service", "ServiceMonitor", "PrometheusRule", "ConfigMap"}
    found = by_name(helm.template(MONITORING))
    assert {key: found[key] for key in expected} == expected


def test_the_policies_are_those_of_kustomize(helm: Helm) -> None:
    expected = by_name(kustomize(DEPLOY / "policies"))
    found = by_name(helm.template({"policies": ALL_POLICIES}))
    assert {key: found[key] for key in expected} == expected
    renamed = helm.template({"policies": ALL_POLICIES, "config": {"schedulerName": "gangs"}})
    text = yaml.safe_dump([each for each in renamed if each["kind"] == "ValidatingAdmissionPolicy"])
    assert "== 'phalanx'" not in text.replace("''", "'")
    assert "must be gangs for" in text


def test_the_options(helm: Helm) -> None:
    found = by_name(helm.template({**EVERYTHING, "serviceMonitor": {"enabled": True, "labels": {"a": "b"}}}))
    deployment = found["Deployment", "phalanx"]["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 3
    assert pod["containers"][0]["image"] == f"example/phalanx@sha256:{'0' * 64}"
    assert pod["priorityClassName"] == found["PriorityClass", "phalanx"]["metadata"]["name"]
    assert (pod["nodeSelector"], pod["tolerations"]) == (
        EVERYTHING["nodeSelector"],
        EVERYTHING["tolerations"],
    )
    policy = found["NetworkPolicy", "phalanx"]["spec"]
    assert policy["ingress"] == [{"ports": [{"port": "http"}], "from": EVERYTHING["networkPolicy"]["from"]}]
    assert policy["egress"] == EVERYTHING["networkPolicy"]["egress"]
    assert policy["podSelector"] == deployment["selector"]
    monitor, service = found["ServiceMonitor", "phalanx"], found["Service", "phalanx-metrics"]
    assert monitor["metadata"]["labels"]["a"] == "b"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["spec"]["selector"] == deployment["selector"]["matchLabels"]


def test_the_dashboard_is_off_and_may_read_what_it_shows(helm: Helm) -> None:
    assert [key for key in by_name(helm.template()) if "phalanx-dashboard" in key] == []
    plain = by_name(helm.template({"dashboard": {"enabled": True}}))
    found = by_name(helm.template({"dashboard": {"enabled": True, "tlsSecret": "pages"}}))
    rules = found["ClusterRole", "phalanx-dashboard"]["rules"]
    allowed = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    read = {(kind.group, kind.plural, "list") for kind in KINDS.values() if kind.watched is not Watched.NEVER}
    assert read - allowed == set()
    assert {(group, what) for group, what, verb in allowed if verb != "list"} == {
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
    deployment, service = (
        found["Deployment", "phalanx-dashboard"]["spec"],
        found["Service", "phalanx-dashboard"],
    )
    labels = deployment["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    assert not found["Deployment", "phalanx"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (arguments,) = [each["args"] for each in deployment["template"]["spec"]["containers"]]
    assert "--listen=0.0.0.0:8443" in arguments
    (arguments,) = [
        each["args"]
        for each in plain["Deployment", "phalanx-dashboard"]["spec"]["template"]["spec"]["containers"]
    ]
    assert "--listen=127.0.0.1:8443" in arguments
    assert ("Service", "phalanx-dashboard") not in plain


def test_what_can_be_left_out(helm: Helm) -> None:
    off = {"crds": {"install": False}, "rbac": {"userRoles": False}, "disruptionBudget": {"enabled": False}}
    found = by_name(helm.template({**off, "image": {"tag": "1.2.3", "pullSecrets": ["registry"]}}))
    assert {kind for kind, _ in found}.isdisjoint({"CustomResourceDefinition", "PodDisruptionBudget"})
    assert [name for kind, name in found if kind == "ClusterRole"] == ["phalanx-scheduler"]
    pod = found["Deployment", "phalanx"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "phalanx-scheduler:1.2.3"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_helm_refuses_values_that_the_schema_does_not_know(helm: Helm) -> None:
    done = helm.run("template", *RELEASE, "--set", "replica=3")
    assert done.returncode != 0
    assert "replica" in done.stderr


def test_the_workflow_packages_the_chart_with_the_published_image(helm: Helm) -> None:
    """The script of the workflow itself: the package has the content of the links."""
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "release.yaml").read_text())
    (script,) = [
        each["run"] for each in workflow["jobs"]["chart"]["steps"] if 'helm" package' in each.get("run", "")
    ]
    (helm.home / "deploy").symlink_to(DEPLOY)
    (helm.home / "helm").symlink_to(HELM.built().program)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(helm.home),
        "RUNNER_TEMP": str(helm.home),
        "IMAGE": "ghcr.io/team/phalanx-scheduler",
    }
    subprocess.run(["bash", "-e", "-c", script], cwd=helm.home, env=environment, check=True)
    (package,) = (helm.home / "dist").iterdir()
    assert package.name == "phalanx-0.1.0.tgz"
    packaged = by_name(helm.template(chart=package))
    (container,) = packaged["Deployment", "phalanx"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "ghcr.io/team/phalanx-scheduler:0.1.0"
    container["image"] = "phalanx-scheduler:0.1.0"
    assert packaged == by_name(helm.template())


def test_the_crds_stay_when_the_release_is_uninstalled(helm: Helm) -> None:
    definitions = [each for each in helm.template() if each["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == 3
    assert all(each["metadata"]["annotations"] == {KEEP: "keep"} for each in definitions)
