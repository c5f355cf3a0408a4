"""The resources that the API server serves, and the general rules of each."""

from functools import cache
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.resources import data_dir

from phalanx_simulator.embedded.apiserver.errors import Subject
from phalanx_simulator.embedded.store import Object


class ResourceType(Struct, frozen=True):
    """One resource.

    status: it has a status subresource.
    unconditional: an update need not name a resourceVersion.
    custom: defined by a CRD; lists carry kind and apiVersion in each item, strategic patches are refused, the
    generation follows all but metadata and status.
    generation: metadata.generation is counted.
    returns_deleted: a delete answers with the object, else with a Status.
    schema: of a custom resource, for defaults and pruning.
    stored_as: the name in the store, where it is that of another resource which shows the same objects.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    status: bool = False
    unconditional: bool = True
    custom: bool = False
    generation: bool = False
    returns_deleted: bool = False
    short_names: tuple[str, ...] = ()
    schema: Object = {}
    stored_as: str = ""

    @property
    def api_version(self) -> str:
        """v1 or group/version."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name in the store: plural, with the group where there is one."""
        return self.stored_as or self.subject.qualified

    @property
    def subject(self) -> Subject:
        """How errors name it."""
        return Subject(self.plural, self.kind, self.group)


_STATUS: Final[dict[str, Any]] = {"status": True}
_SPEC: Final[dict[str, Any]] = {"status": True, "generation": True}


def _core(plural: str, kind: str, *, namespaced: bool, **rules: Any) -> ResourceType:
    return ResourceType("", "v1", plural, kind, namespaced, **rules)


BUILT_IN: Final = (
    _core("pods", "Pod", namespaced=True, returns_deleted=True, short_names=("po",), **_SPEC),
    _core("nodes", "Node", namespaced=False, short_names=("no",), **_STATUS),
    _core("namespaces", "Namespace", namespaced=False, returns_deleted=True, short_names=("ns",), **_STATUS),
    _core(
        "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True, returns_deleted=True, **_STATUS
    ),
    _core("persistentvolumes", "PersistentVolume", namespaced=False, returns_deleted=True, **_STATUS),
    _core("configmaps", "ConfigMap", namespaced=True, short_names=("cm",)),
    _core("secrets", "Secret", namespaced=True),
    _core("services", "Service", namespaced=True, returns_deleted=True, short_names=("svc",), **_STATUS),
    _core("serviceaccounts", "ServiceAccount", namespaced=True, returns_deleted=True, short_names=("sa",)),
    _core("events", "Event", namespaced=True, short_names=("ev",), stored_as="events.events.k8s.io"),
    ResourceType("batch", "v1", "jobs", "Job", True, **_SPEC),
    ResourceType("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, generation=True),
    ResourceType("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, **_SPEC),
    ResourceType("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, returns_deleted=True),
    ResourceType("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, returns_deleted=True),
    ResourceType("storage.k8s.io", "v1", "csinodes", "CSINode", False, returns_deleted=True),
    ResourceType("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True),
    ResourceType("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, **_STATUS),
    ResourceType("coordination.k8s.io", "v1", "leases", "Lease", True, unconditional=False),
    ResourceType("events.k8s.io", "v1", "events", "Event", True),
    ResourceType(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        unconditional=False,
        short_names=("crd",),
        **_SPEC,
    ),
)

NATIVE_POD_GROUPS: Final = ResourceType(
    "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True, status=True, unconditional=False
)
"""Kubernetes' own PodGroups. A server serves them once they are added to its types."""

VOLCANO_POD_GROUPS: Final = ResourceType(
    *("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True),
    unconditional=False,
    custom=True,
    generation=True,
)
"""PodGroups of Volcano, whose status is no subresource."""

CRDS: Final = next(kind for kind in BUILT_IN if kind.kind == "CustomResourceDefinition")

BUDGETS: Final = next(kind for kind in BUILT_IN if kind.kind == "PodDisruptionBudget")


def types_of(crd: Object) -> list[ResourceType]:
    """The resources that a CustomResourceDefinition adds, one per served version."""
    spec, names = crd["spec"], crd["spec"]["names"]
    return [
        ResourceType(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            status="status" in version.get("subresources", {}),
            unconditional=False,
            custom=True,
            generation=True,
            short_names=tuple(names.get("shortNames", ())),
            schema=version.get("schema", {}).get("openAPIV3Schema", {}),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def shipped_crds() -> list[Object]:
    """The project's CustomResourceDefinitions in order of their files.

    Each call returns new objects.
    """
    return msgspec.json.decode(_shipped_crds(), type=list[Object])


@cache
def _shipped_crds() -> bytes:
    """As JSON, since reading YAML takes a tenth of a second."""
    files = sorted(data_dir("crds").glob("*.yaml"))
    found = [document for file in files for document in yaml.load_all(file.read_text("utf-8"), FAST_LOADER)]
    return msgspec.json.encode([crd for crd in found if crd.get("kind") == "CustomResourceDefinition"])


class Types:
    """All resources served now; CustomResourceDefinitions add to them."""

    def __init__(self) -> None:
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        self._by_name: dict[str, ResourceType] = {}
        for kind in BUILT_IN:
            self.add(kind)

    def add(self, kind: ResourceType) -> None:
        """Serve a resource."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_name[kind.resource] = kind

    def discard(self, kind: ResourceType) -> None:
        """Serve it no longer."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource served under this path, if any."""
        return self._by_path.get((group, version, plural))

    def named(self, resource: str) -> ResourceType:
        """The resource by its name in the store. Raises KeyError."""
        return self._by_name[resource]

    def all(self) -> list[ResourceType]:
        """Every resource, in the order in which they were added."""
        return list(self._by_path.values())
