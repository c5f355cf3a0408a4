"""What fields of Queues of other projects mean here is logged, once for each version of the notes."""

from collections.abc import Iterator
from typing import Any

import pytest
from phalanx.cache.cache import Cache
from phalanx.cache.events import Applied, Deleted, Relisted
from phalanx.model.dialects.queues import QueueDialectName
from phalanx.service import cluster_state
from phalanx.service.cluster_state import QueueNoteLog
from structlog.testing import capture_logs

from tests.model.written import named
from tests.service.all_levels import all_levels_of

CACHE = Cache(scheduler_name="phalanx", queue_dialects=tuple(QueueDialectName))


@pytest.fixture(autouse=True)
def all_levels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with all_levels_of(cluster_state, monkeypatch):
        yield


def queue(**spec: Any) -> Any:
    return named("VolcanoQueue", "v", spec=spec)


def test_each_note_is_logged_once() -> None:
    log = QueueNoteLog(CACHE)
    written = queue(type="elastic", guarantee={"resource": {"cpu": 1}})
    with capture_logs() as logs:
        log.update(Relisted("VolcanoQueue", (written,)))
        log.update(Applied(written))
    found = [(each["group"], each["name"], each["field"].partition(" ")[0]) for each in logs]
    assert found == [
        ("scheduling.volcano.sh", "v", "spec.type"),
        ("scheduling.volcano.sh", "v", "spec.guarantee.resource:"),
    ]
    with capture_logs() as logs:
        log.update(Applied(queue(weight=2)))
        log.update(Applied(named("Queue", "v")))
    assert logs == []
    with capture_logs() as logs:
        log.update(Applied(written))
        log.update(Deleted("VolcanoQueue", "", "v", "uid"))
        log.update(Applied(written))
    assert len(logs) == 4


def test_nothing_is_logged_without_the_configuration() -> None:
    log = QueueNoteLog(Cache(scheduler_name="phalanx"))
    with capture_logs() as logs:
        log.update(Applied(queue(type="elastic")))
    assert logs == []
