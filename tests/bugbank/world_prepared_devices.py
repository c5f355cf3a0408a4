"""Bugs with devices that their drivers prepare before pods are bound."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_WAITS: Final = "phalanx.kube.devices.device_waits"
_ALL_WAIT: Final = Played("plays_prepared_devices:a_gang_waits_for_the_devices_of_all")

PREPARED_DEVICES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="pods are bound while a driver prepares their devices",
        issues=("kubernetes #124042",),
        module="phalanx.cache.devices.grant_check",
        edits={"            return found if real.unbound else None\n": "            return None\n"},
        caught_by=_ALL_WAIT,
    ),
    Mutant(
        name="binding conditions of devices are not written with their allocation",
        issues=("kubernetes #130160",),
        module="phalanx.kube.devices.claim_documents",
        edits={
            '            result["bindingConditions"] = list(each.binding.conditions)\n': "            pass\n"
        },
        caught_by=_ALL_WAIT,
    ),
    Mutant(
        name="pods of a gang are bound before the devices of the others are prepared",
        issues=("kubernetes #124042",),
        module=_WAITS,
        edits={
            "        for bind in binds:\n            for each in self._callbacks": (
                "        for bind in binds[:1]:\n            for each in self._callbacks"
            )
        },
        caught_by=_ALL_WAIT,
    ),
    Mutant(
        name="a gang keeps devices that cannot be prepared until the time for this has passed",
        issues=("kubernetes #135472",),
        module=_WAITS,
        edits={
            "            if found is not None or not is_kept or not wait.missing:\n": (
                "            if not wait.missing:\n"
            )
        },
        caught_by=Played("plays_prepared_devices:a_device_that_cannot_be_prepared"),
    ),
    Mutant(
        name="a gang waits for ever for devices that are never ready",
        issues=("kubernetes #135472",),
        module=_WAITS,
        edits={"        if left <= 0:\n": "        if left is None:\n"},
        caught_by=Played("plays_prepared_devices:devices_that_are_never_ready"),
        slow=True,
    ),
)
