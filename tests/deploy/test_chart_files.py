"""Checks of the Helm chart that need no program: what `make chart` does not have to be run for."""

import json
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deploy.chart_schema import definitions
from tests.deploy.manifests import DEPLOY, REPOSITORY, Document, kustomization

CHART = DEPLOY / "chart"
SCHEMA: Document = json.loads((CHART / "values.schema.json").read_text())
VALUES: Document = yaml.safe_load((CHART / "values.yaml").read_text())


def names(folder: str) -> set[str]:
    return {path.name for path in (CHART / "files" / folder).iterdir()}


def test_the_versions_are_those_of_phalanx() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_files_of_the_chart_are_links_to_the_manifests_of_kustomize() -> None:
    """So they cannot differ. Helm follows links, also when it packages a chart."""
    links = list((CHART / "files").glob("*/*"))
    assert all(path.is_symlink() and path.is_file() for path in links)
    assert names("crds") == set(kustomization(REPOSITORY / "crds")["resources"])
    assert names("policies") == set(kustomization(DEPLOY / "policies")["resources"])
    assert names("monitoring") == {path.name for path in (DEPLOY / "monitoring").glob("*.json")} | {
        "alerts.yaml"
    }
    for path in links:
        folder = {"crds": REPOSITORY / "crds"}.get(path.parent.name, DEPLOY / path.parent.name)
        assert path.resolve() == (folder / path.name).resolve()


def test_the_schema_names_every_policy_and_every_value() -> None:
    policies = SCHEMA["properties"]["policies"]["items"]["enum"]
    assert {f"{name}.yaml" for name in policies} == names("policies")
    assert set(SCHEMA["properties"]) == {*VALUES, "global"}


def test_the_schema_accepts_the_defaults() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def test_the_schema_has_that_of_the_configuration() -> None:
    """If not: `python -m tests.deploy.chart_schema`."""
    assert SCHEMA["$defs"] == definitions()


@pytest.mark.parametrize(
    "config",
    [
        {"retry": {"victimSearchSeconds": 25}, "actions": ["release", "recover"]},
        {"plugins": [{"name": "of-somebody-else", "arguments": {"a": 1}}, {"name": "drf", "enabled": False}]},
    ],
)
def test_the_schema_accepts_configurations(config: Any) -> None:
    jsonschema.validate({"config": config}, SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 3},
        {"replicas": -1},
        {"replicas": "two"},
        {"image": {"repository": "x", "digest": "sha256:short"}},
        {"image": {"repository": ""}},
        {"policies": ["no-such-policy"]},
        {"config": {"schedulerName": "it's"}},
        {"config": {"retry": {"victimSearchSecond": 25}}},
        {"config": {"retries": {}}},
        {"config": {"plugins": [{"name": "drf", "arguments": {"halfLive": 3}}]}},
        {"disruptionBudget": {"maxUnavailable": "half"}},
        {"priorityClass": {"value": 2000000000}},
        {"serviceMonitor": {"interval": "soon"}},
        {"alerts": {"enabled": "yes"}},
        {"boards": {"label": {}}},
        {"podAnnotations": {"a": 1}},
    ],
    ids=str,
)
def test_the_schema_refuses(wrong: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCHEMA)
