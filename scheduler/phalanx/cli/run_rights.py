"""Whether `phalanx run` may read what it schedules by: asked once, before it starts."""

import asyncio
from typing import Final

from phalanx.kube.client import Client
from phalanx.kube.errors import ApiError, Forbidden, Unauthorized
from phalanx.model.api.kinds import KINDS, WATCHED_KINDS
from phalanx.ports import OutcomeUnknown, RequestNotSent

_CURE: Final = "apply deploy/base, or use a kubeconfig of its service account"


async def missing_rights(client: Client) -> str:
    """Why nothing can be scheduled, in one sentence; empty if all lists work, or fail for a time only."""
    kinds = [KINDS[name] for name in WATCHED_KINDS if not KINDS[name].optional]
    errors = await asyncio.gather(*(_refusal(client, kind.path()) for kind in kinds))
    forbidden = [
        kind.plural for kind, error in zip(kinds, errors, strict=True) if isinstance(error, Forbidden)
    ]
    refused = next((error for error in errors if isinstance(error, Unauthorized)), None)
    if refused is not None:
        return f"the API server does not accept the credentials: {refused.message}"
    return f"it may not list {', '.join(forbidden)}: {_CURE}" if forbidden else ""


async def _refusal(client: Client, path: str) -> ApiError | None:
    try:
        async for _ in client.pages(path, limit=1):
            return None
    except (Forbidden, Unauthorized) as error:
        return error
    except (ApiError, RequestNotSent, OutcomeUnknown):
        return None  # the watches try again
    return None
