"""The CRDs of a controller, without the descriptions of fields."""

from typing import Any

from phalanx_controlplane.controllers.definition import Controller, Manifest
from phalanx_controlplane.programs import Built


def of(controller: Controller, built: Built) -> list[Manifest]:
    """Its CRDs. Descriptions are most of their text: with them an API server needs seconds for each CRD."""
    found = [each for each in built.read(*controller.crds) if each["kind"] == "CustomResourceDefinition"]
    for definition in found:
        for version in definition["spec"]["versions"]:
            version["schema"] = _without_descriptions(version["schema"])
    return found


def _without_descriptions(schema: Any) -> Any:
    """A copy. A field that is called `description` is not a text, and stays."""
    if isinstance(schema, list):
        return [_without_descriptions(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_descriptions(value)
        for name, value in schema.items()
        if not (name == "description" and isinstance(value, str))
    }
