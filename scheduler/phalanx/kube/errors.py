"""The errors of the API server as exception types, by HTTP status and reason."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from phalanx.model.api.meta import Status
from phalanx.model.named_parts import unmarked
from phalanx.ports import OutcomeUnknown, RequestNotSent, Response

RETRY_AFTER_MAX_S: Final = 300.0
"""Seconds at most of a Retry-After header. A larger value is a mistake of the server."""

_MESSAGE_MAX: Final = 1024
_SECONDS_DIGITS: Final = 9


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, *, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds to wait before the next attempt; None where the server did not say."""


class BadRequest(ApiError):
    """400: the request is malformed, or the server does not support one of its parameters."""


class Unauthorized(ApiError):
    """401: the credential is not accepted, also after it was renewed."""


class Forbidden(ApiError):
    """403: not allowed by RBAC, or refused by an admission plugin or webhook."""


class NotFound(ApiError):
    """404: the object, or its kind, does not exist."""


class Conflict(ApiError):
    """409: a precondition (UID, resourceVersion) failed, or the state of the object does not allow this."""


class AlreadyExists(Conflict):
    """409 on creation: an object with this name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token has expired; a new list is needed."""


class Invalid(ApiError):
    """422: the object violates a validation rule."""


class TooManyRequests(ApiError):
    """429: not applied; retry after `retry_after`."""


class ServerError(ApiError):
    """5xx: the server failed; a write may have been applied or not."""


PERHAPS_APPLIED: Final = (ServerError, OutcomeUnknown)
"""Errors after which nobody knows whether a write was applied."""

NOT_APPLIED: Final = (TooManyRequests, Unauthorized, RequestNotSent)
"""Errors of writes that were not applied, and may be when they are sent again."""

TRANSIENT: Final = (*PERHAPS_APPLIED, *NOT_APPLIED)
"""Errors after which the next attempt may succeed."""


def is_refused(error: Exception | None) -> bool:
    """Whether the API server will refuse the request again."""
    return isinstance(error, ApiError) and not isinstance(error, (Conflict, *TRANSIENT))


_BY_CODE: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(response: Response) -> ApiError:
    """Return the typed error of a response whose status is not 2xx."""
    return error_of_status(
        _status_of(response), code=response.status, retry_after=_seconds(response.headers.get("retry-after"))
    )


def error_of_status(status: Status, *, code: int = 0, retry_after: float | None = None) -> ApiError:
    """Return the typed error of a Status object, as in an ERROR event of a watch."""
    code = code or status.code or 500
    if retry_after is None and status.details is not None and status.details.retry_after_seconds:
        retry_after = _bounded(status.details.retry_after_seconds)
    return _type_of(code, status.reason)(
        code=code,
        reason=status.reason,
        message=unmarked(status.message[:_MESSAGE_MAX]),
        retry_after=retry_after,
    )


def retry_after(error: Exception) -> float | None:
    """Return the seconds that the server asked to wait, if it did."""
    return error.retry_after if isinstance(error, ApiError) else None


def _type_of(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    return _BY_CODE.get(code, ServerError if code >= 500 else ApiError)


def _status_of(response: Response) -> Status:
    """Decode the Status; the body becomes the message where a proxy answered with something else."""
    try:
        return _status_decoder()(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Status(code=response.status, message=response.body.decode(errors="replace"))


@lru_cache(maxsize=1)
def _status_decoder() -> Callable[[bytes], Status]:
    return msgspec.json.Decoder(Status).decode


def _seconds(header: str | None) -> float | None:
    """Parse Retry-After in whole seconds; Kubernetes does not use the other form, a date."""
    digits = header.strip()[:_SECONDS_DIGITS] if header is not None else ""
    return _bounded(int(digits)) if digits.isdecimal() else None


def _bounded(seconds: int) -> float:
    return float(min(max(seconds, 0), RETRY_AFTER_MAX_S))
