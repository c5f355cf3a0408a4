"""The page of the chart is what the chart's values say, and each value says what it means."""

import json

import yaml

from tests.deploy.chart_readme import CHART, comments_of, leaves, page, rows

VALUES = """\
# About both.
pair:
  # The first,
  # in two lines.
  first: 1
  second: []
single: {a: "x|y"}
"""
SCHEMA = {
    "properties": {
        "pair": {
            "properties": {
                "first": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "second": {"type": "array"},
            }
        },
        "single": {"type": "object"},
    }
}


def test_the_page_is_up_to_date() -> None:
    """Repair: `python -m tests.deploy.chart_readme > deploy/chart/README.md`."""
    assert (CHART / "README.md").read_text() == page()


def test_a_row_has_the_type_the_default_and_the_comment_of_its_value() -> None:
    assert list(rows(VALUES, SCHEMA)) == [
        "| `pair.first` | integer or string | `1` | The first, in two lines. |\n",
        "| `pair.second` | array | `[]` |  |\n",
        '| `single` | object | `{"a": "x\\|y"}` |  |\n',
    ]


def test_every_value_has_a_comment() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    commented = {path for path, _ in comments_of(text)}
    assert {path for path, *_ in leaves(yaml.safe_load(text), schema)} <= commented


def test_artifact_hub_shows_every_crd_of_the_chart() -> None:
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    shown = {(crd["name"], crd["version"]) for crd in yaml.safe_load(annotations["artifacthub.io/crds"])}
    crds = [yaml.safe_load(path.read_text()) for path in (CHART / "files" / "crds").iterdir()]
    assert shown == {
        (crd["metadata"]["name"], version["name"]) for crd in crds for version in crd["spec"]["versions"]
    }
