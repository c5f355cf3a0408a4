"""Tables of ResourceSlices, DeviceTaintRules, DeviceClasses and ResourceClaims.

Nothing watches these kinds as long as pods with claims are refused, so the tables are empty in a cluster.
"""

from typing import Any

from phalanx.cache.events import ChangeLog
from phalanx.cache.table import Key, ObjectStore, Table
from phalanx.model.api import devices
from phalanx.model.conversion.devices import (
    read_device_class,
    read_resource_claim,
    read_slice,
    read_taint_rule,
)
from phalanx.model.devices.claims import Claim, DeviceClass
from phalanx.model.devices.cluster import NO_DEVICES, ClusterDevices
from phalanx.model.devices.pools import Slice, TaintRule


class DeviceTables:
    """The kinds that describe devices."""

    def __init__(self) -> None:
        self.slices: Table[devices.ResourceSlice, Slice] = Table(read=read_slice, changed=self._changed)
        self.classes: Table[devices.DeviceClass, DeviceClass] = Table(
            read=read_device_class, changed=self._changed
        )
        self.claims: Table[devices.ResourceClaim, Claim] = Table(
            read=read_resource_claim, changed=self._changed
        )
        self.rules: Table[devices.DeviceTaintRule, TaintRule | None] = Table(
            read=read_taint_rule, changed=self._changed
        )
        self.tables: dict[str, ObjectStore[Any]] = {
            "ResourceSlice": self.slices,
            "DeviceClass": self.classes,
            "ResourceClaim": self.claims,
            "DeviceTaintRule": self.rules,
        }
        self._view: ClusterDevices | None = NO_DEVICES

    def view(self) -> ClusterDevices:
        """All of them. It is the same object until something changes."""
        if self._view is None:
            self._view = ClusterDevices(
                slices=tuple(self.slices.by_name().values()),
                classes=self.classes.by_name(),
                claims=tuple(
                    claim for key in sorted(self.claims.keys()) if (claim := self.claims.get(key)) is not None
                ),
                taint_rules=tuple(rule for rule in self.rules.by_name().values() if rule is not None),
            )
        return self._view

    def _changed(self, _key: Key, _old: object, _new: object, log: ChangeLog) -> None:
        self._view = None
        log.mark_cluster_changed()
