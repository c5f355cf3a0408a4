"""Error responses that a server or proxy gives for no reason of the request."""

from typing import Final

import msgspec
from phalanx.ports import Response

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def refusal(status: int, retry_after_s: int | None) -> Response:
    """A response with this status, and Retry-After in seconds if given."""
    headers = {"content-type": "application/json"}
    if retry_after_s is not None:
        headers["retry-after"] = str(retry_after_s)
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"injected {status}",
        "reason": _REASONS.get(status, "InternalError"),
        "code": status,
    }
    return Response(status, msgspec.json.encode(body), headers)
