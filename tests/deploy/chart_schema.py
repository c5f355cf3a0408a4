"""`python -m tests.deploy.chart_schema`: write the configuration's schema into that of the chart's values.

So Helm refuses a configuration with a mistake before it changes the cluster.
"""

import json
from typing import Any, Final

from tests.deploy.manifests import DEPLOY, REPOSITORY

VALUES: Final = DEPLOY / "chart" / "values.schema.json"
CONFIGURATION: Final = REPOSITORY / "docs" / "configuration.schema.json"
_DEFINITIONS: Final = ',\n  "$defs": {\n'


def definitions() -> dict[str, Any]:
    """The types of the configuration."""
    found: dict[str, Any] = json.loads(CONFIGURATION.read_text())["$defs"]
    return found


def written() -> str:
    """The schema of the values: what is written by hand, then a line for each type of the configuration."""
    by_hand = VALUES.read_text().partition(_DEFINITIONS)[0].removesuffix("\n}\n")
    lines = [f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in definitions().items()]
    return by_hand + _DEFINITIONS + ",\n".join(lines) + "\n  }\n}\n"


if __name__ == "__main__":
    VALUES.write_text(written())
