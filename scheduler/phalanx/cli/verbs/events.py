"""Read the events that the scheduler wrote."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from phalanx.kube.blocking import BlockingClient
from phalanx.kube.errors import Forbidden

FORBIDDEN: Final = "events are left out: you may not list them"

_EVENTS: Final = "/apis/events.k8s.io/v1"

Event = dict[str, Any]
"""An object of events.k8s.io as it is written."""


class _Events(Struct, frozen=True):
    items: list[Event] | None = None


_events_of: Final = msgspec.json.Decoder(_Events).decode


def read_events(client: BlockingClient, *, namespace: str, scheduler_name: str) -> list[Event] | None:
    """The events of one namespace, or of all for an empty name; None if they may not be read."""
    place = f"/namespaces/{namespace}" if namespace else ""
    query = {"fieldSelector": f"reportingController={scheduler_name}"}
    try:
        pages = client.pages(f"{_EVENTS}{place}/events", query)
        return [event for body in pages for event in _events_of(body).items or ()]
    except Forbidden:
        return None
