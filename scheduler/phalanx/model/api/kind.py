"""A kind of the API: its struct, its path, and when it is watched. Modules of structs declare theirs."""

from enum import Enum, auto

from msgspec import Struct

from phalanx.model.api.meta import KubeObject


class Watched(Enum):
    """When objects of a kind are listed and watched."""

    ALWAYS = auto()
    FOR_STATUSES = auto()
    """Always, to write the status of others. No decision depends on them."""
    FOR_DEVICES = auto()
    """Once a pod that is not refused has claims to devices."""
    FOR_STORAGE = auto()
    """Once a claim has a volume of a driver, or will get one."""
    IF_CONFIGURED = auto()
    """The queues of other projects, where the configuration says so."""
    NEVER = auto()
    """The scheduler reads one object, of its own."""


class Kind(Struct, frozen=True):
    """One kind. `api_version` is "v1" for the core group, "group/version" for the others.

    `optional`: a kind of another project, or behind a feature gate. If the API does not serve it, there are
    no such objects. `served_as`: the name of the kind in the API, if its struct has another name.
    """

    struct: type[KubeObject]
    api_version: str
    plural: str
    namespaced: bool
    optional: bool = False
    served_as: str = ""
    workload: str = ""
    watched: Watched = Watched.ALWAYS

    @property
    def name(self) -> str:
        """The name of its struct, which is unique: several API groups may have a kind of one name.

        Kinds of workloads have one struct, and the names of their `WorkloadKind`.
        """
        return self.workload or self.struct.__name__

    @property
    def api_name(self) -> str:
        return self.served_as or self.name

    @property
    def api_path(self) -> str:
        """The path of the API version: /api/v1 or /apis/group/version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def group(self) -> str:
        """The API group, as RBAC rules name it; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """The plural, with the API group if it has one: unique, as the plural alone is not."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Path of a collection or an object; without a namespace, the collection of all namespaces."""
        parts = [self.api_path]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


def pod_groups(struct: type[KubeObject], api_version: str) -> Kind:
    """PodGroups of another API group than that of Phalanx."""
    return Kind(struct, api_version, "podgroups", namespaced=True, optional=True, served_as="PodGroup")


def queues(struct: type[KubeObject], api_version: str) -> Kind:
    """Queues of another API group than that of Phalanx."""
    return Kind(
        struct,
        api_version,
        "queues",
        namespaced=False,
        optional=True,
        served_as="Queue",
        watched=Watched.IF_CONFIGURED,
    )
