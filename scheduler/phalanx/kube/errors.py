"""What an API server's refusals mean, as types. A caller names the ones it can do something about."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from phalanx.limits import RETRY_AFTER_MAX_S
from phalanx.model.api.meta import Status
from phalanx.ports import Response

_MESSAGE_MAX: Final = 1024
_SECONDS_DIGITS: Final = 9


class ApiError(Exception):
    """The API server answered with an error. `retry_after` is in seconds, None when it did not say."""

    def __init__(self, *, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request itself is wrong, or this server does not know a parameter of it."""


class Unauthorized(ApiError):
    """401: the credential is not accepted, even after it was renewed."""


class Forbidden(ApiError):
    """403: not allowed by RBAC, or refused by an admission plugin or webhook."""


class NotFound(ApiError):
    """404: the object, or the whole kind, does not exist."""


class Conflict(ApiError):
    """409: a precondition (UID, resourceVersion) failed, or the object is not in a state that allows this."""


class AlreadyExists(Conflict):
    """409 on creation: an object of this name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old: list again."""


class Invalid(ApiError):
    """422: the object breaks a validation rule."""


class TooManyRequests(ApiError):
    """429: not applied; come back after `retry_after`."""


class ServerError(ApiError):
    """5xx: the server failed. Whether a write was applied is not known."""


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
    """The typed error of an answer whose status is not 2xx."""
    return error_of_status(
        _status_of(response), code=response.status, retry_after=_seconds(response.headers.get("retry-after"))
    )


def error_of_status(status: Status, *, code: int = 0, retry_after: float | None = None) -> ApiError:
    """The typed error of a Status object, as an ERROR event of a watch carries it."""
    code = code or status.code or 500
    if retry_after is None and status.details is not None and status.details.retry_after_seconds:
        retry_after = _bounded(status.details.retry_after_seconds)
    return _type_of(code, status.reason)(
        code=code, reason=status.reason, message=status.message[:_MESSAGE_MAX], retry_after=retry_after
    )


def _type_of(code: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    return _BY_CODE.get(code, ServerError if code >= 500 else ApiError)


def _status_of(response: Response) -> Status:
    """Proxies and load balancers answer with other things than a Status; their text is the message then."""
    try:
        return _status_decoder()(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Status(code=response.status, message=response.body.decode(errors="replace"))


@lru_cache(maxsize=1)
def _status_decoder() -> Callable[[bytes], Status]:
    return msgspec.json.Decoder(Status).decode


def _seconds(header: str | None) -> float | None:
    """Retry-After as Kubernetes sends it: whole seconds. The other form, a date, is not used there."""
    digits = header.strip()[:_SECONDS_DIGITS] if header is not None else ""
    return _bounded(int(digits)) if digits.isdecimal() else None


def _bounded(seconds: int) -> float:
    return float(min(max(seconds, 0), RETRY_AFTER_MAX_S))
