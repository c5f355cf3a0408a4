"""Validation of the fields that the embedded server and its controllers read, as by a typed decoder.

It does not use the scheduler's own structs, since those are under test.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from phalanx.model.resources import InvalidQuantity, capacity_amount

from phalanx_simulator.embedded.apiserver.errors import ApiError, bad_request
from phalanx_simulator.embedded.apiserver.kinds import ResourceType
from phalanx_simulator.embedded.store import Object

Strings = dict[str, str]


class _Shape(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all schemas; unknown fields may hold anything."""


class _Owner(_Shape, frozen=True, kw_only=True):
    kind: str
    name: str
    uid: str
    controller: bool = False


class _Metadata(_Shape, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Strings = {}
    annotations: Strings = {}
    finalizers: list[str] = []
    owner_references: list[_Owner] = []


class _Any(_Shape, frozen=True, kw_only=True):
    metadata: _Metadata = _Metadata()


class _Condition(_Shape, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(_Shape, frozen=True, kw_only=True):
    phase: str = ""
    conditions: list[_Condition] = []


class _Amounts(_Shape, frozen=True, kw_only=True):
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class _Container(_Shape, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: _Amounts = _Amounts()
    restart_policy: str = ""


class _Gate(_Shape, frozen=True, kw_only=True):
    name: str = ""


class _Toleration(_Shape, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _NodeExpression(_Shape, frozen=True, kw_only=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = []


class _NodeTerm(_Shape, frozen=True, kw_only=True):
    match_expressions: list[_NodeExpression] = []
    match_fields: list[_NodeExpression] = []


class _RequiredNodes(_Shape, frozen=True, kw_only=True):
    node_selector_terms: list[_NodeTerm] = []


class _NodeAffinity(_Shape, frozen=True, kw_only=True):
    required: _RequiredNodes | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(_Shape, frozen=True, kw_only=True):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(_Shape, frozen=True, kw_only=True):
    affinity: _Affinity | None = None
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    node_name: str = ""
    restart_policy: str = ""
    node_selector: Strings = {}
    overhead: dict[str, Any] = {}
    priority: int = 0
    priority_class_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[_Gate] = []
    termination_grace_period_seconds: int = 0
    tolerations: list[_Toleration] = []


class _Terminated(_Shape, frozen=True, kw_only=True):
    exit_code: int = 0


class _ContainerState(_Shape, frozen=True, kw_only=True):
    terminated: _Terminated | None = None


class _ContainerStatus(_Shape, frozen=True, kw_only=True):
    name: str
    restart_count: int = 0
    state: _ContainerState | None = None


class _PodStatus(_Status, frozen=True, kw_only=True):
    start_time: str = ""
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []


class _Pod(_Any, frozen=True, kw_only=True):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _NodeStatus(_Status, frozen=True, kw_only=True):
    capacity: dict[str, Any] = {}
    allocatable: dict[str, Any] = {}


class _Taint(_Shape, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class _NodeSpec(_Shape, frozen=True, kw_only=True):
    taints: list[_Taint] = []
    unschedulable: bool = False


class _Node(_Any, frozen=True, kw_only=True):
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _Template(_Any, frozen=True, kw_only=True):
    spec: _PodSpec = _PodSpec()


class _OnExitCodes(_Shape, frozen=True, kw_only=True):
    container_name: str = ""
    operator: Literal["In", "NotIn"]
    values: list[int]


class _OnPodCondition(_Shape, frozen=True, kw_only=True):
    type: str
    status: str = ""


class _FailureRule(_Shape, frozen=True, kw_only=True):
    action: Literal["FailJob", "Ignore", "Count"]
    on_exit_codes: _OnExitCodes | None = None
    on_pod_conditions: list[_OnPodCondition] = []


class _FailurePolicy(_Shape, frozen=True, kw_only=True):
    rules: list[_FailureRule] = []


class _JobSpec(_Shape, frozen=True, kw_only=True):
    template: _Template
    parallelism: int = 0
    completions: int = 0
    backoff_limit: int = 0
    completion_mode: str = ""
    pod_failure_policy: _FailurePolicy = _FailurePolicy()
    pod_replacement_policy: str = ""
    suspend: bool = False


class _Job(_Any, frozen=True, kw_only=True):
    spec: _JobSpec
    status: _Status = _Status()


class _Expression(_Shape, frozen=True, kw_only=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] = []


class _Selector(_Shape, frozen=True, kw_only=True):
    match_labels: Strings = {}
    match_expressions: list[_Expression] = []


class _BudgetSpec(_Shape, frozen=True, kw_only=True):
    selector: _Selector = _Selector()
    min_available: int | str = 0
    max_unavailable: int | str = 0
    unhealthy_pod_eviction_policy: str = ""


class _BudgetStatus(_Status, frozen=True, kw_only=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: Strings = {}


class _Budget(_Any, frozen=True, kw_only=True):
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()


class _NamespaceSpec(_Shape, frozen=True, kw_only=True):
    finalizers: list[str] = []


class _Namespace(_Any, frozen=True, kw_only=True):
    spec: _NamespaceSpec = _NamespaceSpec()
    status: _Status = _Status()


class _Spec(_Any, frozen=True, kw_only=True):
    spec: dict[str, Any]


class _Event(_Any, frozen=True, kw_only=True):
    regarding: dict[str, Any] = {}
    deprecated_source: dict[str, Any] = {}
    event_time: str | None = None
    deprecated_count: int = 0
    note: str = ""
    reason: str = ""
    type: str = ""
    reporting_controller: str = ""


class _Names(_Shape, frozen=True, kw_only=True):
    plural: str
    kind: str
    short_names: list[str] = []


class _Version(_Shape, frozen=True, kw_only=True):
    name: str
    served: bool
    storage: bool
    schema: dict[str, Any] = {}
    subresources: dict[str, Any] = {}


class _CrdSpec(_Shape, frozen=True, kw_only=True):
    group: str
    scope: str
    names: _Names
    versions: list[_Version]


class _Crd(_Any, frozen=True, kw_only=True):
    spec: _CrdSpec


class _PriorityClass(_Any, frozen=True, kw_only=True):
    value: int = 0
    preemption_policy: str = ""


class _Target(_Shape, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""


class _Binding(_Any, frozen=True, kw_only=True):
    target: _Target = _Target()


class _Preconditions(_Shape, frozen=True, kw_only=True):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(_Shape, frozen=True, kw_only=True):
    grace_period_seconds: int = 0
    propagation_policy: str = ""
    preconditions: _Preconditions = _Preconditions()


class _Eviction(_Any, frozen=True, kw_only=True):
    delete_options: _DeleteOptions = _DeleteOptions()


_SHAPES: Final[Mapping[str, type[_Any]]] = {
    "pods": _Pod,
    "nodes": _Node,
    "namespaces": _Namespace,
    "persistentvolumeclaims": _Spec,
    "persistentvolumes": _Spec,
    "jobs.batch": _Job,
    "poddisruptionbudgets.policy": _Budget,
    "events.events.k8s.io": _Event,
    "customresourcedefinitions.apiextensions.k8s.io": _Crd,
    "priorityclasses.scheduling.k8s.io": _PriorityClass,
}


_OPTIONS: Final[Mapping[str, type[_Shape]]] = {
    "Binding": _Binding,
    "DeleteOptions": _DeleteOptions,
    "Eviction": _Eviction,
}


def check_shape(kind: ResourceType, item: Object) -> None:
    """Validate the object against its kind's schema.

    Raises ApiError 400.
    """
    found = _converted(item, _SHAPES.get(kind.resource, _Any), kind.kind, kind.api_version)
    for name, quantity in _quantities(found):
        try:
            capacity_amount(name, quantity)
        except InvalidQuantity as error:
            raise _invalid_shape(kind.kind, kind.api_version, error) from None


def check_options(name: str, item: Object) -> None:
    """The same for a Binding, DeleteOptions or an Eviction."""
    _converted(item, _OPTIONS[name], name, "policy/v1" if name == "Eviction" else "v1")


def _converted(item: Object, shape: type[Any], kind: str, version: str) -> Any:
    try:
        return msgspec.convert(item, shape)
    except msgspec.ValidationError as error:
        raise _invalid_shape(kind, version, error) from None


def _invalid_shape(kind: str, version: str, error: Exception) -> ApiError:
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')


def _quantities(item: _Any) -> list[tuple[str, Any]]:
    amounts: list[dict[str, Any]] = []
    if isinstance(item, _Pod):
        resources = [container.resources for container in (*item.spec.containers, *item.spec.init_containers)]
        amounts = [
            item.spec.overhead,
            *(resource.requests for resource in resources),
            *(resource.limits for resource in resources),
        ]
    elif isinstance(item, _Node):
        amounts = [item.status.capacity, item.status.allocatable]
    return [pair for part in amounts for pair in part.items()]
