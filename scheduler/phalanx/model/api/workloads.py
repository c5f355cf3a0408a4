"""Objects that own pods, of any kind: their metadata, and the rest as it is written."""

from collections.abc import Mapping
from typing import Any

from phalanx.model.api.meta import KubeObject


class WorkloadObject(KubeObject, frozen=True):
    """A Job, a JobSet or another workload. A `WorkloadKind` says what its fields mean.

    `kind_name` is the name of this kind; the API does not send it.
    """

    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}
    kind_name: str = ""
