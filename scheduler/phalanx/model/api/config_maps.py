"""ConfigMaps, of which the scheduler reads and writes one of its own."""

from collections.abc import Mapping

from phalanx.model.api.meta import ApiStruct, ObjectMeta


class ConfigMap(ApiStruct, frozen=True):
    """A ConfigMap, of which only texts are read."""

    metadata: ObjectMeta
    data: Mapping[str, str] = {}
