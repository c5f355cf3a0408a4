"""F15: drivers that prepare allocated devices late, never, or fail to; in runs where drivers prepare devices.

The kinds, each undone after its duration:

| kind | settings |
| --- | --- |
| devices-prepared-late | delay_s: seconds that devices of the targets take |
| devices-never-prepared | nothing is reported of devices of the targets |
| devices-not-preparable | devices of the targets get a condition which says that this failed |
"""

from collections.abc import Mapping
from typing import Final

from phalanx_simulator.embedded.controllers.device_preparer import (
    PREPARING_FAILS,
    PREPARING_SECONDS,
    PREPARING_STOPPED,
)
from phalanx_simulator.faults.claims import annotated
from phalanx_simulator.faults.fault import Injector

FAMILY: Final = "F15"

INJECTORS: Final[Mapping[str, Injector]] = {
    "devices-prepared-late": annotated(PREPARING_SECONDS, lambda fault: fault.text("delay_s")),
    "devices-never-prepared": annotated(PREPARING_STOPPED, lambda _: "true"),
    "devices-not-preparable": annotated(PREPARING_FAILS, lambda _: "true"),
}
