"""Keeps cluster autoscalers from removing nodes of running gangs, if annotations are configured for it.

An autoscaler that empties a node evicts its pods. One lost member may stop a whole gang, so each pod that is
bound for a gang of several pods gets the annotations together with its node. They end with the pod. A gang
whose minimum is one pod gets none: its controller replaces the pod elsewhere, and its nodes can be emptied.
"""

from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct
from phalanx.framework.plugin import Plugin
from phalanx.framework.view import SessionView
from phalanx.model.gangs import Gang

ANNOTATIONS_MAX: Final = 8
"""More than autoscalers have; all are written on every pod."""

_PREFIX: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/"
_Key = Annotated[str, Meta(pattern=rf"^({_PREFIX})?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$")]
"""A key that the API server accepts: with another one it would refuse every bind."""

_Value = Annotated[str, Meta(max_length=256)]
"""Longer than any that autoscalers read; the annotations of a pod have 256 KiB in total."""

_NONE: Final[Mapping[str, str]] = {}


class ScaleDownArguments(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What autoscalers read on pods."""

    annotations: Annotated[Mapping[_Key, _Value], Meta(max_length=ANNOTATIONS_MAX)] = {}
    """Annotations by which autoscalers keep the node of a pod, such as `karpenter.sh/do-not-disrupt: "true"`
    and `cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`. Pods of gangs of several pods get them."""


class ScaleDown(Plugin):
    """Annotations of pods by which autoscalers keep their nodes."""

    name = "scale-down"
    Arguments = ScaleDownArguments

    def __init__(self, arguments: ScaleDownArguments) -> None:
        self._annotations = arguments.annotations

    def bound_annotations(self, gang: Gang, view: SessionView) -> Mapping[str, str]:
        """The configured annotations for gangs of several pods."""
        return self._annotations if gang.min_member > 1 else _NONE
