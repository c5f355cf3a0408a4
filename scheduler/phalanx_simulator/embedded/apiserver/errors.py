"""API errors in Kubernetes' form: a Status object with reason, code, details and message."""

from typing import Any

import msgspec
from msgspec import Struct

from phalanx_simulator.embedded.store import Object

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Subject(Struct, frozen=True):
    """The object of an error: `resource` is the plural (or pods/binding), `kind` the singular."""

    resource: str
    kind: str
    group: str = ""

    @property
    def qualified(self) -> str:
        """Resource with its group, as messages name it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def qualified_kind(self) -> str:
        """Kind with its group, as messages of validation name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class Cause(Struct, frozen=True, omit_defaults=True):
    """One finding about one field."""

    reason: str
    message: str
    field: str = ""


class ApiError(Exception):
    """A request that was refused; `status` is the body of the answer."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> Object:
        """The Status object."""
        body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def not_found(subject: Subject, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(
        404, "NotFound", f'{subject.qualified} "{name}" not found', details=_details(subject, name)
    )


def no_such_path() -> ApiError:
    """404 for a path that no resource is served under."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(subject: Subject, name: str) -> ApiError:
    """409 for a create."""
    message = f'{subject.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(subject, name))


def conflict(subject: Subject, name: str, why: str) -> ApiError:
    """409: the write is based on an old version."""
    message = f'Operation cannot be fulfilled on {subject.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details(subject, name))


def forbidden(subject: Subject, name: str, why: str) -> ApiError:
    """403 from admission."""
    named = f'"{name}" ' if name else ""
    message = f"{subject.qualified} {named}is forbidden: {why}"
    return ApiError(403, "Forbidden", message, details=_details(subject, name))


def invalid(subject: Subject, name: str, causes: list[Cause]) -> ApiError:
    """422 with one cause per field."""
    findings = [f"{cause.field}: {cause.message}" for cause in causes]
    text = findings[0] if len(findings) == 1 else f"[{', '.join(findings)}]"
    details = {"name": name} if name else {}
    if subject.group:
        details["group"] = subject.group
    body: dict[str, Any] = {**details, "kind": subject.kind, "causes": msgspec.to_builtins(causes)}
    return ApiError(422, "Invalid", f'{subject.qualified_kind} "{name}" is invalid: {text}', details=body)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401 for a missing or wrong token."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: tuple[str, ...]) -> ApiError:
    """415 for a patch type that the resource does not take."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return ApiError(415, "UnsupportedMediaType", message)


def expired(message: str) -> ApiError:
    """410: the history does not reach back so far."""
    return ApiError(410, "Expired", message)


def too_old_resource_version(revision: int, oldest: int) -> ApiError:
    """410 for a watch or an exact list."""
    return expired(f"too old resource version: {revision} ({oldest})")


def too_large_resource_version(revision: int, current: int) -> ApiError:
    """504: the client names a revision that this server has not reached."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    details = {"causes": [msgspec.to_builtins(cause)], "retryAfterSeconds": 1}
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    return ApiError(504, "Timeout", message, details=details)


def too_many_requests(message: str, *, retry_after_s: int, cause: Cause) -> ApiError:
    """429 with the cause of the refusal."""
    details: dict[str, Any] = {"causes": [msgspec.to_builtins(cause)]}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return ApiError(429, "TooManyRequests", message, details=details)


def _details(subject: Subject, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if subject.group:
        details["group"] = subject.group
    details["kind"] = subject.resource
    return details
