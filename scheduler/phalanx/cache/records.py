"""The records of gangs that are not in the status of a PodGroup: what the ConfigMap of records holds."""

from collections.abc import Callable

from phalanx.cache.events import ChangeLog, Recorded
from phalanx.cache.table import Key
from phalanx.model.api.config_maps import ConfigMap
from phalanx.model.names import GangId
from phalanx.model.records import GangRecord
from phalanx.model.stored_records import RECORDS_NAME, read_records


class RecordTable:
    """Records by gang. `changed(gang, log)` is called when one is added, changed or removed."""

    def __init__(self, changed: Callable[[GangId, ChangeLog], None]) -> None:
        self._changed = changed
        self._records: dict[GangId, GangRecord] = {}
        self._key: Key | None = None
        """Of the ConfigMap that was applied."""

    def get(self, gang: GangId) -> GangRecord | None:
        return self._records.get(gang)

    def note(self, event: Recorded, log: ChangeLog) -> None:
        """Take over records that were read or written."""
        for gang, record in event.records.items():
            self._set(gang, record, log)

    def apply(self, written: ConfigMap, log: ChangeLog) -> None:
        """See ObjectStore. ConfigMaps of other names hold no records."""
        if written.metadata.name != RECORDS_NAME:
            return
        self._key = (written.metadata.namespace, written.metadata.name)
        found = {
            gang: record for each in read_records(written.data).values() for gang, record in each.items()
        }
        for gang in [gang for gang in self._records if gang not in found]:
            self._set(gang, None, log)
        for gang, record in found.items():
            self._set(gang, record, log)

    def delete(self, key: Key, uid: str, log: ChangeLog) -> None:
        """See ObjectStore."""
        if key == self._key:
            self._key = None
            for gang in tuple(self._records):
                self._set(gang, None, log)

    def keys(self) -> tuple[Key, ...]:
        """See ObjectStore."""
        return () if self._key is None else (self._key,)

    def _set(self, gang: GangId, record: GangRecord | None, log: ChangeLog) -> None:
        before = self._records.pop(gang, None)
        if record is not None:
            self._records[gang] = record
        if record != before:
            self._changed(gang, log)
