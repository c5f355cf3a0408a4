"""Bugs with other schedulers, lost nodes and pods, starvation, topology, absurd input, claims."""

from typing import Final

from tests.bugbank.bank import Mutant
from tests.bugbank.world_devices import DEVICES
from tests.bugbank.world_evictions import EVICTIONS
from tests.bugbank.world_extended_resource_claims import EXTENDED_RESOURCE_CLAIMS
from tests.bugbank.world_input import INPUT
from tests.bugbank.world_nodes import NODES
from tests.bugbank.world_prepared_devices import PREPARED_DEVICES
from tests.bugbank.world_queues import QUEUES
from tests.bugbank.world_status import STATUS
from tests.bugbank.world_tolerance import TOLERANCE
from tests.bugbank.world_topology import TOPOLOGY
from tests.bugbank.world_usage import USAGE
from tests.bugbank.world_volumes import VOLUMES

WORLD: Final[tuple[Mutant, ...]] = (
    *NODES,
    *USAGE,
    *TOPOLOGY,
    *QUEUES,
    *EVICTIONS,
    *INPUT,
    *STATUS,
    *TOLERANCE,
    *VOLUMES,
    *DEVICES,
    *EXTENDED_RESOURCE_CLAIMS,
    *PREPARED_DEVICES,
)
