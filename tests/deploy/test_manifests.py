"""Checks of the manifests that need no cluster."""

import re

import pytest
from phalanx.model.api.kinds import KINDS, READ_KINDS

from tests.deploy.manifests import DEPLOY, Document, base, kustomization, resources
from tests.parsed_config import parse_config

Permission = tuple[str, str, str]
"""(group, resource, verb); a resource restricted to a name has the name in parentheses."""


def permissions(role: Document) -> list[Permission]:
    found = []
    for rule in role["rules"]:
        names = [f" ({name})" for name in rule.get("resourceNames", [])] or [""]
        resources = [resource + name for resource in rule["resources"] for name in names]
        for group in rule["apiGroups"]:
            found += [(group, resource, verb) for resource in resources for verb in rule["verbs"]]
    return sorted(found)


def documented_permissions(role: str) -> list[Permission]:
    """The rows of the table below the role's name in the README."""
    text = (DEPLOY / "README.md").read_text()
    section = text[text.index(f"Role `{role}`") :]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    found = []
    for line in table.group().splitlines()[2:]:
        group, resource, verbs, why = (cell.strip() for cell in line.strip("|").split("|"))
        assert len(why) > 8, line
        name = re.sub(r" \(named `(.*)`\)", r" (\1)", resource)
        found += [(group, name, verb.strip()) for verb in verbs.split(",")]
    return sorted(found)


@pytest.mark.parametrize(("kind", "name"), [("ClusterRole", "phalanx-scheduler"), ("Role", "phalanx-lease")])
def test_every_permission_has_its_reason_in_the_readme(kind: str, name: str) -> None:
    assert documented_permissions(name) == permissions(base(kind, name))


def test_no_permission_is_granted_twice_or_by_a_wildcard() -> None:
    found = permissions(base("ClusterRole", "phalanx-scheduler"))
    assert len(found) == len(set(found))
    assert not any("*" in part for right in found for part in right)


def test_the_scheduler_may_list_and_watch_the_kinds_it_watches() -> None:
    found = set(permissions(base("ClusterRole", "phalanx-scheduler")))
    for name in READ_KINDS:
        kind = KINDS[name]
        assert {(kind.group, kind.plural, "list"), (kind.group, kind.plural, "watch")} <= found


def test_bindings_bind_the_account_of_the_deployment() -> None:
    account = base("ServiceAccount")["metadata"]
    assert base("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert base(kind)["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        ]


def test_the_scheduler_can_read_the_configuration() -> None:
    (generated,) = kustomization(DEPLOY / "base")["configMapGenerator"]
    for name in generated["files"]:
        parse_config((DEPLOY / "base" / name).read_text())
    (volume,) = [v for v in base("Deployment")["spec"]["template"]["spec"]["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == generated["name"]


def test_probes_and_annotations_use_the_open_port() -> None:
    template = base("Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (port,) = container["ports"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]


@pytest.mark.parametrize("folder", ["base", "examples", "kind", "policies"])
def test_a_kustomization_lists_every_manifest_of_its_folder(folder: str) -> None:
    path = DEPLOY / folder
    beside = {each.name for each in path.glob("*.yaml")} - {"kustomization.yaml"}
    named = set(kustomization(path)["resources"])
    named |= {name for each in kustomization(path).get("configMapGenerator", []) for name in each["files"]}
    assert beside - named == ({"cluster.yaml", "gang.yaml"} if folder == "kind" else set())
    assert resources(path)


def test_the_page_about_tenants_explains_every_policy() -> None:
    page = (DEPLOY.parent / "docs" / "tenants.md").read_text()
    named = {name.removesuffix(".yaml") for name in kustomization(DEPLOY / "policies")["resources"]}
    assert set(re.findall(r"^\| `([-a-z]+)` \| ", page, re.MULTILINE)) & named == named


def test_the_image_runs_as_the_user_of_the_deployment() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    user = base("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in lines
    assert [line for line in lines if line.startswith("FROM")][-1] == "FROM scratch"
