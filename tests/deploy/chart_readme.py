"""`python -m tests.deploy.chart_readme > deploy/chart/README.md`: the page of the chart on Artifact Hub.

The table has a row for each value of `values.yaml`: its type from `values.schema.json`, its default, and the
comment above it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.deploy.manifests import DEPLOY

CHART = DEPLOY / "chart"
INTRODUCTION = """# Phalanx

Phalanx is a batch scheduler for Kubernetes GPU clusters. It runs beside kube-scheduler and starts gangs of
pods together or not at all. Workloads opt in with `schedulerName: phalanx`.

```sh
helm install phalanx deploy/chart --namespace phalanx-system --create-namespace \\
  --set image.repository=example/phalanx-scheduler
```

The chart needs Kubernetes {kubernetes}. A cluster has one release of it. `helm uninstall` leaves the CRDs,
and with them all Queues and PodGroups, in the cluster.

## Values

| value | type | default | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    return INTRODUCTION.format(kubernetes=chart["kubeVersion"].removesuffix("-0")) + "".join(
        rows(text, schema)
    )


def rows(text: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """One row of the table for each value."""
    comments = dict(comments_of(text))
    for path, value, type_ in leaves(yaml.safe_load(text), schema):
        meaning = comments.get(path, "").replace("|", "\\|")
        shown = json.dumps(value).replace("|", "\\|")
        yield f"| `{'.'.join(path)}` | {type_} | `{shown}` | {meaning} |\n"


def leaves(
    values: Mapping[str, Any], schema: Mapping[str, Any], parent: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Each value with its path and its type.

    An object whose properties the schema does not list is one value.
    """
    for name, value in values.items():
        inner = schema["properties"][name]
        path = (*parent, name)
        if isinstance(value, dict) and value and value.keys() <= inner.get("properties", {}).keys():
            yield from leaves(value, inner, path)
        else:
            yield path, value, _type(inner)


def comments_of(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The comment above each key, by its path; lines of one comment are joined."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("#"):
            comment.append(bare.removeprefix("#").strip())
        elif ":" in bare and not bare.startswith("-"):
            indent = len(line) - len(line.lstrip())
            path = [(at, name) for at, name in path if at < indent] + [(indent, bare.split(":")[0])]
            if comment:
                yield tuple(name for _, name in path), " ".join(comment)
            comment = []
        else:
            comment = []


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "string"
    return str(schema.get("type", "object"))


if __name__ == "__main__":
    print(page(), end="")
