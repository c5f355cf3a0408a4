"""Conversion of the extended resources that containers request, which devices may satisfy."""

from collections.abc import Iterator

from phalanx.model.api.core import Pod
from phalanx.model.conversion.requests import with_defaults
from phalanx.model.extended_resources import ContainerRequest, ExtendedRequests, is_extended


def read_extended(written: Pod) -> ExtendedRequests | None:
    """What the containers of a pod request; None if it is nothing."""
    found = tuple(_requests(written))
    return ExtendedRequests(found) if found else None


def _requests(written: Pod) -> Iterator[ContainerRequest]:
    init = len(written.spec.init_containers)
    for index, each in enumerate((*written.spec.init_containers, *written.spec.containers)):
        asked = with_defaults(each.resources, "", [])
        if any(map(is_extended, asked)):
            names, ends_first = sorted(asked), index < init and each.restart_policy != "Always"
            for name in names:
                if is_extended(name) and asked[name]:
                    yield ContainerRequest(
                        each.name, index, name, names.index(name), asked[name], ends_first=ends_first
                    )
