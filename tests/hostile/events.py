"""Watch events of mutated objects: mostly one event, sometimes an invalid order of events."""

import json
from collections.abc import Iterator
from random import Random

from tests.hostile.generator import MutatedObject
from tests.hostile.harness import Cluster, event

MALFORMED_LINES = (
    b'{"type":"BOOKMARK","object":7}',
    b'{"type":"BOOKMARK","object":{"metadata":null}}',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"not a number"}}}',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"a":1}}}}',
    b'{"type":"ERROR","object":"x"}',
    b'{"type":"ERROR","object":{"code":"x"}}',
    b'{"type":"ERROR","object":{"code":410}}',
    b'{"type":"ERROR","object":{"code":429,"details":{"retryAfterSeconds":1' + b"0" * 400 + b"}}}",
    b'{"type":"ERROR","object":{"code":429,"details":{"retryAfterSeconds":-5}}}',
    b'{"type":"ERROR","object":{"code":' + b"9" * 30 + b',"reason":"AlreadyExists","message":"x"}}',
    b'{"type":"RENAMED","object":{"metadata":{"name":"x"}}}',
    b'{"type":"added","object":{}}',
    b'{"type":7,"object":{}}',
    b'{"type":"ADDED"}',
    b'{"type":"ADDED","object":null}',
    b'{"type":"DELETED","object":null}',
    b'{"type":"DELETED","object":{"metadata":{"name":"x-never-was"}}}',
    b'{"object":{}}',
    b"{}",
    b"null",
    b"[]",
    b"",
    b'{"type":"ADDED","object":{"metadata":{"na',
    b"\xff\xfe\x00",
    b"HTTP/1.1 502 Bad Gateway",
)


def send(cluster: Cluster, random: Random, item: MutatedObject) -> None:
    """Send the events of one object."""
    for line in _lines(random, item):
        cluster.send(item.kind, line)
    if b"\n" not in item.body:
        cluster.exists(item.kind, item.name, item.body)


def _lines(random: Random, item: MutatedObject) -> Iterator[bytes]:
    chance = random.random()
    if chance < 0.70:
        yield event("ADDED", item.body)
    elif chance < 0.76:
        yield event("MODIFIED", item.body)
        yield event("ADDED", item.body)
    elif chance < 0.82:
        yield event("DELETED", item.body)
        yield event("DELETED", item.body)
        yield event("ADDED", item.body)
    elif chance < 0.90:
        yield event("ADDED", item.body)
        yield event("DELETED", item.body)
        yield event("ADDED", _recreated(item.body))
    elif chance < 0.96:
        yield from [event("ADDED", item.body)] * 3
    else:
        yield event("ADDED", item.body)
        yield random.choice(MALFORMED_LINES)


def _recreated(body: bytes) -> bytes:
    """The same object with another UID, if it has a UID."""
    try:
        document = json.loads(body)
        document["metadata"]["uid"] = f"{document['metadata']['uid']}-again"
    except (ValueError, KeyError, TypeError, RecursionError):
        return body
    return json.dumps(document).encode()
