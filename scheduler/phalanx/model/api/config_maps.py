"""ConfigMaps, of which the scheduler reads and writes one of its own."""

from collections.abc import Mapping
from typing import Final

from phalanx.model.api.kind import Kind, Watched
from phalanx.model.api.meta import KubeObject


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap, of which only texts are read."""

    data: Mapping[str, str] = {}


KINDS: Final = (Kind(ConfigMap, "v1", "configmaps", namespaced=True, watched=Watched.NEVER),)
