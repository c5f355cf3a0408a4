"""The view of a pod in node hooks: its shape and the fields that the plugin declares.

All pods of one class share the answers of node hooks. The class is the shape with the fields that the
enabled plugins declare, so an answer may depend on these and on nothing else of a pod.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import ClassVar, Final

from msgspec import Struct, inspect
from msgspec.structs import replace

from phalanx.framework.config import ConfigError
from phalanx.model.api.pod_groups import PodGroupSpec
from phalanx.model.gangs import NO_POD_GROUP, Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import DeclaredFields, PlainValue, Pod, PodShape
from phalanx.model.snapshot import Snapshot

_KEY_BYTES: Final = 8


class PluginError(Exception):
    """A plugin breaks the protocol. The message names the plugin and what to change."""


class UndeclaredField(PluginError):
    """A plugin reads a field of pods that it does not declare."""


class Declarations:
    """The declarations of a plugin class; a plugin sets those that it needs."""

    name: ClassVar[str]
    """The name in the configuration, and of the entry point."""
    pod_namespace: ClassVar[bool] = False
    """Whether node hooks read the namespace of pods."""
    pod_labels: ClassVar[tuple[str, ...]] = ()
    """Keys of the labels of pods that node hooks read."""
    pod_annotations: ClassVar[tuple[str, ...]] = ()
    """Keys of the annotations of pods that hooks read; others are not decoded."""
    pod_group_fields: ClassVar[tuple[str, ...]] = ()
    """Names of fields of PodGroupSpec with plain values that node hooks read."""
    node_annotations: ClassVar[tuple[str, ...]] = ()
    """Keys of the annotations of nodes that hooks read; others are not decoded."""


class PodView:
    """The pods of one class, as one plugin may see them."""

    __slots__ = ("_fields", "_plugin", "shape", "volumes")

    def __init__(self, pod: Pod, plugin: type[Declarations]) -> None:
        self._plugin = plugin
        self._fields = pod.shape.declared or DeclaredFields()
        self.shape: Final = pod.shape if pod.shape.declared is None else replace(pod.shape, declared=None)
        """Requests, selectors, affinity and tolerations of the pods."""
        self.volumes: Final = pod.shape.volumes or ()
        """The states of the PersistentVolumeClaims that the pods mount. Their names may differ."""

    @property
    def namespace(self) -> str:
        """The namespace, for plugins with `pod_namespace = True`."""
        if not self._plugin.pod_namespace:
            raise UndeclaredField(f"plugin {self._plugin.name} reads the namespace: set pod_namespace = True")
        return self._fields.namespace

    def label(self, key: str) -> str | None:
        """The value of a label that the plugin names in `pod_labels`; None where the pods lack it."""
        if key not in self._plugin.pod_labels:
            raise UndeclaredField(f"plugin {self._plugin.name} reads label {key}: add it to pod_labels")
        return dict(self._fields.labels).get(key)

    def annotation(self, key: str) -> str | None:
        """The value of an annotation that the plugin names in `pod_annotations`."""
        if key not in self._plugin.pod_annotations:
            raise UndeclaredField(
                f"plugin {self._plugin.name} reads annotation {key}: add it to pod_annotations"
            )
        return dict(self._fields.annotations).get(key)

    def group_field(self, name: str) -> PlainValue:
        """The value of a field of the PodGroup's spec that the plugin names in `pod_group_fields`.

        Gangs without a PodGroup have the default.
        """
        if name not in self._plugin.pod_group_fields:
            raise UndeclaredField(
                f"plugin {self._plugin.name} reads {name} of PodGroups: add it to pod_group_fields"
            )
        return dict(self._fields.pod_group).get(name)


def plain_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Names of the fields of a struct whose values are texts, whole numbers, booleans or absent."""
    described = inspect.type_info(kind)
    fields = described.fields if isinstance(described, inspect.StructType) else ()
    return tuple([field.name for field in fields if _is_plain(field.type)])


def _is_plain(found: inspect.Type) -> bool:
    parts = found.types if isinstance(found, inspect.UnionType) else (found,)
    plain = (inspect.StrType, inspect.IntType, inspect.BoolType, inspect.NoneType)
    return all(isinstance(part, plain) for part in parts)


class DeclaredReads(Struct, frozen=True):
    """The declarations of all enabled plugins together."""

    pod_namespace: bool = False
    pod_labels: frozenset[str] = frozenset()
    pod_annotations: frozenset[str] = frozenset()
    pod_group_fields: frozenset[str] = frozenset()
    node_annotations: frozenset[str] = frozenset()

    @property
    def extends_shapes(self) -> bool:
        """Whether the class of a pod is more than its shape."""
        return bool(self.pod_namespace or self.pod_labels or self.pod_annotations or self.pod_group_fields)


def declared_reads(plugins: Iterable[type[Declarations]]) -> DeclaredReads:
    """The declarations of these plugins together."""
    plugins = tuple(plugins)
    return DeclaredReads(
        pod_namespace=any(plugin.pod_namespace for plugin in plugins),
        pod_labels=frozenset(key for plugin in plugins for key in plugin.pod_labels),
        pod_annotations=frozenset(key for plugin in plugins for key in plugin.pod_annotations),
        pod_group_fields=frozenset(name for plugin in plugins for name in plugin.pod_group_fields),
        node_annotations=frozenset(key for plugin in plugins for key in plugin.node_annotations),
    )


class PodClasses:
    """Adds the declared fields of pods to their shapes, under a key that is the same in every cycle."""

    def __init__(self, reads: DeclaredReads) -> None:
        self._reads = reads
        self._is_needed = reads.extends_shapes
        self._shapes: dict[tuple[ShapeKey, DeclaredFields], PodShape] = {}

    def with_fields(self, gang: Gang) -> Gang:
        """The gang with the declared fields of each member in its shape."""
        if not self._is_needed:
            return gang
        namespace = gang.namespace if self._reads.pod_namespace else ""
        unborn = DeclaredFields(namespace, pod_group=self._group_fields(gang.spec))
        members = tuple([self.pod_with_fields(pod, gang.spec) for pod in gang.members])
        roles = tuple(
            role if role.shape is None else replace(role, shape=self._shape(role.shape, unborn))
            for role in gang.roles
        )
        return replace(gang, members=members, roles=roles)

    def pod_with_fields(self, pod: Pod, group: PodGroupSpec = NO_POD_GROUP) -> Pod:
        """The pod with its declared fields in its shape; the pod itself if no plugin declares any."""
        if not self._is_needed or pod.shape.declared is not None:
            return pod
        fields = DeclaredFields(
            namespace=pod.namespace if self._reads.pod_namespace else "",
            labels=tuple(sorted(pair for pair in pod.all_labels if pair[0] in self._reads.pod_labels)),
            annotations=tuple(
                sorted(pair for pair in pod.annotations if pair[0] in self._reads.pod_annotations)
            ),
            pod_group=self._group_fields(group),
        )
        return replace(pod, shape=self._shape(pod.shape, fields))

    def _group_fields(self, group: PodGroupSpec) -> tuple[tuple[str, PlainValue], ...]:
        return tuple([(name, getattr(group, name)) for name in sorted(self._reads.pod_group_fields)])

    def _shape(self, shape: PodShape, fields: DeclaredFields) -> PodShape:
        known = self._shapes.get((shape.key, fields))
        if known is None:
            content = repr((fields.namespace, fields.labels, fields.annotations, fields.pod_group)).encode()
            digest = blake2b(content, digest_size=_KEY_BYTES).hexdigest()
            known = replace(shape, key=ShapeKey(f"{shape.key}/{digest}"), declared=fields)
            self._shapes[shape.key, fields] = known
        return known


def check_annotations(snapshot: Snapshot, reads: DeclaredReads) -> None:
    """Raise ConfigError if the snapshot was made without annotations that a plugin reads."""
    kept = (snapshot.pod_annotations, snapshot.node_annotations)
    for keys, read in zip(kept, (reads.pod_annotations, reads.node_annotations), strict=True):
        missing = sorted(read.difference(keys)) if keys is not None else []
        if missing:
            raise ConfigError(f"plugins read annotations that this snapshot lacks: {', '.join(missing)}")
