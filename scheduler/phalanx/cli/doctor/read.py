"""Read an installation over the API; what the user may not read is noted."""

import asyncio
from collections.abc import Awaitable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec
import yaml

from phalanx.cli.doctor.checks.configuration import REASONS as CONFIGURATION_REASONS
from phalanx.cli.doctor.checks.evicted_jobs import EVICTED
from phalanx.cli.doctor.checks.rights import granted
from phalanx.cli.doctor.installation import Installation, Right, Values
from phalanx.cli.reading import NotRead, Reader
from phalanx.clock import Clock
from phalanx.framework.strict_yaml import FAST_LOADER
from phalanx.kube.errors import ApiError
from phalanx.limits import READ_TIMEOUT_S, WRITE_TIMEOUT_S
from phalanx.model.api.core import Lease
from phalanx.model.api.kinds import KINDS
from phalanx.resources import data_dir

_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1/"
_JOBS: Final = "/apis/batch/v1/jobs"
_EVENTS: Final = "/apis/events.k8s.io/v1/events"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ROLES: Final = ("scheduler-role.yaml", "lease-role.yaml")
_NODE_LEASES: Final = "kube-node-lease"


async def read_installation(reader: Reader, clock: Clock, settings: Installation) -> Installation:
    """Fill in what the settings do not say. Raises RequestNotSent or OutcomeUnknown."""
    fields: dict[str, Awaitable[Any]] = {
        "crds": reader.values(_CRDS),
        "rights": _rights(reader, settings),
        "nodes": reader.kind("Node"),
        "pods": reader.kind("Pod"),
        "queues": reader.kind("Queue"),
        "topologies": reader.kind("Topology"),
        "namespaces": reader.kind("Namespace"),
        "priority_classes": reader.kind("PriorityClass"),
        "pod_groups": reader.kind("PodGroup"),
        "budgets": reader.kind("PodDisruptionBudget"),
        "lease": _lease(reader, settings),
        "node_leases": reader.kind("Lease", namespace=_NODE_LEASES),
        "webhooks": _webhooks(reader),
        "endpoint_slices": reader.values(_SLICES),
        "jobs": reader.values(_JOBS),
        "events": _events(reader),
    }
    local_ms, server_ms = await _times(reader, clock)
    found = await asyncio.gather(*fields.values(), return_exceptions=True)
    unread = {name: str(each) for name, each in zip(fields, found, strict=True) if isinstance(each, NotRead)}
    read: dict[str, Any] = {}
    for name, each in zip(fields, found, strict=True):
        if isinstance(each, BaseException) and name not in unread:
            raise each
        if name not in unread:
            read[name] = each
    return msgspec.structs.replace(
        settings,
        local_ms=local_ms,
        server_ms=server_ms,
        packaged_crds=tuple(_packaged_crds()),
        unread=unread,
        **read,
    )


async def _times(reader: Reader, clock: Clock) -> tuple[int, int]:
    """The time of this machine in the middle of a request, and that of the API server's answer."""
    before = clock.now_ms()
    answer = await reader.transport.request("GET", "/version", timeout=READ_TIMEOUT_S)
    local = (before + clock.now_ms()) // 2
    date = answer.headers.get("date")
    return local, int(parsedate_to_datetime(date).timestamp() * 1000) if date else local


async def _lease(reader: Reader, settings: Installation) -> Lease | None:
    found = await reader.value(KINDS["Lease"].path(namespace=settings.namespace, name=settings.lease_name))
    return msgspec.convert(found, Lease, strict=False) if found is not None else None


async def _webhooks(reader: Reader) -> tuple[Values, ...]:
    """Both kinds; items of a list lack their kind."""
    found: list[Values] = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found += [{**each, "kind": kind} for each in await reader.values(f"{_WEBHOOKS}{kind.lower()}s")]
    return tuple(found)


async def _events(reader: Reader) -> tuple[Values, ...]:
    """The events with the reasons that checks look for."""
    found: list[Values] = []
    for reason in (*CONFIGURATION_REASONS, EVICTED):
        found += await reader.values(_EVENTS, field_selector=f"reason={reason}")
    return tuple(found)


async def _rights(reader: Reader, settings: Installation) -> dict[Right, bool]:
    """Ask for every right that deploy/base grants, except those of API groups that are not served."""
    served = {each["name"] for each in (await reader.value("/apis"))["groups"]} | {""}
    roles = (role for name in _ROLES for role in _roles_in(name))
    wanted = [right for right in granted(roles, namespace=settings.namespace) if right.group in served]
    answers = await asyncio.gather(*(_is_allowed(reader, settings, right) for right in wanted))
    return dict(zip(wanted, answers, strict=True))


def _roles_in(name: str) -> Iterator[Values]:
    for document in yaml.load_all((data_dir("base") / name).read_text(), FAST_LOADER):
        if "rules" in document:
            yield document


async def _is_allowed(reader: Reader, settings: Installation, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    namespace = settings.namespace
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{settings.service_account}",
            "groups": [
                *("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            ],
            "resourceAttributes": asked,
        },
    }
    try:
        answer = await reader.client.create(_REVIEWS, msgspec.json.encode(review), timeout=WRITE_TIMEOUT_S)
    except ApiError as error:
        raise NotRead(f"you may not create SubjectAccessReviews: {error.message}") from error
    return bool(msgspec.json.decode(answer)["status"]["allowed"])


def _packaged_crds() -> Iterator[Values]:
    for path in sorted(data_dir("crds").glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield yaml.load(path.read_text(), FAST_LOADER)
