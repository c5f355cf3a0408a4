"""PersistentVolumeClaims, resolved through their volumes and classes whenever one of the three changes."""

from collections.abc import Mapping

from phalanx.cache.changes import ChangeLog
from phalanx.cache.table import Key, Table
from phalanx.model.api import core
from phalanx.model.conversion.volumes import (
    ClaimSource,
    VolumeSource,
    binds_late,
    read_claim,
    read_volume,
    resolve_claim,
)
from phalanx.model.snapshot import VolumeClaim


class ClaimTables:
    """The three kinds, and what each claim means now."""

    def __init__(self) -> None:
        self.claims: Table[core.PersistentVolumeClaim, ClaimSource] = Table(
            read=read_claim, changed=self._claim_changed
        )
        self.volumes: Table[core.PersistentVolume, VolumeSource] = Table(
            read=read_volume, changed=self._volume_changed
        )
        self.classes: Table[core.StorageClass, bool] = Table(read=binds_late, changed=self._class_changed)
        self._by_volume: dict[str, dict[Key, None]] = {}
        self._resolved: dict[Key, VolumeClaim] = {}
        self._view: Mapping[str, VolumeClaim] | None = None

    def view(self) -> Mapping[str, VolumeClaim]:
        """All claims by "namespace/name", sorted; the same mapping until something changes."""
        if self._view is None:
            self._view = {"/".join(key): self._resolved[key] for key in sorted(self._resolved)}
        return self._view

    def _claim_changed(
        self, key: Key, old: ClaimSource | None, new: ClaimSource | None, log: ChangeLog
    ) -> None:
        if old is not None:
            users = self._by_volume[old.volume]
            del users[key]
            if not users:
                del self._by_volume[old.volume]
        if new is not None:
            self._by_volume.setdefault(new.volume, {})[key] = None
        self._resolve(key, log)

    def _volume_changed(
        self, key: Key, _old: VolumeSource | None, _new: VolumeSource | None, log: ChangeLog
    ) -> None:
        for claim in self._by_volume.get(key[1], ()):
            self._resolve(claim, log)

    def _class_changed(self, _key: Key, _old: bool | None, _new: bool | None, log: ChangeLog) -> None:
        """Only claims without a volume look at their class."""
        for claim in self._by_volume.get("", ()):
            self._resolve(claim, log)

    def _resolve(self, key: Key, log: ChangeLog) -> None:
        source = self.claims.get(key)
        if source is None:
            self._resolved.pop(key, None)
            self._view = None
            return
        resolved = resolve_claim(
            source, volume=self.volumes.get(("", source.volume)), binds_late=self._binds_late(source)
        )
        if self._resolved.get(key) != resolved:
            self._resolved[key] = resolved
            self._view = None
            log.grew()

    def _binds_late(self, source: ClaimSource) -> bool:
        return self.classes.get(("", source.storage_class)) or False

    def check(self) -> None:
        """Assert that nothing is kept for claims that are gone."""
        keys = set(self.claims.keys())
        assert self._resolved.keys() == keys, "a deleted claim left something behind"
        assert {key for users in self._by_volume.values() for key in users} == keys
        assert all(self._by_volume.values()), "an empty entry by volume"
