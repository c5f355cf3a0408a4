"""The schema of each kind: from `crds/` for Phalanx's kinds, from the API structs for Kubernetes' kinds.

The structs hold only the fields that are used here, so their schemas are open: other fields are allowed. What
a struct cannot express, such as the values of an operator, is added in `_DETAILS`; `kubernetes_rules` has the
rest.
"""

from functools import cache
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from phalanx.cli.manifests.crd_rules import ONE_VALUE, VALUES_BY_OPERATOR
from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.model.api.kinds import Kind
from phalanx.model.api.meta import ObjectMeta
from phalanx.model.names import API_VERSION
from phalanx.resources import data_dir

OPEN: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"
QUANTITY: Final = "x-kubernetes-int-or-string"

_NODE_OPERATORS: Final = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
_PREEMPTION: Final = {"type": "string", "enum": ["PreemptLowerPriority", "Never"]}
_WEIGHT: Final = {"type": "integer", "minimum": 1, "maximum": 100}
_DETAILS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "NodeSelectorRequirement": {"operator": {"type": "string", "enum": _NODE_OPERATORS}},
    "LabelSelectorRequirement": {"operator": {"type": "string", "enum": _NODE_OPERATORS[:4]}},
    "PreferredSchedulingTerm": {"weight": _WEIGHT},
    "WeightedPodAffinityTerm": {"weight": _WEIGHT},
    "Taint": {"effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]}},
    "Toleration": {
        "operator": {"type": "string", "enum": ["Equal", "Exists", "Lt", "Gt", ""]},
        "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute", ""]},
        "tolerationSeconds": {"type": "integer"},
    },
    "PodSpec": {
        "preemptionPolicy": _PREEMPTION,
        "restartPolicy": {"type": "string", "enum": ["Always", "OnFailure", "Never", ""]},
    },
    "PriorityClass": {"preemptionPolicy": _PREEMPTION},
    "NativePodGroupSpec": {"preemptionPolicy": _PREEMPTION},
    "CompositePodGroupSpec": {"preemptionPolicy": _PREEMPTION},
    "Container": {"restartPolicy": {"type": "string", "enum": ["Always", "OnFailure", "Never"]}},
    "PodStatus": {
        "phase": {"type": "string", "enum": ["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]}
    },
    "WorkloadObject": {"spec": {"type": "object", OPEN: True}, "status": {"type": "object", OPEN: True}},
    "StorageClass": {"volumeBindingMode": {"type": "string", "enum": ["Immediate", "WaitForFirstConsumer"]}},
}
_RULES: Final = {
    "NodeSelectorRequirement": [{"message": VALUES_BY_OPERATOR}, {"message": ONE_VALUE}],
    "LabelSelectorRequirement": [{"message": VALUES_BY_OPERATOR}],
}


class Schema(Struct, frozen=True):
    """A schema and the definitions that its `$ref`s refer to."""

    root: dict[str, Any]
    definitions: dict[str, dict[str, Any]] = {}

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow a reference, and skip the null in `anyOf`, because documents have no null fields."""
        alternatives = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
        if len(alternatives) == 1:
            return self.resolve(alternatives[0])
        if "$ref" in schema:
            return self.definitions[schema["$ref"].rpartition("/")[2]]
        if len(alternatives) > 1 and any(option.get("type") == "number" for option in alternatives):
            return {**schema, QUANTITY: True}
        return schema


@cache
def schema_of(kind: Kind) -> Schema:
    """Return the schema of a kind; metadata has the same schema everywhere."""
    if kind.api_version != API_VERSION:
        return _derived(kind.struct)
    declared = _declared(kind.plural)
    metadata = _derived(ObjectMeta)
    properties = {**declared["properties"], "metadata": metadata.root}
    required = ["metadata", *declared.get("required", ())]
    return Schema({**declared, "properties": properties, "required": required}, metadata.definitions)


def _declared(plural: str) -> dict[str, Any]:
    text = (data_dir("crds") / f"{plural}.yaml").read_text()
    definition = yaml.load(text, Loader=FAST_LOADER)
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _derived(struct: type[Struct]) -> Schema:
    (root,), definitions = msgspec.json.schema_components([struct], ref_template="#/{name}")
    for name, definition in definitions.items():
        definition[OPEN] = True
        definition["properties"].update(_DETAILS.get(name, {}))
        if name in _RULES:
            definition[RULES] = _RULES[name]
    definitions["ObjectMeta"]["required"].append("name")
    return Schema(root, definitions)
